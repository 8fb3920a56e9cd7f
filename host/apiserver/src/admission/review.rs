//! `AdmissionReview`: the request to a webhook, and its response.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::request::AdmissionRequest;
use crate::consultation::{Consultation, reviews};
use crate::object::{go_kind, strings, text};
use crate::resources::resource::ResourceType;

/// A valid response.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WebhookAnswer {
    pub(super) allowed: bool,
    /// The reason of a denial: a `Status`, or null.
    pub(super) status: Value,
    /// A JSON patch.
    pub(super) patch: Option<Value>,
    pub(super) warnings: Vec<String>,
}

/// The `request` of a review, without its UID. The objects are in the version of `resource`.
pub(super) fn request(
    request: &AdmissionRequest<'_>,
    consultation: &Consultation,
    resource: &Arc<ResourceType>,
    object: Option<&Value>,
) -> Value {
    let named = |resource: &ResourceType| json!({ "group": resource.id.group, "version": resource.version, "resource": resource.id.plural });
    let in_form = |object: Option<&Value>| object.map_or(Value::Null, |object| request.in_form_of(resource, object));
    let mut review = json!({
        "kind": request.kind_in(resource),
        "resource": named(resource),
        "requestKind": request.kind_in(request.resource),
        "requestResource": named(request.resource),
        "operation": request.operation.name(),
        "userInfo": consultation.user(),
        "object": in_form(object),
        "oldObject": in_form(request.old),
        "dryRun": request.dry_run,
        "options": request.options,
    });
    let texts = [
        ("subResource", request.subresource),
        ("requestSubResource", request.subresource),
        ("name", request.name),
        ("namespace", request.namespace),
    ];
    // Go omits empty fields.
    for (key, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
        review[key] = json!(value);
    }
    review
}

impl WebhookAnswer {
    /// Parses the answer to the review with this version and UID. The error has a real server's text.
    pub(super) fn read(version: &str, is_mutating: bool, uid: &str, body: &[u8]) -> Result<WebhookAnswer, String> {
        let review: Value = serde_json::from_slice(body)
            .map_err(|error| format!("failed to call webhook: couldn't get version/kind; json parse error: {error}"))?;
        if text(&review, "/kind").is_empty() {
            let shown = String::from_utf8_lossy(body);
            return Err(format!("failed to call webhook: Object 'Kind' is missing in '{shown}'"));
        }
        let invalid = |why: String| format!("received invalid webhook response: {why}");
        let response = review.get("response").filter(|response| response.is_object());
        let response = response.ok_or_else(|| invalid("webhook response was absent".to_owned()))?;
        let is_strict = version == "v1";
        if is_strict {
            check_reference(uid, &review).map_err(invalid)?;
        }
        let (patch, kind) = (text(response, "/patch"), response.get("patchType").filter(|kind| !kind.is_null()));
        if is_strict {
            check_patch(is_mutating, patch, kind).map_err(invalid)?;
        }
        Ok(WebhookAnswer {
            allowed: response["allowed"] == json!(true),
            status: response.get("status").cloned().unwrap_or_default(),
            patch: if is_mutating && !patch.is_empty() { Some(decode(patch)?) } else { None },
            warnings: strings(response, "/warnings").into_iter().map(str::to_owned).collect(),
        })
    }
}

fn check_reference(expected: &str, review: &Value) -> Result<(), String> {
    reviews::check_uid(review, expected)?;
    reviews::check_type(review, "admission.k8s.io/v1", "AdmissionReview")
}

/// A patch and its type must come together, and only from a mutating webhook.
fn check_patch(is_mutating: bool, patch: &str, kind: Option<&Value>) -> Result<(), String> {
    let why = match (is_mutating, patch.is_empty(), kind) {
        (false, false, _) => "validating webhook may not return response.patch",
        (false, true, Some(_)) => "validating webhook may not return response.patchType",
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, false, Some(kind)) if kind == "" => "webhook returned invalid response.patchType of \"\"",
        _ => return Ok(()),
    };
    Err(why.to_owned())
}

fn decode(patch: &str) -> Result<Value, String> {
    let undecodable = |why: String| format!("received undecodable patch in webhook response: {why}");
    let text = BASE64_STANDARD.decode(patch).map_err(|error| undecodable(error.to_string()))?;
    let patch: Value = serde_json::from_slice(&text).map_err(|error| undecodable(error.to_string()))?;
    let odd = |found: &Value, what: &str| {
        undecodable(format!("json: cannot unmarshal {} into Go value of type jsonpatch.{what}", go_kind(found)))
    };
    let Some(operations) = patch.as_array() else { return Err(odd(&patch, "Patch")) };
    match operations.iter().find(|operation| !operation.is_object()) {
        Some(operation) => Err(odd(operation, "Operation")),
        None => Ok(patch),
    }
}
