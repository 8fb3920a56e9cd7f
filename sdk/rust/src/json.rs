//! Reads JSON into a plugin's types, and says where it does not fit them.
//!
//! `serde_json` names a line and a column of a document that no author sees. They lead to the value's path, which is looked
//! for only once a document does not fit: reading costs what it did, and no type of a plugin's brings code of its own.

use serde::de::DeserializeOwned;

use crate::error::JsonError;

/// Reads a document, which errors name by `what`.
pub(crate) fn read<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, JsonError> {
    serde_json::from_str(text).map_err(|error| JsonError::reading(what, misfit(text, &error), error))
}

/// The error of reading `text`: `.spec.message: a number where text is wanted`.
pub(crate) fn misfit(text: &str, error: &serde_json::Error) -> String {
    let whole = error.to_string();
    if !error.is_data() || error.line() == 0 {
        return whole;
    }
    let reason = whole.rsplit_once(" at line ").map_or(&*whole, |(reason, _)| reason);
    let before: usize = text.split_inclusive('\n').take(error.line() - 1).map(str::len).sum();
    let path = path_at(text, before + error.column());
    let reason = type_mismatch(reason).unwrap_or_else(|| reason.to_owned());
    if path.is_empty() { reason } else { format!("{path}: {reason}") }
}

/// Serde's words for a value of another type, in those of JSON, and without the value: it may be a Secret's.
fn type_mismatch(reason: &str) -> Option<String> {
    let (found, wanted) = reason.strip_prefix("invalid type: ")?.rsplit_once(", expected ")?;
    let found = match found.split(' ').next()? {
        "integer" => "a number",
        "floating" => "a fraction",
        "string" => "text",
        "boolean" => "a boolean",
        "sequence" => "a list",
        "map" => "an object",
        other => other,
    };
    let wanted = match wanted {
        "a string" | "a borrowed string" => "text",
        "a sequence" => "a list",
        "a map" => "an object",
        "f32" | "f64" => "a number",
        "i8" | "i16" | "i32" | "i64" | "isize" | "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        structure if structure.starts_with("struct ") => "an object",
        other => other,
    };
    Some(format!("{found} where {wanted} is wanted"))
}

/// An object or a list that the reader is in, by what it has come to there.
enum Step<'a> {
    /// A key in its quotes; empty before the next one.
    Field(&'a str),
    /// The index of an item.
    Item(usize),
}

/// The path of the value that a reader is at, or has just read, after `end` bytes. Empty: the whole document.
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
    steps.iter().map(step_text).collect()
}

/// The text in quotes that `rest` begins with.
fn quoted(rest: &str) -> &str {
    let mut escaped = true;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        // The quote that begins it counts as escaped.
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(rest, |end| &rest[..=end])
}

fn step_text(step: &Step) -> String {
    match step {
        Step::Field("") => String::new(),
        Step::Field(key) => {
            let name = key.trim_matches('"');
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            if !name.is_empty() && name.bytes().all(is_plain) { format!(".{name}") } else { format!("[{key}]") }
        }
        Step::Item(index) => format!("[{index}]"),
    }
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

    fn said(document: &serde_json::Value) -> String {
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
            assert_eq!(said(&json!({"kind": "a {\\\" shop", "spec": spec})), expected);
        }
    }

    #[test]
    fn other_mistakes_are_named_by_their_path_too() {
        let ports = json!({"spec": {"ports": [{"number": 1}, {}], "message": ""}});
        assert_eq!(said(&ports), ".spec.ports[1]: missing field `number`");
        assert_eq!(said(&json!({"kind": "Shop"})), "missing field `spec`");
        assert!(
            said(&json!({"spec": {"size": 300}})).starts_with(".spec.size: invalid value: integer `300`, expected u8")
        );
        assert!(said(&json!({"spec": {"mesage": 1}})).starts_with(".spec.mesage: unknown field `mesage`, expected"));
        assert_eq!(said(&json!(7)), "a number where an object is wanted");
    }

    #[test]
    fn a_text_that_is_no_json_is_told_with_its_place() {
        let error = read::<Shop>("the configuration", "{\"spec\": ").unwrap_err();
        assert_eq!(error.to_string(), "the configuration: EOF while parsing a value at line 1 column 9");
    }
}
