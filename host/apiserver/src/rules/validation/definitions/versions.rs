//! Validates the versions of a definition: their names, the choice of the storage version, and the content of each.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::object::{self, items, names, text};
use crate::pattern::PatternBudget;
use crate::resources::crd::versions;
use crate::schema::{Schema, SchemaError};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const SELECTABLE_FIELDS_MAX: usize = 8;

pub(super) fn validate(definition: &Value, causes: &mut Vec<Cause>) {
    let versions = versions(definition);
    validate_names(versions, causes);
    let patterns = PatternBudget::full();
    for ((place, schema), version) in parts(versions, "schema", "validation").into_iter().zip(versions) {
        let Some(schema) = schema.get("openAPIV3Schema").filter(|schema| !schema.is_null()) else { continue };
        let at = format!("{place}.openAPIV3Schema");
        if version.pointer("/subresources/status").is_some_and(Value::is_object) {
            validate_root_beside_status(schema, &at, causes);
        }
        let errors = Schema::parse_within(&patterns, schema).err().unwrap_or_default();
        causes.extend(errors.into_iter().map(|error| schema_cause(&error, &at)));
    }
    for (place, columns) in parts(versions, "additionalPrinterColumns", "additionalPrinterColumns") {
        for (index, column) in items(columns, "").iter().enumerate() {
            validate_column(column, &format!("{place}[{index}]"), causes);
        }
    }
    for (place, subresources) in parts(versions, "subresources", "subresources") {
        validate_scale(&subresources["scale"], &format!("{place}.scale"), causes);
    }
    let selectable = parts(versions, "selectableFields", "selectableFields");
    for ((place, fields), version) in selectable.into_iter().zip(versions) {
        validate_selectable(items(fields, ""), &version["schema"]["openAPIV3Schema"], &place, causes);
    }
}

/// Refuses some keywords in the root schema if there is a status subresource, like
/// `validateCustomResourceDefinitionValidation`. They would restrict the status, which is validated by its own schema.
fn validate_root_beside_status(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    const REFUSED: [&str; 13] = [
        "additionalProperties",
        "allOf",
        "anyOf",
        "default",
        "enum",
        "maxProperties",
        "minProperties",
        "not",
        "nullable",
        "oneOf",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-map-type",
    ];
    let is_set = |name: &&'static str| {
        schema.get(name).is_some_and(|value| !value.is_null() && *value != json!(false) && *value != json!([]))
    };
    if REFUSED.iter().any(is_set) {
        let why = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength \
                   Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
                   XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status \
                   subresource is enabled";
        causes.push(Cause::invalid(at, schema, why));
    }
}

/// A part of each version, and the field for its errors. If the part is equal in all versions, it is returned once,
/// with the name of the field that existed before versions did.
fn parts<'a>(versions: &'a [Value], part: &str, shared: &str) -> Vec<(String, &'a Value)> {
    match versions {
        [first, others @ ..] if others.iter().all(|other| other[part] == first[part]) => {
            vec![(format!("spec.{shared}"), &first[part])]
        }
        _ => {
            let each = versions.iter().enumerate();
            each.map(|(index, version)| (format!("spec.versions[{index}].{part}"), &version[part])).collect()
        }
    }
}

fn validate_names(versions: &[Value], causes: &mut Vec<Cause>) {
    for (index, version) in versions.iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none_or(Value::is_null) {
            causes.push(Cause::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
        if let Err(why) = names::check_dns_1035_label(text(version, "/name")) {
            causes.push(Cause::invalid(format!("spec.versions[{index}].name"), &version["name"], &why));
        }
    }
    let refuse = |why: &str| Cause::invalid_shown("spec.versions", &in_go(versions), why);
    let distinct: BTreeSet<&str> = versions.iter().map(|version| text(version, "/name")).collect();
    if distinct.len() < versions.len() {
        causes.push(refuse("must contain unique version names"));
    }
    if stored_names(versions).count() != 1 {
        causes.push(refuse("must have exactly one version marked as storage version"));
    }
    // A real server also copies the first version's name into the old field `version`, and checks that.
    if let Some(first) = versions.first()
        && let Err(why) = names::check_dns_1035_label(text(first, "/name"))
    {
        causes.push(Cause::invalid("spec.version", &first["name"], &why));
    }
}

fn stored_names(versions: &[Value]) -> impl Iterator<Item = &str> {
    versions.iter().filter(|version| version["storage"] == json!(true)).map(|version| text(version, "/name"))
}

/// The versions as Go prints these structs.
fn in_go(versions: &[Value]) -> String {
    let flag = |version: &Value, name: &str| version[name] == json!(true);
    let one = |version: &Value| {
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\
             \"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
            version["name"],
            flag(version, "served"),
            flag(version, "storage"),
            flag(version, "deprecated"),
            version["deprecationWarning"],
        )
    };
    format!("[{}]", versions.iter().map(one).collect::<Vec<_>>().join(","))
}

/// Refuses to remove a version in which objects may still be stored.
pub(super) fn validate_stored(definition: &Value, causes: &mut Vec<Cause>) {
    const FIELD: &str = "status.storedVersions";
    let versions = versions(definition);
    let mut stored = object::strings(definition, "/status/storedVersions");
    let first = stored_names(versions).next();
    stored.extend(first.filter(|name| !stored.contains(name)));
    if stored.is_empty() {
        causes.push(Cause::invalid(FIELD, &Value::Null, "must have at least one stored version"));
        return;
    }
    for name in stored_names(versions).filter(|name| !stored.contains(name)) {
        causes.push(Cause::invalid(FIELD, &json!(stored), &format!("must have the storage version {name}")));
    }
    for (index, name) in stored.into_iter().enumerate() {
        if !versions.iter().any(|version| text(version, "/name") == name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            causes.push(Cause::invalid(format!("{FIELD}[{index}]"), &json!(name), &why));
        }
    }
}

fn schema_cause(error: &SchemaError, at: &str) -> Cause {
    let path = if error.path.is_empty() { String::new() } else { format!(".{}", error.path) };
    // One message contains a path within the schema. It must begin at the root of the definition.
    let message = error.reason.replace("of the schema within ", &format!("of the schema within {at}."));
    Cause { reason: error.cause(), message, field: format!("{at}{path}") }
}

fn validate_column(column: &Value, field: &str, causes: &mut Vec<Cause>) {
    if text(column, "/name").is_empty() {
        causes.push(Cause::required(format!("{field}.name"), ""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    match text(column, "/type") {
        "" => causes.push(Cause::required(format!("{field}.type"), &types)),
        kind if COLUMN_TYPES.contains(&kind) => {}
        _ => causes.push(Cause::invalid(format!("{field}.type"), &column["type"], &types)),
    }
    let format = text(column, "/format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
        causes.push(Cause::invalid(format!("{field}.format"), &column["format"], &why));
    }
    causes.extend(path_error(&column["jsonPath"], format!("{field}.JSONPath"), true));
}

/// The error if a path is missing or does not begin with a dot.
fn path_error(path: &Value, field: String, is_required: bool) -> Option<Cause> {
    match path.as_str().unwrap_or_default() {
        "" => is_required.then(|| Cause::required(field, "")),
        path if path.starts_with('.') => None,
        _ => Some(Cause::invalid(field, path, "must be a simple json path starting with .")),
    }
}

fn validate_scale(scale: &Value, field: &str, causes: &mut Vec<Cause>) {
    if !scale.is_object() {
        return;
    }
    let paths: [(&str, &[&str], &str); 3] = [
        ("specReplicasPath", &[".spec."], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ];
    for (name, roots, why) in paths {
        let path = text(scale, &format!("/{name}"));
        let field = format!("{field}.{name}");
        if let Some(cause) = path_error(&scale[name], field.clone(), name != "labelSelectorPath") {
            causes.push(cause);
        } else if !path.is_empty() && !roots.iter().any(|root| path.starts_with(root)) {
            causes.push(Cause::invalid(field, &scale[name], why));
        }
    }
}

fn validate_selectable(fields: &[Value], schema: &Value, place: &str, causes: &mut Vec<Cause>) {
    let mut distinct = BTreeSet::new();
    for (index, selectable) in fields.iter().enumerate() {
        let (field, path) = (format!("{place}[{index}].jsonPath"), text(selectable, "/jsonPath"));
        let mut refuse = |why: &str| causes.push(Cause::invalid(field.as_str(), &selectable["jsonPath"], why));
        match resolve(schema, path) {
            _ if path.is_empty() => {
                causes.push(Cause::required(field, ""));
                continue;
            }
            Err(why) => {
                refuse(&format!("is an invalid path: {why}"));
                continue;
            }
            Ok(found) => {
                if path.starts_with(".metadata.") {
                    refuse("must not point to fields in metadata");
                }
                if !["string", "boolean", "integer"].contains(&text(found, "/type")) {
                    refuse(
                        "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                         formats are allowed.",
                    );
                }
            }
        }
        if !distinct.insert(path) {
            causes.push(Cause::duplicate(field, &format!("{path:?}")));
        }
    }
    if distinct.len() > SELECTABLE_FIELDS_MAX {
        causes.push(Cause::too_many(place, distinct.len(), SELECTABLE_FIELDS_MAX));
    }
}

/// The schema of the field at a dotted path.
fn resolve<'a>(schema: &'a Value, path: &str) -> Result<&'a Value, String> {
    let Some(steps) = path.strip_prefix('.') else {
        let first = path.split(['.', '[']).next().unwrap_or_default();
        return Err(format!("expected [ or . but got: {first}"));
    };
    if steps.contains('[') {
        return Err("array notation is not allowed".to_owned());
    }
    steps.split('.').try_fold(schema, |schema, name| {
        let additional = || schema.get("additionalProperties").filter(|additional| additional.is_object());
        let found = schema["properties"].get(name).or_else(additional);
        found.ok_or_else(|| "does not refer to a valid field".to_owned())
    })
}
