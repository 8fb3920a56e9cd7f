//! The specification of a watch. Equal specifications share one informer per process (invariant 5).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::cache::declared::{nothing_else, only_field};
use crate::cache::where_clause::WhereClause;
use crate::deceptive::is_deceptive;
use crate::object::ObjectKind;
use crate::object::reference::ReferencePath;
use crate::object::selector::{FieldSelector, ParsedSelector, Selector, unescaped_field};

/// The specification of one list and watch. Watches share a cache only if their specifications are exactly equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchSpec {
    /// The kind to watch.
    pub kind: ObjectKind,
    /// `None` means all namespaces, or a cluster-scoped kind.
    pub namespace: Option<Arc<str>>,
    /// Evaluated by the server.
    pub label_selector: Option<ParsedSelector<Selector>>,
    /// Evaluated by the server.
    pub field_selector: Option<ParsedSelector<FieldSelector>>,
    /// Evaluated by the host. The cache does not keep objects that the clause does not admit, and treats them as gone.
    pub where_clause: Option<WhereClause>,
    /// The part of each object to keep.
    pub projection: Projection,
    /// Whether `metadata.managedFields` are kept too.
    pub managed_fields: bool,
}

only_field!(key: Arc<str>);
only_field!(pointer: Arc<str>);
only_field!(pointers: Vec<Arc<str>>);

/// The part of an object that the cache keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum Projection {
    /// All but `managedFields`, unless [`WatchSpec::managed_fields`] keeps these.
    #[default]
    #[serde(deserialize_with = "nothing_else")]
    Full,
    /// Metadata only. The server sends nothing else (`PartialObjectMetadata`).
    #[serde(deserialize_with = "nothing_else")]
    Metadata,
    /// The metadata and the values at these JSON pointers (see [`pointer`](crate::object::pointer)), in ascending
    /// order. The server still sends whole objects.
    #[serde(deserialize_with = "sorted")]
    Fields(Arc<[Arc<str>]>),
    /// The metadata, and in the field [`DIGEST`] a digest of the values at these JSON pointers, which are not kept
    /// themselves. The annotation in which kubectl repeats the whole object is not kept either. The server still sends
    /// whole objects.
    #[serde(deserialize_with = "sorted")]
    Digest(Arc<[Arc<str>]>),
}

/// The field that [`Projection::Digest`] adds to an object.
pub const DIGEST: &str = "digest";

impl Projection {
    /// A projection to the metadata and `pointers`, in any order and with duplicates.
    #[must_use]
    pub fn fields(pointers: impl IntoIterator<Item = Arc<str>>) -> Self {
        let sorted: BTreeSet<_> = pointers.into_iter().collect();
        Self::Fields(sorted.into_iter().collect())
    }

    /// Sorts projections: a projection that keeps more of an object has a lower rank.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Self::Full => 0,
            Self::Fields(_) => 1,
            Self::Digest(_) => 2,
            Self::Metadata => 3,
        }
    }
}

fn sorted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[Arc<str>]>, D::Error> {
    let sorted: BTreeSet<_> = pointers(deserializer)?.into_iter().collect();
    Ok(sorted.into_iter().collect())
}

/// A named index of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Unique within the watch.
    pub name: Arc<str>,
    /// Where the values are.
    pub source: IndexSource,
}

impl Index {
    /// The source of the index `name`, if it is among `indexes`.
    #[must_use]
    pub fn source<'a>(indexes: &'a [Self], name: &str) -> Option<&'a IndexSource> {
        indexes.iter().find(|index| *index.name == *name).map(|index| &index.source)
    }
}

/// The values by which an index of a cache finds objects. An object without such a value is in no list of the index.
/// [`index`](crate::cache::index) reads them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum IndexSource {
    /// The value of a label.
    #[serde(deserialize_with = "key")]
    Label(Arc<str>),
    /// The strings at a JSON pointer (see [`pointer`](crate::object::pointer)), including the elements of arrays.
    #[serde(deserialize_with = "pointer")]
    Field(Arc<str>),
    /// The value of an annotation, or the parts of it.
    Annotation {
        key: Arc<str>,
        /// The character between the parts, such as the comma in `a, b`. `None` if the value is one text.
        #[serde(default)]
        split: Option<char>,
    },
    /// References to other objects, each as `namespace/name`, or as `name` if it has no namespace.
    Reference(ReferencePath),
    /// Label selectors, such as `app=web,tier=front`. A lookup with labels finds the objects whose selectors select
    /// those labels.
    Selector {
        /// A JSON pointer to the selectors (see [`pointer`](crate::object::pointer)).
        pointer: Arc<str>,
        /// How the selectors are written.
        #[serde(default)]
        form: SelectorForm,
    },
}

/// How an object writes a label selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SelectorForm {
    /// As a `LabelSelector`; an empty one selects everything.
    #[default]
    LabelSelector,
    /// As a map of labels; an empty one selects nothing.
    Labels,
    /// As a text in Kubernetes' syntax; an empty one selects everything.
    Text,
}

impl WatchSpec {
    /// All objects of `kind`.
    #[must_use]
    pub fn all(kind: ObjectKind) -> Self {
        Self {
            kind,
            namespace: None,
            label_selector: None,
            field_selector: None,
            where_clause: None,
            projection: Projection::Full,
            managed_fields: false,
        }
    }

    /// Whether the watch selects only some of the objects. If so, an object that is not in the cache may still exist.
    #[must_use]
    pub fn is_filtered(&self) -> bool {
        self.label_selector.is_some() || self.field_selector.is_some() || self.where_clause.is_some()
    }

    /// The name of the only object that the watch can select. `None` if it can select more than one.
    #[must_use]
    pub fn only_name(&self) -> Option<Cow<'_, str>> {
        let name = self.field_selector.as_ref()?.text().strip_prefix("metadata.name=")?;
        unescaped_field(name).filter(|_| !name.contains('!'))
    }
}

impl fmt::Display for WatchSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        if let Some(selector) = &self.label_selector {
            write!(f, " with labels {selector}")?;
        }
        if let Some(selector) = &self.field_selector {
            write!(f, " with fields {selector}")?;
        }
        if let Some(clause) = &self.where_clause {
            write!(f, " where {clause}")?;
        }
        match &self.projection {
            Projection::Full => {}
            Projection::Metadata => f.write_str(" (metadata)")?,
            Projection::Fields(pointers) => write!(f, " ({})", listed(pointers))?,
            Projection::Digest(pointers) => write!(f, " (digest of {})", listed(pointers))?,
        }
        if self.managed_fields { f.write_str(" with managedFields") } else { Ok(()) }
    }
}

fn listed(pointers: &[Arc<str>]) -> String {
    pointers.iter().map(|pointer| shown(pointer)).collect::<Vec<_>>().join(", ")
}

/// `pointer` as an element of a list. A pointer that could be read as several is quoted, so that two different
/// watches never print alike.
fn shown(pointer: &str) -> Cow<'_, str> {
    let must_be_quoted = |it: char| matches!(it, ',' | '"') || is_deceptive(it);
    if pointer.contains(must_be_quoted) { format!("{pointer:?}").into() } else { pointer.into() }
}

/// A change that an informer sends to its subscribers. `Event` is always a Kubernetes Event, hence the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// The object is new to the store, or has changed.
    Applied {
        /// The state before. `None` if the object was not in the store.
        old: Option<crate::object::Object>,
        new: crate::object::Object,
        /// Whether the object is part of the first list or of a resync. Its keys then get low priority.
        initial: bool,
    },
    /// The object has gone.
    Deleted(Tombstone),
}

impl WatchEvent {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> &crate::object::ObjectKey {
        match self {
            Self::Applied { new, .. } => &new.header.key,
            Self::Deleted(tombstone) => &tombstone.last.header.key,
        }
    }
}

/// The last known state of an object that has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The last state seen.
    pub last: crate::object::Object,
    /// Whether a list showed the deletion, not the watch, so that the object may have changed after `last`. (client-go:
    /// `cache.DeletedFinalStateUnknown`.)
    pub final_state_unknown: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_name_of_a_watch_is_unescaped() {
        let only = |selector: &str| {
            let field_selector = Some(selector.parse().expect("a selector"));
            let spec = WatchSpec { field_selector, ..WatchSpec::all(ObjectKind::new("v1", "Pod")) };
            spec.only_name().map(Cow::into_owned)
        };
        assert_eq!(only("metadata.name=a b"), Some("a b".to_owned()));
        assert_eq!(only(r"metadata.name=D\\t\,x\=y"), Some(r"D\t,x=y".to_owned()));
        for selector in ["metadata.name=a,b=c", "metadata.name==a", r"metadata.name=a\b", r"metadata.name=a\", "a=b"] {
            assert_eq!(only(selector), None, "{selector}");
        }
    }

    #[test]
    fn different_watches_print_differently() {
        let shown = |pointers: &[&str]| {
            let projection = Projection::fields(pointers.iter().map(|pointer| Arc::from(*pointer)));
            WatchSpec { projection, ..WatchSpec::all(ObjectKind::new("v1", "Pod")) }.to_string()
        };
        assert!(
            shown(&["/spec/b", "/spec/a"]).ends_with("Pod (/spec/a, /spec/b)"),
            "{}",
            shown(&["/spec/b", "/spec/a"])
        );
        assert!(shown(&["/spec/a, /spec/b"]).ends_with(r#"Pod ("/spec/a, /spec/b")"#));
        assert!(shown(&["/a\u{202e}"]).ends_with(r#"Pod ("/a\u{202e}")"#));
    }
}
