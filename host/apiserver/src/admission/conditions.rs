//! `matchConditions`: expressions that must be true for a webhook to be called, or a policy to be evaluated.

use serde_json::Value;

use super::expressions;
use crate::cel::{self, Program};
use crate::object::{self, text};

/// A real server's limit on the cost of all conditions of one webhook.
const MATCH_CONDITIONS_COST_MAX: u64 = 2_500_000;

/// One condition.
#[derive(Debug)]
pub(super) struct MatchCondition {
    source: String,
    /// `None` if the expression does not compile. Validation refuses such a condition.
    program: Option<Program>,
}

impl MatchCondition {
    /// The conditions of a valid webhook or policy.
    pub(super) fn read_all(from: &Value, has_params: bool) -> Vec<MatchCondition> {
        let sources = object::items(from, "/matchConditions").iter().map(|found| text(found, "/expression"));
        let read = |source: &str| MatchCondition {
            source: source.to_owned(),
            program: expressions::condition(source, has_params).ok(),
        };
        sources.map(read).collect()
    }

    /// Whether all conditions are true. One false condition makes the result false, even if other conditions fail to
    /// evaluate. A failed condition is treated as false if failures are ignored.
    pub(super) fn all_hold(
        conditions: &[MatchCondition],
        variables: &[(String, cel::Value)],
        ignores: bool,
    ) -> Result<bool, String> {
        let mut left = MATCH_CONDITIONS_COST_MAX;
        let mut errors = Vec::new();
        for condition in conditions {
            let Some(program) = &condition.program else { return Ok(false) };
            match expressions::evaluate(program, variables, &mut left) {
                Ok(cel::Value::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(why) => errors.push(format!("expression '{}' resulted in error: {why}", condition.source)),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            _ if ignores => Ok(false),
            errors => Err(object::aggregate(errors)),
        }
    }
}
