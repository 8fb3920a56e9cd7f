//! Judges whether a watch's `where` admits an object, by the text that the server sent.

use windlass_core::cache::watch::WatchSpec;
use windlass_core::cache::where_clause::WhereClause;
use windlass_core::object::pointer_tree::{PointerError, PointerTree};
use windlass_core::object::{Header, Object, ObjectKey, shallow};

use super::{ParseError, ParsedMetadata};
use crate::informer::intern::Interner;

/// An object as a watch with a `where` sees it.
pub(crate) enum SeenObject {
    /// The object is in the watch.
    Admitted(Object),
    /// The object exists, but is not in the watch in this state. Only its name, UID and version are kept.
    Excluded(Object),
}

/// The conditions of one watch, and the pointers that they read.
pub(super) struct Judge {
    clause: WhereClause,
    reads: PointerTree,
}

impl Judge {
    /// `None` if the watch has no conditions.
    pub(super) fn of(spec: &WatchSpec) -> Result<Option<Self>, PointerError> {
        let Some(clause) = &spec.where_clause else { return Ok(None) };
        let reads = PointerTree::new(clause.pointers().iter().map(String::as_str))?;
        Ok(Some(Self { clause: clause.clone(), reads }))
    }

    /// Whether the conditions admit the object in `text`. Builds no tree of the whole object, which may be large.
    pub(super) fn admits(&self, text: &str) -> Result<bool, serde_json::Error> {
        Ok(self.clause.admits(&shallow::parse(&self.reads.select(text)?)?))
    }
}

/// An object that is not in the watch: its name, UID and version.
pub(super) fn excluded(
    metadata: Option<ParsedMetadata<'_>>,
    interner: &mut Interner,
) -> Result<SeenObject, ParseError> {
    let metadata = metadata.filter(|metadata| !metadata.name.is_empty()).ok_or(ParseError::NoName)?;
    let namespace = (!metadata.namespace.is_empty()).then(|| interner.string(&metadata.namespace));
    let header = Header {
        generation: metadata.generation.unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
        ..Header::bare(
            ObjectKey { namespace, name: (&*metadata.name).into() },
            &*metadata.uid,
            &*metadata.resource_version,
        )
    };
    Ok(SeenObject::Excluded(Object::new(header, "{}")))
}
