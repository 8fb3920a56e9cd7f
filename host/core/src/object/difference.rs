//! Summarises the fields in which two states of an object differ, for people who check what a write would do.
//!
//! Decides nothing: long values are cut, and only some of many fields are named.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use crate::deceptive::is_deceptive;
use crate::object::ObjectKind;

/// How many fields are named. The rest are only counted.
const NAMED_FIELDS_MAX: usize = 20;
/// The longest value shown, in bytes.
const SHOWN_VALUE_BYTES_MAX: usize = 64;
/// The longest path shown, in bytes.
const SHOWN_PATH_BYTES_MAX: usize = 200;
/// Fields of `metadata` that identify the object or that the server sets.
const SYSTEM_METADATA: [&str; 11] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
];

/// How much of an object may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disclosure {
    /// The values of its fields.
    Values,
    /// Only the names of fields that differ.
    Names,
}

impl Disclosure {
    /// For objects of `kind`: values of Secrets must not appear in logs.
    #[must_use]
    pub fn of(kind: &ObjectKind) -> Self {
        let is_secret = kind.group().is_empty() && &*kind.kind == "Secret";
        if is_secret { Self::Names } else { Self::Values }
    }
}

/// A list of fields, such as `spec.replicas: 2 → 3`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Difference {
    fields: Vec<String>,
    unnamed: usize,
    /// A hash over all fields, uncut.
    fingerprint: u64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fields.join("; "))?;
        if self.unnamed > 0 {
            write!(f, "; and {} more", self.unnamed)?;
        }
        Ok(())
    }
}

impl Difference {
    /// The difference between two states, without the object's identity and the fields that only the server sets.
    #[must_use]
    pub fn between(before: &Value, after: &Value, disclosure: Disclosure) -> Self {
        let (before, after) = (without_system_fields(before), without_system_fields(after));
        let mut walk = Walk { disclosure, is_new: false, found: Self::default() };
        walk.compare(&mut String::new(), Some(&before), Some(&after));
        walk.found
    }

    /// The fields of a new object, or of an object whose previous state is not known.
    #[must_use]
    pub fn of_new(body: &Value, disclosure: Disclosure) -> Self {
        let mut walk = Walk { disclosure, is_new: true, found: Self::default() };
        walk.compare(&mut String::new(), None, Some(&without_system_fields(body)));
        walk.found
    }

    /// The change that `body` makes to `before`, as far as the body alone shows it. `body` is the body of an apply, an
    /// update or a merge patch. A null removes a field.
    #[must_use]
    pub fn of_body(before: &Value, body: &Value, disclosure: Disclosure) -> Self {
        let (before, body) = (without_system_fields(before), without_system_fields(body));
        let mut walk = Walk { disclosure, is_new: false, found: Self::default() };
        walk.set(&mut String::new(), Some(&before), &body);
        walk.found
    }

    /// The operations of a JSON patch, without its tests.
    #[must_use]
    pub fn of_operations(patch: &Value, disclosure: Disclosure) -> Self {
        let mut found = Self::default();
        for operation in patch.as_array().into_iter().flatten().filter(|operation| operation["op"] != "test") {
            let text = |field: &str| operation[field].as_str().unwrap_or_default();
            let mut said =
                format!("{} {}", cut(text("op"), SHOWN_VALUE_BYTES_MAX), cut(text("path"), SHOWN_PATH_BYTES_MAX));
            if let Some(value) = operation.get("value").filter(|_| disclosure == Disclosure::Values) {
                said = format!("{said}: {}", shown(Some(value)));
            }
            found.push(said, &operation.to_string());
        }
        found
    }

    /// The fields that are named.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// How many further fields differ.
    #[must_use]
    pub fn unnamed(&self) -> usize {
        self.unnamed
    }

    /// Whether the states are the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// A hash of the whole difference, including the parts that are cut or not named. Timestamps do not count,
    /// because a plugin that repeats a write uses new ones.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Adds `field`, the short form of `exact`.
    fn push(&mut self, field: String, exact: &str) {
        let mut hasher = DefaultHasher::new();
        (self.fingerprint, timeless(exact)).hash(&mut hasher);
        self.fingerprint = hasher.finish();
        if self.fields.len() < NAMED_FIELDS_MAX {
            self.fields.push(field);
        } else {
            self.unnamed += 1;
        }
    }
}

fn without_system_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
        let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut);
        if metadata.is_some_and(|metadata| {
            metadata.retain(|name, _| !SYSTEM_METADATA.contains(&name.as_str()));
            if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
                for owner in owners {
                    *owner = brief_owner(owner);
                }
            }
            metadata.is_empty()
        }) {
            fields.remove("metadata");
        }
    }
    object
}

/// An owner in short, but with everything that it says: the garbage collector deletes by the UID alone.
fn brief_owner(owner: &Value) -> Value {
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let role = |field: &str, role| if owner[field] == true { role } else { "" };
    let more = [
        text("apiVersion"),
        text("uid"),
        role("controller", "controller"),
        role("blockOwnerDeletion", "blocks deletion"),
    ];
    let more: Vec<_> = more.into_iter().filter(|it| !it.is_empty()).collect();
    format!("{} {} ({})", text("kind"), text("name"), more.join(", ")).into()
}

/// The names in order, with `metadata` last: the content matters more.
fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut names: Vec<_> = names.collect::<BTreeSet<_>>().into_iter().collect();
    names.sort_by_key(|name| *name == "metadata");
    names
}

struct Walk {
    disclosure: Disclosure,
    /// Whether there is no state to compare with.
    is_new: bool,
    found: Difference,
}

impl Walk {
    fn compare(&mut self, path: &mut String, before: Option<&Value>, after: Option<&Value>) {
        match (before, after) {
            (before, after) if before == after => {}
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                for name in in_order(before.keys().chain(after.keys())) {
                    within(path, &field(name), |path| self.compare(path, before.get(name), after.get(name)));
                }
            }
            (None, Some(Value::Object(after))) if !after.is_empty() => {
                for name in in_order(after.keys()) {
                    within(path, &field(name), |path| self.compare(path, None, after.get(name)));
                }
            }
            (Some(Value::Array(before)), Some(Value::Array(after))) => self.compare_lists(path, before, after),
            (None, Some(Value::Array(after))) if after.iter().any(Value::is_object) => {
                self.compare_lists(path, &[], after);
            }
            (before, after) => self.say(path, before, after),
        }
    }

    /// List items that have names are shown by name, other items by index.
    fn compare_lists(&mut self, path: &mut String, before: &[Value], after: &[Value]) {
        let said = self.found.clone();
        let keyed = ["name", "type"].into_iter().find_map(|key| Some((key, by(key, before)?, by(key, after)?)));
        if let Some((key, before, after)) = keyed {
            let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
            for name in names {
                let item = format!("[{key}={}]", plain(name).unwrap_or_else(|| quoted(name)));
                within(path, &item, |path| self.compare(path, before.get(name).copied(), after.get(name).copied()));
            }
        } else if before.is_empty() || before.len() == after.len() {
            for (place, item) in after.iter().enumerate() {
                within(path, &format!("[{place}]"), |path| self.compare(path, before.get(place), Some(item)));
            }
        } else {
            self.say(path, Some(&Value::from(before)), Some(&Value::from(after)));
        }
        if self.found == said {
            let exact = format!("{path}: {}", Value::from(after));
            self.found.push(format!("{}: another order", cut(path, SHOWN_PATH_BYTES_MAX)), &exact);
        }
    }

    /// As [`Self::compare`], but compares only the fields in `body`.
    fn set(&mut self, path: &mut String, before: Option<&Value>, body: &Value) {
        match (before, body) {
            (before, Value::Object(body)) if !body.is_empty() && before.is_none_or(Value::is_object) => {
                for name in in_order(body.keys()) {
                    let before = before.and_then(|before| before.get(name));
                    within(path, &field(name), |path| self.set(path, before, &body[name]));
                }
            }
            (None, Value::Null) => {}
            (before, Value::Null) => self.say(path, before, None),
            (before, body) => self.compare(path, before, Some(body)),
        }
    }

    fn say(&mut self, path: &str, before: Option<&Value>, after: Option<&Value>) {
        let what = match (self.disclosure, before, after) {
            (Disclosure::Names, None, _) => "set".to_owned(),
            (Disclosure::Names, Some(_), None) => "removed".to_owned(),
            (Disclosure::Names, Some(_), Some(_)) => "changed".to_owned(),
            (Disclosure::Values, _, after) if self.is_new => shown(after),
            (Disclosure::Values, before, after) => format!("{} → {}", shown(before), shown(after)),
        };
        let exact = |value: Option<&Value>| value.map_or_else(String::new, Value::to_string);
        let exact = format!("{path}: {} → {}", exact(before), exact(after));
        self.found.push(format!("{}: {what}", cut(path, SHOWN_PATH_BYTES_MAX)), &exact);
    }
}

fn within(path: &mut String, below: &str, walk: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(if length == 0 { below.strip_prefix('.').unwrap_or(below) } else { below });
    walk(path);
    path.truncate(length);
}

/// A field as a part of a path.
fn field(name: &str) -> String {
    plain(name).map_or_else(|| format!("[{}]", quoted(name)), |name| format!(".{name}"))
}

/// The name, if it needs no quotes.
fn plain(name: &str) -> Option<String> {
    let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    is_plain.then(|| name.to_owned())
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The items by their value of `key`, if each item is an object with a unique value there.
fn by<'a>(key: &str, items: &'a [Value]) -> Option<BTreeMap<&'a str, &'a Value>> {
    let named: Option<BTreeMap<_, _>> = items.iter().map(|item| Some((item.get(key)?.as_str()?, item))).collect();
    named.filter(|named| named.len() == items.len())
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| cut(&value.to_string(), SHOWN_VALUE_BYTES_MAX))
}

fn cut(text: &str, longest: usize) -> String {
    let kept = &text[..text.floor_char_boundary(longest)];
    let end = if kept.len() < text.len() { "…" } else { "" };
    format!("{}{end}", kept.chars().map(printable).collect::<String>())
}

/// `text` without its timestamps.
fn timeless(text: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(char) = rest.chars().next() {
        let length = time_at(rest.as_bytes()).unwrap_or_else(|| {
            kept.push(char);
            char.len_utf8()
        });
        rest = &rest[length..];
    }
    kept
}

/// The length of the RFC 3339 timestamp at the start of `text`, if there is one.
fn time_at(text: &[u8]) -> Option<usize> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let fits = |(shape, byte): (&u8, &u8)| if *shape == b'0' { byte.is_ascii_digit() } else { shape == byte };
    let is_time = text.len() >= SHAPE.len() && SHAPE.iter().zip(text).all(fits);
    let fraction = || text[SHAPE.len()..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    is_time.then(|| SHAPE.len() + fraction())
}

/// The character, escaped if it would end a line or change how the rest of the line reads.
fn printable(char: char) -> String {
    if is_deceptive(char) { char.escape_unicode().to_string() } else { char.to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn between(before: &Value, after: &Value) -> String {
        Difference::between(before, after, Disclosure::Values).to_string()
    }

    #[test]
    fn fields_are_shown_with_old_and_new_value() {
        let before = json!({"kind": "D", "metadata": {"name": "a", "resourceVersion": "1", "labels": {"a.b/c": "x"}},
            "spec": {"replicas": 2, "paused": true, "containers": [{"name": "web", "image": "a"}, {"name": "log"}]}});
        let after = json!({"kind": "D", "metadata": {"name": "a", "resourceVersion": "2"},
            "spec": {"replicas": 3, "paused": true, "ports": [80],
                "containers": [{"name": "web", "image": "b"}, {"name": "new", "tty": true}]}});
        let said = "spec.containers[name=log]: {\"name\":\"log\"} → none; \
                    spec.containers[name=new].name: none → \"new\"; spec.containers[name=new].tty: none → true; \
                    spec.containers[name=web].image: \"a\" → \"b\"; spec.ports: none → [80]; spec.replicas: 2 → 3; \
                    metadata: {\"labels\":{\"a.b/c\":\"x\"}} → none";
        assert_eq!(between(&before, &after), said);
        assert!(Difference::between(&before, &before, Disclosure::Values).is_empty());
        let labelled = json!({"metadata": {"labels": {"a.b/c": "y"}}});
        let body = Difference::of_body(&before, &labelled, Disclosure::Values);
        assert_eq!(body.to_string(), r#"metadata.labels["a.b/c"]: "x" → "y""#, "what a body does not name stays");
        let gone = Difference::of_body(&before, &json!({"spec": {"paused": null, "none": null}}), Disclosure::Values);
        assert_eq!(gone.to_string(), "spec.paused: true → none");
        let new = Difference::of_new(&json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}), Disclosure::Values);
        assert_eq!(new.to_string(), "spec.replicas: 1");
    }

    #[test]
    fn content_comes_before_metadata_and_an_owner_is_one_field() {
        let owner = json!({"apiVersion": "v1", "kind": "WebApp", "name": "shop", "uid": "u", "controller": true});
        let object = json!({"metadata": {"name": "a", "ownerReferences": [owner]}, "spec": {"replicas": 1}});
        let said = Difference::of_new(&object, Disclosure::Values).to_string();
        assert_eq!(said, r#"spec.replicas: 1; metadata.ownerReferences: ["WebApp shop (v1, u, controller)"]"#);
    }

    #[test]
    fn parts_that_are_not_shown_still_count_as_a_difference() {
        let owned = |uid: &str| {
            let owner = json!({"apiVersion": "v1", "kind": "WebApp", "name": "shop", "uid": uid});
            json!({"metadata": {"ownerReferences": [owner]}})
        };
        assert!(!between(&owned("u"), &owned("none")).is_empty(), "its collector would delete it");
        let long = |end: char| json!({"data": {"a": format!("{}{end}", "x".repeat(SHOWN_VALUE_BYTES_MAX))}});
        let many =
            |last: u32| json!((0..=NAMED_FIELDS_MAX).map(|at| (format!("f{at:02}"), last)).collect::<BTreeMap<_, _>>());
        for (one, other) in [(long('a'), long('b')), (many(1), many(2))] {
            let of = |object| Difference::of_new(object, Disclosure::Values);
            assert_ne!(of(&one).fingerprint(), of(&other).fingerprint());
        }
    }

    #[test]
    fn conditions_are_shown_by_type_and_compared_without_times() {
        let at = |time: &str| {
            let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": time});
            Difference::between(&json!({}), &json!({"status": {"conditions": [ready]}}), Disclosure::Values)
        };
        let (once, again) = (at("2026-11-23T20:05:16Z"), at("2026-11-24T08:00:00.123Z"));
        assert!(
            once.to_string().starts_with("status.conditions[type=Ready].lastTransitionTime: none → \"2026-"),
            "{once}"
        );
        assert_ne!(once, again);
        assert_eq!(once.fingerprint(), again.fingerprint());
    }

    #[test]
    fn another_order_is_a_difference() {
        let list = |names: [&str; 2]| json!({"env": names.map(|name| json!({"name": name}))});
        assert_eq!(between(&list(["a", "b"]), &list(["b", "a"])), "env: another order");
        assert_eq!(between(&json!({"args": [1, 2]}), &json!({"args": [1, 3]})), "args[1]: 2 → 3");
        assert_eq!(between(&json!({"args": [1, 2]}), &json!({"args": [1]})), "args: [1,2] → [1]");
    }

    #[test]
    fn the_values_of_a_secret_are_never_shown() {
        let names = Disclosure::of(&ObjectKind::new("v1", "Secret"));
        let before = json!({"data": {"a": "b2xk", "b": "b2xk"}, "metadata": {"annotations": {"last": "b2xk"}}});
        let after = json!({"data": {"a": "bmV3", "c": "bmV3"}, "metadata": {"annotations": {"last": "bmV3"}}});
        let said = Difference::between(&before, &after, names).to_string();
        assert_eq!(said, "data.a: changed; data.b: removed; data.c: set; metadata.annotations.last: changed");
        let new = Difference::of_new(&after, names).to_string();
        let body = Difference::of_body(&before, &after, names).to_string();
        let patch =
            json!([{"op": "test", "path": "/x", "value": 1}, {"op": "add", "path": "/data/a", "value": "bmV3"}]);
        let patch = Difference::of_operations(&patch, names).to_string();
        assert_eq!(patch, "add /data/a");
        assert!(![new, body, patch].iter().any(|said| said.contains("bmV3")));
        assert_eq!(Disclosure::of(&ObjectKind::new("example.com/v1", "Secret")), Disclosure::Values);
    }

    #[test]
    fn a_plugins_text_cannot_forge_a_line() {
        let forged = "x\nERROR \u{1b}[2J\u{202e}\u{2028}";
        let new = Difference::of_new(&json!({"data": {forged: forged}}), Disclosure::Values).to_string();
        let patch = json!([{"op": forged, "path": forged, "value": forged}]);
        let patch = Difference::of_operations(&patch, Disclosure::Values).to_string();
        for said in [new, patch] {
            assert!(!said.contains(['\n', '\u{1b}', '\u{202e}', '\u{2028}']) && said.contains("ERROR"), "{said}");
        }
    }

    #[test]
    fn the_summary_is_bounded() {
        let many: BTreeMap<_, _> =
            (0..1000).map(|at| (format!("k{at:04}{}", "x".repeat(500)), "v".repeat(500))).collect();
        let said = between(&json!({"data": {}}), &json!({"data": many}));
        assert!(said.len() < 8 << 10 && said.ends_with("; and 980 more"), "{} bytes", said.len());
    }
}
