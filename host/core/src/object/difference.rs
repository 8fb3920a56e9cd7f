//! The fields in which two states of an object differ, in few words, for people who look at what a write would do.
//!
//! Nothing is decided by it: long values are cut, and of many fields only some are named.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use crate::deceptive::is_deceptive;
use crate::object::ObjectKind;

/// How many fields are named. More are only counted.
const NAMED_FIELDS_MAX: usize = 20;
/// The longest value that is shown, in bytes.
const SHOWN_VALUE_BYTES_MAX: usize = 64;
/// The longest path that is shown, in bytes.
const SHOWN_PATH_BYTES_MAX: usize = 200;
/// The fields of `metadata` that name the object or are the server's own.
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

/// How much may be said of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disclosure {
    /// The values of its fields.
    Values,
    /// Only which fields differ.
    Names,
}

impl Disclosure {
    /// Of objects of `kind`: the values of Secrets are nobody's who reads a log.
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
    /// Of all fields, uncut.
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
    /// The difference between two states. Names and what only the server sets are left out.
    #[must_use]
    pub fn between(before: &Value, after: &Value, disclosure: Disclosure) -> Self {
        let (before, after) = (without_system_fields(before), without_system_fields(after));
        let mut walk = Walk { disclosure, is_new: false, found: Self::default() };
        walk.compare(&mut String::new(), Some(&before), Some(&after));
        walk.found
    }

    /// The content of an object that is not there yet, or of which no other state is known.
    #[must_use]
    pub fn of_new(body: &Value, disclosure: Disclosure) -> Self {
        let mut walk = Walk { disclosure, is_new: true, found: Self::default() };
        walk.compare(&mut String::new(), None, Some(&without_system_fields(body)));
        walk.found
    }

    /// The change of `before` by the fields of `body`, an apply, an update or a merge patch, as far as the body alone tells. A
    /// null removes.
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

    /// How many more there are.
    #[must_use]
    pub fn unnamed(&self) -> usize {
        self.unnamed
    }

    /// Whether the states are the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// A number that another difference has only by chance, also in what is not named or cut. Times of day do not count: what
    /// a plugin would write anew has other ones each time.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Adds `field`, which says in few words what `exact` says whole.
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

/// An owner in few words, and all that it says: by its uid alone the garbage collector would delete.
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

/// The names, those of metadata last: what an object is for comes before.
fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut names: Vec<_> = names.collect::<BTreeSet<_>>().into_iter().collect();
    names.sort_by_key(|name| *name == "metadata");
    names
}

struct Walk {
    disclosure: Disclosure,
    /// There is nothing to compare with.
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

    /// Items that have names are told by their names, and others by their places.
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

    /// As [`Self::compare`], for the fields that `body` has.
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

/// A field's part of a path.
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

/// The items, if each is an object with a `key` of its own.
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

/// `text`, with every time of day left out.
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

/// The length of the RFC 3339 time with which `text` begins, if it does.
fn time_at(text: &[u8]) -> Option<usize> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let fits = |(shape, byte): (&u8, &u8)| if *shape == b'0' { byte.is_ascii_digit() } else { shape == byte };
    let is_time = text.len() >= SHAPE.len() && SHAPE.iter().zip(text).all(fits);
    let fraction = || text[SHAPE.len()..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    is_time.then(|| SHAPE.len() + fraction())
}

/// The character, escaped if it would end a line or change how the rest of it reads.
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
    fn fields_are_named_with_what_they_are_and_would_be() {
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
    fn what_an_object_is_for_comes_first_and_its_owner_takes_one_field() {
        let owner = json!({"apiVersion": "v1", "kind": "WebApp", "name": "shop", "uid": "u", "controller": true});
        let object = json!({"metadata": {"name": "a", "ownerReferences": [owner]}, "spec": {"replicas": 1}});
        let said = Difference::of_new(&object, Disclosure::Values).to_string();
        assert_eq!(said, r#"spec.replicas: 1; metadata.ownerReferences: ["WebApp shop (v1, u, controller)"]"#);
    }

    #[test]
    fn what_is_not_shown_is_a_difference_all_the_same() {
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
    fn conditions_are_told_by_their_types_and_may_be_compared_without_their_times() {
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
    fn the_values_of_a_secret_are_never_said() {
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
    fn what_a_plugin_writes_forges_no_line() {
        let forged = "x\nERROR \u{1b}[2J\u{202e}\u{2028}";
        let new = Difference::of_new(&json!({"data": {forged: forged}}), Disclosure::Values).to_string();
        let patch = json!([{"op": forged, "path": forged, "value": forged}]);
        let patch = Difference::of_operations(&patch, Disclosure::Values).to_string();
        for said in [new, patch] {
            assert!(!said.contains(['\n', '\u{1b}', '\u{202e}', '\u{2028}']) && said.contains("ERROR"), "{said}");
        }
    }

    #[test]
    fn however_much_differs_little_is_said() {
        let many: BTreeMap<_, _> =
            (0..1000).map(|at| (format!("k{at:04}{}", "x".repeat(500)), "v".repeat(500))).collect();
        let said = between(&json!({"data": {}}), &json!({"data": many}));
        assert!(said.len() < 8 << 10 && said.ends_with("; and 980 more"), "{} bytes", said.len());
    }
}
