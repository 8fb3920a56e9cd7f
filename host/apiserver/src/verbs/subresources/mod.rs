//! Subresources that are not a view of the object's fields: a POST of another kind acts on the object (`binding`,
//! `eviction`, `token`), and `log` is text. `status`, `scale` and similar ones are elsewhere, as they are updates.

mod binding;
mod eviction;
mod log;
mod token;

pub(crate) use log::log;

use serde_json::{Value, json};

use super::admit::Admitted;
use super::{Written, prepare};
use crate::object::text;
use crate::request::{Target, WriteOptions};
use crate::status_error::ApiError;
use crate::storage::state::State;

/// The subresources that accept a POST.
pub(crate) const POSTED: [&str; 3] = ["binding", "eviction", "token"];

/// Carries out a POST to one of these subresources, and returns its response.
pub(crate) fn create(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    mut body: Value,
) -> Result<Written, ApiError> {
    prepare::decode_subresource(target, options, &mut body)?;
    Admitted::create(target, options, target.name()).admit(state, Some(&mut body))?;
    let object = match target.subresource() {
        "binding" => binding::bind(state, target, options, &body)?,
        "eviction" => eviction::evict(state, target, options, &body)?,
        "token" => token::issue(state, target, options, body)?,
        _ => return Err(ApiError::method_not_allowed()),
    };
    Ok(Written { object: object.into(), created: true })
}

/// Checks that the body has the subresource's kind, and names the object of the path.
fn check_subject(target: &Target, body: &Value, kind: &str) -> Result<(), ApiError> {
    let given = text(body, "/kind");
    if !given.is_empty() && given != kind {
        return Err(ApiError::bad_request(format!("the object provided is a {given}, expected a {kind}")));
    }
    if text(body, "/metadata/name") != target.name() {
        return Err(ApiError::bad_request(format!("name in URL does not match name in {kind} object")));
    }
    Ok(())
}

/// The response of a POST that succeeded.
fn done() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}
