//! Is an object what its schema asks for? The structural half: types, fields, items, sizes, numbers, texts, identities.
//! The logical operators are in [`super::logic`].
//!
//! The order of the checks and the wording follow `k8s.io/kube-openapi/pkg/validation/validate`; the identities of list
//! items follow `apiextensions-apiserver/pkg/apiserver/schema/listtype`.

use std::{cmp::Ordering, collections::BTreeSet};

use serde_json::{Map, Number, Value};

use super::correlate::OldItems;
use super::{
    Bound, Checks, Kind, ListKind, Mark, Node, Range,
    error::{self, float_text, number_text},
    format, logic,
};
use crate::cause::Cause;
use crate::object::canonical;

/// Everything that is wrong with the value.
pub(super) fn run(node: &Node, value: &Value) -> Vec<Cause> {
    run_on_change(node, value, None)
}

/// The same for a value that was another: the parts that did not change may stay as wrong as they are (KEP-4008).
pub(super) fn run_on_change(node: &Node, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut found = Vec::new();
    check(node, value, old, "", &mut found);
    let mut before = Vec::new();
    if let Some(old) = old {
        check_identities(node, old, "", &mut before);
    }
    if before.is_empty() {
        check_identities(node, value, "", &mut found);
    }
    found
}

/// Appends what is wrong with the value at `path`.
pub(super) fn check(node: &Node, value: &Value, old: Option<&Value>, path: &str, found: &mut Vec<Cause>) {
    if old == Some(value) {
        return;
    }
    if value.is_null() {
        if node.refuses_null() {
            let expected = node.kind.map_or("integer or string", Kind::name);
            found.push(error::type_invalid(path, expected, "null"));
        }
        return;
    }
    check_type(node, value, path, found);
    logic::check(&node.checks, value, path, found);
    match value {
        Value::String(text) => check_text(&node.checks, text, path, found),
        Value::Number(number) => check_number(node, number, path, found),
        Value::Array(list) => check_list(node, list, old, path, found),
        Value::Object(fields) => check_object(node, fields, old, path, found),
        Value::Null | Value::Bool(_) => {}
    }
    if let Some(allowed) = &node.checks.one_of_values
        && !allowed.iter().any(|one| canonical(one) == canonical(value))
    {
        found.push(error::not_supported(path, value, allowed));
    }
}

fn check_type(node: &Node, value: &Value, path: &str, found: &mut Vec<Cause>) {
    let actual = type_of(value);
    match node.kind {
        Some(expected) if !is_a(actual, expected) => {
            found.push(error::type_invalid(path, expected.name(), actual.name()));
        }
        None if node.is(Mark::IntOrString) && !matches!(actual, Kind::Integer | Kind::String) => {
            found.push(error::type_invalid(path, "integer,string", actual.name()));
        }
        _ => {}
    }
}

fn is_a(actual: Kind, expected: Kind) -> bool {
    actual == expected || (actual == Kind::Integer && expected == Kind::Number)
}

/// The type of a value. Null has none, and never gets here; it is called an object, as Go's zero map would be.
fn type_of(value: &Value) -> Kind {
    match value {
        Value::Bool(_) => Kind::Boolean,
        Value::Number(number) if is_whole(number) => Kind::Integer,
        Value::Number(_) => Kind::Number,
        Value::String(_) => Kind::String,
        Value::Array(_) => Kind::Array,
        Value::Null | Value::Object(_) => Kind::Object,
    }
}

/// JSON does not tell `1.0` from `1`, and neither does Kubernetes.
fn is_whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

fn check_text(checks: &Checks, text: &str, path: &str, found: &mut Vec<Cause>) {
    let refused = |detail| error::invalid(path, &Value::from(text), detail);
    // Characters, not bytes, although the message says bytes. The first of these that is wrong ends them.
    let length = text.chars().count() as u64;
    if let Some(most) = checks.length.most.filter(|most| length > *most) {
        found.push(error::too_long(path, most));
    } else if let Some(least) = checks.length.least.filter(|least| length < *least) {
        found.push(refused(format!("{path} in body should be at least {least} chars long")));
    } else if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
        found.push(refused(format!("{path} in body should match '{}'", pattern.source())));
    }
    if let Some(format) = checks.format.as_deref().filter(|format| !format::matches(format, text)) {
        found.push(error::type_invalid(path, format, text));
    }
}

fn check_number(node: &Node, number: &Number, path: &str, found: &mut Vec<Cause>) {
    let checks = &node.checks;
    let mut refuse = |detail| found.push(error::invalid(path, &Value::Number(number.clone()), detail));
    if let Some(factor) = checks.multiple_of.as_ref().filter(|factor| !is_multiple(number, factor)) {
        refuse(format!("{path} in body should be a multiple of {}", bound_text(factor)));
    }
    if let Some(bound) = checks.maximum.as_ref().filter(|bound| is_beyond(number, bound, Ordering::Greater)) {
        let words = if bound.exclusive { "less than" } else { "less than or equal to" };
        refuse(format!("{path} in body should be {words} {}", bound_text(&bound.at)));
    }
    if let Some(bound) = checks.minimum.as_ref().filter(|bound| is_beyond(number, bound, Ordering::Less)) {
        let words = if bound.exclusive { "greater than" } else { "greater than or equal to" };
        refuse(format!("{path} in body should be {words} {}", bound_text(&bound.at)));
    }
    if node.kind == Some(Kind::Integer)
        && is_whole(number)
        && let Some(format) = checks.format.as_deref().filter(|format| !fits(number, format))
    {
        let detail = format!("Checked value must be of type integer with format {format} in {path}");
        found.push(error::unplaced(detail));
    }
}

/// Limits are floats to Kubernetes, and printed as such.
fn bound_text(number: &Number) -> String {
    number.as_f64().map_or_else(|| number_text(number), float_text)
}

fn is_beyond(number: &Number, bound: &Bound, side: Ordering) -> bool {
    let ordering = compare(number, &bound.at);
    ordering == Some(side) || (bound.exclusive && ordering == Some(Ordering::Equal))
}

/// Compares exactly where both are integers: floats confuse neighbours above 2⁵³.
fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn is_multiple(number: &Number, factor: &Number) -> bool {
    match (number.as_i128(), factor.as_i128(), number.as_f64(), factor.as_f64()) {
        (Some(number), Some(factor), ..) => factor != 0 && number % factor == 0,
        // 0.3 / 0.1 is not quite 3: compare the quotient with its nearest integer.
        (_, _, Some(number), Some(factor)) => {
            let quotient = number / factor;
            (quotient - quotient.round()).abs() <= f64::EPSILON * quotient.abs().max(1.0)
        }
        _ => true,
    }
}

fn fits(number: &Number, format: &str) -> bool {
    match (format, number.as_i128()) {
        ("int32", Some(whole)) => i32::try_from(whole).is_ok(),
        ("int64", Some(whole)) => i64::try_from(whole).is_ok(),
        ("int32", None) => number.as_f64().is_some_and(|float| float.abs() <= f64::from(i32::MAX)),
        _ => true,
    }
}

fn check_list(node: &Node, list: &[Value], old: Option<&Value>, path: &str, found: &mut Vec<Cause>) {
    let checks = &node.checks;
    if let Some(items) = &node.items {
        let old = OldItems::new(&node.list, old);
        for (index, item) in list.iter().enumerate() {
            check(items, item, old.of(item), &format!("{path}[{index}]"), found);
        }
    }
    check_size(checks.items, list.len(), "items", &Value::from(list.len()), path, found);
}

/// No two items of a set are equal, and no two items of a map have the same keys.
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
            && !seen.insert(canonical(&identity))
        {
            found.push(error::duplicate(&format!("{path}[{index}]"), &identity));
        }
    }
}

/// The path of a field of what is at a path.
pub(crate) fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn check_object(node: &Node, fields: &Map<String, Value>, old: Option<&Value>, path: &str, found: &mut Vec<Cause>) {
    let below = |name: &str| below(path, name);
    check_size(node.checks.properties, fields.len(), "properties", &Value::Object(fields.clone()), path, found);
    for name in node.checks.required.iter().filter(|name| !fields.contains_key(*name)) {
        found.push(error::required(&below(name)));
    }
    for (name, field) in fields {
        if let Some(property) = node.properties.get(name).or_else(|| node.additional.node()) {
            check(property, field, old.and_then(|old| old.get(name)), &below(name), found);
        }
    }
    if node.is(Mark::EmbeddedResource) {
        for name in ["apiVersion", "kind"].into_iter().filter(|name| !fields.contains_key(*name)) {
            found.push(error::required(&below(name)));
        }
    }
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
