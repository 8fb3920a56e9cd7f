//! The header `WWW-Authenticate`: how a registry wants a client to log in.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// The longest value that is read.
const CHALLENGE_BYTES_MAX: usize = 4 << 10;

/// How to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// With user and password in each request.
    Basic,
    /// With a token of the server at the URL `realm`, for this `service`.
    Bearer { realm: String, service: String },
}

impl Challenge {
    /// The challenge in `headers`. A token is preferred, because the password then goes to fewer places. `None` if
    /// there is no challenge that this client understands.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let known: Vec<_> = values.filter(|value| value.len() <= CHALLENGE_BYTES_MAX).filter_map(read).collect();
        known.iter().find(|it| **it != Self::Basic).or(known.first()).cloned()
    }
}

fn read(value: &str) -> Option<Challenge> {
    let (scheme, parameters) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service) = (None, String::new());
    let mut rest = parameters.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let (text, after) = quoted(after)?;
        match name.trim() {
            "realm" => realm = Some(text),
            "service" => service = text,
            // The client asks for the scope that it needs, whatever the registry proposes.
            _ => {}
        }
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    Some(Challenge::Bearer { realm: realm?, service })
}

/// The value at the start of `text`, in quotes or not, and the text after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let Some(inside) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let (value, after) = inside.split_once('"')?;
    // A backslash could hide a quote. URLs and the names of services have neither.
    (!value.contains('\\')).then(|| (value.to_owned(), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().expect("a value"));
        }
        Challenge::of(&headers)
    }

    #[test]
    fn a_token_is_preferred_to_a_password_in_each_request() {
        let bearer =
            r#"Bearer realm="https://auth.example.com/token",service="registry",scope="repository:a/b:pull,push""#;
        let expected =
            Challenge::Bearer { realm: "https://auth.example.com/token".to_owned(), service: "registry".to_owned() };
        assert_eq!(of(&["Basic realm=\"x\"", bearer]), Some(expected.clone()));
        assert_eq!(of(&["bearer realm=https://auth.example.com/token, service=registry"]), Some(expected));
        assert_eq!(of(&["Basic realm=\"x\""]), Some(Challenge::Basic));
    }

    #[test]
    fn a_challenge_that_cannot_be_read_is_none() {
        let long = format!("Bearer realm=\"{}\"", "x".repeat(CHALLENGE_BYTES_MAX));
        for bad in ["", "Negotiate", "Bearer", "Bearer realm", "Bearer realm=\"x", r#"Bearer realm="a\"b""#, &long] {
            assert_eq!(of(&[bad]), None, "{bad}");
        }
        assert_eq!(of(&[]), None);
    }
}
