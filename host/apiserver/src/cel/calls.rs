//! Evaluates calls: operators, functions that need the evaluator, and functions of the library.

use std::sync::Arc;

use kube_cel::cel::Value;

use super::ast::Expr;
use super::evaluator::Evaluator;
use super::{EvalError, declarations, library, operators};

/// Evaluates one call.
pub(super) fn call(
    evaluator: &mut Evaluator,
    target: Option<&Expr>,
    function: &str,
    args: &[Expr],
) -> Result<Value, EvalError> {
    match (function, target, args) {
        ("_?_:_", None, [condition, then, otherwise]) => match evaluator.eval(condition)? {
            Value::Bool(true) => evaluator.eval(then),
            Value::Bool(false) => evaluator.eval(otherwise),
            _ => Err(EvalError::NoSuchOverload),
        },
        ("or" | "orValue", Some(target), [other]) => {
            let value = evaluator.eval(target)?;
            evaluator.charge(1)?;
            match operators::optional(&value) {
                None => Err(EvalError::NoSuchOverload),
                Some(None) => evaluator.eval(other),
                Some(Some(inner)) if function == "orValue" => Ok(inner.clone()),
                Some(Some(_)) => Ok(value),
            }
        }
        // The name before a function may be its package, as in `math.greatest(…)`.
        _ => {
            let package = target.and_then(|target| declarations::package(target, function));
            if let Some(name) = package {
                let args = values(evaluator, args)?;
                return plain(evaluator, &name, None, args);
            }
            let target = target.map(|target| evaluator.eval(target)).transpose()?;
            let args = values(evaluator, args)?;
            match (&target, args.as_slice()) {
                (None, [_, _]) if is_operator(function) => operator(evaluator, function, args),
                _ => plain(evaluator, function, target, args),
            }
        }
    }
}

fn values(evaluator: &mut Evaluator, args: &[Expr]) -> Result<Vec<Value>, EvalError> {
    args.iter().map(|arg| evaluator.eval(arg)).collect()
}

fn is_operator(function: &str) -> bool {
    function.starts_with('_') || function == "@in"
}

fn operator(evaluator: &mut Evaluator, function: &str, args: Vec<Value>) -> Result<Value, EvalError> {
    let Ok([left, right]) = <[Value; 2]>::try_from(args) else { return Err(EvalError::NoSuchOverload) };
    let right = if function == "@in" { operators::plain(right) } else { right };
    match function {
        "_==_" | "_!=_" => {
            evaluator.charge(1 + operators::weight(&left).min(operators::weight(&right)))?;
            // Lists without a defined order are compared item by item: each item with every item of the other list.
            if let Some(list) = operators::keyed(&left) {
                evaluator.charge((list.items.len() as u64).saturating_mul(operators::weight(&right)))?;
            }
            Ok(Value::Bool(operators::equal(&left, &right) == (function == "_==_")))
        }
        "_<_" | "_<=_" | "_>_" | "_>=_" => {
            evaluator.charge(operators::weight(&left).min(operators::weight(&right)))?;
            operators::compares(function, &left, &right).map(Value::Bool)
        }
        "@in" => match &right {
            Value::List(list) => {
                evaluator.charge(1 + (list.len() as u64).saturating_mul(operators::weight(&left)))?;
                Ok(Value::Bool(list.contains(&left)))
            }
            Value::Map(map) => {
                evaluator.charge(1)?;
                Ok(Value::Bool(operators::as_key(&left).is_ok_and(|key| map.get(&key).is_some())))
            }
            _ => Err(EvalError::NoSuchOverload),
        },
        "_[_]" | "_[?_]" => {
            evaluator.charge(1)?;
            operators::lookup(&left, &right, function == "_[?_]")
        }
        _ => {
            let texts = |value: &Value| match value {
                Value::List(list) => list.len() as u64 / 10,
                Value::Opaque(_) | Value::String(_) | Value::Bytes(_) => operators::weight(value),
                _ => 0,
            };
            let both = if operators::keyed(&left).is_some() { operators::weight(&left) } else { 1 };
            evaluator.charge((1 + texts(&left) + texts(&right)).saturating_mul(both))?;
            operators::arithmetic(function, left, right)
        }
    }
}

/// Calls a function after its arguments have been evaluated.
fn plain(
    evaluator: &mut Evaluator,
    function: &str,
    target: Option<Value>,
    args: Vec<Value>,
) -> Result<Value, EvalError> {
    let target = target.map(operators::plain);
    let mut args: Vec<Value> = args.into_iter().map(operators::plain).collect();
    evaluator.charge(cost(function, target.as_ref(), &args))?;
    match (function, &target, args.as_slice()) {
        ("!_", None, [Value::Bool(value)]) => Ok(Value::Bool(!value)),
        ("-_", None, [Value::Int(number)]) => {
            number.checked_neg().map(Value::Int).ok_or_else(|| EvalError::Other("integer overflow".to_owned()))
        }
        ("-_", None, [Value::Float(number)]) => Ok(Value::Float(-number)),
        ("type", None, [value]) => Ok(operators::type_of(value)),
        ("string", None, [Value::Duration(duration)]) => {
            #[expect(clippy::cast_precision_loss, reason = "cel-go divides as a float too")]
            let seconds = duration.num_nanoseconds().unwrap_or(i64::MAX) as f64 / 1e9;
            Ok(Value::String(Arc::new(format!("{seconds}s"))))
        }
        ("int" | "uint" | "double", None, [Value::String(_)]) => library::call(function, target, args)
            .map_err(|_| EvalError::Other(format!("type conversion error from 'string' to '{function}'"))),
        ("quantity", None, [Value::String(text)]) if is_beyond_reach(text) => {
            Err(EvalError::Other("quantity is beyond what this server computes with".to_owned()))
        }
        ("dyn", None, [_]) => args.pop().ok_or(EvalError::NoSuchOverload),
        ("size", None, [Value::String(text)]) | ("size", Some(Value::String(text)), []) => {
            Ok(Value::Int(i64::try_from(text.chars().count()).unwrap_or(i64::MAX)))
        }
        ("bool", None, [value]) => truth(value),
        ("string", None, [Value::Bool(value)]) => Ok(Value::String(Arc::new(value.to_string()))),
        ("string", None, [Value::Timestamp(_)]) => {
            let text = library::call(function, target, args)?;
            Ok(match &text {
                Value::String(text) => Value::String(Arc::new(text.replace("+00:00", "Z"))),
                _ => text,
            })
        }
        ("matches", Some(Value::String(text)), [Value::String(pattern)])
        | ("matches", None, [Value::String(text), Value::String(pattern)]) => {
            Ok(Value::Bool(evaluator.pattern(pattern)?.is_match(text)))
        }
        ("find", Some(Value::String(text)), [Value::String(pattern)]) => {
            let found = evaluator.pattern(pattern)?.find(text).map_or("", |found| found.as_str()).to_owned();
            Ok(Value::String(Arc::new(found)))
        }
        ("findAll", Some(Value::String(text)), [Value::String(pattern), rest @ ..]) => {
            let most = match rest {
                [Value::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let regex = evaluator.pattern(pattern)?;
            Ok(Value::from(regex.find_iter(text).take(most).map(|found| found.as_str()).collect::<Vec<_>>()))
        }
        _ => library::call(function, target, args),
    }
}

fn truth(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(EvalError::Other("type conversion error from 'string' to 'bool'".to_owned())),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// The cost of a function: by default, one step plus the size of its arguments. Functions that do more work, or return
/// more, cost more.
fn cost(function: &str, target: Option<&Value>, args: &[Value]) -> u64 {
    let given = || target.into_iter().chain(args);
    let product = || given().map(operators::weight).fold(1, u64::saturating_mul);
    match function {
        "size" | "!_" | "-_" | "dyn" => 1,
        "contains" | "replace" | "matches" | "find" | "findAll" | "sets.contains" | "sets.intersects"
        | "sets.equivalent" | "distinct" => product(),
        "lists.range" => match args {
            [Value::Int(count)] => u64::try_from(*count).unwrap_or(1),
            _ => 1,
        },
        _ => 1 + given().map(operators::weight).sum::<u64>(),
    }
}

/// Whether a quantity is so large or so precise that a sum in the library would overflow. False for an invalid
/// quantity, which the library itself reports.
fn is_beyond_reach(text: &str) -> bool {
    let number = text.trim_start_matches(['+', '-']);
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let (number, suffix) = number.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let power = match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "k" | "Ki" => 4,
        "M" | "Mi" => 7,
        "G" | "Gi" => 10,
        "T" | "Ti" => 13,
        "P" | "Pi" => 16,
        "E" | "Ei" => 19,
        "" => 0,
        _ => suffix.get(1..).and_then(|power| power.parse::<i64>().ok()).unwrap_or_default(),
    };
    let length = |digits: &str| i64::try_from(digits.len()).unwrap_or(i64::MAX);
    power.saturating_add(length(whole.trim_start_matches('0'))) > 20 || length(fraction).saturating_sub(power) > 18
}

#[cfg(test)]
mod tests {
    use super::is_beyond_reach;

    #[test]
    fn usual_quantities_are_in_the_supported_range() {
        for text in ["0", "1n", "-1.5Gi", "9E", "1Ei", "1e3", "12E-6", "100m", "0.000000001", "none", ""] {
            assert!(!is_beyond_reach(text), "{text}");
        }
        for text in ["1e30", "1E-30", "123456789012345678901", "100E", "1e9999", "0.0000000000000000001"] {
            assert!(is_beyond_reach(text), "{text}");
        }
    }
}
