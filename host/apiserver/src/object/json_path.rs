//! The part of `JSONPath` that printer columns use: fields, indexes, wildcards and `[?(@.x=="y")]`.

use serde_json::Value;

/// A parsed path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<JsonPathStep>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum JsonPathStep {
    Field(String),
    Index(i64),
    All,
    Where { path: Vec<String>, equal: bool, value: String },
}

impl JsonPath {
    pub(crate) fn parse(text: &str) -> Result<JsonPath, String> {
        let text = text.trim().trim_start_matches('{').trim_end_matches('}');
        if text.is_empty() {
            return Err("a path is required".to_owned());
        }
        let mut steps = Vec::new();
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix('[') {
                Some(bracket) => {
                    let end = bracket_end(bracket).ok_or_else(|| format!("unterminated array in {text:?}"))?;
                    (bracket_step(&bracket[..end])?, &bracket[end + 1..])
                }
                None => field_step(rest.strip_prefix('.').ok_or_else(|| format!("{text:?} must start with '.'"))?)?,
            };
            steps.push(step);
            rest = after;
        }
        Ok(JsonPath(steps))
    }

    /// All values at the path.
    pub(crate) fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        self.0.iter().fold(vec![root], |found, step| found.into_iter().flat_map(|value| step.follow(value)).collect())
    }
}

impl JsonPathStep {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (JsonPathStep::Field(name), Value::Object(map)) => map.get(name).into_iter().collect(),
            (JsonPathStep::All, Value::Object(map)) => map.values().collect(),
            (JsonPathStep::All, Value::Array(items)) => items.iter().collect(),
            (JsonPathStep::Index(index), Value::Array(items)) => {
                let from_start = usize::try_from(*index).ok();
                let from_end =
                    || usize::try_from(index.unsigned_abs()).ok().and_then(|back| items.len().checked_sub(back));
                from_start.or_else(from_end).and_then(|index| items.get(index)).into_iter().collect()
            }
            (JsonPathStep::Where { path, equal, value: wanted }, Value::Array(items)) => {
                let holds = |item: &&Value| {
                    let found = path.iter().try_fold(*item, |value, step| value.get(step));
                    found.is_some_and(|found| (plain(found) == *wanted) == *equal)
                };
                items.iter().filter(holds).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Parses a field name, which ends before the next `.` or `[`. A backslash makes these characters part of the name.
fn field_step(text: &str) -> Result<(JsonPathStep, &str), String> {
    let mut name = String::new();
    let mut escaped = false;
    let mut end = text.len();
    for (at, character) in text.char_indices() {
        match character {
            '\\' if !escaped => escaped = true,
            '.' | '[' if !escaped => {
                end = at;
                break;
            }
            other => {
                name.push(other);
                escaped = false;
            }
        }
    }
    match name.as_str() {
        "" => Err("a field name is missing".to_owned()),
        "*" => Ok((JsonPathStep::All, &text[end..])),
        _ => Ok((JsonPathStep::Field(name), &text[end..])),
    }
}

/// The position of the closing bracket. Brackets in quotes do not count.
fn bracket_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, ']') => return Some(at),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket_step(text: &str) -> Result<JsonPathStep, String> {
    if text == "*" {
        return Ok(JsonPathStep::All);
    }
    if let Some(name) = unquoted(text) {
        return Ok(JsonPathStep::Field(name.to_owned()));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        let (path, equal, value) = match (filter.split_once("=="), filter.split_once("!=")) {
            (Some((path, value)), _) => (path, true, value),
            (None, Some((path, value))) => (path, false, value),
            (None, None) => return Err(format!("unsupported filter {filter:?}")),
        };
        let path = path.trim().strip_prefix("@.").ok_or_else(|| format!("unsupported filter {filter:?}"))?;
        let value = value.trim();
        return Ok(JsonPathStep::Where {
            path: path.split('.').map(str::to_owned).collect(),
            equal,
            value: unquoted(value).unwrap_or(value).to_owned(),
        });
    }
    text.parse().map(JsonPathStep::Index).map_err(|_| format!("invalid array index {text}"))
}

fn unquoted(text: &str) -> Option<&str> {
    ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_their_values() {
        let root = json!({
            "status": { "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Other", "status": "False" }] },
            "metadata": { "labels": { "a.b/c": "x" } },
            "list": [1, 2, 3],
        });
        let cases = [
            (".status.conditions[?(@.type==\"Ready\")].status", vec![json!("True")]),
            (".status.conditions[*].status", vec![json!("True"), json!("False")]),
            (".metadata.labels.a\\.b/c", vec![json!("x")]),
            (".metadata.labels['a.b/c']", vec![json!("x")]),
            (".list[-1]", vec![json!(3)]),
            (".absent.deeper", vec![]),
        ];
        for (path, expected) in cases {
            let parsed = JsonPath::parse(path).expect(path);
            let found: Vec<Value> = parsed.find(&root).into_iter().cloned().collect();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn malformed_paths_are_refused() {
        for path in ["", "status", ".a[", ".a[x]", ".a..b", ".a[?(@.b>1)]"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
