//! Validates custom resource definitions. This file checks names and flags; `versions` checks the content of versions.

mod conversion;
mod versions;

use serde_json::{Value, json};

use super::report::Report;
use crate::cause::Cause;
use crate::object::{self, names, strings, text};
use crate::resources::api_approval::{self, ApiApproval};
use crate::resources::crd::{self, defined_resource, is_established};

/// Returns all errors of a definition.
pub(crate) fn validate(definition: &Value, previous: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if previous.is_none() {
        validate_name(definition, &mut causes);
    }
    validate_group(definition, &mut causes);
    let scope = &definition["spec"]["scope"];
    match scope.as_str() {
        Some("Namespaced" | "Cluster") => {}
        None | Some("") => causes.push(Cause::required("spec.scope", "")),
        Some(_) => causes.push(Cause::not_supported("spec.scope", scope, &["Cluster", "Namespaced"])),
    }
    versions::validate(definition, &mut causes);
    validate_names(&definition["spec"]["names"], &mut causes);
    validate_flags(definition, &mut causes);
    let mut report = Report(causes);
    conversion::validate(&definition["spec"]["conversion"], &mut report);
    let mut causes = report.0;
    versions::validate_stored(definition, &mut causes);
    validate_approval(definition, previous, &mut causes);
    if let Some(previous) = previous {
        validate_kept(definition, previous, &mut causes);
    }
    causes
}

/// Checks that the definition is named `PLURAL.GROUP`.
fn validate_name(definition: &Value, causes: &mut Vec<Cause>) {
    let (id, name) = (defined_resource(definition), object::name(definition));
    if name != format!("{}.{}", id.plural, id.group) {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
}

fn validate_group(definition: &Value, causes: &mut Vec<Cause>) {
    let group = text(definition, "/spec/group");
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if let Err(why) = names::check_subdomain(group) {
        causes.push(Cause::invalid("spec.group", &json!(group), &why));
    } else if !group.contains('.') {
        causes.push(Cause::invalid("spec.group", &json!(group), "should be a domain with at least one dot"));
    }
}

fn validate_names(names: &Value, causes: &mut Vec<Cause>) {
    const OF_KIND: &str = "may have mixed case, but should otherwise match: ";
    let mut check = |path: String, name: &str, prefix: &str| {
        let label = if prefix.is_empty() { name.to_owned() } else { name.to_lowercase() };
        if let Err(why) = names::check_dns_1035_label(&label) {
            causes.push(Cause::invalid(path, &json!(name), &format!("{prefix}{why}")));
        }
    };
    for (list, values) in ["shortNames", "categories"].map(|list| (list, strings(names, &format!("/{list}")))) {
        for (index, name) in values.into_iter().enumerate() {
            check(format!("spec.names.{list}[{index}]"), name, "");
        }
    }
    for (field, prefix) in [("plural", ""), ("singular", ""), ("kind", OF_KIND), ("listKind", OF_KIND)] {
        let name = text(names, &format!("/{field}"));
        if !name.is_empty() {
            check(format!("spec.names.{field}"), name, prefix);
        }
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(names, &format!("/{field}")).is_empty() {
            causes.push(Cause::required(format!("spec.names.{field}"), ""));
        }
    }
    if !text(names, "/kind").is_empty() && names["kind"] == names["listKind"] {
        let why = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &names["listKind"], why));
    }
}

/// Refuses flags that definitions may no longer have, and deprecation warnings without a deprecation.
fn validate_flags(definition: &Value, causes: &mut Vec<Cause>) {
    if definition["spec"]["preserveUnknownFields"] == json!(true) {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &json!(true), why));
    }
    for (index, version) in crd::versions(definition).iter().enumerate() {
        if version["deprecated"] != json!(true) && version["deprecationWarning"].is_string() {
            let field = format!("spec.versions[{index}].deprecationWarning");
            let why = "can only be set for deprecated versions";
            causes.push(Cause::invalid(field, &version["deprecationWarning"], why));
        }
    }
}

/// Checks that a definition in a protected group has an approval. A definition that was accepted without an approval
/// may stay without it.
fn validate_approval(definition: &Value, previous: Option<&Value>, causes: &mut Vec<Cause>) {
    let Some(approval) = ApiApproval::of(definition) else { return };
    if previous.and_then(ApiApproval::of) == Some(approval) {
        return;
    }
    let (field, why) = (format!("metadata.annotations[{}]", api_approval::ANNOTATION), approval.message(definition));
    match approval {
        ApiApproval::Missing => causes.push(Cause::required(field, &why)),
        ApiApproval::Invalid => causes.push(Cause::invalid(field, &json!(api_approval::annotation(definition)), &why)),
        ApiApproval::Bypassed | ApiApproval::Approved => {}
    }
}

/// Refuses changes of fields that determine how objects are stored, once there may be objects.
fn validate_kept(definition: &Value, previous: &Value, causes: &mut Vec<Cause>) {
    let kept: &[&str] = if is_established(previous) { &["spec.scope", "spec.names.kind"] } else { &[] };
    for path in kept.iter().copied().chain(["spec.group", "spec.names.plural"]) {
        let value = object::at_path(definition, path);
        if value != object::at_path(previous, path) {
            causes.push(Cause::invalid(path, value.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
}
