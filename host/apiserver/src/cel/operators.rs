//! The operators of CEL on two values.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map, Opaque, OptionalValue};

use super::EvalError;

/// `+`, `-`, `*`, `/` and `%`.
pub(super) fn arithmetic(operator: &str, left: Value, right: Value) -> Result<Value, EvalError> {
    if let Some(list) = keyed(&left).filter(|_| operator == "_+_") {
        return match plain(right) {
            Value::List(other) => Ok(Value::Opaque(Arc::new(list.unite(&other)))),
            _ => Err(EvalError::NoSuchOverload),
        };
    }
    match (operator, left, plain(right)) {
        (_, Value::Int(left), Value::Int(right)) => integers(operator, left, right),
        (_, Value::UInt(left), Value::UInt(right)) => unsigned(operator, left, right),
        ("_+_", Value::Float(left), Value::Float(right)) => Ok(Value::Float(left + right)),
        ("_-_", Value::Float(left), Value::Float(right)) => Ok(Value::Float(left - right)),
        ("_*_", Value::Float(left), Value::Float(right)) => Ok(Value::Float(left * right)),
        ("_/_", Value::Float(left), Value::Float(right)) => Ok(Value::Float(left / right)),
        ("_+_", Value::String(left), Value::String(right)) => Ok(Value::String(Arc::new(format!("{left}{right}")))),
        ("_+_", Value::Bytes(left), Value::Bytes(right)) => Ok(Value::Bytes(Arc::new([&**left, &**right].concat()))),
        ("_+_", Value::List(left), Value::List(right)) => {
            Ok(Value::List(Arc::new(left.iter().chain(right.iter()).cloned().collect())))
        }
        ("_+_", left, right) => times(left + right),
        ("_-_", left, right) => times(left - right),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Sums and differences of times and durations, computed by the library.
fn times(answer: Result<Value, kube_cel::cel::ExecutionError>) -> Result<Value, EvalError> {
    answer.map_err(|error| match error {
        kube_cel::cel::ExecutionError::Overflow(..) => EvalError::Other("integer overflow".to_owned()),
        _ => EvalError::NoSuchOverload,
    })
}

fn integers(operator: &str, left: i64, right: i64) -> Result<Value, EvalError> {
    let answer = match operator {
        "_+_" => left.checked_add(right),
        "_-_" => left.checked_sub(right),
        "_*_" => left.checked_mul(right),
        "_/_" if right == 0 => return Err(EvalError::Other("division by zero".to_owned())),
        "_/_" => left.checked_div(right),
        _ if right == 0 => return Err(EvalError::Other("modulus by zero".to_owned())),
        _ => left.checked_rem(right),
    };
    answer.map(Value::Int).ok_or_else(|| EvalError::Other("integer overflow".to_owned()))
}

fn unsigned(operator: &str, left: u64, right: u64) -> Result<Value, EvalError> {
    let answer = match operator {
        "_+_" => left.checked_add(right),
        "_-_" => left.checked_sub(right),
        "_*_" => left.checked_mul(right),
        "_/_" if right == 0 => return Err(EvalError::Other("division by zero".to_owned())),
        "_/_" => left.checked_div(right),
        _ if right == 0 => return Err(EvalError::Other("modulus by zero".to_owned())),
        _ => left.checked_rem(right),
    };
    answer.map(Value::UInt).ok_or_else(|| EvalError::Other("unsigned integer overflow".to_owned()))
}

/// `<`, `<=`, `>` and `>=`.
pub(super) fn compares(operator: &str, left: &Value, right: &Value) -> Result<bool, EvalError> {
    let ordering = match (left, right) {
        (Value::Null, Value::Null) => return Err(EvalError::NoSuchOverload),
        (Value::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
        _ => left.partial_cmp(right),
    };
    let is_nan = |value: &Value| matches!(value, Value::Float(number) if number.is_nan());
    match ordering {
        None if is_nan(left) || is_nan(right) => Err(EvalError::Other("NaN values cannot be ordered".to_owned())),
        None => Err(EvalError::NoSuchOverload),
        Some(ordering) => Ok(match operator {
            "_<_" => ordering == Ordering::Less,
            "_<=_" => ordering != Ordering::Greater,
            "_>_" => ordering == Ordering::Greater,
            _ => ordering != Ordering::Less,
        }),
    }
}

/// The amount of data that a comparison with this value reads.
pub(super) fn weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10 + 1,
        Value::Bytes(bytes) => bytes.len() as u64 / 10 + 1,
        Value::List(list) => 1 + list.iter().map(weight).sum::<u64>(),
        Value::Opaque(_) => keyed(value).map_or(1, |list| 1 + list.items.iter().map(weight).sum::<u64>()),
        Value::Map(map) => 1 + map.map.values().map(weight).sum::<u64>(),
        _ => 1,
    }
}

/// The keys of a map in a fixed order.
pub(super) fn keys(map: &Map) -> Vec<Key> {
    let mut keys: Vec<Key> = map.map.keys().cloned().collect();
    keys.sort();
    keys
}

/// The value as a key of a map.
pub(super) fn as_key(value: &Value) -> Result<Key, EvalError> {
    match value {
        Value::Int(number) => Ok(Key::Int(*number)),
        Value::UInt(number) => Ok(Key::Uint(*number)),
        #[expect(clippy::cast_possible_truncation, reason = "only whole numbers within the range are converted")]
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Ok(Key::Int(*number as i64)),
        Value::Bool(flag) => Ok(Key::Bool(*flag)),
        Value::String(text) => Ok(Key::String(Arc::clone(text))),
        _ => Err(EvalError::Other("unsupported key type".to_owned())),
    }
}

/// A value as an error shows it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Float(number) => number.to_string(),
        other => other.type_of().to_string(),
    }
}

/// The content of an optional. The outer `None` means that the value is not an optional.
#[expect(clippy::option_option, reason = "an optional that is empty is not a value that is no optional")]
pub(super) fn optional(value: &Value) -> Option<Option<&Value>> {
    <&OptionalValue>::try_from(value).ok().map(OptionalValue::value)
}

pub(super) fn some(value: Value) -> Value {
    Value::Opaque(Arc::new(OptionalValue::of(value)))
}

pub(super) fn none() -> Value {
    Value::Opaque(Arc::new(OptionalValue::none()))
}

/// `container[key]`. For an optional, or with `?`, the result is an optional.
pub(super) fn lookup(container: &Value, key: &Value, is_optional: bool) -> Result<Value, EvalError> {
    if let Some(inner) = optional(container) {
        return match inner {
            None => Ok(none()),
            Some(inner) => lookup(inner, key, true),
        };
    }
    if let Some(list) = keyed(container) {
        return lookup(&Value::List(Arc::clone(&list.items)), key, is_optional);
    }
    let found = match container {
        Value::Map(map) => {
            let name = as_key(key)?;
            map.get(&name).cloned().ok_or_else(|| EvalError::Other(format!("no such key: {}", shown(key))))
        }
        Value::List(list) => {
            let index = match as_key(key)? {
                Key::Int(index) => usize::try_from(index).ok(),
                Key::Uint(index) => usize::try_from(index).ok(),
                _ => return Err(EvalError::NoSuchOverload),
            };
            let item = index.and_then(|index| list.get(index)).cloned();
            item.ok_or_else(|| EvalError::Other(format!("index out of bounds: {}", shown(key))))
        }
        _ => Err(EvalError::NoSuchOverload),
    };
    match found {
        Err(EvalError::Other(_)) if is_optional => Ok(none()),
        Ok(value) if is_optional => Ok(some(value)),
        found => found,
    }
}

/// A type as a value.
pub(super) fn type_value(name: &str) -> Value {
    Value::Function(Arc::new(name.to_owned()), None)
}

/// The type of a value, as a value.
pub(super) fn type_of(value: &Value) -> Value {
    type_value(match value {
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Function(..) => "type",
        Value::Opaque(opaque) => opaque.runtime_type_name(),
    })
}

/// A list of the type `set` or `map`: its items have an identity. The order does not matter for equality, and `+`
/// merges two such lists.
#[derive(Clone, Debug)]
pub(crate) struct KeyedList {
    pub(crate) items: Arc<Vec<Value>>,
    /// The fields that identify an item. Empty if the whole item is its identity.
    pub(crate) keys: Vec<String>,
}

impl KeyedList {
    fn identity(&self, item: &Value) -> Value {
        match item {
            Value::Map(map) if !self.keys.is_empty() => {
                let name = |key: &String| Key::String(Arc::new(key.clone()));
                let found = self.keys.iter().map(|key| map.map.get(&name(key)).cloned().unwrap_or(Value::Null));
                Value::List(Arc::new(found.collect()))
            }
            other => other.clone(),
        }
    }

    /// The items of both lists. If both have an item with the same identity, the item of `other` is used.
    fn unite(&self, other: &[Value]) -> KeyedList {
        let mut items = Vec::clone(&self.items);
        for new in other {
            let identity = self.identity(new);
            match items.iter_mut().find(|item| self.identity(item) == identity) {
                Some(place) => *place = new.clone(),
                None => items.push(new.clone()),
            }
        }
        KeyedList { items: Arc::new(items), keys: self.keys.clone() }
    }
}

impl PartialEq for KeyedList {
    fn eq(&self, other: &KeyedList) -> bool {
        self.items.len() == other.items.len() && self.items.iter().all(|item| other.items.contains(item))
    }
}

impl Eq for KeyedList {}

impl Opaque for KeyedList {
    fn runtime_type_name(&self) -> &'static str {
        "list"
    }
}

/// Stands for a value that does not have its declared type. An expression that reads it fails with this text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mistyped(pub(crate) &'static str);

impl Opaque for Mistyped {
    fn runtime_type_name(&self) -> &'static str {
        "error"
    }
}

/// Returns the value, or the error if it is a [`Mistyped`].
pub(super) fn typed(value: Value) -> Result<Value, EvalError> {
    match &value {
        Value::Opaque(opaque) => match opaque.downcast_ref() {
            Some(Mistyped(why)) => Err(EvalError::Other((*why).to_owned())),
            None => Ok(value),
        },
        _ => Ok(value),
    }
}

/// The value as a keyed list.
pub(super) fn keyed(value: &Value) -> Option<&KeyedList> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref(),
        _ => None,
    }
}

/// A keyed list as a plain list.
pub(super) fn plain(value: Value) -> Value {
    match keyed(&value) {
        Some(list) => Value::List(Arc::clone(&list.items)),
        None => value,
    }
}

/// Whether two values are equal.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (keyed(left), keyed(right), left, right) {
        (Some(list), None, _, Value::List(items)) => *list == KeyedList { items: Arc::clone(items), keys: Vec::new() },
        (None, Some(list), Value::List(items), _) => items == &list.items,
        _ => left == right,
    }
}
