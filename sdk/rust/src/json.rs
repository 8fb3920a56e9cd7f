//! Reads JSON into a plugin's types, and names the value that does not fit them.
//!
//! `serde_json` reports a line and a column of a document that the author never sees. This module converts them to the
//! value's path. It searches for the path only if a document does not fit, so a successful read costs no more, and a
//! plugin's types add no code.

use serde::de::DeserializeOwned;

use crate::error::JsonError;

/// Reads a document, which errors call `what`.
pub(crate) fn read<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, JsonError> {
    serde_json::from_str(text).map_err(|error| refused(what, text, error))
}

/// A single function for all types, to keep components small.
#[cold]
#[inline(never)]
fn refused(what: &'static str, text: &str, error: serde_json::Error) -> JsonError {
    JsonError::reading(what, misfit(text, &error), error)
}

/// The error of reading `text`: `.spec.message: a number where text is wanted`.
pub(crate) fn misfit(text: &str, error: &serde_json::Error) -> String {
    let mut reason = error.to_string();
    if !error.is_data() || error.line() == 0 {
        return reason;
    }
    let (line, column) = (error.line(), error.column());
    let place = format!(" at line {line} column {column}").len();
    reason.truncate(reason.len().saturating_sub(place));
    let mut found = path_at(text, line_start(text, line) + column);
    if !found.is_empty() {
        found.push_str(": ");
    }
    let words = match type_mismatch(&reason) {
        Some((found, wanted)) => [found, " where ", wanted, " is wanted"],
        None => [&*reason, "", "", ""],
    };
    for word in words {
        found.push_str(word);
    }
    found
}

/// The offset at which a line begins. Lines count from 1.
fn line_start(text: &str, line: usize) -> usize {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
    ends.take(line - 1).last().unwrap_or(0)
}

/// The actual type and the wanted one, if they differ, in JSON's terms instead of serde's. The value is left out,
/// because it may come from a Secret. (Searching for a text would make each component a kilobyte larger.)
fn type_mismatch(reason: &str) -> Option<(&str, &str)> {
    const EXPECTED: &str = ", expected ";
    const FOUND: [(&str, &str); 6] = [
        ("integer", "a number"),
        ("floating", "a fraction"),
        ("string", "text"),
        ("boolean", "a boolean"),
        ("sequence", "a list"),
        ("map", "an object"),
    ];
    let reason = reason.strip_prefix("invalid type: ")?;
    let at = (0..reason.len()).rev().find(|&at| reason.as_bytes()[at..].starts_with(EXPECTED.as_bytes()))?;
    let (found, wanted) = (&reason[..at], &reason[at + EXPECTED.len()..]);
    let found = FOUND.iter().find(|(begin, _)| found.starts_with(begin)).map_or(found, |(_, words)| words);
    let wanted = match wanted {
        "a string" | "a borrowed string" => "text",
        "a sequence" => "a list",
        "a map" => "an object",
        "f32" | "f64" => "a number",
        "i8" | "i16" | "i32" | "i64" | "isize" | "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        structure if structure.starts_with("struct ") => "an object",
        other => other,
    };
    Some((found, wanted))
}

/// An object or a list that contains the reader's position, and the place within it.
enum Step<'a> {
    /// The current key in its quotes; empty before the next key.
    Field(&'a str),
    /// The index of the current item.
    Item(usize),
}

/// The path of the value that a reader is at, or has just read, after `end` bytes. It is empty for the whole document.
fn path_at(text: &str, end: usize) -> String {
    let text = text.get(..end).unwrap_or(text);
    let mut steps: Vec<Step> = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        match (byte, steps.last_mut()) {
            (b'{', _) => steps.push(Step::Field("")),
            (b'[', _) => steps.push(Step::Item(0)),
            (b'}' | b']', _) => {
                steps.pop();
            }
            (b',', Some(Step::Item(index))) => *index += 1,
            (b',', Some(Step::Field(key))) => *key = "",
            (b'"', step) => {
                let quoted = quoted(&text[at..]);
                if let Some(Step::Field(key @ "")) = step {
                    *key = quoted;
                }
                at += quoted.len() - 1;
            }
            _ => {}
        }
        at += 1;
    }
    let mut path = String::new();
    for step in &steps {
        push(&mut path, step);
    }
    path
}

/// The text in quotes at the beginning of `rest`.
fn quoted(rest: &str) -> &str {
    let mut escaped = true;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        // The opening quote is treated as escaped, so that the text does not end there.
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(rest, |end| &rest[..=end])
}

fn push(path: &mut String, step: &Step) {
    let (begin, name, end) = match step {
        Step::Field("") => return,
        Step::Field(key) if is_plain(&key[1..key.len() - 1]) => (".", &key[1..key.len() - 1], ""),
        Step::Field(key) => ("[", *key, "]"),
        Step::Item(index) => ("[", &*index.to_string(), "]"),
    };
    for part in [begin, name, end] {
        path.push_str(part);
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Spec {
        message: String,
        ports: Vec<Port>,
        labels: BTreeMap<String, String>,
        size: Option<u8>,
        part: Option<BTreeMap<String, bool>>,
        weight: f64,
    }

    #[derive(Debug, Deserialize)]
    struct Port {
        #[serde(rename = "number")]
        _number: i32,
    }

    #[derive(Debug, Deserialize)]
    struct Shop {
        #[serde(rename = "spec")]
        _spec: Spec,
    }

    fn error_of(document: &serde_json::Value) -> String {
        let compact = read::<Shop>("the primary", &document.to_string()).unwrap_err().to_string();
        let pretty = read::<Shop>("the primary", &serde_json::to_string_pretty(document).unwrap()).unwrap_err();
        assert_eq!(compact, pretty.to_string(), "the layout does not matter");
        compact.strip_prefix("the primary: ").unwrap().to_owned()
    }

    #[test]
    fn a_value_of_another_type_is_named_by_its_path() {
        for (spec, expected) in [
            (json!({"message": 7}), ".spec.message: a number where text is wanted"),
            (json!({"weight": 1, "message": [1, {"a": "b"}]}), ".spec.message: a list where text is wanted"),
            (json!({"message": {"a": 1}}), ".spec.message: an object where text is wanted"),
            (json!({"message": null}), ".spec.message: null where text is wanted"),
            (json!({"message": true, "size": 1}), ".spec.message: a boolean where text is wanted"),
            (json!({"size": "7, expected }"}), ".spec.size: text where a whole number is wanted"),
            (json!({"size": 1.5}), ".spec.size: a fraction where a whole number is wanted"),
            (json!({"weight": "1"}), ".spec.weight: text where a number is wanted"),
            (json!({"ports": {"number": 1}}), ".spec.ports: an object where a list is wanted"),
            (
                json!({"ports": [{"number": 1}, {"number": "80"}]}),
                ".spec.ports[1].number: text where a whole number is wanted",
            ),
            (json!({"ports": [{"number": 1}, 80]}), ".spec.ports[1]: a number where an object is wanted"),
            (json!({"part": {"a\"]}": false, "b": 1}}), ".spec.part.b: a number where a boolean is wanted"),
            (
                json!({"labels": {"app.kubernetes.io/name": 1}}),
                r#".spec.labels["app.kubernetes.io/name"]: a number where text is wanted"#,
            ),
        ] {
            assert_eq!(error_of(&json!({"kind": "a {\\\" shop", "spec": spec})), expected);
        }
    }

    #[test]
    fn other_mistakes_are_named_by_their_path_too() {
        let ports = json!({"spec": {"ports": [{"number": 1}, {}], "message": ""}});
        assert_eq!(error_of(&ports), ".spec.ports[1]: missing field `number`");
        assert_eq!(error_of(&json!({"kind": "Shop"})), "missing field `spec`");
        assert!(
            error_of(&json!({"spec": {"size": 300}}))
                .starts_with(".spec.size: invalid value: integer `300`, expected u8")
        );
        assert!(
            error_of(&json!({"spec": {"mesage": 1}})).starts_with(".spec.mesage: unknown field `mesage`, expected")
        );
        assert_eq!(error_of(&json!(7)), "a number where an object is wanted");
    }

    #[test]
    fn invalid_json_is_reported_with_its_place() {
        let error = read::<Shop>("the configuration", "{\"spec\": ").unwrap_err();
        assert_eq!(error.to_string(), "the configuration: EOF while parsing a value at line 1 column 9");
    }
}
