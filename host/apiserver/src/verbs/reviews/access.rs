//! Access reviews: whether a user may do something.

use serde_json::{Value, json};

use crate::authz::{Access, Attributes, ResourceAttributes, User};
use crate::cause::Cause;
use crate::object::{self, strings, text};
use crate::request::Target;
use crate::status_error::ApiError;

/// Reviews the access of the user who asks.
pub(super) fn of_self(access: Access<'_>, user: &User, target: &Target, review: &Value) -> Result<Value, ApiError> {
    let causes = attribute_errors(review);
    if !causes.is_empty() {
        return Err(ApiError::invalid_review(&target.resource.id.group, &causes));
    }
    Ok(status(access, user, review))
}

/// Reviews the access of the user that the review names.
pub(super) fn of_subject(access: Access<'_>, target: &Target, review: &Value) -> Result<Value, ApiError> {
    let mut causes = attribute_errors(review);
    let user = subject(&review["spec"]);
    if user.name.is_empty() && user.groups.is_empty() {
        causes.push(Cause::invalid("spec.user", &json!(""), "at least one of user or group must be specified"));
    }
    if let Some(namespace) = &target.namespace {
        if !is_absent(&review["spec"]["nonResourceAttributes"]) {
            let (field, why) = ("spec.nonResourceAttributes", "disallowed on this kind of request");
            causes.push(Cause::invalid(field, &in_go(&review["spec"]["nonResourceAttributes"]), why));
        } else if namespace != text(review, "/spec/resourceAttributes/namespace") {
            let asked = json!(text(review, "/spec/resourceAttributes/namespace"));
            causes.push(Cause::invalid("spec.resourceAttributes.namespace", &asked, "must match metadata.namespace"));
        }
    }
    if !causes.is_empty() {
        return Err(ApiError::invalid_review(&target.resource.id.group, &causes));
    }
    Ok(status(access, &user, review))
}

fn is_absent(value: &Value) -> bool {
    !value.is_object()
}

/// The attributes under Go's field names, as a real server shows them.
fn in_go(attributes: &Value) -> Value {
    json!({ "Path": text(attributes, "/path"), "Verb": text(attributes, "/verb") })
}

fn attribute_errors(review: &Value) -> Vec<Cause> {
    let mut causes = attribute_choice_errors(review);
    let mut metadata = review["metadata"].clone();
    let fields = object::as_map_mut(&mut metadata);
    fields.retain(|key, value| !matches!(key.as_str(), "managedFields" | "namespace") && !value.is_null());
    if !fields.is_empty() {
        causes.push(Cause::invalid("metadata", &metadata, "must be empty"));
    }
    causes
}

fn attribute_choice_errors(review: &Value) -> Vec<Cause> {
    let resource = &review["spec"]["resourceAttributes"];
    let other = &review["spec"]["nonResourceAttributes"];
    match (is_absent(resource), is_absent(other)) {
        (true, true) => vec![Cause::invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )],
        (false, false) => {
            let why = "cannot be specified in combination with resourceAttributes";
            vec![Cause::invalid("spec.nonResourceAttributes", &in_go(other), why)]
        }
        _ => Vec::new(),
    }
}

fn subject(spec: &Value) -> User {
    let extra = spec["extra"].as_object().into_iter().flatten().map(|(key, values)| {
        let values = values.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        (key.to_lowercase(), values.collect())
    });
    User {
        name: text(spec, "/user").to_owned(),
        uid: text(spec, "/uid").to_owned(),
        groups: strings(spec, "/groups").into_iter().map(str::to_owned).collect(),
        extra: extra.collect(),
    }
}

fn status(access: Access<'_>, user: &User, review: &Value) -> Value {
    let decision = access.decide(user, &attributes(&review["spec"]));
    let mut status = json!({ "allowed": decision.allowed });
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    status
}

fn attributes(spec: &Value) -> Attributes {
    let of = |field: &str| text(spec, field).to_owned();
    if is_absent(&spec["resourceAttributes"]) {
        return Attributes::Path { verb: of("/nonResourceAttributes/verb"), path: of("/nonResourceAttributes/path") };
    }
    let of = |field: &str| text(&spec["resourceAttributes"], field).to_owned();
    Attributes::Resource(ResourceAttributes {
        verb: of("/verb"),
        group: of("/group"),
        resource: of("/resource"),
        subresource: of("/subresource"),
        namespace: of("/namespace"),
        name: of("/name"),
    })
}
