//! Token reviews: which user a token belongs to.

use serde_json::{Value, json};

use crate::authn::Authenticator;
use crate::object::{strings, text};
use crate::status_error::ApiError;
use crate::storage::state::State;
use crate::tokens::TokenError;

pub(super) fn status(state: &State, authenticator: &Authenticator, review: &Value) -> Result<Value, ApiError> {
    let token = text(review, "/spec/token");
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences: Vec<String> = strings(review, "/spec/audiences").into_iter().map(str::to_owned).collect();
    Ok(match authenticator.verify(state, token, &audiences) {
        Ok((user, audiences)) => json!({ "authenticated": true, "user": user.info(), "audiences": audiences }),
        Err(TokenError::Unknown) => json!({ "user": {}, "error": TokenError::Unknown.to_string() }),
        // The first error is that of the authenticator that a real server tries first.
        Err(error) => json!({ "user": {}, "error": format!("[{}, {error}]", TokenError::Unknown) }),
    })
}
