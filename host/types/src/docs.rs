//! The lines of documentation comments.

use serde_json::Value;
use windlass_core::deceptive;

/// The longest default, in bytes of JSON, that documentation shows.
const DEFAULT_BYTES_MAX: usize = 200;

/// The longest line of documentation, unless a word is longer.
const LINE_WIDTH: usize = 100;

/// The lines of a schema's description, without blank lines at both ends. Long lines are wrapped, except in examples.
/// Characters that could deceive a reader are escaped. Compilers refuse some of them.
pub(crate) fn lines(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
    let text = deceptive::escape(&text).into_owned();
    let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    let blank = lines.iter().take_while(|line| line.is_empty()).count();
    lines.drain(..blank);
    let mut is_example = false;
    let wrapped = lines.iter().flat_map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_example ^= is_fence;
        if is_fence || is_example || line.starts_with("    ") { vec![line.clone()] } else { wrapped(line) }
    });
    wrapped.collect()
}

/// Breaks a line at blanks. Each part has the indentation of the line.
fn wrapped(line: &str) -> Vec<String> {
    let indent = &line[..line.len() - line.trim_start().len()];
    let (mut parts, mut part) = (Vec::new(), String::new());
    for word in line.split_whitespace() {
        if !part.is_empty() && part.chars().count() + 1 + word.chars().count() > LINE_WIDTH {
            parts.push(std::mem::take(&mut part));
        }
        part.push_str(if part.is_empty() { indent } else { " " });
        part.push_str(word);
    }
    parts.push(part);
    parts
}

/// The documentation of a field: its description, and the facts that a type does not show.
pub(crate) fn of_field(schema: &Value, default: Option<&Value>) -> Vec<String> {
    let mut found = lines(schema["description"].as_str().unwrap_or_default());
    let mut facts = Vec::new();
    let default = default.map(Value::to_string).filter(|json| json.len() <= DEFAULT_BYTES_MAX);
    facts.extend(default.map(|json| format!("Default: `{}`.", deceptive::escape_json(&json))));
    if schema["format"] == "byte" {
        facts.push("The text is Base64.".to_owned());
    }
    let values = schema["enum"].as_array().filter(|values| values.iter().any(|value| !value.is_string()));
    if let Some(values) = values {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        let values: Vec<String> = values.iter().map(|json| format!("`{}`", deceptive::escape_json(json))).collect();
        facts.push(format!("One of {}.", values.join(", ")));
    }
    if !found.is_empty() && !facts.is_empty() {
        found.push(String::new());
    }
    found.extend(facts);
    found
}

/// Writes each line as a comment that begins with `prefix`. Blank lines have no trailing blanks.
pub(crate) fn comment(into: &mut String, prefix: &str, lines: &[String]) {
    for line in lines {
        let line = format!("{prefix} {line}");
        into.push_str(line.trim_end());
        into.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_description_becomes_plain_lines() {
        assert_eq!(lines("\n\nOne.\r\n\tTwo \u{202e}.  \n\n"), ["One.", "    Two \\u{202e}."]);
        assert_eq!(lines(" \n"), [""; 0]);
    }

    #[test]
    fn long_lines_are_wrapped_except_in_examples() {
        let long = "word ".repeat(30);
        let found = lines(&format!("  {long}\n```\n{long}\n```\n    {long}"));
        let widths: Vec<usize> = found.iter().map(String::len).collect();
        assert_eq!(widths, [96, 56, 3, 149, 3, 153]);
        assert!(found[1].starts_with("  word"));
        assert_eq!(lines(&"x".repeat(150)).len(), 1);
    }

    #[test]
    fn defaults_and_values_are_documented() {
        let schema = json!({"description": "Size.", "enum": [1, 2]});
        assert_eq!(of_field(&schema, Some(&json!(1))), ["Size.", "", "Default: `1`.", "One of `1`, `2`."]);
        let mixed = json!({"enum": [1, "\u{202e}"]});
        assert_eq!(of_field(&mixed, None), ["One of `1`, `\"\\u202e\"`."]);
        assert_eq!(of_field(&json!({}), Some(&json!("x".repeat(300)))), [""; 0]);
        assert_eq!(of_field(&json!({"format": "byte"}), None), ["The text is Base64."]);
    }
}
