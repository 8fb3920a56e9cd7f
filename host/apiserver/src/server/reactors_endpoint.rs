//! `/reactors`: access to the rules over HTTP, for tests in any language. GET returns the rules with their counts, PUT
//! replaces them, and DELETE removes them.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{BODY_BYTES_MAX, Context, authorize, caller, respond};
use crate::reactors::ReactorDocument;
use crate::request::Query;
use crate::request::media::Encoding;
use crate::status_error::ApiError;

pub(super) const PATH: &str = "/reactors";

pub(super) async fn answer(context: &Context, request: Request) -> Response {
    match act(context, request).await {
        Ok(document) => respond::document(StatusCode::OK, &document, Encoding::Json),
        Err(error) => respond::error(&error, Encoding::Json),
    }
}

async fn act(context: &Context, request: Request) -> Result<Value, ApiError> {
    let (parts, body) = request.into_parts();
    caller::check(&parts)?;
    authorize(context, &parts, &Query::of(&parts.uri)?)?;
    match parts.method {
        Method::GET => {}
        Method::PUT => {
            let body = to_bytes(body, BODY_BYTES_MAX).await.map_err(|_| ApiError::too_large(BODY_BYTES_MAX))?;
            let document = ReactorDocument::parse(&String::from_utf8_lossy(&body));
            let set = document.and_then(|document| context.reactors.set(document));
            set.map_err(|error| ApiError::bad_request(error.to_string()))?;
        }
        Method::DELETE => context.reactors.clear(),
        _ => return Err(ApiError::method_not_allowed()),
    }
    let mut document = serde_json::to_value(context.reactors.document()).unwrap_or_default();
    document["status"] = json!({ "rules": context.reactors.counts() });
    Ok(document)
}
