//! Calls the functions of `kube-cel` by name.

use std::sync::LazyLock;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::EvalError;

static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// Calls a function. The receiver `target`, if there is one, is not among `args`.
pub(crate) fn call(function: &str, target: Option<Value>, args: Vec<Value>) -> Result<Value, EvalError> {
    let mut scope = FUNCTIONS.new_inner_scope();
    let mut bound = |name: String, value: Value| {
        scope.add_variable_from_value(name.clone(), value);
        IdedExpr { id: 0, expr: Expr::Ident(name) }
    };
    let target = target.map(|value| Box::new(bound("@target".to_owned(), value)));
    let args = args.into_iter().enumerate().map(|(index, value)| bound(format!("@{index}"), value)).collect();
    let call = IdedExpr { id: 0, expr: Expr::Call(CallExpr { func_name: function.to_owned(), target, args }) };
    Value::resolve(&call, &scope).map_err(|error| match error {
        ExecutionError::FunctionError { message, .. } => EvalError::Other(message),
        ExecutionError::NoSuchOverload | ExecutionError::UnexpectedType { .. } => EvalError::NoSuchOverload,
        other => EvalError::Other(other.to_string()),
    })
}
