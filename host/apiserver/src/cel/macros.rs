//! The macros of CEL and of Kubernetes' libraries. They look like calls, but their arguments are not evaluated first.

use super::SyntaxError;
use super::ast::{Bind, Expr, ExprKind, Loop, Macro};

/// Builds a call without a receiver, or the macro `has`.
pub(super) fn global(at: usize, function: String, mut args: Vec<Expr>) -> Result<Expr, SyntaxError> {
    if function != "has" || args.len() != 1 {
        return Expr::new(at, ExprKind::Call { target: None, function, args });
    }
    match args.pop() {
        Some(Expr { kind: ExprKind::Select { operand, field, optional: false }, .. }) => {
            Expr::new(at, ExprKind::Has { operand, field })
        }
        other => Err(SyntaxError {
            at: other.map_or(at, |expr| expr.at),
            message: "invalid argument to has() macro".to_owned(),
        }),
    }
}

/// Builds a call with a receiver, or a macro.
pub(super) fn receiver(at: usize, target: Expr, function: String, args: Vec<Expr>) -> Result<Expr, SyntaxError> {
    match (function.as_str(), args.len()) {
        ("optMap" | "optFlatMap", 2) => {
            let how = if function == "optMap" { Bind::OptMap } else { Bind::OptFlatMap };
            let [name, body] = exactly(at, args)?;
            let variable = variable(name, &format!("{function}() variable name must be a simple identifier"))?;
            Expr::new(at, ExprKind::Bind { how, variable, value: Box::new(target), body: Box::new(body) })
        }
        (name, count) => match loop_macro(name, count) {
            Some((macro_name, two)) => repeat(at, macro_name, two, target, args),
            None => Expr::new(at, ExprKind::Call { target: Some(Box::new(target)), function, args }),
        },
    }
}

/// The macro of this name with this many arguments, and whether it has two variables.
fn loop_macro(name: &str, arguments: usize) -> Option<(Macro, bool)> {
    Some(match (name, arguments) {
        ("all", 2) => (Macro::All, false),
        ("all", 3) => (Macro::All, true),
        ("exists", 2) => (Macro::Exists, false),
        ("exists", 3) => (Macro::Exists, true),
        ("exists_one", 2) => (Macro::ExistsOne, false),
        ("existsOne", 3) => (Macro::ExistsOne, true),
        ("filter", 2) => (Macro::Filter, false),
        ("map", 2 | 3) => (Macro::Map, false),
        ("sortBy", 2) => (Macro::SortBy, false),
        ("transformList", 3 | 4) => (Macro::TransformList, true),
        ("transformMap", 3 | 4) => (Macro::TransformMap, true),
        ("transformMapEntry", 3 | 4) => (Macro::TransformMapEntry, true),
        _ => return None,
    })
}

fn repeat(at: usize, macro_name: Macro, two: bool, range: Expr, mut args: Vec<Expr>) -> Result<Expr, SyntaxError> {
    let simple = "argument must be a simple name";
    let missing = || SyntaxError { at, message: "missing argument".to_owned() };
    let body = args.pop().ok_or_else(missing)?;
    let names = 1 + usize::from(two);
    let filter = if args.len() > names { args.pop() } else { None };
    let mut names = args.into_iter().map(|name| variable(name, simple));
    let first = names.next().ok_or_else(missing)??;
    let second = names.next().transpose()?;
    let found = Loop { macro_name, range, variable: first, second, filter, body };
    Expr::new(at, ExprKind::Loop(Box::new(found)))
}

fn variable(expr: Expr, wanted: &str) -> Result<String, SyntaxError> {
    match expr.kind {
        ExprKind::Ident(name) => Ok(name),
        _ => Err(SyntaxError { at: expr.at, message: wanted.to_owned() }),
    }
}

fn exactly<const N: usize>(at: usize, args: Vec<Expr>) -> Result<[Expr; N], SyntaxError> {
    args.try_into().map_err(|_| SyntaxError { at, message: format!("expected {N} arguments") })
}
