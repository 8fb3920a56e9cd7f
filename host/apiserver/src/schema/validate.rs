//! Validates the structure of an object against its schema: types, fields, items, sizes, numbers, texts, identities.
//! Types are in [`super::types`], numbers in [`super::numbers`], the logical operators in [`super::logic`].
//!
//! The order of the checks and the wording follow `k8s.io/kube-openapi/pkg/validation/validate`; the identities of list
//! items follow `apiextensions-apiserver/pkg/apiserver/schema/listtype`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::correlate::OldItems;
use super::{Checks, ListKind, Mark, Node, Range, error, logic, numbers, types};
use crate::cause::Cause;
use crate::object::canonical;

/// All errors in a value.
pub(super) fn run(node: &Node, value: &Value) -> Vec<Cause> {
    run_on_change(node, value, None)
}

/// Like [`run`], for a changed value. Parts that have not changed may stay invalid (KEP-4008).
pub(super) fn run_on_change(node: &Node, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut found = Vec::new();
    check(node, value, old, "", &mut found);
    check_new_identities(node, value, old, &mut found);
    found
}

/// Like [`run_on_change`], for a write to the status. Follows `ValidateStatusUpdate` of
/// `apiextensions-apiserver/pkg/registry/customresource`.
pub(super) fn run_on_status_change(root: &Node, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut found = Vec::new();
    let status = object.get("status").filter(|status| !status.is_null());
    if let Some((node, status)) = root.properties.get("status").zip(status) {
        check(node, status, old.and_then(|old| old.get("status")), "", &mut found);
    }
    for cause in &mut found {
        cause.field = match cause.field.as_str() {
            "<nil>" => "status".to_owned(),
            item if item.starts_with('[') => format!("status{item}"),
            field => format!("status.{field}"),
        };
    }
    check_new_identities(root, object, old, &mut found);
    found
}

/// Reports duplicate items, unless the old list has duplicates, too.
fn check_new_identities(node: &Node, value: &Value, old: Option<&Value>, found: &mut Vec<Cause>) {
    let mut before = Vec::new();
    if let Some(old) = old {
        check_identities(node, old, "", &mut before);
    }
    if before.is_empty() {
        check_identities(node, value, "", found);
    }
}

/// Appends the errors in the value at `path`. Returns how many checks have passed (`MatchCount` in a real server). The
/// logical operators use this count to choose among alternatives.
pub(super) fn check(node: &Node, value: &Value, old: Option<&Value>, path: &str, found: &mut Vec<Cause>) -> usize {
    if old == Some(value) {
        return 0;
    }
    check_changed(node, value, old, path, found)
}

/// Like [`check`], but also checks a value that has not changed. Follows `SchemaValidator.Validate` in `schema.go`.
pub(super) fn check_changed(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    found: &mut Vec<Cause>,
) -> usize {
    if value.is_null() {
        if node.refuses_null() {
            found.push(error::type_invalid(path, &types::expected(node).join(","), "null"));
            return 0;
        }
        return 1;
    }
    // The 3 stands for the logical operators, the enumeration and the schema as a whole. Other checks return their
    // count.
    let mut passed = 3 + types::check(node, value, path, found) + logic::check(&node.checks, value, old, path, found);
    match value {
        Value::String(text) => passed += check_text(&node.checks, text, path, found),
        Value::Number(number) => passed += numbers::check(node, number, path, found),
        Value::Array(list) => passed += check_list(node, list, old, path, found),
        Value::Object(fields) => passed += check_object(node, fields, old, path, found),
        Value::Null | Value::Bool(_) => {}
    }
    if let Some(allowed) = &node.checks.one_of_values
        && !allowed.iter().any(|one| numbers::is_alike(one, value) || canonical(one) == canonical(value))
    {
        found.push(error::not_supported(path, value, allowed));
    }
    passed
}

fn check_text(checks: &Checks, text: &str, path: &str, found: &mut Vec<Cause>) -> usize {
    let refused = |detail| error::invalid(path, &Value::from(text), detail);
    // As in a real server, characters are counted, although the message says bytes, and only the first error in a text
    // is reported.
    let length = text.chars().count() as u64;
    if let Some(most) = checks.length.most.filter(|most| length > *most) {
        found.push(error::too_long(path, most));
    } else if let Some(least) = checks.length.least.filter(|least| length < *least) {
        found.push(refused(format!("{path} in body should be at least {least} chars long")));
    } else if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
        found.push(refused(format!("{path} in body should match '{}'", pattern.source())));
    }
    match &checks.format {
        Some(format) => {
            if !format.accepts(text) {
                found.push(error::type_invalid(path, &format.name, text));
            }
            2
        }
        None => 1,
    }
}

fn check_list(node: &Node, list: &[Value], old: Option<&Value>, path: &str, found: &mut Vec<Cause>) -> usize {
    let checks = &node.checks;
    let mut passed = 2;
    if let Some(items) = &node.items {
        let old = OldItems::new(&node.list, old);
        for (index, item) in list.iter().enumerate() {
            passed += check(items, item, old.of(item), &format!("{path}[{index}]"), found);
        }
    }
    check_size(checks.items, list.len(), "items", &Value::from(list.len()), path, found);
    passed
}

/// Reports equal items in lists of the type `set`, and items with equal keys in lists of the type `map`.
fn check_identities(node: &Node, value: &Value, path: &str, found: &mut Vec<Cause>) {
    match value {
        Value::Array(list) => {
            check_own_identities(node, list, path, found);
            for (index, item) in list.iter().enumerate() {
                if let Some(items) = &node.items {
                    check_identities(items, item, &format!("{path}[{index}]"), found);
                }
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(property) = node.properties.get(name).or_else(|| node.additional.node()) {
                    check_identities(property, field, &below(path, name), found);
                }
            }
        }
        _ => {}
    }
}

fn check_own_identities(node: &Node, list: &[Value], path: &str, found: &mut Vec<Cause>) {
    let identity = |item: &Value| -> Option<Value> {
        match &node.list {
            ListKind::Atomic => None,
            ListKind::Set => Some(item.clone()),
            ListKind::Map(keys) => {
                let named = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
                Some(Value::Object(named.collect()))
            }
        }
    };
    let mut seen = BTreeSet::new();
    for (index, item) in list.iter().enumerate() {
        if let Some(identity) = identity(item)
            && !seen.insert(identity.to_string())
        {
            found.push(error::duplicate(&format!("{path}[{index}]"), &identity));
        }
    }
}

/// The path of a field below `path`.
pub(crate) fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn check_object(
    node: &Node,
    fields: &Map<String, Value>,
    old: Option<&Value>,
    path: &str,
    found: &mut Vec<Cause>,
) -> usize {
    let below = |name: &str| below(path, name);
    let mut passed = 1;
    check_size(node.checks.properties, fields.len(), "properties", &Value::Object(fields.clone()), path, found);
    for name in node.checks.required.iter().filter(|name| !fields.contains_key(*name)) {
        found.push(error::required(&below(name)));
    }
    for (name, field) in fields {
        if let Some(property) = node.properties.get(name).or_else(|| node.additional.node()) {
            passed += check(property, field, old.and_then(|old| old.get(name)), &below(name), found);
        }
    }
    if node.is(Mark::EmbeddedResource) {
        for name in ["apiVersion", "kind"].into_iter().filter(|name| !fields.contains_key(*name)) {
            found.push(error::required(&below(name)));
        }
    }
    passed
}

fn check_size(range: Range, size: usize, what: &str, value: &Value, path: &str, found: &mut Vec<Cause>) {
    if let Some(least) = range.least.filter(|least| (size as u64) < *least) {
        let detail = format!("{path} in body should have at least {least} {what}");
        found.push(error::invalid(path, value, detail));
    }
    if let Some(most) = range.most.filter(|most| (size as u64) > *most) {
        found.push(error::too_many(path, size, most));
    }
}
