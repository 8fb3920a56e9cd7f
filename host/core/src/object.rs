//! Objects: their names, their headers, which are known without parsing JSON, and questions about a single object.

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
pub mod pointer_tree;
pub mod progress;
pub mod reference;
pub mod run_request;
pub mod selector;
pub mod shallow;
pub mod text;
pub mod withheld;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::deceptive::single_line;
use crate::object::compact::{Uid, Version};
use crate::object::conditions::Conditions;
use crate::object::labels::Labels;
use crate::object::progress::Stamp;
use crate::object::text::{Dictionary, Text};

/// The longest name in Kubernetes.
const API_VERSION_BYTES_MAX: usize = 253;
const KIND_BYTES_MAX: usize = 63;

/// Why a text is not a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    /// The first part is not a group and version.
    #[error("`{}` is not an apiVersion, which is like `apps/v1`", single_line(.0, 80))]
    ApiVersion(String),
    /// The second part is not a kind.
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

    /// Whether an API server could serve a kind of this name, judging by its characters.
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

/// Guesses the resource of a kind as an English plural: `Policy` → `policies`, `Ingress` → `ingresses`, `Widget` →
/// `widgets`. Only a cluster knows for certain.
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

/// Namespace and name, the item of a workqueue. The context implies the kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `None` for a cluster-scoped object.
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

/// One object of a kind: whichever object has the name, or, with a UID, one incarnation of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    pub kind: ObjectKind,
    /// Its namespace and name.
    pub key: ObjectKey,
    /// The UID of the incarnation. `None` means whichever object has the name.
    pub uid: Option<Arc<str>>,
}

impl ObjectRef {
    /// The total length of its strings in bytes.
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
    /// The owner's name. The owner is in the same namespace or cluster-scoped.
    pub name: Arc<str>,
    /// The owner's UID, by which the garbage collector identifies owners.
    pub uid: Arc<str>,
    /// Whether this owner is the managing controller. At most one owner of an object is.
    pub controller: bool,
}

/// The part of an object that is kept beside its text, so that indexes, mappings and predicates need no parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub key: ObjectKey,
    /// The UID of this incarnation.
    pub uid: Uid,
    /// The `resourceVersion`.
    pub version: Version,
    /// The generation, or 0 if the kind has none.
    pub generation: i64,
    pub labels: Labels,
    /// All owners, in the object's order.
    pub owners: Arc<[OwnerReference]>,
    /// This host's own entries of `managedFields`, as a JSON array. `None` if there are none.
    pub own_fields: Option<Arc<String>>,
    /// The conditions of its status.
    pub conditions: Conditions,
    /// Whether the object has a deletion timestamp and waits for finalizers or its grace period.
    pub deleting: bool,
}

impl Header {
    /// The header of an object that has nothing but its name, UID and version.
    pub fn bare(key: ObjectKey, uid: impl Into<Uid>, version: impl Into<Version>) -> Self {
        Self {
            key,
            uid: uid.into(),
            version: version.into(),
            generation: 0,
            labels: Labels::default(),
            owners: Arc::default(),
            own_fields: None,
            conditions: Conditions::default(),
            deleting: false,
        }
    }

    /// The controlling owner, if there is one.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller)
    }
}

/// One state of an object: its header and its text. A shared pointer, cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object(Arc<ObjectState>);

/// The shared content of an [`Object`].
#[derive(Debug)]
pub struct ObjectState {
    /// The part that is known without parsing.
    pub header: Header,
    text: Text,
    stamp: Stamp,
}

/// Two states are equal if they read alike, whenever they were made.
impl PartialEq for ObjectState {
    fn eq(&self, other: &Self) -> bool {
        (&self.header, &self.text) == (&other.header, &other.text)
    }
}

impl Eq for ObjectState {}

impl Object {
    /// An object with this header and JSON text.
    #[must_use]
    pub fn new(header: Header, text: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(ObjectState { header, text: Text::new(text.into()), stamp: Stamp::take() }))
    }

    /// When this state was made. No other state has this stamp, even of the same object at the same version, so equal
    /// stamps mean equal content for as long as the process runs.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.0.stamp
    }

    /// The JSON text with `apiVersion` and `kind`, and without `metadata.managedFields` unless its watch keeps them.
    /// Shared, unless the object was packed: unpacking takes some microseconds each time.
    #[must_use]
    pub fn text(&self) -> Arc<str> {
        self.0.text.get()
    }

    /// As [`Object::text`], but does not count as a read. For code that looks at each object once, when it arrives.
    #[must_use]
    pub fn glance(&self) -> Arc<str> {
        self.0.text.glance()
    }

    /// Packs the text if it was not read since the last call, and unpacks it if it was. Callers of [`Object::text`]
    /// notice only the time it takes.
    pub fn cool(&self, dictionary: &Arc<Dictionary>) {
        self.0.text.cool(dictionary);
    }

    /// The approximate size of this object in memory, in bytes: its text as currently kept, and its header. Shared
    /// parts (namespaces, labels, owners) are not counted.
    #[must_use]
    pub fn footprint(&self) -> usize {
        self.header_footprint() + self.0.text.footprint()
    }

    /// [`Object::footprint`] with the text unpacked: the upper bound, independent of who reads the object.
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
    fn plurals_are_guessed_by_english_rules() {
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
    fn a_kind_that_no_server_can_serve_is_recognised() {
        let is_well_formed = |version: &str, kind: &str| ObjectKind::new(version, kind).is_well_formed();
        assert!(is_well_formed("v1", "Pod") && is_well_formed("my-group.example.com/v1", "Shop2"));
        for (version, kind) in [("v1", ""), ("v1", "a b"), ("Batch/v1", "Job"), ("a/b/v1", "Job")] {
            assert!(!is_well_formed(version, kind), "{version} {kind}");
        }
        assert!(!is_well_formed("v1", &"K".repeat(64)));
    }

    #[test]
    fn the_footprint_excludes_shared_parts() {
        let object = |own_fields: Option<&str>, labels: Labels| {
            let header = Header {
                labels,
                own_fields: own_fields.map(|fields| Arc::new(fields.to_owned())),
                ..Header::bare(ObjectKey::cluster("x"), "u", "1")
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
