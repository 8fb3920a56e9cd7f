//! Two answers against each other. Values that no two servers have alike are equal if both have the same form, and if the
//! same value stands for the same thing in all answers of a script: the second time that the real server shows a UID,
//! ours must show the one that it showed the first time.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

use regex::Regex;
use serde_json::{Map, Value, json};

/// A place at which two answers differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The JSON pointer into `{code, headers, body}`.
    pub path: String,
    /// The real server's value, absent if it has none.
    pub real: Option<Value>,
    /// Ours.
    pub ours: Option<Value>,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "(absent)".to_owned(), Value::to_string);
        write!(f, "{}\n      real: {}\n      ours: {}", self.path, shown(&self.real), shown(&self.ours))
    }
}

/// The answers of one script so far: which value of ours stands for which of the real server's.
pub struct Comparison {
    pairs: BTreeMap<String, String>,
    /// Values that stand in texts: the real one, ours, and what both become.
    texts: Vec<(String, String, String)>,
    patterns: Patterns,
}

struct Patterns {
    uid: Regex,
    time: Regex,
    micro_time: Regex,
    address: Regex,
    version: Regex,
    took: Regex,
    generated: Regex,
    age: Regex,
}

impl Default for Comparison {
    fn default() -> Comparison {
        Comparison { pairs: BTreeMap::new(), texts: Vec::new(), patterns: Patterns::new() }
    }
}

impl Patterns {
    fn new() -> Patterns {
        let made = |pattern: &str| Regex::new(pattern).unwrap_or_else(|error| unreachable!("{pattern}: {error}"));
        Patterns {
            uid: made(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            time: made(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"),
            micro_time: made(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"),
            address: made(r"\b10\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\b"),
            version: made(
                r"(?i)(resource ?version:? (?:in precondition: |in object meta: )?|current: |: )[0-9]+\b( \([0-9]+\))?",
            ),
            took: made(r"\b[0-9.]+(µs|ms|s)\b"),
            generated: made("^[bcdfghjklmnpqrstvwxz2456789]{5}$"),
            age: made("^([0-9]+[dhms])+$"),
        }
    }
}

impl Comparison {
    /// The differences of an answer of ours from the real one's.
    pub fn differences(&mut self, real: &Value, ours: &Value) -> Vec<Difference> {
        if real["code"] != ours["code"] {
            // Nothing in the bodies can be alike then, and one difference says it.
            let short = |answer: &Value| match &answer["body"]["message"] {
                Value::Null => json!({ "code": answer["code"], "kind": answer["body"]["kind"] }),
                message => json!({ "code": answer["code"], "message": message }),
            };
            return vec![Difference { path: "/code".to_owned(), real: Some(short(real)), ours: Some(short(ours)) }];
        }
        self.learn_names(real, ours);
        let (real, ours) = (self.sorted(real), self.sorted(ours));
        let mut found = Vec::new();
        self.compare("", "", &real, &ours, &mut found);
        for difference in &mut found {
            difference.path = difference.path.replace("/<list>", "");
        }
        found
    }

    /// Generated names differ, here and wherever they are named later.
    fn learn_names(&mut self, real: &Value, ours: &Value) {
        for place in ["/body/metadata/name", "/body/details/name"] {
            let text = |value: &Value| value.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (name, our_name) = (text(real), text(ours));
            let halves = (
                name.split_at_checked(name.len().saturating_sub(5)),
                our_name.split_at_checked(name.len().saturating_sub(5)),
            );
            let (Some((prefix, made)), Some((our_prefix, our_made))) = halves else { continue };
            let is_made = |suffix: &str| self.patterns.generated.is_match(suffix);
            if name != our_name && prefix == our_prefix && is_made(made) && is_made(our_made) {
                let shown = format!("{prefix}<generated {}>", self.texts.len() + 1);
                self.texts.push((name, our_name, shown));
            }
        }
    }

    fn compare(&mut self, path: &str, key: &str, real: &Value, ours: &Value, found: &mut Vec<Difference>) {
        match (real, ours) {
            (Value::Object(a), Value::Object(b)) => self.compare_maps(path, a, b, found),
            (Value::Array(a), Value::Array(b)) => {
                for index in 0..a.len().max(b.len()) {
                    let path = format!("{path}/{index}");
                    match (a.get(index), b.get(index)) {
                        (Some(a), Some(b)) => self.compare(&path, key, a, b, found),
                        (a, b) => found.push(Difference { path, real: a.cloned(), ours: b.cloned() }),
                    }
                }
            }
            _ => {
                if !self.are_equal(path, key, real, ours) {
                    found.push(Difference {
                        path: path.to_owned(),
                        real: Some(real.clone()),
                        ours: Some(ours.clone()),
                    });
                }
            }
        }
    }

    fn compare_maps(
        &mut self,
        path: &str,
        real: &Map<String, Value>,
        ours: &Map<String, Value>,
        found: &mut Vec<Difference>,
    ) {
        for (key, a) in real {
            let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            match ours.get(key) {
                Some(b) => self.compare(&path, key, a, b, found),
                None => found.push(Difference { path, real: Some(a.clone()), ours: None }),
            }
        }
        for (key, b) in ours.iter().filter(|(key, _)| !real.contains_key(*key)) {
            let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            found.push(Difference { path, real: None, ours: Some(b.clone()) });
        }
    }

    fn are_equal(&mut self, path: &str, key: &str, real: &Value, ours: &Value) -> bool {
        match (real, ours) {
            (Value::String(a), Value::String(b)) => self.are_equal_texts(path, key, a, b),
            (Value::Number(a), Value::Number(b)) if key == "nodePort" || key == "healthCheckNodePort" => {
                let allocated = |n: &serde_json::Number| n.as_u64().is_some_and(|n| (30_000..=32_767).contains(&n));
                a == b || (allocated(a) && allocated(b))
            }
            _ => real == ours,
        }
    }

    fn are_equal_texts(&mut self, path: &str, key: &str, real: &str, ours: &str) -> bool {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match key {
            // A list's version is the server's, and moves with what others do.
            "resourceVersion" if is_list_version(path) => {
                return real == ours || (is_number(real) && is_number(ours));
            }
            "resourceVersion" if is_number(real) && is_number(ours) => return self.stand_for_each_other(real, ours),
            "uid" if self.patterns.uid.is_match(real) && self.patterns.uid.is_match(ours) => {
                return self.stand_for_each_other(real, ours);
            }
            "continue" => return real.is_empty() == ours.is_empty(),
            _ => {}
        }
        self.plain(real, path, key, false) == self.plain(ours, path, key, true)
    }

    /// Whether both have been paired with each other, or with nobody yet.
    fn stand_for_each_other(&mut self, real: &str, ours: &str) -> bool {
        let known = self.pairs.insert(format!("real {real}"), ours.to_owned());
        let backwards = self.pairs.insert(format!("ours {ours}"), real.to_owned());
        known.is_none_or(|known| known == ours) && backwards.is_none_or(|known| known == real)
    }

    /// A text without what differs in any case.
    fn plain(&self, text: &str, path: &str, key: &str, is_ours: bool) -> String {
        let in_message = key == "message" || key == "warning" || path == "/body";
        let is_cell = path.contains("/cells/");
        let mut text = text.to_owned();
        if is_cell && self.patterns.age.is_match(&text) {
            return "<age>".to_owned();
        }
        for (real, ours, shown) in &self.texts {
            text = text.replace(if is_ours { ours } else { real }, shown);
        }
        let patterns = &self.patterns;
        for (pattern, shown) in [
            (&patterns.micro_time, "<microtime>"),
            (&patterns.time, "<time>"),
            (&patterns.uid, "<uid>"),
            (&patterns.address, "<address>"),
        ] {
            text = pattern.replace_all(&text, shown).into_owned();
        }
        if in_message {
            text = patterns.version.replace_all(&text, "$1<version>").into_owned();
            text = patterns.took.replace_all(&text, "<duration>").into_owned();
        }
        text
    }
}

/// `/body/metadata/resourceVersion` of a list: it has items beside, which the pointer cannot say; lists are
/// told by `sorted`, which marks them.
fn is_list_version(path: &str) -> bool {
    path.ends_with("/metadata/<list>/resourceVersion")
}

impl Comparison {
    /// Brings lists without an order of their own into one, marks the metadata of lists, and hides UIDs in keys.
    fn sorted(&self, value: &Value) -> Value {
        match value {
            Value::Array(items) => Value::Array(items.iter().map(|item| self.sorted(item)).collect()),
            Value::Object(fields) => {
                let is_list = fields.contains_key("items") || fields.contains_key("rows");
                let mut changed = Map::new();
                for (key, value) in fields {
                    let value = match (key.as_str(), value) {
                        ("managedFields", Value::Array(entries)) => self.sorted(&by_owner(entries)),
                        ("metadata", Value::Object(_)) if is_list => json!({ "<list>": self.sorted(value) }),
                        _ => self.sorted(value),
                    };
                    let mut key = self.patterns.uid.replace_all(key, "<uid>").into_owned();
                    while changed.contains_key(&key) {
                        key.push('+');
                    }
                    changed.insert(key, value);
                }
                Value::Object(changed)
            }
            other => other.clone(),
        }
    }
}

/// Entries of one second stand in the order of their managers, and others in that of their times.
fn by_owner(entries: &[Value]) -> Value {
    let mut entries: Vec<Value> = entries.to_vec();
    let order = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        (text("operation"), text("manager"), text("subresource"), text("apiVersion"))
    };
    entries.sort_by_key(order);
    Value::Array(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(value: &Value) -> Value {
        json!({ "body": value })
    }

    #[test]
    fn a_version_stands_for_the_same_one_in_all_answers() {
        let mut comparison = Comparison::default();
        let object = |version: &str| body(&json!({ "metadata": { "resourceVersion": version } }));
        assert_eq!(comparison.differences(&object("5"), &object("70")), []);
        assert_eq!(comparison.differences(&object("5"), &object("70")), []);
        assert_eq!(comparison.differences(&object("6"), &object("70")).len(), 1, "the real one moved on");
        assert_eq!(comparison.differences(&object("7"), &object("71")), [], "it is said once");
    }

    #[test]
    fn times_are_equal_only_in_the_same_precision() {
        let mut comparison = Comparison::default();
        let at = |time: &str| body(&json!({ "time": time }));
        assert_eq!(comparison.differences(&at("2026-01-01T00:00:00Z"), &at("2025-02-03T04:05:06Z")), []);
        let micro = comparison.differences(&at("2026-01-01T00:00:00Z"), &at("2026-01-01T00:00:00.000001Z"));
        assert_eq!(micro.len(), 1);
    }

    #[test]
    fn a_member_that_only_one_has_is_a_difference() {
        let mut comparison = Comparison::default();
        let found = comparison.differences(&body(&json!({ "a/b": 1 })), &body(&json!({ "c": 1 })));
        let paths: Vec<&str> = found.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(paths, ["/body/a~1b", "/body/c"]);
    }

    #[test]
    fn a_generated_name_is_known_again() {
        let mut comparison = Comparison::default();
        let made = |name: &str| body(&json!({ "metadata": { "generateName": "x-", "name": name } }));
        assert_eq!(comparison.differences(&made("x-bcd45"), &made("x-fgh67")), []);
        let gone = |name: &str| body(&json!({ "message": format!("{name} is gone") }));
        assert_eq!(comparison.differences(&gone("x-bcd45"), &gone("x-fgh67")), []);
        assert_eq!(comparison.differences(&gone("x-bcd45"), &gone("x-other")).len(), 1);
    }
}
