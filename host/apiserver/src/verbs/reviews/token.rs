//! Token reviews: whose token is this?

use serde_json::{Value, json};

use crate::authn::Authenticator;
use crate::object::{strings, text};
use crate::status_error::ApiError;
use crate::storage::state::State;

pub(super) fn status(state: &State, authenticator: &Authenticator, review: &Value) -> Result<Value, ApiError> {
    let token = text(review, "/spec/token");
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences: Vec<String> = strings(review, "/spec/audiences").into_iter().map(str::to_owned).collect();
    Ok(match authenticator.verify(state, token, &audiences) {
        Ok((user, audiences)) => json!({ "authenticated": true, "user": user.info(), "audiences": audiences }),
        Err(error) => json!({ "user": {}, "error": format!("[invalid bearer token, {error}]") }),
    })
}
