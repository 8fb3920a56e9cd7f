//! Evaluates each kind of expression.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map};

use super::ast::{Bind, Element, Expr, ExprKind};
use super::evaluator::Evaluator;
use super::operators::{lookup, none, optional, some};
use super::{EvalError, calls, loops, operators};

/// Evaluates an expression.
pub(super) fn eval(evaluator: &mut Evaluator, expr: &Expr) -> Result<Value, EvalError> {
    match &expr.kind {
        ExprKind::Literal(value) => Ok(value.clone()),
        ExprKind::Ident(name) => evaluator.variable(name),
        ExprKind::Select { operand, field, optional } => select(evaluator, operand, field, *optional),
        ExprKind::Has { operand, field } => has(evaluator, operand, field),
        ExprKind::Logic { all, terms } => logic(evaluator, *all, terms),
        ExprKind::Call { target, function, args } => calls::call(evaluator, target.as_deref(), function, args),
        ExprKind::List(entries) => list(evaluator, entries),
        ExprKind::Map(entries) => map(evaluator, entries),
        ExprKind::Loop(found) => loops::run(evaluator, found),
        ExprKind::Bind { how, variable, value, body } => bind(evaluator, *how, variable, value, body),
    }
}

fn select(evaluator: &mut Evaluator, operand: &Expr, field: &str, optional: bool) -> Result<Value, EvalError> {
    let value = evaluator.eval(operand)?;
    evaluator.charge(1)?;
    let key = Value::String(Arc::new(field.to_owned()));
    lookup(&value, &key, optional)
}

fn has(evaluator: &mut Evaluator, operand: &Expr, field: &str) -> Result<Value, EvalError> {
    let value = evaluator.eval(operand)?;
    evaluator.charge(1)?;
    let inner = match optional(&value) {
        Some(None) => return Ok(Value::Bool(false)),
        Some(Some(inner)) => inner.clone(),
        None => value,
    };
    match &inner {
        Value::Map(map) => match map.map.get(&Key::String(Arc::new(field.to_owned()))) {
            Some(value) => operators::typed(value.clone()).map(|_| Value::Bool(true)),
            None => Ok(Value::Bool(false)),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Evaluates `&&` or `||`. An error in one term counts only if no other term decides the result.
fn logic(evaluator: &mut Evaluator, all: bool, terms: &[Expr]) -> Result<Value, EvalError> {
    let mut failure = None;
    for term in terms {
        match evaluator.eval(term) {
            Ok(Value::Bool(value)) if value != all => return Ok(Value::Bool(value)),
            Ok(Value::Bool(_)) => {}
            Err(EvalError::TooCostly) => return Err(EvalError::TooCostly),
            Ok(_) => failure = failure.or(Some(EvalError::NoSuchOverload)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(Value::Bool(all)), Err)
}

fn list(evaluator: &mut Evaluator, entries: &[Element]) -> Result<Value, EvalError> {
    evaluator.charge(10)?;
    let mut list = Vec::with_capacity(entries.len());
    for entry in entries {
        list.extend(element(evaluator, entry)?);
    }
    Ok(Value::List(Arc::new(list)))
}

fn map(evaluator: &mut Evaluator, entries: &[(Expr, Element)]) -> Result<Value, EvalError> {
    evaluator.charge(30)?;
    let mut map = HashMap::with_capacity(entries.len());
    for (key, entry) in entries {
        let key = operators::as_key(&evaluator.eval(key)?)?;
        if let Some(value) = element(evaluator, entry)? {
            map.insert(key, value);
        }
    }
    Ok(Value::Map(Map { map: Arc::new(map) }))
}

fn element(evaluator: &mut Evaluator, entry: &Element) -> Result<Option<Value>, EvalError> {
    let value = evaluator.eval(&entry.value)?;
    if !entry.optional {
        return Ok(Some(value));
    }
    match optional(&value) {
        Some(inner) => Ok(inner.cloned()),
        None => Err(EvalError::NoSuchOverload),
    }
}

fn bind(evaluator: &mut Evaluator, how: Bind, variable: &str, value: &Expr, body: &Expr) -> Result<Value, EvalError> {
    let value = evaluator.eval(value)?;
    evaluator.charge(10)?;
    let Some(inner) = optional(&value) else { return Err(EvalError::NoSuchOverload) };
    let Some(inner) = inner.cloned() else { return Ok(none()) };
    let answer = evaluator.within(variable, inner, body)?;
    Ok(if how == Bind::OptMap { some(answer) } else { answer })
}
