//! Finds duplicate keys, and the order of fields, in the text of a JSON body: a parsed body does not show them.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The problems of strict decoding, in the order of the body: duplicate fields, and the `unknown` fields, which other
/// code has found. If the body is not JSON, the unknown fields come at the end.
pub(crate) fn problems(body: &[u8], unknown: &[String]) -> Vec<String> {
    let mut scan = Scan {
        path: String::new(),
        unknown: unknown.iter().map(String::as_str).collect(),
        lines: Vec::new(),
        reported: HashSet::new(),
    };
    let mut reader = serde_json::Deserializer::from_slice(body);
    // An error is ignored: the body has another format, or was already refused.
    let _is_json = (&mut scan).deserialize(&mut reader);
    let rest = unknown.iter().map(|field| format!("unknown field {field:?}"));
    let (lines, reported) = (scan.lines, scan.reported);
    let rest: Vec<String> = rest.filter(|line| !reported.contains(line)).collect();
    lines.into_iter().chain(rest).collect()
}

struct Scan<'a> {
    path: String,
    unknown: BTreeSet<&'a str>,
    lines: Vec<String>,
    reported: HashSet<String>,
}

impl Scan<'_> {
    fn report(&mut self, what: &str) {
        let line = format!("{what} field {:?}", self.path);
        if self.reported.insert(line.clone()) {
            self.lines.push(line);
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Scan<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Scan<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let length = self.path.len();
            let dot = if length == 0 { "" } else { "." };
            self.path.push_str(dot);
            self.path.push_str(&key);
            if self.unknown.contains(self.path.as_str()) {
                self.report("unknown");
                map.next_value::<IgnoredAny>()?;
            } else {
                if !seen.insert(key) {
                    self.report("duplicate");
                }
                map.next_value_seed(&mut *self)?;
            }
            self.path.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let length = self.path.len();
        for index in 0_usize.. {
            self.path.push('[');
            self.path.push_str(&index.to_string());
            self.path.push(']');
            let item = list.next_element_seed(&mut *self)?;
            self.path.truncate(length);
            if item.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_and_unknown_fields_are_reported_in_body_order() {
        let body =
            br#"{"z": 1, "spec": {"b": 1, "b": 2, "list": [{"a": 1}, {"a": 1, "a": 2}], "x": {"y": 1, "y": 1}}}"#;
        let lines = problems(body, &["spec.x".to_owned(), "z".to_owned()]);
        let expected = [
            "unknown field \"z\"",
            "duplicate field \"spec.b\"",
            "duplicate field \"spec.list[1].a\"",
            "unknown field \"spec.x\"",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn only_unknown_fields_are_reported_for_other_formats_than_json() {
        assert_eq!(problems(b"a: 1", &["a".to_owned()]), ["unknown field \"a\""]);
    }
}
