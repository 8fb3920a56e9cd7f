//! Evaluates expressions within a cost budget. Costs are those of cel-go: about one for each step, and more for reading
//! through texts and lists.

use std::sync::Arc;

use kube_cel::cel::Value;
use regex::Regex;

use super::ast::Expr;
use super::patterns::{self, Used};
use super::{EvalError, declarations, operators};

/// One evaluation.
pub(super) struct Evaluator {
    /// The variables in scope, innermost last.
    pub(super) scope: Vec<(String, Value)>,
    patterns: Used,
    cost: u64,
    limit: u64,
    /// Evaluates one expression. This is a field so that functions can call it, too.
    step: fn(&mut Evaluator, &Expr) -> Result<Value, EvalError>,
}

impl Evaluator {
    pub(super) fn new(
        variables: Vec<(String, Value)>,
        limit: u64,
        step: fn(&mut Evaluator, &Expr) -> Result<Value, EvalError>,
    ) -> Evaluator {
        Evaluator { scope: variables, patterns: Used::default(), cost: 0, limit, step }
    }

    /// The cost of the evaluation so far.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// Charges for work before it is done, or fails if the budget is used up.
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::TooCostly) } else { Ok(()) }
    }

    /// Compiles a pattern, and charges for it.
    pub(super) fn pattern(&mut self, source: &str) -> Result<Arc<Regex>, EvalError> {
        let cost = self.patterns.cost(source);
        self.charge(cost)?;
        patterns::read(source)
    }

    /// Evaluates an expression. A value that does not have its declared type is an error only when an expression reads
    /// it.
    pub(super) fn eval(&mut self, expr: &Expr) -> Result<Value, EvalError> {
        operators::typed((self.step)(self, expr)?)
    }

    pub(super) fn variable(&mut self, name: &str) -> Result<Value, EvalError> {
        self.charge(1)?;
        let found = self.scope.iter().rev().find(|(known, _)| known == name);
        if found.is_none() && declarations::is_type(name) {
            return Ok(operators::type_value(name));
        }
        found.map(|(_, value)| value.clone()).ok_or_else(|| EvalError::Other(format!("no such attribute(s): {name}")))
    }

    /// Evaluates with an additional variable.
    pub(super) fn within(&mut self, name: &str, value: Value, body: &Expr) -> Result<Value, EvalError> {
        self.scope.push((name.to_owned(), value));
        let answer = self.eval(body);
        self.scope.pop();
        answer
    }
}
