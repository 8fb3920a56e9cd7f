//! Checks that a schema is structural: every value has one type, declared once and outside the logical operators.
//!
//! Follows `apiextensions-apiserver/pkg/apiserver/schema/validation.go` and `defaulting/validation.go`.
//! [`super::openapi`] checks the keywords of a schema.

use serde_json::Value;

use super::{Additional, Checks, Kind, Mark, Node, SchemaError, parse::Path, shape, validate};

/// All reasons why a schema is not structural.
pub(super) fn check(root: &Node, written: &Value) -> Vec<SchemaError> {
    let at = Path::root();
    let mut found = Vec::new();
    match root.kind {
        Some(Kind::Object) => {}
        Some(kind) => {
            let reason = format!("Invalid value: {:?}: must be object at the root", kind.name());
            found.push(at.child("type").refuse(reason));
        }
        None => found.push(at.child("type").refuse("Required value: must not be empty at the root")),
    }
    if root.is(Mark::Nullable) {
        found.push(at.child("nullable").refuse("Forbidden: nullable cannot be true at the root"));
    }
    if !matches!(root.additional, Additional::Unknown) {
        found.push(at.child("additionalProperties").refuse("Forbidden: must not be used at the root"));
    }
    if written["properties"].get("metadata").is_some_and(says_more_than_names) {
        found.push(at.property("metadata").refuse(
            "Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
    }
    check_metadata(root, &at, &mut found);
    check_node(root, &at, "at the root", &mut found);
    if root.default.is_some() {
        // For the default of the root, a real server requires the fields of an embedded resource.
        for name in ["apiVersion", "kind"]
            .into_iter()
            .filter(|name| root.default.as_ref().is_some_and(|it| it.get(name).is_none()))
        {
            found.push(at.child("default").child(name).refuse("Required value"));
        }
    }
    found
}

/// Whether the schema of the root's metadata has more than the type, the names and a default. (Other code refuses the
/// default.)
fn says_more_than_names(metadata: &Value) -> bool {
    let is_zero = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    };
    metadata.as_object().into_iter().flatten().any(|(key, value)| match key.as_str() {
        "type" | "default" => false,
        "properties" => value
            .as_object()
            .is_some_and(|properties| properties.keys().any(|name| !["name", "generateName"].contains(&name.as_str()))),
        _ => !is_zero(value),
    })
}

/// Checks that `metadata`, `apiVersion` and `kind` have the right types.
fn check_metadata(resource: &Node, at: &Path, found: &mut Vec<SchemaError>) {
    for (name, wanted) in [("metadata", Kind::Object), ("apiVersion", Kind::String), ("kind", Kind::String)] {
        let Some(property) = resource.properties.get(name) else { continue };
        let at = at.property(name);
        if property.kind != Some(wanted) {
            let shown = property.kind.map_or("", Kind::name);
            found.push(at.child("type").refuse(format!("Invalid value: {shown:?}: must be {}", wanted.name())));
        }
    }
}

fn check_node(node: &Node, at: &Path, whose: &str, found: &mut Vec<SchemaError>) {
    check_type(node, at, whose, found);
    // `anyOf` may repeat the two types of `int-or-string`.
    let skips_any_of = is_int_or_string(&node.checks);
    let skips_in_all_of = node.checks.all_of.first().is_some_and(|first| is_int_or_string(&first.checks));
    for (keyword, nested) in node.checks.nested() {
        if !(skips_any_of && keyword.starts_with("anyOf")) {
            check_nested(nested, node, skips_in_all_of && keyword == "allOf[0]", &at.child(&keyword), found);
        }
    }
    for (name, property) in node.properties.iter() {
        check_node(property, &at.property(name), "for specified object fields", found);
    }
    if let Additional::Like(additional) = &node.additional {
        check_node(additional, &at.child("additionalProperties"), "for specified object fields", found);
    }
    if let Some(items) = &node.items {
        check_node(items, &at.child("items"), "for specified array items", found);
    }
    check_default(node, at, found);
}

fn check_type(node: &Node, at: &Path, whose: &str, found: &mut Vec<SchemaError>) {
    let mut needs = |name: &str, reason: &str| found.push(at.child(name).refuse(reason));
    let shown = node.kind.map_or("", Kind::name);
    if node.kind.is_none() && !node.is(Mark::IntOrString) && !node.is(Mark::PreserveUnknown) {
        needs("type", &format!("Required value: must not be empty {whose}"));
    }
    if node.is(Mark::EmbeddedResource) && node.kind != Some(Kind::Object) {
        needs("type", &format!("Invalid value: {shown:?}: must be object if x-kubernetes-embedded-resource is true"));
    }
    if node.is(Mark::EmbeddedResource) && !node.is(Mark::PreserveUnknown) && node.properties.is_empty() {
        let reason = "Required value: must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        needs("properties", reason);
    }
    if node.kind == Some(Kind::Array) && node.items.is_none() {
        needs("items", "Required value: must be specified");
    }
    if node.is(Mark::IntOrString) {
        for (mark, name) in [
            (Mark::PreserveUnknown, "x-kubernetes-preserve-unknown-fields"),
            (Mark::EmbeddedResource, "x-kubernetes-embedded-resource"),
        ] {
            if node.is(mark) {
                needs(name, "Invalid value: true: must be false if x-kubernetes-int-or-string is true");
            }
        }
    }
    if node.is(Mark::EmbeddedResource) {
        if !matches!(node.additional, Additional::Unknown) {
            needs("additionalProperties", "Forbidden: must not be used if x-kubernetes-embedded-resource is set");
        }
        check_metadata(node, at, found);
    }
}

/// Whether `anyOf` has exactly two schemas: an integer, and then a string.
fn is_int_or_string(checks: &Checks) -> bool {
    let is_only = |node: &Node, kind: Kind| {
        node.kind == Some(kind) && node.properties.is_empty() && node.items.is_none() && node.marks.is_empty()
    };
    matches!(checks.any_of.as_slice(), [first, second] if is_only(first, Kind::Integer) && is_only(second, Kind::String))
}

/// Checks a schema inside a logical operator. It may only restrict values of fields that the schema outside specifies.
fn check_nested(nested: &Node, outside: &Node, skips_any_of: bool, at: &Path, found: &mut Vec<SchemaError>) {
    let forbidden = [
        ("type", nested.kind.is_some(), "empty"),
        ("default", nested.default.is_some(), "undefined"),
        ("nullable", nested.is(Mark::Nullable), "false"),
        ("title", nested.is(Mark::Titled), "empty"),
        ("description", nested.is(Mark::Described), "empty"),
        ("additionalProperties", !matches!(nested.additional, Additional::Unknown), "undefined"),
        ("x-kubernetes-preserve-unknown-fields", nested.is(Mark::PreserveUnknown), "false"),
        ("x-kubernetes-embedded-resource", nested.is(Mark::EmbeddedResource), "false"),
        ("x-kubernetes-int-or-string", nested.is(Mark::IntOrString), "false"),
        ("x-kubernetes-list-map-keys", nested.is(Mark::Keyed), "empty"),
        ("x-kubernetes-list-type", nested.is(Mark::Listed), "undefined"),
        ("x-kubernetes-map-type", nested.is(Mark::Mapped), "undefined"),
        ("x-kubernetes-validations", !nested.written_rules.is_empty(), "empty"),
    ];
    for (keyword, _, wanted) in forbidden.iter().filter(|(_, holds, _)| *holds) {
        found.push(at.child(keyword).refuse(format!("Forbidden: must be {wanted} to be structural")));
    }
    if nested.properties.contains_key("metadata") {
        found.push(at.property("metadata").refuse("Forbidden: must not be specified in a nested context"));
    }
    // A field that is not specified outside cannot contradict anything, so it is not checked.
    for (name, property) in nested.properties.iter() {
        if let Some(outside) = outside.properties.get(name).or_else(|| outside.additional.node()) {
            check_nested(property, outside, false, &at.property(name), found);
        }
    }
    if let (Some(items), Some(outside)) = (&nested.items, &outside.items) {
        check_nested(items, outside, false, &at.child("items"), found);
    }
    for (keyword, deeper) in nested.checks.nested() {
        if !(skips_any_of && keyword.starts_with("anyOf")) {
            check_nested(deeper, outside, false, &at.child(&keyword), found);
        }
    }
}

/// Checks that a default is valid. Otherwise every object that gets it would be invalid.
fn check_default(node: &Node, at: &Path, found: &mut Vec<SchemaError>) {
    let Some(default) = &node.default else { return };
    let at = at.child("default");
    let mut shaped = default.clone();
    if !shape::prune(node, &mut shaped).is_empty() {
        found.push(at.refuse(format!("Invalid value: {default}: must not have unknown fields")));
    }
    for error in validate::run(node, &shaped) {
        let at = if error.field == "<nil>" { at.clone() } else { at.child(&error.field) };
        found.push(SchemaError { kind: Some(error.reason), ..at.refuse(error.message) });
    }
}
