//! Converts between the host's JSON and Starlark's values.

use std::fmt::{self, Write as _};

use starlark::values::dict::{AllocDict, DictRef};
use starlark::values::float::StarlarkFloat;
use starlark::values::list::ListRef;
use starlark::values::structs::StructRef;
use starlark::values::tuple::TupleRef;
use starlark::values::{Heap, Value, ValueLike as _};

use crate::arguments::wrong;

/// The most levels of nested lists and dicts, which is also the parser's limit.
const VALUE_DEPTH_MAX: usize = 128;

/// A value that JSON cannot represent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoJson {
    /// The place, as a JSON pointer.
    place: String,
    /// A description of the value.
    found: String,
}

impl fmt::Display for NoJson {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.place.is_empty() { "it" } else { &self.place };
        write!(out, "{place} is no JSON: {}", self.found)
    }
}

impl std::error::Error for NoJson {}

/// Converts a value to JSON. Structs become objects, and tuples become lists.
pub(crate) fn to_json(value: Value<'_>) -> Result<String, NoJson> {
    let mut writer = Writer { text: String::new(), place: Vec::new() };
    writer.value(value)?;
    Ok(writer.text)
}

struct Writer {
    text: String,
    /// The path of the current value in the whole value, outermost first.
    place: Vec<String>,
}

impl Writer {
    fn value(&mut self, value: Value<'_>) -> Result<(), NoJson> {
        if self.place.len() > VALUE_DEPTH_MAX {
            return Err(self.wrong(format!("more than {VALUE_DEPTH_MAX} levels of lists and dicts within each other")));
        }
        if value.is_none() {
            self.text.push_str("null");
        } else if let Some(holds) = value.unpack_bool() {
            self.text.push_str(if holds { "true" } else { "false" });
        } else if let Some(text) = value.unpack_str() {
            quoted(text, &mut self.text);
        } else if value.get_type() == "int" {
            let _ = write!(self.text, "{value}");
        } else if let Some(StarlarkFloat(number)) = value.downcast_ref::<StarlarkFloat>() {
            if !number.is_finite() {
                return Err(self.wrong(format!("the number {value}")));
            }
            let _ = write!(self.text, "{number:?}");
        } else if let Some(list) = ListRef::from_value(value) {
            self.list(list.iter())?;
        } else if let Some(tuple) = TupleRef::from_value(value) {
            self.list(tuple.iter())?;
        } else if let Some(dict) = DictRef::from_value(value) {
            self.object(dict.iter())?;
        } else if let Some(fields) = StructRef::from_value(value) {
            self.object(fields.iter().map(|(name, value)| (name.to_value(), value)))?;
        } else {
            return Err(self.wrong(format!("a value of type {}", value.get_type())));
        }
        Ok(())
    }

    fn list<'v>(&mut self, parts: impl Iterator<Item = Value<'v>>) -> Result<(), NoJson> {
        self.text.push('[');
        for (place, part) in parts.enumerate() {
            if place > 0 {
                self.text.push(',');
            }
            self.within(&place.to_string(), part)?;
        }
        self.text.push(']');
        Ok(())
    }

    fn object<'v>(&mut self, fields: impl Iterator<Item = (Value<'v>, Value<'v>)>) -> Result<(), NoJson> {
        self.text.push('{');
        for (place, (name, value)) in fields.enumerate() {
            let Some(name) = name.unpack_str() else {
                return Err(self.wrong(format!("it has the key {}, and only texts can be keys", name.to_repr())));
            };
            if place > 0 {
                self.text.push(',');
            }
            quoted(name, &mut self.text);
            self.text.push(':');
            self.within(name, value)?;
        }
        self.text.push('}');
        Ok(())
    }

    fn within(&mut self, name: &str, value: Value<'_>) -> Result<(), NoJson> {
        self.place.push(name.to_owned());
        self.value(value)?;
        self.place.pop();
        Ok(())
    }

    fn wrong(&self, found: String) -> NoJson {
        let escaped = self.place.iter().map(|name| name.replace('~', "~0").replace('/', "~1"));
        NoJson { place: escaped.fold(String::new(), |place, name| format!("{place}/{name}")), found }
    }
}

fn quoted(text: &str, out: &mut String) {
    // This cannot fail: a text can always be written as JSON.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// Reads JSON. `what` names the text in the message.
pub(crate) fn from_json<'v>(heap: Heap<'v>, text: &str, what: &str) -> anyhow::Result<Value<'v>> {
    let read: serde_json::Value =
        serde_json::from_str(text).map_err(|error| anyhow::anyhow!("{what} is no JSON: {error}"))?;
    value_of(heap, &read)
}

fn value_of<'v>(heap: Heap<'v>, read: &serde_json::Value) -> anyhow::Result<Value<'v>> {
    Ok(match read {
        serde_json::Value::Null => Value::new_none(),
        serde_json::Value::Bool(holds) => Value::new_bool(*holds),
        serde_json::Value::String(text) => heap.alloc(text.as_str()),
        serde_json::Value::Number(number) => number_of(heap, number)?,
        serde_json::Value::Array(parts) => {
            let parts: anyhow::Result<Vec<_>> = parts.iter().map(|part| value_of(heap, part)).collect();
            heap.alloc(parts?)
        }
        serde_json::Value::Object(fields) => {
            let mut values = Vec::with_capacity(fields.len());
            for (name, value) in fields {
                values.push((name.as_str(), value_of(heap, value)?));
            }
            heap.alloc(AllocDict(values))
        }
    })
}

fn number_of<'v>(heap: Heap<'v>, number: &serde_json::Number) -> anyhow::Result<Value<'v>> {
    let written = number.to_string();
    let is_whole = !written.contains(['.', 'e', 'E']);
    match number.as_f64() {
        // A whole number may have any size.
        _ if is_whole => Ok(heap.alloc(number)),
        Some(number) if number.is_finite() => Ok(heap.alloc(number)),
        _ => Err(anyhow::anyhow!("the number {written} is too large")),
    }
}

/// The value at a JSON pointer (RFC 6901).
pub(crate) fn at<'v>(object: Value<'v>, pointer: &str) -> starlark::Result<Option<Value<'v>>> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(wrong(format!("{pointer:?} is no JSON pointer: one begins with `/`, such as `/metadata/name`")));
    }
    let mut found = object;
    for name in pointer.split('/').skip(1) {
        let next = if let Some(dict) = DictRef::from_value(found) {
            dict.get_str(&name.replace("~1", "/").replace("~0", "~"))
        } else if let (Some(list), Ok(place)) = (ListRef::from_value(found), name.parse::<usize>()) {
            list.content().get(place).copied()
        } else {
            None
        };
        let Some(next) = next else { return Ok(None) };
        found = next;
    }
    Ok(Some(found))
}

/// Whether `object` contains everything in `wanted`: each field of a dict, and for each element of a list an element
/// that contains it. Fields that other clients have added are ignored.
pub(crate) fn has_fields<'v>(object: Value<'v>, wanted: Value<'v>) -> starlark::Result<bool> {
    has_within(object, wanted, VALUE_DEPTH_MAX)
}

fn has_within<'v>(object: Value<'v>, wanted: Value<'v>, deepest: usize) -> starlark::Result<bool> {
    // A list or a dict may contain itself.
    let Some(deepest) = deepest.checked_sub(1) else {
        return Err(wrong("the argument of has_fields is nested too deeply"));
    };
    if let Some(wanted) = DictRef::from_value(wanted) {
        let Some(object) = DictRef::from_value(object) else { return Ok(false) };
        for (name, wanted) in wanted.iter() {
            match object.get(name)? {
                Some(value) if has_within(value, wanted, deepest)? => {}
                _ => return Ok(false),
            }
        }
        return Ok(true);
    }
    if let Some(wanted) = ListRef::from_value(wanted) {
        let Some(elements) = ListRef::from_value(object) else { return Ok(false) };
        for wanted in wanted.iter() {
            let mut found = false;
            for element in elements.iter() {
                found = found || has_within(element, wanted, deepest)?;
            }
            if !found {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    object.equals(wanted)
}
