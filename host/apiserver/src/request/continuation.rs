//! The token for the next page of a list. It has the revision of the list and the start of the page.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Serialize};

use crate::status_error::ApiError;

const VERSION: &str = "meta.k8s.io/v1";

/// Decodes base64 like Go: without padding, and ignoring trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// The revision of the list. `None` for the latest state, which may be inconsistent with the previous page.
    pub(crate) revision: Option<u64>,
    /// The key at which the page begins. It has a namespace if the request is for all namespaces.
    pub(crate) start: String,
}

/// The token as JSON, in the format of a real server.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenContinuation {
    v: String,
    rv: i64,
    start: String,
}

impl Continuation {
    /// The token for a page that begins after the key `place`.
    pub(crate) fn after(place: &str, revision: u64) -> Continuation {
        Continuation { revision: Some(revision), start: format!("{place}\0") }
    }

    pub(crate) fn text(&self) -> String {
        let rv = self.revision.map_or(-1, |revision| i64::try_from(revision).unwrap_or(i64::MAX));
        let token = WrittenContinuation { v: VERSION.to_owned(), rv, start: self.start.clone() };
        BASE64.encode(serde_json::json!(token).to_string())
    }

    pub(crate) fn parse(text: &str) -> Result<Continuation, ApiError> {
        let refuse =
            |why: &str| ApiError::bad_request(format!("invalid continue token: continue key is not valid{why}"));
        let bytes = BASE64.decode(text).map_err(|error| refuse(&format!(": {}", go_error(&error, text))))?;
        let token: WrittenContinuation =
            serde_json::from_slice(&bytes).map_err(|error| refuse(&format!(": {error}")))?;
        let clean = token.start.split('/').all(|part| !["", ".", ".."].contains(&part));
        match &token {
            token if token.v != VERSION => {
                Err(refuse(&format!(": server does not recognize this encoded version {}", token.v)))
            }
            token if token.rv == 0 => {
                Err(refuse(&format!(": incorrect encoded start resourceVersion (version {VERSION})")))
            }
            token if token.start.is_empty() => Err(refuse(&format!(": encoded start key empty (version {VERSION})"))),
            token if !clean => Err(refuse(&format!(": {}", token.start))),
            _ => Ok(Continuation { revision: u64::try_from(token.rv).ok(), start: token.start }),
        }
    }
}

fn go_error(error: &base64::DecodeError, text: &str) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) => *at,
        base64::DecodeError::InvalidLastSymbol { offset, .. } => *offset,
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => text.len() / 4 * 4,
    };
    format!("illegal base64 data at input byte {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_written_like_a_real_servers() {
        let text = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0";
        let token = Continuation::after("a", 1);
        let written = BASE64.decode(token.text()).expect("base64");
        let read: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
        assert_eq!(read, serde_json::json!({ "v": VERSION, "rv": 1, "start": "a\0" }));
        assert_eq!(Continuation::parse(&token.text()), Ok(token));
        assert_eq!(Continuation::parse(text), Ok(Continuation::after("a", 1)));
    }

    #[test]
    fn an_invalid_continue_token_is_refused() {
        let refused = |text: &str| Continuation::parse(text).expect_err("no token").to_string();
        let prefix = "invalid continue token: continue key is not valid";
        assert_eq!(refused("x"), format!("{prefix}: illegal base64 data at input byte 0"));
        let of = |token: serde_json::Value| refused(&BASE64.encode(token.to_string()));
        let bad = serde_json::json!({ "v": VERSION, "rv": 1, "start": "a/../../b" });
        assert_eq!(of(bad), format!("{prefix}: a/../../b"));
        assert!(of(serde_json::json!({ "v": "v0" })).ends_with("does not recognize this encoded version v0"));
    }
}
