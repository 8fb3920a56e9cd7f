//! Compares two answers. Values that differ between any two servers, such as UIDs, are equal if both have the same form
//! and if they correspond in all answers of a script: where the real server shows a UID again, our server must show the
//! UID that it showed the first time.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::plain::{Origin, PlainForm, is_allocated_port, is_version};

/// The maximal length, in characters, of a value that a summary shows completely, and the length of the beginning that
/// it shows of longer values.
const SHOWN_VALUE_CHARACTERS: (usize, usize) = (100, 60);

/// A place at which two answers differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The JSON pointer into `{code, headers, body}`.
    pub path: String,
    /// The real server's value, absent if it has none.
    pub real: Option<Value>,
    /// Ours.
    pub ours: Option<Value>,
    /// The path and both values in one line, which is the same in each run. Long values end with a digest.
    pub summary: String,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "(absent)".to_owned(), Value::to_string);
        write!(f, "{}\n      real: {}\n      ours: {}", self.path, shown(&self.real), shown(&self.ours))
    }
}

/// The state of the comparison of one script: the pairs of corresponding values of both servers.
#[derive(Default)]
pub struct Comparison {
    pairs: BTreeMap<String, String>,
    plain: PlainForm,
}

/// A difference without a summary.
struct Mismatch<'a> {
    path: String,
    key: String,
    real: Option<&'a Value>,
    ours: Option<&'a Value>,
}

impl Comparison {
    /// The differences between our answer and the real one.
    pub fn differences(&mut self, real: &Value, ours: &Value) -> Vec<Difference> {
        if real["code"] != ours["code"] {
            // Different codes imply different bodies, so a single difference is enough.
            let (real, ours) = (in_short(real), in_short(ours));
            let key = String::new();
            return vec![self.told(Mismatch { path: "/code".to_owned(), key, real: Some(&real), ours: Some(&ours) })];
        }
        self.plain.learn_names(real, ours);
        let (real, ours) = (self.sorted(real), self.sorted(ours));
        let mut found = Vec::new();
        self.compare("", "", &real, &ours, &mut found);
        found.into_iter().map(|found| self.told(found)).collect()
    }

    fn told(&self, found: Mismatch<'_>) -> Difference {
        let Mismatch { path, key, real, ours } = found;
        let shown = |value: Option<&Value>, origin| {
            value.map_or_else(|| "(absent)".to_owned(), |value| brief(&self.plain.value(value, &path, &key, origin)))
        };
        let path = path.replace("/<list>", "").replace("/<bookmark>", "");
        let summary = format!("{path}: {} → {}", shown(real, Origin::Real), shown(ours, Origin::Ours));
        Difference { path, real: real.cloned(), ours: ours.cloned(), summary }
    }

    fn compare<'a>(&mut self, path: &str, key: &str, real: &'a Value, ours: &'a Value, found: &mut Vec<Mismatch<'a>>) {
        match (real, ours) {
            (Value::Object(a), Value::Object(b)) => self.compare_maps(path, a, b, found),
            (Value::Array(a), Value::Array(b)) => {
                for index in 0..a.len().max(b.len()) {
                    let path = format!("{path}/{index}");
                    match (a.get(index), b.get(index)) {
                        (Some(a), Some(b)) => self.compare(&path, key, a, b, found),
                        (real, ours) => found.push(Mismatch { path, key: key.to_owned(), real, ours }),
                    }
                }
            }
            _ if self.are_equal(path, key, real, ours) => {}
            _ => {
                found.push(Mismatch { path: path.to_owned(), key: key.to_owned(), real: Some(real), ours: Some(ours) });
            }
        }
    }

    fn compare_maps<'a>(
        &mut self,
        path: &str,
        real: &'a Map<String, Value>,
        ours: &'a Map<String, Value>,
        found: &mut Vec<Mismatch<'a>>,
    ) {
        let place = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        for (key, a) in real {
            match ours.get(key) {
                Some(b) => self.compare(&place(key), key, a, b, found),
                None => found.push(Mismatch { path: place(key), key: key.clone(), real: Some(a), ours: None }),
            }
        }
        for (key, b) in ours.iter().filter(|(key, _)| !real.contains_key(*key)) {
            found.push(Mismatch { path: place(key), key: key.clone(), real: None, ours: Some(b) });
        }
    }

    fn are_equal(&mut self, path: &str, key: &str, real: &Value, ours: &Value) -> bool {
        match (real, ours) {
            (Value::String(a), Value::String(b)) => self.are_equal_texts(path, key, a, b),
            (Value::Number(a), Value::Number(b)) => a == b || (is_allocated_port(key, a) && is_allocated_port(key, b)),
            _ => real == ours,
        }
    }

    fn are_equal_texts(&mut self, path: &str, key: &str, real: &str, ours: &str) -> bool {
        match key {
            "resourceVersion" if is_version_of_server(path) => {
                return real == ours || (is_version(real) && is_version(ours));
            }
            "resourceVersion" if is_version(real) && is_version(ours) => return self.stand_for_each_other(real, ours),
            "uid" if self.plain.is_uid(real) && self.plain.is_uid(ours) => {
                return self.stand_for_each_other(real, ours);
            }
            "continue" => return real.is_empty() == ours.is_empty(),
            _ => {}
        }
        let (real, versions) = self.plain.text(real, path, key, Origin::Real);
        let (ours, our_versions) = self.plain.text(ours, path, key, Origin::Ours);
        // Equal versions may come from the request.
        real == ours && versions.iter().zip(&our_versions).all(|(a, b)| a == b || self.stand_for_each_other(a, b))
    }

    /// Whether the two values are paired with each other, or both are not paired yet.
    fn stand_for_each_other(&mut self, real: &str, ours: &str) -> bool {
        let known = self.pairs.insert(format!("real {real}"), ours.to_owned());
        let backwards = self.pairs.insert(format!("ours {ours}"), real.to_owned());
        known.is_none_or(|known| known == ours) && backwards.is_none_or(|known| known == real)
    }

    /// Sorts lists that have no defined order, marks the metadata of lists and the objects of bookmarks, and hides UIDs
    /// in keys.
    fn sorted(&self, value: &Value) -> Value {
        match value {
            Value::Array(items) => Value::Array(items.iter().map(|item| self.sorted(item)).collect()),
            Value::Object(fields) => {
                let fields = &in_order(fields);
                let is_list = fields.contains_key("items") || fields.contains_key("rows");
                let is_bookmark = fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
                let mut changed = Map::new();
                for (key, value) in fields {
                    let value = match (key.as_str(), value) {
                        ("managedFields", Value::Array(entries)) => self.sorted(&by_owner(entries)),
                        ("metadata", Value::Object(_)) if is_list => json!({ "<list>": self.sorted(value) }),
                        ("object", Value::Object(_)) if is_bookmark => json!({ "<bookmark>": self.sorted(value) }),
                        _ => self.sorted(value),
                    };
                    let mut key = self.plain.key(key);
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

fn in_short(answer: &Value) -> Value {
    match &answer["body"]["message"] {
        Value::Null => json!({ "code": answer["code"], "kind": answer["body"]["kind"] }),
        message => json!({ "code": answer["code"], "message": message }),
    }
}

/// A value in one short line; for a long value, its beginning and its digest.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    let (longest, beginning) = SHOWN_VALUE_CHARACTERS;
    if text.chars().count() <= longest {
        return text;
    }
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(&text));
    let digest = u32::from_be_bytes([a, b, c, d]);
    format!("{}… {digest:08x}", text.chars().take(beginning).collect::<String>())
}

/// Whether the path leads to a version of the whole server, which other scripts also change: that of a list or of a
/// bookmark. `sorted` marks both, because the pointer alone does not show the kind of the object.
fn is_version_of_server(path: &str) -> bool {
    path.ends_with("/metadata/<list>/resourceVersion") || path.contains("/<bookmark>/")
}

/// Sorts managed fields by operation and manager. A server sorts them by time first, so their order would depend on
/// whether two writes happen in the same second.
fn by_owner(entries: &[Value]) -> Value {
    let mut entries: Vec<Value> = entries.to_vec();
    // The program in `tests/cluster` runs the controllers under a different name.
    for manager in entries.iter_mut().filter_map(|entry| entry.get_mut("manager")) {
        if *manager == "cluster-controllers" {
            *manager = json!("kube-controller-manager");
        }
    }
    let order = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        (text("operation"), text("manager"), text("subresource"), text("apiVersion"))
    };
    entries.sort_by_key(order);
    Value::Array(entries)
}

/// The status with its causes sorted, also in its message. A real server lists the errors of a custom object, and the
/// conflicts of an apply, in the random order of a Go map.
fn in_order(status: &Map<String, Value>) -> Map<String, Value> {
    let mut status = status.clone();
    let causes = status.get_mut("details").and_then(|details| details.get_mut("causes")?.as_array_mut());
    let Some(causes) = causes else { return status };
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
    let listed = |causes: &[Value]| {
        let shown = causes.iter().map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")));
        format!("[{}]", shown.collect::<Vec<_>>().join(", "))
    };
    let before = listed(causes);
    causes.sort_by_key(|cause| (text(cause, "message"), text(cause, "field")));
    let after = listed(causes);
    if let Some(Value::String(message)) = status.get_mut("message") {
        *message = message.replace(&before, &after);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(value: &Value) -> Value {
        json!({ "body": value })
    }

    #[test]
    fn a_version_must_correspond_to_the_same_one_in_all_answers() {
        let mut comparison = Comparison::default();
        let object = |version: &str| body(&json!({ "metadata": { "resourceVersion": version } }));
        assert_eq!(comparison.differences(&object("5"), &object("70")), []);
        assert_eq!(comparison.differences(&object("5"), &object("70")), []);
        assert_eq!(comparison.differences(&object("6"), &object("70")).len(), 1, "the real one moved on");
        assert_eq!(comparison.differences(&object("7"), &object("71")), [], "it is said once");
    }

    #[test]
    fn versions_of_lists_and_bookmarks_may_differ() {
        let mut comparison = Comparison::default();
        let list = |version: &str| body(&json!({ "items": [], "metadata": { "resourceVersion": version } }));
        let events = |version: &str| {
            body(&json!([{ "type": "BOOKMARK", "object": { "metadata": { "resourceVersion": version } } }]))
        };
        for (real, ours) in [("5", "70"), ("5", "71"), ("6", "71")] {
            assert_eq!(comparison.differences(&list(real), &list(ours)), []);
            assert_eq!(comparison.differences(&events(real), &events(ours)), []);
        }
        let odd = comparison.differences(&events("5"), &events("x"));
        assert_eq!(odd[0].path, "/body/0/object/metadata/resourceVersion");
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
    fn a_field_in_only_one_answer_is_a_difference() {
        let mut comparison = Comparison::default();
        let found = comparison.differences(&body(&json!({ "a/b": 1 })), &body(&json!({ "c": 1 })));
        let paths: Vec<&str> = found.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(paths, ["/body/a~1b", "/body/c"]);
    }

    #[test]
    fn a_generated_name_is_recognized_in_later_answers() {
        let mut comparison = Comparison::default();
        let made = |name: &str| body(&json!({ "metadata": { "generateName": "x-", "name": name } }));
        assert_eq!(comparison.differences(&made("x-bcd45"), &made("x-fgh67")), []);
        let gone = |name: &str| body(&json!({ "message": format!("{name} is gone") }));
        assert_eq!(comparison.differences(&gone("x-bcd45"), &gone("x-fgh67")), []);
        assert_eq!(comparison.differences(&gone("x-bcd45"), &gone("x-other")).len(), 1);
    }

    #[test]
    fn a_version_in_a_text_must_correspond_as_elsewhere() {
        let mut comparison = Comparison::default();
        let object = |version: &str| body(&json!({ "metadata": { "resourceVersion": version } }));
        let text = |version: &str| {
            body(&json!({ "message": format!(r#"precondition (1), "{{\"resourceVersion\":\"{version}\"}}""#) }))
        };
        assert_eq!(comparison.differences(&object("5"), &object("70")), []);
        assert_eq!(comparison.differences(&text("5"), &text("70")), []);
        assert_eq!(comparison.differences(&text("5"), &text("71")).len(), 1, "another object's");
    }

    #[test]
    fn a_number_in_a_text_is_compared() {
        let mut comparison = Comparison::default();
        let text = |number: u64| body(&json!({ "message": format!("Invalid value: {number}: too large") }));
        assert_eq!(comparison.differences(&text(5), &text(6)).len(), 1);
    }

    #[test]
    fn causes_are_equal_in_any_order() {
        let status = |causes: [&str; 2]| {
            let [one, other] = causes;
            let causes = causes.map(|field| json!({ "field": field, "message": "odd" }));
            body(
                &json!({ "message": format!("x is invalid: [{one}: odd, {other}: odd]"), "details": { "causes": causes } }),
            )
        };
        assert_eq!(Comparison::default().differences(&status(["a", "b"]), &status(["b", "a"])), []);
        assert_ne!(Comparison::default().differences(&status(["a", "b"]), &status(["a", "c"])), []);
    }

    #[test]
    fn a_summary_is_the_same_in_each_run() {
        let summary = |real: &str, time: &str| {
            let found = Comparison::default().differences(
                &body(&json!({ "message": real, "at": time })),
                &body(&json!({ "message": format!("{real}!") })),
            );
            found.into_iter().map(|difference| difference.summary).collect::<Vec<_>>()
        };
        let short = summary("a", "2026-01-01T00:00:00Z");
        assert_eq!(short, [r#"/body/at: "<time>" → (absent)"#, r#"/body/message: "a" → "a!""#]);
        assert_eq!(short, summary("a", "2027-01-01T00:00:00Z"));
        let long = "0123456789".repeat(20);
        let (one, other) = (summary(&format!("{long}1"), ""), summary(&format!("{long}2"), ""));
        assert_ne!(one[1], other[1], "what is not shown is in the digest");
    }
}
