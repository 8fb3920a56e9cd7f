//! Evaluates comprehensions, such as `all` and `map`.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map};

use super::ast::{Expr, Loop, Macro};
use super::evaluator::Evaluator;
use super::{EvalError, operators};

/// Evaluates one comprehension.
pub(super) fn run(evaluator: &mut Evaluator, found: &Loop) -> Result<Value, EvalError> {
    let range = operators::plain(evaluator.eval(&found.range)?);
    evaluator.charge(1)?;
    let items = &items(&range)?;
    match found.macro_name {
        Macro::All => decide(evaluator, found, items, true),
        Macro::Exists => decide(evaluator, found, items, false),
        Macro::ExistsOne => {
            let mut fitting = 0;
            for item in items {
                fitting += u32::from(truth(evaluator, found, item, &found.body)?);
            }
            Ok(Value::Bool(fitting == 1))
        }
        Macro::Filter => {
            evaluator.charge(10)?;
            let mut kept = Vec::new();
            for item in items {
                if truth(evaluator, found, item, &found.body)? {
                    kept.push(item.single.clone());
                }
            }
            Ok(Value::List(Arc::new(kept)))
        }
        Macro::Map | Macro::TransformList => {
            let pairs = transform(evaluator, found, items)?;
            Ok(Value::List(Arc::new(pairs.into_iter().map(|(_, value)| value).collect())))
        }
        Macro::TransformMap => {
            let mut map = HashMap::new();
            for (key, value) in transform(evaluator, found, items)? {
                map.insert(operators::as_key(&key)?, value);
            }
            Ok(Value::Map(Map { map: Arc::new(map) }))
        }
        Macro::TransformMapEntry => entries(evaluator, found, items),
        Macro::SortBy => sort(evaluator, found, items),
    }
}

/// The values bound in one iteration.
struct Item {
    /// The variable of the one-variable forms: the item of a list, or the key of a map.
    single: Value,
    /// The variables of the two-variable forms: index and item, or key and value.
    pair: (Value, Value),
}

fn items(range: &Value) -> Result<Vec<Item>, EvalError> {
    match range {
        Value::List(list) => {
            let numbers = (0_i64..).map(Value::Int);
            Ok(numbers
                .zip(list.iter())
                .map(|(at, item)| Item { single: item.clone(), pair: (at, item.clone()) })
                .collect())
        }
        Value::Map(map) => {
            let item = |key: Key| {
                let value = map.map.get(&key).cloned().unwrap_or(Value::Null);
                Item { single: Value::from(&key), pair: (Value::from(key), value) }
            };
            Ok(operators::keys(map).into_iter().map(item).collect())
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Evaluates the expression `part` of the loop for one item.
fn round(evaluator: &mut Evaluator, found: &Loop, item: &Item, part: &Expr) -> Result<Value, EvalError> {
    evaluator.charge(3)?;
    let Some(second) = &found.second else { return evaluator.within(&found.variable, item.single.clone(), part) };
    evaluator.scope.push((found.variable.clone(), item.pair.0.clone()));
    let answer = evaluator.within(second, item.pair.1.clone(), part);
    evaluator.scope.pop();
    answer
}

fn truth(evaluator: &mut Evaluator, found: &Loop, item: &Item, part: &Expr) -> Result<bool, EvalError> {
    match round(evaluator, found, item, part)? {
        Value::Bool(value) => Ok(value),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Evaluates `all` and `exists`. An error in one item counts only if no other item decides the result.
fn decide(evaluator: &mut Evaluator, found: &Loop, items: &[Item], all: bool) -> Result<Value, EvalError> {
    let mut failure = None;
    for item in items {
        match truth(evaluator, found, item, &found.body) {
            Ok(value) if value != all => return Ok(Value::Bool(value)),
            Ok(_) => {}
            Err(EvalError::TooCostly) => return Err(EvalError::TooCostly),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(Value::Bool(all)), Err)
}

/// The values of the body for all items that pass the filter, each with the value of the first variable.
fn transform(evaluator: &mut Evaluator, found: &Loop, items: &[Item]) -> Result<Vec<(Value, Value)>, EvalError> {
    evaluator.charge(10)?;
    let mut answers = Vec::new();
    for item in items {
        let fits = found.filter.as_ref().map_or(Ok(true), |filter| truth(evaluator, found, item, filter))?;
        if fits {
            // cel-go appends each item as a list of one item. This is the cost of that.
            evaluator.charge(10)?;
            answers.push((item.pair.0.clone(), round(evaluator, found, item, &found.body)?));
        }
    }
    Ok(answers)
}

fn entries(evaluator: &mut Evaluator, found: &Loop, items: &[Item]) -> Result<Value, EvalError> {
    let mut map: HashMap<Key, Value> = HashMap::new();
    for (_, entry) in transform(evaluator, found, items)? {
        let Value::Map(entry) = entry else { return Err(EvalError::NoSuchOverload) };
        for (key, value) in entry.map.iter() {
            if map.insert(key.clone(), value.clone()).is_some() {
                let shown = operators::shown(&Value::from(key));
                return Err(EvalError::Other(format!("insert failed: key {shown} already exists")));
            }
        }
    }
    Ok(Value::Map(Map { map: Arc::new(map) }))
}

fn sort(evaluator: &mut Evaluator, found: &Loop, items: &[Item]) -> Result<Value, EvalError> {
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        keyed.push((round(evaluator, found, item, &found.body)?, item.single.clone()));
    }
    evaluator.charge(keyed.iter().map(|(key, _)| operators::weight(key)).sum())?;
    let comparable = keyed.windows(2).all(|pair| match pair {
        [(one, _), (other, _)] => operators::compares("_<_", one, other).is_ok(),
        _ => true,
    });
    if !comparable {
        return Err(EvalError::NoSuchOverload);
    }
    keyed.sort_by(|(one, _), (other, _)| one.partial_cmp(other).unwrap_or(Ordering::Equal));
    Ok(Value::List(Arc::new(keyed.into_iter().map(|(_, value)| value).collect())))
}
