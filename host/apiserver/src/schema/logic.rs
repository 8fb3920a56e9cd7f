//! Validates `allOf`, `anyOf`, `oneOf` and `not`, like `kube-openapi/pkg/validation/validate/schema_props.go`.
//!
//! If no alternative accepts the value, the errors of the alternative that passed the most checks follow the operator's
//! own error.

use serde_json::Value;

use super::{Checks, Node, error, validate};
use crate::cause::Cause;

/// Appends the errors of a schema's logical operators for the value at `path`. Returns the number of checks passed.
pub(super) fn check(checks: &Checks, value: &Value, old: Option<&Value>, path: &str, found: &mut Vec<Cause>) -> usize {
    let unplaced = |what: &str| error::unplaced(format!("\"{path}\" must {what}"));
    let judge = |node: &Node| {
        let mut causes = Vec::new();
        let passed = validate::check_changed(node, value, old, path, &mut causes);
        Judged { causes, passed }
    };
    let mut passed = 1;

    if !checks.any_of.is_empty() {
        let choice = Choice::among(&checks.any_of, 1, judge);
        if choice.fitting == 0 {
            found.push(unplaced("validate at least one schema (anyOf)"));
        }
        passed += choice.report(found);
    }
    if !checks.one_of.is_empty() {
        let choice = Choice::among(&checks.one_of, usize::MAX, judge);
        let why = match choice.fitting {
            0 => Some("Found none valid".to_owned()),
            1 => None,
            many => Some(format!("Found {many} valid alternatives")),
        };
        found.extend(why.map(|why| unplaced(&format!("validate one and only one schema (oneOf). {why}"))));
        if choice.fitting < 2 {
            passed += choice.report(found);
        }
    }
    let judged: Vec<Judged> = checks.all_of.iter().map(judge).collect();
    let failed = judged.iter().filter(|judged| !judged.causes.is_empty()).count();
    for judged in judged {
        passed += judged.passed;
        report(found, judged.causes);
    }
    if failed > 0 {
        let none = if failed == checks.all_of.len() { ". None validated" } else { "" };
        found.push(unplaced(&format!("validate all the schemas (allOf){none}")));
    }
    if let Some(not) = &checks.not
        && judge(not).causes.is_empty()
    {
        found.push(unplaced("not validate the schema (not)"));
    }
    passed
}

/// The result of validating the value by one schema.
struct Judged {
    causes: Vec<Cause>,
    passed: usize,
}

/// The result of validating the value by several alternatives.
struct Choice {
    /// The number of alternatives that accept the value.
    fitting: usize,
    /// The result of the first alternative that accepts the value. If no alternative accepts it, the first result with
    /// the most passed checks.
    chosen: Option<Judged>,
}

impl Choice {
    /// Tries the alternatives, and stops when `enough` of them accept the value.
    fn among(alternatives: &[Node], enough: usize, judge: impl Fn(&Node) -> Judged) -> Self {
        let mut choice = Self { fitting: 0, chosen: None };
        for judged in alternatives.iter().map(judge) {
            let fits = judged.causes.is_empty();
            let is_better = match &choice.chosen {
                None => true,
                Some(_) if choice.fitting > 0 => false,
                Some(best) => fits || judged.passed > best.passed,
            };
            choice.fitting += usize::from(fits);
            if is_better {
                choice.chosen = Some(judged);
            }
            if choice.fitting == enough {
                break;
            }
        }
        choice
    }

    fn report(self, found: &mut Vec<Cause>) -> usize {
        self.chosen.map_or(0, |judged| {
            report(found, judged.causes);
            judged.passed
        })
    }
}

/// Adds the errors that are not in `found` yet.
fn report(found: &mut Vec<Cause>, causes: Vec<Cause>) {
    for cause in causes {
        if !found.contains(&cause) {
            found.push(cause);
        }
    }
}
