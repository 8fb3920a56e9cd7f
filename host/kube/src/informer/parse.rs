//! Parses the server's JSON text into an [`Object`]: its header, and the text, by default without `managedFields`.
//!
//! This is the hot path of every list and watch. It reads the header through borrowed fields, shares what objects have
//! in common, builds no tree, and keeps every byte outside `managedFields` as the server sent it. `head` reads text in
//! the form that API servers write; serde reads everything else.

mod head;
mod judge;
mod rewrite;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::compact::{Uid, Version};
use windlass_core::object::pointer_tree::PointerError;
use windlass_core::object::{Header, Object, ObjectKey, ObjectKind};

use self::head::UsualEvent;
use self::judge::Judge;
pub(crate) use self::judge::SeenObject;
use self::rewrite::rewrite;
use crate::informer::conditions;
use crate::informer::intern::{BorrowedOwner, Interner};
use crate::informer::projector::Projector;

/// The prefix of the field managers of this host's plugins.
const OWN_MANAGERS: &str = "windlass/";
/// The white space of JSON.
const JSON_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
/// The maximum size of a buffer that is kept. Only a large object needs more.
const IDLE_BUFFER_BYTES: usize = 64 << 10;

/// The reason why a text is not a Kubernetes object.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The text is not JSON, or its metadata does not have Kubernetes' types.
    #[error("not a Kubernetes object: {0}")]
    Json(#[from] serde_json::Error),
    /// The text is JSON, but not a JSON object.
    #[error("not a Kubernetes object: it does not begin with '{{'")]
    NoObject,
    /// `metadata.name` is missing or empty.
    #[error("not a Kubernetes object: metadata.name is missing")]
    NoName,
    /// A pointer of the watch's projection is invalid.
    #[error(transparent)]
    Pointer(#[from] PointerError),
    /// The text is a list without a `resourceVersion`.
    #[error("the list has no metadata.resourceVersion, so no watch can start from it")]
    NoVersion,
}

/// The JSON text of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Raw<'a>(&'a str);

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(raw.get()))
    }
}

#[derive(Debug, Default, PartialEq, Deserialize)]
struct ParsedObject<'a> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: Option<Raw<'a>>,
    #[serde(borrow)]
    kind: Option<Raw<'a>>,
    #[serde(borrow)]
    metadata: Option<ParsedMetadata<'a>>,
    #[serde(borrow)]
    status: Option<Raw<'a>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ParsedMetadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    generation: Option<i64>,
    #[serde(borrow)]
    labels: Option<Pairs<'a>>,
    #[serde(borrow)]
    owner_references: Option<Vec<ParsedOwner<'a>>>,
    #[serde(borrow)]
    deletion_timestamp: Option<Raw<'a>>,
    #[serde(borrow)]
    managed_fields: Option<Raw<'a>>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ParsedOwner<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    controller: Option<bool>,
}

/// A string that borrows from the text if it has no escapes.
#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

/// A map of strings, sorted by key; for a duplicate key, the last value counts.
#[derive(Debug, Default, PartialEq)]
struct Pairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Pairs<'a> {
    fn add(&mut self, key: Cow<'a, str>, value: Cow<'a, str>) {
        self.0.push((key, value));
    }

    /// Sorts the pairs, all at once: with sorted insertion, a hostile server could send many pairs in the worst order
    /// and cause quadratic work.
    fn sorted(mut self) -> Self {
        let Self(pairs) = &mut self;
        // Servers send them sorted.
        if !pairs.is_sorted_by(|(one, _), (next, _)| one < next) {
            pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
            pairs.dedup_by(|(key, value), (earlier, kept)| {
                let is_same = key == earlier;
                if is_same {
                    *kept = std::mem::take(value);
                }
                is_same
            });
        }
        self
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
        let mut pairs = Pairs::default();
        while let Some((Borrowed(key), Borrowed(value))) = map.next_entry()? {
            pairs.add(key, value);
        }
        Ok(pairs.sorted())
    }
}

/// Parses `text`, the answer to a write, in the form in which the watch `spec` would keep it.
pub fn object_of(spec: &WatchSpec, text: &str) -> Result<Object, ParseError> {
    ObjectParser { interner: Interner::for_one(), ..ObjectParser::new(spec)? }.object(text)
}

/// Parses the objects of one watch.
pub(crate) struct ObjectParser {
    kind: ObjectKind,
    /// `None` to keep everything.
    kept: Option<Projector>,
    /// Whether `managedFields` are kept.
    managed_fields: bool,
    /// `None` to admit everything.
    judge: Option<Judge>,
    interner: Interner,
    /// Scratch space in which texts are put together.
    buffer: String,
}

impl ObjectParser {
    /// A parser for the objects of `spec`.
    pub(crate) fn new(spec: &WatchSpec) -> Result<Self, PointerError> {
        let (kind, kept, judge) = (spec.kind.clone(), Projector::of(&spec.projection)?, Judge::of(spec)?);
        let managed_fields = spec.managed_fields;
        Ok(Self { kind, kept, managed_fields, judge, interner: Interner::default(), buffer: String::new() })
    }

    /// A parser of one whole object of `kind`.
    pub(crate) fn for_one(kind: &ObjectKind) -> Self {
        Self {
            kind: kind.clone(),
            kept: None,
            managed_fields: false,
            judge: None,
            interner: Interner::for_one(),
            buffer: String::new(),
        }
    }

    /// Parses an object. If the text lacks `apiVersion` and `kind`, as items of a list do, or has different ones, as
    /// partial metadata does, the object gets those of the watch. Does not check whether the watch's `where` admits the
    /// object.
    pub(crate) fn object(&mut self, text: &str) -> Result<Object, ParseError> {
        let text = text.trim();
        self.object_from(text, top(text)?)
    }

    /// As [`Self::object`], but also checks whether the watch's `where` admits the object.
    pub(crate) fn seen(&mut self, text: &str) -> Result<SeenObject, ParseError> {
        let text = text.trim();
        self.seen_from(text, top(text)?)
    }

    /// Reads the type and the object of a watch event in the form that API servers write. `None` if the form differs;
    /// `line` may be an event nevertheless.
    pub(crate) fn event<'a>(&mut self, line: &'a [u8]) -> Option<(&'a str, SeenObject)> {
        let UsualEvent { name, object, text } =
            head::event(std::str::from_utf8(line).ok()?.trim_end_matches(JSON_SPACE))?;
        self.seen_from(text, object).ok().map(|object| (name, object))
    }

    fn seen_from(&mut self, text: &str, top: ParsedObject<'_>) -> Result<SeenObject, ParseError> {
        match &self.judge {
            Some(judge) if !judge.admits(text)? => judge::excluded(top.metadata, &mut self.interner),
            _ => self.object_from(text, top).map(SeenObject::Admitted),
        }
    }

    /// As [`Self::object`], but returns `None` unless the text itself names this kind and this `name`, and the object
    /// is not being deleted.
    pub(crate) fn living(&mut self, text: &str, name: &str) -> Result<Option<Object>, ParseError> {
        let text = text.trim();
        let top = top(text)?;
        let is_of_kind = says(top.api_version, &self.kind.api_version) && says(top.kind, &self.kind.kind);
        let is_living = |it: &ParsedMetadata<'_>| it.name == name && it.deletion_timestamp.is_none();
        let is_wanted = is_of_kind && top.metadata.as_ref().is_some_and(is_living);
        is_wanted.then(|| self.object_from(text, top)).transpose()
    }

    fn object_from(&mut self, text: &str, top: ParsedObject<'_>) -> Result<Object, ParseError> {
        let mut kept = rewrite(text, &top, &self.kind, self.managed_fields, &mut self.buffer);
        if self.buffer.capacity() > IDLE_BUFFER_BYTES {
            self.buffer = String::new();
        }
        let metadata = top.metadata.ok_or(ParseError::NoName)?;
        if metadata.name.is_empty() {
            return Err(ParseError::NoName);
        }
        if let Some(projector) = &self.kept {
            kept = projector.project(&kept)?.into();
        }
        Ok(Object::new(self.header(metadata, top.status)?, kept))
    }

    fn header(&mut self, metadata: ParsedMetadata<'_>, status: Option<Raw<'_>>) -> Result<Header, ParseError> {
        let namespace = (!metadata.namespace.is_empty()).then(|| self.interner.string(&metadata.namespace));
        let owners: Vec<_> =
            metadata.owner_references.unwrap_or_default().into_iter().map(ParsedOwner::borrowed).collect();
        Ok(Header {
            key: ObjectKey { namespace, name: Arc::from(&*metadata.name) },
            uid: Uid::from(&*metadata.uid),
            version: Version::from(&*metadata.resource_version),
            generation: metadata.generation.unwrap_or_default(),
            labels: metadata.labels.map(|Pairs(pairs)| self.interner.labels(&pairs)).unwrap_or_default(),
            owners: self.interner.owners(&owners),
            own_fields: own_fields(metadata.managed_fields)?,
            conditions: status.map(|status| self.interner.conditions(&conditions::read(status.0))).unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
        })
    }
}

impl<'a> ParsedOwner<'a> {
    fn borrowed(self) -> BorrowedOwner<'a> {
        let Self { api_version, kind, name, uid, controller } = self;
        BorrowedOwner { api_version, kind, name, uid, controller: controller.unwrap_or_default() }
    }
}

/// Cleans any answer about an object: removes `managedFields` and adds `apiVersion` and `kind`. Unlike
/// [`ObjectParser::object`], it accepts an answer without a name, as some subresources return, and keeps an existing
/// kind.
pub(crate) fn clean(text: &str, kind: &ObjectKind) -> Result<Arc<str>, ParseError> {
    let text = text.trim();
    let top = top(text)?;
    let own = |raw: Option<Raw<'_>>| raw.and_then(|raw| serde_json::from_str::<Arc<str>>(raw.0).ok());
    let kind = ObjectKind {
        api_version: own(top.api_version).unwrap_or_else(|| Arc::clone(&kind.api_version)),
        kind: own(top.kind).unwrap_or_else(|| Arc::clone(&kind.kind)),
    };
    Ok(rewrite(text, &top, &kind, false, &mut String::new()))
}

fn top(text: &str) -> Result<ParsedObject<'_>, ParseError> {
    // serde would take the items of an array for the fields of an object.
    if !text.is_empty() && !text.starts_with('{') {
        return Err(ParseError::NoObject);
    }
    match head::object(text) {
        Some(object) => Ok(object),
        None => Ok(serde_json::from_str(text)?),
    }
}

/// Whether `given` is the JSON string `wanted`, written without escapes.
fn says(given: Option<Raw<'_>>, wanted: &str) -> bool {
    given.is_some_and(|raw| raw.0.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) == Some(wanted))
}

/// The entries of `managedFields` that belong to this host's plugins.
fn own_fields(managed_fields: Option<Raw<'_>>) -> Result<Option<Arc<String>>, ParseError> {
    #[derive(Deserialize)]
    struct ManagerEntry<'a> {
        #[serde(borrow, default)]
        manager: Cow<'a, str>,
    }
    // Nearly all objects have no such entry, and searching for the prefix is faster than parsing.
    let Some(all) = managed_fields.filter(|all| all.0.contains(OWN_MANAGERS)) else { return Ok(None) };
    let mut own = Vec::new();
    for raw in serde_json::from_str::<Vec<&RawValue>>(all.0)? {
        let entry: ManagerEntry<'_> = serde_json::from_str(raw.get())?;
        if entry.manager.starts_with(OWN_MANAGERS) {
            own.push(raw.get());
        }
    }
    Ok((!own.is_empty()).then(|| Arc::new(format!("[{}]", own.join(",")))))
}

#[cfg(test)]
mod tests {
    use windlass_core::cache::watch::Projection;
    use windlass_core::cache::where_clause::{WhereClause, WhereCondition};

    use super::*;

    fn pods() -> ObjectKind {
        ObjectKind::new("v1", "Pod")
    }

    fn object(json: &str) -> Result<Object, ParseError> {
        ObjectParser::new(&WatchSpec::all(pods())).expect("no pointers").object(json)
    }

    fn text_of(json: &str) -> String {
        let text = object(json).expect("an object").text();
        serde_json::from_str::<serde_json::Value>(&text).expect("valid JSON");
        text.to_string()
    }

    #[test]
    fn managed_fields_are_cut_wherever_they_stand() {
        let cases = [
            (r#"{"managedFields":[{"a":{}}],"name":"x"}"#, r#"{"name":"x"}"#),
            (r#"{"name":"x","managedFields":[1]}"#, r#"{"name":"x"}"#),
            (r#"{"name":"x","managedFields":[1],"uid":"u"}"#, r#"{"name":"x","uid":"u"}"#),
            (r#"{ "name" : "x" , "managedFields" : [ 1 ] , "uid" : "u" }"#, r#"{ "name" : "x" , "uid" : "u" }"#),
            (r#"{"name":"x","managed\u0046ields":[],"uid":"u"}"#, r#"{"name":"x","uid":"u"}"#),
        ];
        for (metadata, expected) in cases {
            let wrap = |metadata: &str| {
                format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"spec":{{"x":1.50}}}}"#)
            };
            assert_eq!(text_of(&wrap(metadata)), wrap(expected));
        }
    }

    #[test]
    fn a_watch_keeps_managed_fields_on_request_in_each_projection() {
        let json =
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","managedFields":[{"manager":"a"}]},"spec":{}}"#;
        let metadata = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","managedFields":[{"manager":"a"}]}}"#;
        for (projection, expected) in [(Projection::Full, json), (Projection::Metadata, metadata)] {
            let spec = WatchSpec { projection, managed_fields: true, ..WatchSpec::all(pods()) };
            let object = ObjectParser::new(&spec).expect("no pointers").object(json).expect("an object");
            assert_eq!(&*object.text(), expected);
        }
        let listed = r#"{"metadata":{"name":"x","managedFields":[]}}"#;
        let spec = WatchSpec { managed_fields: true, ..WatchSpec::all(pods()) };
        let object = ObjectParser::new(&spec).expect("no pointers").object(listed).expect("an object");
        assert_eq!(&*object.text(), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","managedFields":[]}}"#);
        assert_ne!(spec, WatchSpec::all(pods()), "a cache of its own");
        assert_eq!(spec.to_string(), "v1 Pod with managedFields");
    }

    #[test]
    fn a_field_of_that_name_elsewhere_is_kept() {
        let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"managedFields":[1]}}"#;
        assert_eq!(text_of(json), json);
    }

    #[test]
    fn an_item_of_a_list_gets_its_kind() {
        assert_eq!(
            text_of(r#"{"metadata":{"name":"x"}}"#),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}"#
        );
        let with_kind = r#"{"kind":"Pod","metadata":{"managedFields":[],"name":"x"}}"#;
        assert_eq!(text_of(with_kind), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}"#);
    }

    #[test]
    fn the_header_holds_what_the_host_needs() {
        let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"prod","uid":"u","resourceVersion":"7",
            "generation":3,"labels":{"app":"a\"b"},"deletionTimestamp":"2026-01-01T00:00:00Z","creationTimestamp":null,
            "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"o","controller":true}]}}"#;
        let header = object(json).expect("an object").header.clone();
        assert_eq!(header.key, ObjectKey::namespaced("prod", "x"));
        assert_eq!(header.controller().map(|owner| &*owner.uid), Some("o"));
        assert_eq!((header.uid, header.version, header.generation), ("u".into(), "7".into(), 3));
        assert_eq!(header.labels.get("app").map(|value| &**value), Some("a\"b"));
        assert!(header.deleting);
    }

    #[test]
    fn partial_metadata_get_the_kind_that_they_are_of() {
        let partial = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x","managedFields":[]}}"#;
        assert_eq!(text_of(partial), r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}"#);
    }

    #[test]
    fn a_watch_of_some_fields_keeps_them_and_the_metadata() {
        let spec = WatchSpec { projection: Projection::fields(["/spec/nodeName".into()]), ..WatchSpec::all(pods()) };
        let json = r#"{"metadata":{"name":"x","managedFields":[1],"labels":{"a":"b"}},"spec":{"x":1,"nodeName":"n"},"status":{}}"#;
        let object = ObjectParser::new(&spec).expect("a pointer").object(json).expect("an object");
        let kept =
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","labels":{"a":"b"}},"spec":{"nodeName":"n"}}"#;
        assert_eq!(&*object.text(), kept);
    }

    #[test]
    fn only_the_hosts_own_managed_fields_are_kept_beside_the_text() {
        let of = |managers: &str| {
            object(&format!(r#"{{"metadata":{{"name":"x","managedFields":[{managers}]}}}}"#)).expect("an object")
        };
        let ours = r#"{"manager":"windlass/webapp","operation":"Apply","fieldsV1":{"f:spec":{}}}"#;
        let theirs = r#"{"manager":"kubectl","fieldsV1":{"f:windlass/x":{}}}"#;
        assert_eq!(of(&format!("{theirs},{ours}")).header.own_fields, Some(Arc::new(format!("[{ours}]"))));
        assert_eq!(of(theirs).header.own_fields, None);
        assert_eq!(of("").header.own_fields, None);
    }

    #[test]
    fn labels_that_come_unsorted_or_twice_are_read_as_json_means_them() {
        let json = r#"{"metadata":{"name":"x","labels":{"b":"1","a":"2","b":"3"}}}"#;
        let labels = object(json).expect("an object").header.labels.clone();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
    }

    /// If such an object could not be read, every list of its kind would fail.
    #[test]
    fn a_very_deep_object_is_read_in_each_projection_and_judged() {
        let (open, close) = (r#"{"a":"#.repeat(50_000), "}".repeat(50_000));
        let deep = format!("{open}1{close}");
        let annotations = format!(r#"{{"auto":"true","deep":{deep}}}"#);
        let json = format!(
            r#"{{"metadata":{{"name":"x","annotations":{annotations}}},"spec":{{"type":"A","config":{deep}}}}}"#
        );
        let projections = [
            Projection::Full,
            Projection::Metadata,
            Projection::fields(["/spec/config".into()]),
            Projection::Digest(["/spec".into()].into()),
        ];
        let conditions = [
            (r#"{"field":"/spec/type","is":"A"}"#, true),
            (r#"{"annotation":"auto","is":"true"}"#, true),
            (r#"{"field":"/spec/config","exists":true}"#, true),
            (r#"{"field":"/spec/config","in":["x","1",1]}"#, false),
            (r#"{"field":"/spec/config","notIn":["x"]}"#, true),
            (r#"{"field":"/spec/config","exists":false}"#, false),
            (r#"{"field":"/spec/config/a/a/a","exists":true}"#, true),
            (r#"{"field":"/spec/config/b","exists":true}"#, false),
        ];
        for projection in projections {
            for (condition, expected) in conditions {
                let condition: WhereCondition = serde_json::from_str(condition).expect("a condition");
                let where_clause = WhereClause::new(std::slice::from_ref(&condition));
                let spec = WatchSpec { projection: projection.clone(), where_clause, ..WatchSpec::all(pods()) };
                let mut parser = ObjectParser::new(&spec).expect("pointers");
                let seen = parser.seen(&json).expect("an object");
                assert_eq!(matches!(seen, SeenObject::Admitted(_)), expected, "{condition:?} {projection:?}");
                let line = format!(r#"{{"type":"ADDED","object":{json}}}"#);
                assert!(parser.event(line.as_bytes()).is_none(), "left to serde");
            }
        }
    }

    #[test]
    fn json_that_is_no_object_is_refused() {
        for json in [
            "",
            "{",
            "[]",
            "7",
            r#"{"metadata":{}}"#,
            r#"{"metadata":{"name":7}}"#,
            r#"{"kind":"Pod"}"#,
            "{}{}",
            r#"["v1","Pod",{"name":"x"}]"#,
        ] {
            assert!(object(json).is_err(), "{json}");
        }
    }

    #[test]
    fn an_answer_without_a_name_is_cleaned_too() {
        let token = r#"{"kind":"TokenRequest","apiVersion":"v1","metadata":{"managedFields":[]},"status":{}}"#;
        let cleaned = clean(token, &pods()).expect("valid");
        assert_eq!(&*cleaned, r#"{"kind":"TokenRequest","apiVersion":"v1","metadata":{},"status":{}}"#);
    }
}
