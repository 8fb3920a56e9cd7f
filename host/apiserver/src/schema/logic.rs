//! `allOf`, `anyOf`, `oneOf` and `not`.
//!
//! When no alternative fits, Kubernetes reports the failures of the one that came closest beside the operator's own;
//! closest is here the one with the fewest failures.

use serde_json::Value;

use super::{Checks, Node, error, validate};
use crate::cause::Cause;

/// Appends what the logical operators of a schema find wrong with the value at `path`.
pub(super) fn check(checks: &Checks, value: &Value, path: &str, found: &mut Vec<Cause>) {
    let unplaced = |what: &str| error::unplaced(format!("\"{path}\" must {what}"));

    let (fitting, closest) = fit(&checks.any_of, value, path);
    if !checks.any_of.is_empty() && fitting == 0 {
        found.push(unplaced("validate at least one schema (anyOf)"));
        found.extend(closest);
    }

    let (fitting, closest) = fit(&checks.one_of, value, path);
    if !checks.one_of.is_empty() && fitting == 0 {
        found.push(unplaced("validate one and only one schema (oneOf). Found none valid"));
        found.extend(closest);
    } else if fitting > 1 {
        let what = format!("validate one and only one schema (oneOf). Found {fitting} valid alternatives");
        found.push(unplaced(&what));
    }

    let before = found.len();
    for node in &checks.all_of {
        validate::check(node, value, None, path, found);
    }
    if found.len() > before {
        found.push(unplaced("validate all the schemas (allOf)"));
    }

    if let Some(not) = &checks.not
        && failures(not, value, path).is_empty()
    {
        found.push(unplaced("not validate the schema (not)"));
    }
}

/// How many alternatives accept the value, and what the closest of the others misses.
fn fit(alternatives: &[Node], value: &Value, path: &str) -> (usize, Vec<Cause>) {
    let mut fitting = 0;
    let mut closest: Option<Vec<Cause>> = None;
    for node in alternatives {
        let failures = failures(node, value, path);
        if failures.is_empty() {
            fitting += 1;
        } else if closest.as_ref().is_none_or(|closest| failures.len() < closest.len()) {
            closest = Some(failures);
        }
    }
    (fitting, closest.unwrap_or_default())
}

fn failures(node: &Node, value: &Value, path: &str) -> Vec<Cause> {
    let mut found = Vec::new();
    validate::check(node, value, None, path, &mut found);
    found
}
