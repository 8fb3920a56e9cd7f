//! Parses JSON down to a depth, and skips deeper values. `serde_json` refuses texts of 128 levels, but an object may
//! have more levels in a field that preserves unknown fields, and such an object must not become unreadable.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::object::pointer::SEGMENTS_MAX;

/// How many levels are read: as many as a pointer can have segments, and enough below them for a `LabelSelector`.
const LEVELS_MAX: usize = SEGMENTS_MAX + 8;

/// The JSON of `text`. Lists and objects that are deeper than pointers and selectors reach are empty.
///
/// # Errors
///
/// `text` is not JSON.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = ShallowValue { levels: LEVELS_MAX }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads a value, and keeps this many of its levels.
#[derive(Clone, Copy)]
struct ShallowValue {
    levels: usize,
}

impl<'de> DeserializeSeed<'de> for ShallowValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ShallowValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        let Some(levels) = self.levels.checked_sub(1) else {
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Object(kept));
        };
        while let Some(name) = fields.next_key()? {
            kept.insert(name, fields.next_value_seed(Self { levels })?);
        }
        Ok(Value::Object(kept))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        let Some(levels) = self.levels.checked_sub(1) else {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Array(kept));
        };
        while let Some(item) = items.next_element_seed(Self { levels })? {
            kept.push(item);
        }
        Ok(Value::Array(kept))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::pointer;

    #[test]
    fn a_value_of_usual_depth_is_read_whole() {
        let text = r#"{"a":[1,-2,1.5,1.0,true,null,"x\ny",{"b":{}}],"n":18446744073709551615,"a":[[]]}"#;
        assert_eq!(parse(text).expect("JSON"), serde_json::from_str::<Value>(text).expect("JSON"));
        for wrong in ["", "{", "{}{}", "[1,]"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn deeper_values_are_empty_and_the_rest_is_read() {
        let depth = 200_000;
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let body = parse(&format!(r#"{{"deep":{deep},"last":"x"}}"#)).expect("JSON");
            assert_eq!(body["last"], "x");
            let place = if open == "[" { "/0" } else { "/a" };
            let found = |segments: usize| pointer::values(&body, &format!("/deep{}", place.repeat(segments - 1)));
            assert_eq!((found(SEGMENTS_MAX).len(), found(depth).len()), (1, 0));
        }
    }
}
