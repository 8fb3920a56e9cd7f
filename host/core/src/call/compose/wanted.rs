//! Checks a composer's answer as a whole before anything of it is applied. An answer with one mistake cannot be
//! trusted elsewhere, least of all about what to delete.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{CREATED_BY, CompositeParent, Composition, OwnedKind, UpdateStrategy, reference};
use crate::object::path_segment;
use crate::object::{ObjectKey, ObjectKind, ObjectRef};

/// How many children one parent may have.
pub const CHILDREN_MAX: usize = 1_000;
/// The longest name that Kubernetes allows, in bytes.
const NAME_BYTES_MAX: usize = 253;
/// The longest text of a [`Flaw`], in bytes.
const PROBLEM_BYTES_MAX: usize = 500;
/// Metadata fields that the server sets, or that act as a lock or have no meaning in an apply.
const SERVERS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// A mistake in a composer's answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Flaw {
    /// The place, such as `children[2]` or `status`.
    pub place: String,
    /// The problem and its remedy.
    pub problem: String,
}

#[derive(Debug)]
pub struct Wanted {
    /// The children in the answer's order. No two have the same kind and key.
    pub children: Vec<Child>,
    /// The parent's new status, a JSON object. `None` leaves it as it is.
    pub status: Option<Value>,
    /// Whether an answer without any children is intended.
    pub allow_empty: bool,
}

/// A child that should exist.
#[derive(Debug)]
pub struct Child {
    /// One of the owned kinds.
    pub kind: ObjectKind,
    /// With a namespace if the kind is namespaced.
    pub key: ObjectKey,
    pub strategy: UpdateStrategy,
    pub labels: BTreeMap<String, String>,
    metadata: Map<String, Value>,
    /// Everything except the metadata, byte for byte.
    rest: BTreeMap<String, Box<RawValue>>,
}

impl Wanted {
    /// Checks `answer` and returns all its flaws.
    pub fn read(answer: &Composition, parent: &CompositeParent, owns: &[OwnedKind]) -> Result<Self, Vec<Flaw>> {
        let mut flaws = Vec::new();
        if answer.children.len() > CHILDREN_MAX {
            let problem = format!("{} children, but at most {CHILDREN_MAX} are allowed", answer.children.len());
            return Err(vec![Flaw { place: "children".to_owned(), problem }]);
        }
        let mut children = Vec::with_capacity(answer.children.len());
        let mut seen = HashSet::new();
        for (index, text) in answer.children.iter().enumerate() {
            let place = format!("children[{index}]");
            match Child::read(text, parent, owns) {
                Ok(child) if !seen.insert((child.kind.clone(), child.key.clone())) => {
                    flaws.push(Flaw { place, problem: format!("{} appears twice", child.reference()) });
                }
                Ok(child) => children.push(child),
                Err(problem) => flaws.push(Flaw { place, problem: short(problem) }),
            }
        }
        let status = answer.status.as_deref().map(read_status).transpose();
        let status = status.unwrap_or_else(|problem| {
            flaws.push(Flaw { place: "status".to_owned(), problem: short(problem) });
            None
        });
        if flaws.is_empty() { Ok(Self { children, status, allow_empty: answer.allow_empty }) } else { Err(flaws) }
    }
}

/// Shortens a problem, which may quote megabytes of the composer's answer.
fn short(mut problem: String) -> String {
    if problem.len() > PROBLEM_BYTES_MAX {
        problem.truncate(problem.floor_char_boundary(PROBLEM_BYTES_MAX));
        problem.push('…');
    }
    problem
}

fn read_status(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(status @ Value::Object(_)) => Ok(status),
        Ok(_) => Err("it is not a JSON object".to_owned()),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}

impl Child {
    fn read(text: &str, parent: &CompositeParent, owns: &[OwnedKind]) -> Result<Self, String> {
        let mut rest: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(text).map_err(|error| format!("it is not a JSON object: {error}"))?;
        let metadata = rest.remove("metadata").ok_or("it has no metadata")?;
        let mut metadata: Map<String, Value> =
            serde_json::from_str(metadata.get()).map_err(|error| format!("its metadata is not an object: {error}"))?;
        let owned = owned(&rest, owns)?;
        // Typed clients write `creationTimestamp: null`.
        metadata.retain(|_, value| !value.is_null());
        check_metadata(&metadata)?;
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
        check_name("name", name)?;
        let key = ObjectKey { namespace: namespace(&metadata, parent, owned)?, name: name.into() };
        if owned.kind.group() == parent.kind.group() && owned.kind.kind == parent.kind.kind && key == parent.key {
            return Err(format!("{} is the parent itself", reference(&owned.kind, &key)));
        }
        if let Some(namespace) = &key.namespace {
            metadata.insert("namespace".to_owned(), Value::from(&**namespace));
        }
        let labels = take_labels(&mut metadata)?;
        Ok(Self { kind: owned.kind.clone(), key, strategy: owned.strategy, labels, metadata, rest })
    }

    /// A reference to the child without a UID.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        reference(&self.kind, &self.key)
    }

    /// The JSON to apply. With the created-by label if `created_by` names a plugin, and bound to the incarnation
    /// `uid` if one is given.
    #[must_use]
    pub fn body(&self, created_by: Option<&str>, uid: Option<&str>) -> String {
        let mut metadata = self.metadata.clone();
        if let Some(uid) = uid {
            metadata.insert("uid".to_owned(), Value::from(uid));
        }
        let mark = created_by.map(|plugin| (CREATED_BY.to_owned(), Value::from(plugin)));
        let labels = self.labels.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        let labels: Map<String, Value> = labels.chain(mark).collect();
        if !labels.is_empty() {
            metadata.insert("labels".to_owned(), Value::Object(labels));
        }
        ChildBody { metadata: &metadata, rest: &self.rest }.to_string()
    }
}

/// Joins metadata and the other fields into one object.
struct ChildBody<'a> {
    metadata: &'a Map<String, Value>,
    rest: &'a BTreeMap<String, Box<RawValue>>,
}

impl fmt::Display for ChildBody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (name, value) in self.rest {
            write!(f, "{}:{},", Value::from(name.as_str()), value.get())?;
        }
        f.write_str(r#""metadata":{"#)?;
        for (index, (name, value)) in self.metadata.iter().enumerate() {
            write!(f, "{}{}:{value}", if index == 0 { "" } else { "," }, Value::from(name.as_str()))?;
        }
        f.write_str("}}")
    }
}

fn owned<'a>(rest: &BTreeMap<String, Box<RawValue>>, owns: &'a [OwnedKind]) -> Result<&'a OwnedKind, String> {
    let text = |field: &str| -> Result<String, String> {
        let value = rest.get(field).and_then(|value| serde_json::from_str::<String>(value.get()).ok());
        value.filter(|value| !value.is_empty()).ok_or_else(|| format!("its {field} is missing or not a string"))
    };
    let kind = ObjectKind::new(text("apiVersion")?, text("kind")?);
    owns.iter().find(|owned| owned.kind == kind).ok_or_else(|| {
        let another = |owned: &&OwnedKind| owned.kind.group() == kind.group() && owned.kind.kind == kind.kind;
        match owns.iter().find(another) {
            Some(other) => format!("the controller owns {}, not its version {}", other.kind, kind.version()),
            None => format!("the controller owns no {kind}: name it in `owns` of the manifest"),
        }
    })
}

fn check_metadata(metadata: &Map<String, Value>) -> Result<(), String> {
    if metadata.contains_key("generateName") {
        return Err("it has a generateName: a child needs the same name each time that it is composed".to_owned());
    }
    match SERVERS.into_iter().find(|field| metadata.contains_key(*field)) {
        Some(field) => Err(format!("it has metadata.{field}, which only the server sets: leave the field out")),
        None => Ok(()),
    }
}

/// Names become segments of URLs. The server checks the further rules of each kind.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.len() > NAME_BYTES_MAX || path_segment::flaw(name).is_some() {
        let shown: String = name.chars().take(80).collect();
        return Err(format!("{shown:?} cannot be the {what} of an object"));
    }
    Ok(())
}

/// The child's namespace, by the garbage collector's rules for children of `parent`.
fn namespace(
    metadata: &Map<String, Value>,
    parent: &CompositeParent,
    owned: &OwnedKind,
) -> Result<Option<Arc<str>>, String> {
    let named = match metadata.get("namespace") {
        None => None,
        Some(Value::String(namespace)) if namespace.is_empty() => None,
        Some(Value::String(namespace)) => Some(namespace.as_str()),
        Some(_) => return Err("its metadata.namespace is not a string".to_owned()),
    };
    let kind = &owned.kind;
    let namespace: Arc<str> = match (owned.namespaced, &parent.key.namespace, named) {
        (false, Some(_), _) => {
            return Err(format!("{kind} is cluster-scoped, and the parent, which is in a namespace, cannot own it"));
        }
        (false, None, Some(named)) => {
            return Err(format!("{kind} is cluster-scoped, but the namespace {named:?} is given"));
        }
        (false, None, None) => return Ok(None),
        (true, Some(own), Some(named)) if **own != *named => {
            return Err(format!(
                "it is in the namespace {named:?}, and the parent, which is in {own:?}, cannot own it"
            ));
        }
        (true, Some(own), _) => Arc::clone(own),
        (true, None, Some(named)) => named.into(),
        (true, None, None) => {
            return Err(format!("{kind} is namespaced and the parent is not, so it must name its namespace"));
        }
    };
    check_name("namespace", &namespace)?;
    match &owned.namespaces {
        Some(watched) if !watched.contains(&namespace) => Err(format!(
            "it is in the namespace {namespace:?}, and {kind} is watched in {} only: the host would never see it",
            watched.join(", ")
        )),
        _ => Ok(Some(namespace)),
    }
}

/// The labels without the created-by label, which only the host sets.
fn take_labels(metadata: &mut Map<String, Value>) -> Result<BTreeMap<String, String>, String> {
    let labels = match metadata.remove("labels") {
        None => Map::new(),
        Some(Value::Object(labels)) => labels,
        Some(_) => return Err("its metadata.labels are not an object".to_owned()),
    };
    let labels = labels.into_iter().filter(|(key, value)| *key != CREATED_BY && !value.is_null());
    let text = |(key, value)| match value {
        Value::String(value) => Ok((key, value)),
        _ => Err(format!("its label {key:?} is not a string")),
    };
    labels.map(text).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parent() -> CompositeParent {
        CompositeParent {
            plugin: "webapp".into(),
            kind: ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp"),
            key: ObjectKey::namespaced("prod", "shop"),
            uid: "u-1".into(),
        }
    }

    fn owned(api_version: &str, kind: &str, namespaced: bool) -> OwnedKind {
        let kind = ObjectKind::new(api_version, kind);
        OwnedKind { kind, namespaced, namespaces: None, strategy: UpdateStrategy::InPlace }
    }

    fn owns() -> Vec<OwnedKind> {
        vec![
            owned("v1", "ConfigMap", true),
            owned("v1", "Namespace", false),
            owned("apps.kubedojo.io/v1beta1", "WebApp", true),
            OwnedKind { namespaces: Some(vec!["elsewhere".into()]), ..owned("v1", "Secret", true) },
        ]
    }

    fn read_for(parent: &CompositeParent, children: &[Value]) -> Result<Wanted, Vec<Flaw>> {
        let children = children.iter().map(ToString::to_string).collect();
        Wanted::read(&Composition { children, ..Composition::default() }, parent, &owns())
    }

    fn read(children: &[Value]) -> Result<Wanted, Vec<Flaw>> {
        read_for(&parent(), children)
    }

    fn map(metadata: Value) -> Value {
        let mut child = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        child["metadata"] = metadata;
        child
    }

    /// The single flaw of an answer with this child.
    #[track_caller]
    fn flaw(child: Value) -> String {
        let flaws = read(&[map(json!({"name": "good"})), child]).expect_err("a flaw");
        assert_eq!((flaws.len(), &*flaws[0].place), (1, "children[1]"), "{flaws:?}");
        flaws[0].problem.clone()
    }

    #[test]
    fn a_child_takes_the_parents_namespace_and_its_creators_label() {
        let wanted = read(&[map(json!({"name": "a", "labels": {"app": "x", CREATED_BY: "forged"}}))]).expect("valid");
        let body = |mark| serde_json::from_str::<Value>(&wanted.children[0].body(mark, None)).expect("JSON");
        let labelled = |labels: Value| map(json!({"name": "a", "namespace": "prod", "labels": labels}));
        assert_eq!(body(None), labelled(json!({"app": "x"})));
        assert_eq!(body(Some("webapp")), labelled(json!({"app": "x", CREATED_BY: "webapp"})));
    }

    #[test]
    fn everything_but_metadata_is_applied_byte_for_byte() {
        let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":{ "n":1.50, "m":12345678901234567890123 }}"#;
        let answer = Composition { children: vec![text.to_owned()], ..Composition::default() };
        let wanted = Wanted::read(&answer, &parent(), &owns()).expect("valid");
        let body = wanted.children[0].body(None, None);
        assert!(body.contains(r#"{ "n":1.50, "m":12345678901234567890123 }"#), "{body}");
    }

    #[test]
    fn every_flaw_is_reported_with_its_place() {
        let answer = Composition {
            children: vec!["[]".to_owned(), "nonsense".to_owned(), map(json!({"name": "a"})).to_string()],
            status: Some("3".to_owned()),
            ..Composition::default()
        };
        let flaws = Wanted::read(&answer, &parent(), &owns()).expect_err("flaws");
        let places: Vec<_> = flaws.iter().map(|flaw| &*flaw.place).collect();
        assert_eq!(places, ["children[0]", "children[1]", "status"]);
    }

    #[test]
    fn a_child_needs_a_kind_that_is_owned_and_a_name_of_its_own() {
        assert!(flaw(json!({"metadata": {"name": "x"}})).contains("apiVersion"));
        assert!(flaw(json!({"apiVersion": "v1", "metadata": {"name": "x"}})).contains("kind"));
        assert!(flaw(json!({"apiVersion": "v1", "kind": "ConfigMap"})).contains("metadata"));
        let other = flaw(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}}));
        assert!(other.contains("owns no v1 Node") && other.contains("manifest"), "{other}");
        let version = flaw(json!({"apiVersion": "apps.kubedojo.io/v2", "kind": "WebApp", "metadata": {"name": "x"}}));
        assert!(version.contains("v1beta1") && version.contains("v2"), "{version}");
        for name in [json!(""), json!(null), json!(7), json!("a/b"), json!(".."), json!("x".repeat(254))] {
            assert!(flaw(map(json!({"name": name}))).contains("cannot be the name"), "{name}");
        }
        for name in ["a b", "x?y=z", "é", "DOMAIN\\\\team"] {
            let answer =
                Composition { children: vec![map(json!({"name": name})).to_string()], ..Composition::default() };
            Wanted::read(&answer, &parent(), &owns()).unwrap_or_else(|flaws| panic!("{name}: {flaws:?}"));
        }
        assert!(flaw(map(json!({"name": "x", "generateName": "x-"}))).contains("same name each time"));
        assert!(flaw(map(json!({"name": "good"}))).contains("appears twice"));
        let parent = flaw(json!({
            "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "metadata": {"name": "shop"},
        }));
        assert!(parent.contains("the parent itself"), "{parent}");
    }

    #[test]
    fn fields_that_the_server_sets_are_refused_unless_null() {
        for field in SERVERS {
            assert!(flaw(map(json!({"name": "x", field: "1"}))).contains(field));
            assert!(read(&[map(json!({"name": "x", field: null}))]).is_ok(), "{field}");
        }
    }

    #[test]
    fn a_child_is_in_the_parents_namespace_if_the_parent_has_one() {
        assert!(flaw(map(json!({"name": "x", "namespace": "test"}))).contains("cannot own it"));
        let cluster = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}});
        assert!(flaw(cluster.clone()).contains("cluster-scoped"));
        let above = CompositeParent { key: ObjectKey::cluster("shop"), ..parent() };
        assert!(read_for(&above, &[cluster]).is_ok());
        assert!(read_for(&above, &[map(json!({"name": "x", "namespace": "test"}))]).is_ok());
        let nowhere = read_for(&above, &[map(json!({"name": "x"}))]).expect_err("no namespace");
        assert!(nowhere[0].problem.contains("must name its namespace"), "{nowhere:?}");
    }

    #[test]
    fn a_child_that_the_host_would_never_see_is_refused() {
        let secret = flaw(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}));
        assert!(secret.contains("watched in elsewhere only"), "{secret}");
    }

    #[test]
    fn a_flaw_does_not_fill_the_log() {
        let long = "ü".repeat(10_000);
        let answer = Composition { children: vec![format!("{long:?}")], ..Composition::default() };
        let flaws = Wanted::read(&answer, &parent(), &owns()).expect_err("no object");
        let kind = flaw(json!({"apiVersion": "v1", "kind": long, "metadata": {"name": "x"}}));
        for problem in [&flaws[0].problem, &kind] {
            assert!(problem.len() <= PROBLEM_BYTES_MAX + 3, "{} bytes", problem.len());
        }
    }

    #[test]
    fn too_many_children_are_one_flaw() {
        let children: Vec<_> = (0..=1_000).map(|at| map(json!({"name": format!("x{at}")}))).collect();
        assert_eq!(read(&children).expect_err("too many").len(), 1);
    }
}
