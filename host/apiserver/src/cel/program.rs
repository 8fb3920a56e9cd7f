//! A compiled expression, which can be evaluated.

use super::ast::{EXPRESSION_DEPTH_MAX, Expr};
use super::check::Checker;
use super::evaluator::Evaluator;
use super::types::Type;
use super::{EvalError, SyntaxError, Value, parser};
use super::{eval, operators};

/// The stack size for unusually deep expressions.
const DEEP_STACK_BYTES: usize = 32 << 20;

/// The depth up to which any stack is large enough for an expression, even in unoptimized builds.
const USUAL_DEPTH: usize = EXPRESSION_DEPTH_MAX / 8;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Program {
    expr: Expr,
    /// The type of the expression's value.
    pub(crate) answer: Type,
}

/// The result of an evaluation, and its cost.
pub(crate) struct Answer {
    pub(crate) value: Result<Value, EvalError>,
    pub(crate) cost: u64,
}

impl Program {
    /// Parses and checks an expression. The error is cel-go's text, on several lines.
    pub(crate) fn compile(source: &str, variables: Vec<(String, Type)>) -> Result<Program, String> {
        // Parsing needs the large stack, because the depth is not known yet.
        on_large_stack(|| {
            let expr = parser::parse(source).map_err(|error| report(source, &[error]))?;
            let mut checker = Checker::new(variables);
            let answer = checker.check(&expr);
            checker.errors.sort_by_key(|error| error.at);
            if checker.errors.is_empty() { Ok(Program { expr, answer }) } else { Err(report(source, &checker.errors)) }
        })
    }

    /// Whether the expression reads a variable of this name.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.expr.mentions(name)
    }

    /// Evaluates the expression with these variables, at a cost of at most `limit`.
    pub(crate) fn run(&self, variables: Vec<(String, Value)>, limit: u64) -> Answer {
        let run = || {
            let mut evaluator = Evaluator::new(variables, limit, eval::eval);
            let value = evaluator.eval(&self.expr);
            Answer { value, cost: evaluator.cost() }
        };
        if self.expr.height() <= USUAL_DEPTH { run() } else { on_large_stack(run) }
    }
}

/// An optional with this value, or an empty one.
pub(crate) fn optional(value: Option<Value>) -> Value {
    value.map_or_else(operators::none, operators::some)
}

/// Runs on a separate thread, with a stack large enough for any allowed expression.
fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK_BYTES).spawn_scoped(scope, run);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => panic!("cannot start a thread for an expression: {error}"),
        }
    })
}

/// Formats the errors, each with its source line and a mark at its place.
fn report(source: &str, errors: &[SyntaxError]) -> String {
    let one = |error: &SyntaxError| {
        let before: String = source.chars().take(error.at).collect();
        let row = before.matches('\n').count();
        let column = before.chars().rev().take_while(|c| *c != '\n').count();
        let line = source.split('\n').nth(row).unwrap_or_default().replace('\t', " ");
        format!("ERROR: <input>:{}:{}: {}\n | {line}\n | {}^", row + 1, column + 1, error.message, ".".repeat(column))
    };
    errors.iter().map(one).collect::<Vec<_>>().join("\n")
}
