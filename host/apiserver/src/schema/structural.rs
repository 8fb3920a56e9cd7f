//! Checks that a schema is structural: every value has one type, said once, outside the logical operators.
//!
//! Follows `apiextensions-apiserver/pkg/apiserver/schema/validation.go` and the rules of list types in
//! `pkg/apis/apiextensions/validation`. Also lists the CEL rules, which nothing here evaluates.

use super::{Additional, Kind, ListKind, Mark, Node, SchemaError, parse::Path, shape, validate};

/// Refuses a schema that is not structural.
pub(super) fn check(root: &Node) -> Result<(), SchemaError> {
    let at = Path::root();
    match root.kind {
        Some(Kind::Object) => {}
        Some(_) => return Err(at.child("type").refuse("Invalid value: must be object at the root")),
        None => return Err(at.child("type").refuse("Required value: must not be empty at the root")),
    }
    check_metadata(root, &at)?;
    check_node(root, &at, "at the root")
}

/// The server owns `metadata`; a schema may only narrow its names.
fn check_metadata(resource: &Node, at: &Path) -> Result<(), SchemaError> {
    let Some(metadata) = resource.properties.get("metadata") else { return Ok(()) };
    let at = at.property("metadata");
    if metadata.kind != Some(Kind::Object) {
        return Err(at.child("type").refuse("Invalid value: must be object"));
    }
    match metadata.properties.keys().find(|name| !["name", "generateName"].contains(&name.as_str())) {
        Some(_) => Err(at.refuse("Forbidden: must not specify anything other than name and generateName")),
        None => Ok(()),
    }
}

fn check_node(node: &Node, at: &Path, whose: &str) -> Result<(), SchemaError> {
    check_type(node, at, whose)?;
    check_list(node, at)?;
    if node.checks.unique_items {
        let reason = "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        return Err(at.child("uniqueItems").refuse(reason));
    }
    if !node.properties.is_empty() && !matches!(node.additional, Additional::Unknown) {
        let reason = "Forbidden: additionalProperties and properties are mutual exclusive";
        return Err(at.child("additionalProperties").refuse(reason));
    }
    for (keyword, nested) in node.checks.nested() {
        check_nested(nested, node, &at.child(&keyword))?;
    }
    for (name, property) in &node.properties {
        check_node(property, &at.property(name), "for specified object fields")?;
    }
    if let Additional::Like(additional) = &node.additional {
        check_node(additional, &at.child("additionalProperties"), "for specified object fields")?;
    }
    if let Some(items) = &node.items {
        check_node(items, &at.child("items"), "for specified array items")?;
    }
    check_default(node, at)
}

fn check_type(node: &Node, at: &Path, whose: &str) -> Result<(), SchemaError> {
    let needs = |name: &str, reason: &str| Err(at.child(name).refuse(reason));
    if node.is(Mark::IntOrString) && node.kind.is_some() {
        return needs("type", "Forbidden: must be empty if x-kubernetes-int-or-string is true");
    }
    if node.kind.is_none() && !node.is(Mark::IntOrString) && !node.is(Mark::PreserveUnknown) {
        return needs("type", &format!("Required value: must not be empty {whose}"));
    }
    if node.is(Mark::PreserveUnknown) && node.kind.is_some_and(|kind| kind != Kind::Object) {
        return needs("type", "Invalid value: must be object if x-kubernetes-preserve-unknown-fields is true");
    }
    if node.is(Mark::EmbeddedResource) && node.kind != Some(Kind::Object) {
        return needs("type", "Invalid value: must be object if x-kubernetes-embedded-resource is true");
    }
    if node.is(Mark::EmbeddedResource) && !node.is(Mark::PreserveUnknown) && node.properties.is_empty() {
        let reason = "Required value: must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        return needs("properties", reason);
    }
    if node.kind == Some(Kind::Array) && node.items.is_none() {
        return needs("items", "Required value: must be specified");
    }
    if node.is(Mark::EmbeddedResource) {
        check_metadata(node, at)?;
    }
    Ok(())
}

/// Items of a set must compare as a whole; the keys of a map must be scalars that every item has.
fn check_list(node: &Node, at: &Path) -> Result<(), SchemaError> {
    let Some(items) = node.items.as_deref().filter(|_| node.list != ListKind::Atomic) else { return Ok(()) };
    let at_items = at.child("items");
    match &node.list {
        ListKind::Atomic => Ok(()),
        ListKind::Set => {
            let whole = match items.kind {
                Some(Kind::Object) => items.is(Mark::AtomicMap),
                Some(Kind::Array) => items.list == ListKind::Atomic,
                _ => true,
            };
            if whole && !items.is(Mark::Nullable) {
                return Ok(());
            }
            Err(at_items.refuse("Invalid value: items of a set must be scalars or atomic, and not nullable"))
        }
        ListKind::Map(_) if items.kind != Some(Kind::Object) => Err(at_items
            .child("type")
            .refuse("Invalid value: must be object if parent array's x-kubernetes-list-type is map")),
        ListKind::Map(keys) => keys.iter().try_for_each(|key| check_key(items, key, &at_items)),
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
fn check_nested(nested: &Node, outside: &Node, at: &Path) -> Result<(), SchemaError> {
    let forbid = |name: &str| Err(at.child(name).refuse("Forbidden: must be empty to be structural"));
    if nested.kind.is_some() && !outside.is(Mark::IntOrString) {
        return forbid("type");
    }
    if nested.default.is_some() {
        return forbid("default");
    }
    if nested.is(Mark::Nullable) {
        return Err(at.child("nullable").refuse("Forbidden: must be false to be structural"));
    }
    if nested.is(Mark::Described) {
        return forbid("description");
    }
    if !matches!(nested.additional, Additional::Unknown) {
        return forbid("additionalProperties");
    }
    if nested.is(Mark::PreserveUnknown) || nested.is(Mark::EmbeddedResource) || nested.is(Mark::IntOrString) {
        let reason = "Forbidden: x-kubernetes extensions must be false to be structural";
        return Err(at.refuse(reason));
    }
    for (name, property) in &nested.properties {
        let at = at.property(name);
        match outside.properties.get(name).or_else(|| outside.additional.node()) {
            Some(outside) => check_nested(property, outside, &at)?,
            // Unknown fields may be kept here, so there is nothing to contradict.
            None if outside.is(Mark::PreserveUnknown) => {}
            None => return Err(at.refuse("Required value: the property must be specified outside the operator too")),
        }
    }
    if let Some(items) = &nested.items {
        let at = at.child("items");
        match &outside.items {
            Some(outside) => check_nested(items, outside, &at)?,
            None => return Err(at.refuse("Required value: items must be specified outside the operator too")),
        }
    }
    nested.checks.nested().try_for_each(|(keyword, deeper)| check_nested(deeper, outside, &at.child(&keyword)))
}

/// A default must itself be what the schema accepts, or every object would be born invalid.
fn check_default(node: &Node, at: &Path) -> Result<(), SchemaError> {
    let Some(default) = &node.default else { return Ok(()) };
    let at = at.child("default");
    let mut shaped = default.clone();
    if let Some(unknown) = shape::prune(node, &mut shaped).first() {
        return Err(at.refuse(format!("Invalid value: {default}: must be pruned: unknown field {unknown}")));
    }
    shape::fill_defaults(node, &mut shaped);
    match validate::run(node, &shaped).first() {
        Some(error) => Err(at.refuse(format!("Invalid value: {default}: {error}"))),
        None => Ok(()),
    }
}

/// The paths of the nodes that have CEL rules.
pub(super) fn collect_rules(node: &Node, at: &Path, found: &mut Vec<String>) {
    if node.is(Mark::HasRules) {
        found.push(at.child("x-kubernetes-validations").to_string());
    }
    for (name, property) in &node.properties {
        collect_rules(property, &at.property(name), found);
    }
    if let Additional::Like(additional) = &node.additional {
        collect_rules(additional, &at.child("additionalProperties"), found);
    }
    if let Some(items) = &node.items {
        collect_rules(items, &at.child("items"), found);
    }
}
