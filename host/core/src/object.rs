//! Objects: how they are named, what is known of them without parsing their body, and the questions that are asked of one.

pub mod annotation;
pub mod compact;
pub mod conditions;
pub mod difference;
pub mod finalizer;
pub mod labels;
pub mod owner;
pub mod path_segment;
pub mod pause;
pub mod pointer;
pub mod progress;
pub mod reference;
pub mod run_request;
pub mod selector;
pub mod text;
pub mod withheld;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::deceptive::single_line;
use crate::object::compact::{Uid, Version};
use crate::object::conditions::Conditions;
use crate::object::labels::Labels;
use crate::object::text::{Dictionary, Text};

/// As long as Kubernetes' names get.
const API_VERSION_BYTES_MAX: usize = 253;
const KIND_BYTES_MAX: usize = 63;

/// Why a text names no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    /// The first part is no group and version.
    #[error("`{}` is not an apiVersion, which is like `apps/v1`", single_line(.0, 80))]
    ApiVersion(String),
    /// The second part is no kind.
    #[error("`{}` is not a kind, which is like `Deployment`", single_line(.0, 80))]
    Kind(String),
}

/// A kind of object as a manifest names it: `apps/v1` and `Deployment`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKind {
    /// Group and version, or the version alone in the core group: `apps/v1`, `v1`.
    pub api_version: Arc<str>,
    /// The kind in CamelCase.
    pub kind: Arc<str>,
}

impl ObjectKind {
    /// The kind `kind` of `api_version`.
    pub fn new(api_version: impl Into<Arc<str>>, kind: impl Into<Arc<str>>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// The kind `kind` of `api_version`, if both are texts that can become parts of a URL.
    pub fn checked(api_version: String, kind: String) -> Result<Self, KindError> {
        let parts = api_version.split('/').count();
        if parts > 2 || !api_version.split('/').all(is_dns_name) || api_version.len() > API_VERSION_BYTES_MAX {
            return Err(KindError::ApiVersion(api_version));
        }
        if kind.is_empty() || kind.len() > KIND_BYTES_MAX || !kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(KindError::Kind(kind));
        }
        Ok(Self::new(api_version, kind))
    }

    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// The version without its group.
    #[must_use]
    pub fn version(&self) -> &str {
        self.api_version.rsplit_once('/').map_or(&self.api_version, |(_, version)| version)
    }

    /// True if an API server could serve a kind of this name, as far as its letters tell.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        let is_of_groups = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        (1..=63).contains(&self.kind.len())
            && self.kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && self.group().len() <= 253
            && self.group().bytes().all(is_of_groups)
    }
}

fn is_dns_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !name.is_empty() && !name.starts_with(['.', '-']) && !name.contains("..") && name.bytes().all(inner)
}

/// The resource that a kind probably has, in the plural that people form: `Policy` → `policies`, `Ingress` → `ingresses`,
/// `Widget` → `widgets`. Only a cluster knows for certain.
#[must_use]
pub fn plural(kind: &str) -> String {
    let word = kind.to_lowercase();
    let vowel = |letter: char| "aeiou".contains(letter);
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(vowel) => format!("{stem}ies"),
        _ if ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end)) => format!("{word}es"),
        _ => format!("{word}s"),
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.kind)
    }
}

/// Namespace and name: what a workqueue holds. The kind is known from where the key is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// None for a cluster-scoped object.
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of a namespaced object.
    pub fn namespaced(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
        Self { namespace: None, name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// One object of a kind, possibly narrowed to one incarnation of its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    pub kind: ObjectKind,
    /// Its namespace and name.
    pub key: ObjectKey,
    /// The incarnation that is meant. None: whichever holds the name.
    pub uid: Option<Arc<str>>,
}

impl ObjectRef {
    /// The length of its texts in bytes.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let namespace = self.key.namespace.as_deref().map_or(0, str::len);
        let uid = self.uid.as_deref().map_or(0, str::len);
        self.kind.api_version.len() + self.kind.kind.len() + namespace + self.key.name.len() + uid
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.key)
    }
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    pub kind: ObjectKind,
    /// The owner's name; it is in the namespace of the owned object or cluster-scoped.
    pub name: Arc<str>,
    /// The owner's UID, which alone identifies it to the garbage collector.
    pub uid: Arc<str>,
    /// Whether this owner is the managing controller. At most one owner of an object is.
    pub controller: bool,
}

/// The part of an object that is kept beside its text, so that indexes, mappings and predicates need no parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub key: ObjectKey,
    /// The UID that the server gave to this incarnation.
    pub uid: Uid,
    /// The `resourceVersion`.
    pub version: Version,
    /// The generation, 0 where the kind has none.
    pub generation: i64,
    pub labels: Labels,
    /// All owners, in the object's order.
    pub owners: Arc<[OwnerReference]>,
    /// The entries of `managedFields` that are this host's own, as a JSON array. None: it has none.
    pub own_fields: Option<Arc<String>>,
    /// The conditions of its status.
    pub conditions: Conditions,
    /// Whether the object has a deletion timestamp and waits for finalizers or its grace period.
    pub deleting: bool,
}

impl Header {
    /// The owner that controls the object, if one does.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller)
    }
}

/// One state of an object: its header and its text. A shared pointer: cheap to clone, and the same state wherever it is
/// held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object(Arc<ObjectState>);

/// The shared content of an [`Object`].
#[derive(Debug, PartialEq, Eq)]
pub struct ObjectState {
    /// The part that is known without parsing.
    pub header: Header,
    text: Text,
}

impl Object {
    /// An object of this header and JSON text.
    #[must_use]
    pub fn new(header: Header, text: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(ObjectState { header, text: Text::new(text.into()) }))
    }

    /// The JSON text, with `apiVersion` and `kind`, without `metadata.managedFields`. Shared, unless the object was
    /// packed: then it is unpacked, some microseconds each time.
    #[must_use]
    pub fn text(&self) -> Arc<str> {
        self.0.text.get()
    }

    /// As [`Object::text`], but it does not count as reading: for who looks at an object once because it came.
    #[must_use]
    pub fn glance(&self) -> Arc<str> {
        self.0.text.glance()
    }

    /// Packs the text if nobody has asked for it since the last time, and unpacks it if somebody has. Whoever holds this
    /// object notices only how long [`Object::text`] takes.
    pub fn cool(&self, dictionary: &Arc<Dictionary>) {
        self.0.text.cool(dictionary);
    }

    /// Roughly what this object occupies in memory, in bytes: its text as it is kept now, and its header. What objects
    /// share (namespaces, labels, owners) is not counted.
    #[must_use]
    pub fn footprint(&self) -> usize {
        self.header_footprint() + self.0.text.footprint()
    }

    /// [`Object::footprint`] with the text unpacked: what it never exceeds, and what does not depend on who reads it.
    #[must_use]
    pub fn whole_footprint(&self) -> usize {
        self.header_footprint() + self.0.text.whole_footprint()
    }

    fn header_footprint(&self) -> usize {
        let own = self.header.own_fields.as_ref().map_or(0, |fields| fields.len());
        size_of::<ObjectState>() + self.header.key.name.len() + own
    }
}

impl Deref for Object {
    type Target = ObjectState;

    fn deref(&self) -> &ObjectState {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_the_core_group_has_an_empty_group() {
        let service = ObjectKind::new("v1", "Service");
        assert_eq!((service.group(), service.version()), ("", "v1"));
    }

    #[test]
    fn a_kind_of_another_group_is_split_at_the_slash() {
        let deployment = ObjectKind::new("apps/v1", "Deployment");
        assert_eq!((deployment.group(), deployment.version()), ("apps", "v1"));
    }

    #[test]
    fn plurals_are_guessed_as_people_form_them() {
        for (kind, expected) in [
            ("Widget", "widgets"),
            ("Policy", "policies"),
            ("Gateway", "gateways"),
            ("Mesh", "meshes"),
            ("Class", "classes"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }

    #[test]
    fn a_kind_that_no_server_can_have_is_told_from_its_letters() {
        let is_well_formed = |version: &str, kind: &str| ObjectKind::new(version, kind).is_well_formed();
        assert!(is_well_formed("v1", "Pod") && is_well_formed("my-group.example.com/v1", "Shop2"));
        for (version, kind) in [("v1", ""), ("v1", "a b"), ("Batch/v1", "Job"), ("a/b/v1", "Job")] {
            assert!(!is_well_formed(version, kind), "{version} {kind}");
        }
        assert!(!is_well_formed("v1", &"K".repeat(64)));
    }

    #[test]
    fn what_an_object_alone_holds_counts_and_what_it_shares_does_not() {
        let object = |own_fields: Option<&str>, labels: Labels| {
            let header = Header {
                key: ObjectKey::cluster("x"),
                uid: "u".into(),
                version: "1".into(),
                generation: 0,
                labels,
                owners: Arc::default(),
                own_fields: own_fields.map(|fields| Arc::new(fields.to_owned())),
                conditions: Conditions::default(),
                deleting: false,
            };
            Object::new(header, "{}")
        };
        let plain = object(None, Labels::default());
        assert_eq!(object(Some("[12345678]"), Labels::default()).footprint(), plain.footprint() + 10);
        assert_eq!(object(None, [("a".into(), "b".into())].into()).footprint(), plain.footprint());
        assert_eq!(plain.whole_footprint(), plain.footprint());
    }

    #[test]
    fn a_key_reads_as_kubectl_writes_it() {
        assert_eq!(ObjectKey::namespaced("prod", "shop").to_string(), "prod/shop");
        assert_eq!(ObjectKey::cluster("prod").to_string(), "prod");
    }
}
