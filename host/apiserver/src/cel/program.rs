//! An expression that is compiled and can be evaluated.

use super::ast::{EXPRESSION_DEPTH_MAX, Expr};
use super::check::Checker;
use super::evaluator::Evaluator;
use super::types::Type;
use super::{EvalError, SyntaxError, Value, parser};
use super::{eval, operators};

/// The stack for expressions that nest unusually deep.
const DEEP_STACK_BYTES: usize = 32 << 20;

/// Up to this many levels fit on any stack, also without optimisation.
const USUAL_DEPTH: usize = EXPRESSION_DEPTH_MAX / 8;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Program {
    expr: Expr,
    /// The type of its value.
    pub(crate) answer: Type,
}

/// The outcome of an evaluation, and its cost.
pub(crate) struct Answer {
    pub(crate) value: Result<Value, EvalError>,
    pub(crate) cost: u64,
}

impl Program {
    /// Reads and checks an expression; the error is a text as cel-go writes it, of several lines.
    pub(crate) fn compile(source: &str, variables: Vec<(String, Type)>) -> Result<Program, String> {
        // Reading needs the large stack before anything is known about the depth.
        on_large_stack(|| {
            let expr = parser::parse(source).map_err(|error| report(source, &[error]))?;
            let mut checker = Checker::new(variables);
            let answer = checker.check(&expr);
            checker.errors.sort_by_key(|error| error.at);
            if checker.errors.is_empty() { Ok(Program { expr, answer }) } else { Err(report(source, &checker.errors)) }
        })
    }

    /// Whether it reads a variable of this name.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.expr.mentions(name)
    }

    /// Evaluates it with these variables at a cost of at most `limit`.
    pub(crate) fn run(&self, variables: Vec<(String, Value)>, limit: u64) -> Answer {
        let run = || {
            let mut evaluator = Evaluator::new(variables, limit, eval::eval);
            let value = evaluator.eval(&self.expr);
            Answer { value, cost: evaluator.cost() }
        };
        if self.expr.height() <= USUAL_DEPTH { run() } else { on_large_stack(run) }
    }
}

/// An optional that holds this value, or nothing.
pub(crate) fn optional(value: Option<Value>) -> Value {
    value.map_or_else(operators::none, operators::some)
}

/// Runs on a thread of its own, whose stack holds whatever the limits of an expression let through.
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

/// The errors with the lines that they are about, each marked.
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
