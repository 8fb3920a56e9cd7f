//! Validation of custom resource definitions.

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::object::json_path::JsonPath;
use crate::object::{self, names, text};
use crate::pattern::PatternBudget;
use crate::resources::crd::{defined_resource, versions};
use crate::schema::{Schema, SchemaError};

/// Returns all errors of a definition.
pub(crate) fn validate(definition: &Value, previous: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    validate_names(definition, &mut causes);
    let scope = &definition["spec"]["scope"];
    match scope.as_str() {
        Some("Namespaced" | "Cluster") => {}
        None | Some("") => causes.push(Cause::required("spec.scope", "")),
        Some(_) => causes.push(Cause::not_supported("spec.scope", scope, &["Cluster", "Namespaced"])),
    }
    validate_versions(definition, &mut causes);
    validate_flags(definition, &mut causes);
    validate_stored(definition, previous, &mut causes);
    if let Some(previous) = previous {
        for path in ["spec.group", "spec.scope", "spec.names.plural", "spec.names.kind"] {
            let value = object::at_path(definition, path);
            if value != object::at_path(previous, path) {
                causes.push(Cause::invalid(path, value.unwrap_or(&Value::Null), "field is immutable"));
            }
        }
    }
    if text(definition, "/spec/conversion/strategy") == "Webhook" {
        causes.push(Cause::invalid(
            "spec.conversion.strategy",
            &json!("Webhook"),
            "this server converts nothing: use None",
        ));
    }
    causes
}

fn validate_names(definition: &Value, causes: &mut Vec<Cause>) {
    let id = defined_resource(definition);
    if id.group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if let Err(why) = names::check_subdomain(&id.group) {
        causes.push(Cause::invalid("spec.group", &json!(id.group), &why));
    } else if !id.group.contains('.') {
        causes.push(Cause::invalid("spec.group", &json!(id.group), "should be a domain with at least one dot"));
    }
    let expected = format!("{}.{}", id.plural, id.group);
    let name = object::name(definition);
    if name != expected {
        causes.push(Cause::invalid("metadata.name", &json!(name), "must be spec.names.plural+\".\"+spec.group"));
    }
    for (field, lower) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let value = text(definition, &format!("/spec/names/{field}"));
        let path = format!("spec.names.{field}");
        let label = if lower { value.to_lowercase() } else { value.to_owned() };
        match names::check_dns_1035_label(&label) {
            _ if value.is_empty() => causes.push(Cause::required(path, "")),
            Err(why) => causes.push(Cause::invalid(path, &json!(value), &why)),
            Ok(()) => {}
        }
    }
}

fn validate_versions(definition: &Value, causes: &mut Vec<Cause>) {
    let versions = versions(definition);
    let stored = versions.iter().filter(|version| version["storage"] == json!(true)).count();
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &json!(versions.len()), why));
    }
    let patterns = PatternBudget::full();
    for (index, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{index}]");
        // The only version's schema is reported where it stood before there were versions.
        let schema_field = if versions.len() == 1 { "spec.validation".to_owned() } else { format!("{field}.schema") };
        if let Err(why) = names::check_dns_1035_label(text(version, "/name")) {
            causes.push(Cause::invalid(format!("{field}.name"), &version["name"], &why));
        }
        validate_columns(version, &field, causes);
        match version.pointer("/schema/openAPIV3Schema") {
            None => causes.push(Cause::required(format!("{schema_field}.openAPIV3Schema"), "schemas are required")),
            Some(schema) => {
                let at = format!("{schema_field}.openAPIV3Schema");
                let errors = Schema::parse_within(&patterns, schema).err().unwrap_or_default();
                causes.extend(errors.into_iter().map(|error| schema_cause(&error, &at)));
            }
        }
    }
}

/// Two names that must differ, and flags that no definition may have any more.
fn validate_flags(definition: &Value, causes: &mut Vec<Cause>) {
    let names = &definition["spec"]["names"];
    if !text(names, "/kind").is_empty() && names["kind"] == names["listKind"] {
        let why = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &names["listKind"], why));
    }
    if definition["spec"]["preserveUnknownFields"] == json!(true) {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &json!(true), why));
    }
    let strategy = &definition["spec"]["conversion"]["strategy"];
    if !matches!(strategy.as_str(), Some("None" | "Webhook")) {
        causes.push(Cause::not_supported("spec.conversion.strategy", strategy, &["None", "Webhook"]));
    }
    for (index, version) in versions(definition).iter().enumerate() {
        if version["deprecated"] != json!(true) && version["deprecationWarning"].is_string() {
            let field = format!("spec.versions[{index}].deprecationWarning");
            let why = "can only be set for deprecated versions";
            causes.push(Cause::invalid(field, &version["deprecationWarning"], why));
        }
    }
}

/// A version whose objects may be stored stays in the definition, and in its status.
fn validate_stored(definition: &Value, previous: Option<&Value>, causes: &mut Vec<Cause>) {
    let names: Vec<&str> = versions(definition).iter().map(|version| text(version, "/name")).collect();
    let stored = object::strings(definition, "/status/storedVersions");
    // A new storage version is added to the status when the definition is stored.
    if let Some(storage) = previous.map(storage_version).filter(|before| *before == storage_version(definition)) {
        let field = "status.storedVersions";
        if stored.is_empty() {
            let given = definition.pointer("/status/storedVersions").unwrap_or(&Value::Null);
            causes.push(Cause::invalid(field, given, "must have at least one stored version"));
        } else if !stored.contains(&storage) {
            causes.push(Cause::invalid(field, &json!(stored), &format!("must have the storage version {storage}")));
        }
    }
    for (index, stored) in stored.into_iter().enumerate() {
        if !names.contains(&stored) {
            let field = format!("status.storedVersions[{index}]");
            let why = "missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions \
                       until a storage migration ensures no data remains persisted in v1 and removes v1 from \
                       status.storedVersions";
            causes.push(Cause::invalid(field, &json!(stored), &why.replace("v1", stored)));
        }
    }
}

fn storage_version(definition: &Value) -> &str {
    let storage = versions(definition).iter().find(|version| version["storage"] == json!(true));
    storage.map_or("", |version| text(version, "/name"))
}

fn schema_cause(error: &SchemaError, at: &str) -> Cause {
    let path = if error.path.is_empty() { String::new() } else { format!(".{}", error.path) };
    // One message names a place in the schema, as a path from the definition's root.
    let message = error.reason.replace("of the schema within ", &format!("of the schema within {at}."));
    Cause { reason: error.cause(), message, field: format!("{at}{path}") }
}

fn validate_columns(version: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (index, column) in object::items(version, "/additionalPrinterColumns").iter().enumerate() {
        let field = format!("{field}.additionalPrinterColumns[{index}]");
        if text(column, "/name").is_empty() {
            causes.push(Cause::required(format!("{field}.name"), ""));
        }
        let types = ["boolean", "date", "integer", "number", "string"];
        if !types.contains(&text(column, "/type")) {
            causes.push(Cause::not_supported(format!("{field}.type"), &column["type"], &types));
        }
        if let Err(why) = JsonPath::parse(text(column, "/jsonPath")) {
            causes.push(Cause::invalid(format!("{field}.jsonPath"), &column["jsonPath"], &why));
        }
    }
}
