//! Checks that a schema is structural: every value has one type, said once, outside the logical operators.
//!
//! Follows `apiextensions-apiserver/pkg/apiserver/schema/validation.go` and the rules of list types in
//! `pkg/apis/apiextensions/validation`.

use super::{Additional, Kind, ListKind, Mark, Node, SchemaError, parse::Path, shape, validate};

/// Everything for which a schema is not structural.
pub(super) fn check(root: &Node) -> Vec<SchemaError> {
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
    check_metadata(root, &at, &mut found);
    check_node(root, &at, "at the root", &mut found);
    found
}

/// The server owns `metadata`; a schema may only narrow its names.
fn check_metadata(resource: &Node, at: &Path, found: &mut Vec<SchemaError>) {
    for (name, wanted) in [("metadata", Kind::Object), ("apiVersion", Kind::String), ("kind", Kind::String)] {
        let Some(property) = resource.properties.get(name) else { continue };
        let at = at.property(name);
        if property.kind != Some(wanted) {
            let shown = property.kind.map_or("", Kind::name);
            found.push(at.child("type").refuse(format!("Invalid value: {shown:?}: must be {}", wanted.name())));
        }
        if name == "metadata"
            && property.properties.keys().any(|name| !["name", "generateName"].contains(&name.as_str()))
        {
            found.push(at.refuse("Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"));
        }
    }
}

fn check_node(node: &Node, at: &Path, whose: &str, found: &mut Vec<SchemaError>) {
    check_type(node, at, whose, found);
    check_list(node, at, found);
    if node.checks.unique_items {
        let reason = "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.push(at.child("uniqueItems").refuse(reason));
    }
    if !node.properties.is_empty() && matches!(node.additional, Additional::Like(_)) {
        let reason = "Forbidden: additionalProperties and properties are mutual exclusive";
        found.push(at.child("additionalProperties").refuse(reason));
    }
    for (keyword, nested) in node.checks.nested() {
        check_nested(nested, node, &at.child(&keyword), found);
    }
    for (name, property) in &node.properties {
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
    if node.is(Mark::EmbeddedResource) {
        check_metadata(node, at, found);
    }
}

/// Items of a set must compare as a whole; the keys of a map must be scalars that every item has.
fn check_list(node: &Node, at: &Path, found: &mut Vec<SchemaError>) {
    let Some(items) = node.items.as_deref().filter(|_| node.list != ListKind::Atomic) else { return };
    let at_items = at.child("items");
    match &node.list {
        ListKind::Atomic => {}
        ListKind::Set => {
            let whole = match items.kind {
                Some(Kind::Object) => items.is(Mark::AtomicMap),
                Some(Kind::Array) => items.list == ListKind::Atomic,
                _ => true,
            };
            if !whole || items.is(Mark::Nullable) {
                found
                    .push(at_items.refuse("Invalid value: items of a set must be scalars or atomic, and not nullable"));
            }
        }
        ListKind::Map(_) if items.kind != Some(Kind::Object) => {
            found.push(at_items.child("type").refuse(format!(
                "Invalid value: {:?}: must be object if parent array's x-kubernetes-list-type is map",
                items.kind.map_or("", Kind::name)
            )));
        }
        ListKind::Map(keys) => keys.iter().for_each(|key| found.extend(check_key(items, key, &at_items).err())),
    }
}

fn check_key(items: &Node, key: &str, at_items: &Path) -> Result<(), SchemaError> {
    let at = at_items.property(key);
    let Some(property) = items.properties.get(key) else {
        return Err(at.refuse("Invalid value: entries of x-kubernetes-list-map-keys must refer to defined properties"));
    };
    if property.default.is_none() && !items.checks.required.iter().any(|name| name == key) {
        let reason = "Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be \
                      a required property";
        return Err(at.child("default").refuse(reason));
    }
    match property.kind {
        Some(Kind::Object | Kind::Array) => {
            Err(at.child("type").refuse("Invalid value: a key of a map list must be a scalar type"))
        }
        _ => Ok(()),
    }
}

/// Inside a logical operator a schema may only say which values are acceptable, of fields that are specified outside.
fn check_nested(nested: &Node, outside: &Node, at: &Path, found: &mut Vec<SchemaError>) {
    let forbidden = [
        ("type", nested.kind.is_some() && !outside.is(Mark::IntOrString), "empty"),
        ("default", nested.default.is_some(), "undefined"),
        ("nullable", nested.is(Mark::Nullable), "false"),
        ("title", nested.is(Mark::Titled), "empty"),
        ("description", nested.is(Mark::Described), "empty"),
        ("additionalProperties", !matches!(nested.additional, Additional::Unknown), "undefined"),
        ("x-kubernetes-preserve-unknown-fields", nested.is(Mark::PreserveUnknown), "false"),
        ("x-kubernetes-embedded-resource", nested.is(Mark::EmbeddedResource), "false"),
        ("x-kubernetes-int-or-string", nested.is(Mark::IntOrString), "false"),
        ("x-kubernetes-validations", !nested.written_rules.is_empty(), "empty"),
    ];
    for (keyword, _, wanted) in forbidden.iter().filter(|(_, holds, _)| *holds) {
        found.push(at.child(keyword).refuse(format!("Forbidden: must be {wanted} to be structural")));
    }
    // Fields that are not specified outside are no contradiction: there is nothing to check.
    for (name, property) in &nested.properties {
        if let Some(outside) = outside.properties.get(name).or_else(|| outside.additional.node()) {
            check_nested(property, outside, &at.property(name), found);
        }
    }
    if let (Some(items), Some(outside)) = (&nested.items, &outside.items) {
        check_nested(items, outside, &at.child("items"), found);
    }
    for (keyword, deeper) in nested.checks.nested() {
        check_nested(deeper, outside, &at.child(&keyword), found);
    }
}

/// A default must itself be what the schema accepts, or every object would be born invalid.
fn check_default(node: &Node, at: &Path, found: &mut Vec<SchemaError>) {
    let Some(default) = &node.default else { return };
    let at = at.child("default");
    let mut shaped = default.clone();
    if !shape::prune(node, &mut shaped).is_empty() {
        found.push(at.refuse(format!("Invalid value: {default}: must be pruned: {shaped}")));
    }
    shape::fill_defaults(node, &mut shaped);
    for error in validate::run(node, &shaped) {
        found.push(at.refuse(format!("Invalid value: {default}: {error}")));
    }
}
