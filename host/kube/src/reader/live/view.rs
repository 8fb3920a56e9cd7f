//! The part of an object that a live read returns: the format that the server is asked for, and the fields that are
//! selected here.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use windlass_core::cache::watch::{Projection, WatchSpec};
use windlass_core::call::ports::View;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::ObjectKind;
use windlass_core::object::pointer_tree::{PointerError, PointerTree};

use crate::client::api_error::RequestSubject;
use crate::informer::listing::{JSON, PARTIAL, PARTIAL_LIST};
use crate::informer::parse::{self, ObjectParser, ParseError};

/// Subresources without state. A GET of such a subresource performs an action, or reads data that is not JSON.
const NO_STATE: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// A [`View`] with parsed pointers.
#[derive(Debug)]
pub(super) enum Cut {
    Whole,
    Metadata,
    Fields(PointerTree),
}

/// Refuses a subresource that cannot be read as a part of an object.
pub(super) fn check_subresource(subject: &RequestSubject, subresource: &str) -> Result<(), ApiError> {
    if !NO_STATE.contains(&subresource) {
        return Ok(());
    }
    let instead = if subresource == "log" { ": read it by `live.log`" } else { "" };
    let message = format!("the subresource {subresource} is not a part of an object{instead}");
    Err(subject.refuse(ApiReason::Invalid, message))
}

impl Cut {
    pub(super) fn new(view: &View) -> Result<Self, PointerError> {
        Ok(match view {
            View::Whole => Self::Whole,
            View::Metadata => Self::Metadata,
            View::Fields(pointers) => Self::Fields(PointerTree::of_read(pointers)?),
        })
    }

    /// The `Accept` header for one object.
    pub(super) fn form_of_object(&self) -> &'static str {
        if matches!(self, Self::Metadata) { PARTIAL } else { JSON }
    }

    /// The `Accept` header for a list.
    pub(super) fn form_of_list(&self) -> &'static str {
        if matches!(self, Self::Metadata) { PARTIAL_LIST } else { JSON }
    }

    /// A parser for objects of `kind`. It reduces them to their metadata if the server has sent whole objects.
    pub(super) fn parser(&self, kind: &ObjectKind) -> Result<ObjectParser, ParseError> {
        let projection = if matches!(self, Self::Metadata) { Projection::Metadata } else { Projection::Full };
        Ok(ObjectParser::new(&WatchSpec { projection, ..WatchSpec::all(kind.clone()) })?)
    }

    /// The returned part of an object's cleaned `text`.
    pub(super) fn selected(&self, text: Arc<str>) -> Result<Arc<str>, ParseError> {
        match self {
            Self::Fields(tree) => Ok(tree.select(&text)?.into()),
            Self::Whole | Self::Metadata => Ok(text),
        }
    }

    /// The returned part of an object of `kind`. `None` if its UID is not `uid`.
    pub(super) fn object(
        &self,
        text: &str,
        kind: &ObjectKind,
        uid: Option<&str>,
    ) -> Result<Option<Arc<str>>, ParseError> {
        let object = self.parser(kind)?.object(text)?;
        let is_meant = uid.is_none_or(|uid| object.header.uid.is(uid));
        is_meant.then(|| self.selected(object.text())).transpose()
    }

    /// As [`Self::object`], for a subresource of an object of `kind`. The subresource may have another kind.
    pub(super) fn part(
        &self,
        text: &str,
        kind: &ObjectKind,
        uid: Option<&str>,
    ) -> Result<Option<Arc<str>>, ParseError> {
        let text = parse::clean(text, kind)?;
        if uid.is_some_and(|uid| !is_of(&text, uid)) {
            return Ok(None);
        }
        let part = match self {
            Self::Whole => text,
            Self::Metadata => PointerTree::of_watch([])?.select(&text)?.into(),
            Self::Fields(tree) => tree.select(&text)?.into(),
        };
        Ok(Some(part))
    }
}

/// Whether the subresource `text` says that it belongs to the object with this `uid`.
fn is_of(text: &str, uid: &str) -> bool {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        metadata: PartMetadata<'a>,
    }
    #[derive(Deserialize)]
    struct PartMetadata<'a> {
        #[serde(borrow)]
        uid: Cow<'a, str>,
    }
    serde_json::from_str::<Part<'_>>(text).is_ok_and(|part| part.metadata.uid == uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: &str =
        r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","uid":"u"},"spec":{"replicas":3}}"#;

    fn part(view: &View, uid: Option<&str>) -> Option<String> {
        let cut = Cut::new(view).expect("pointers");
        let part = cut.part(SCALE, &ObjectKind::new("apps/v1", "Deployment"), uid).expect("a scale");
        part.map(|text| text.to_string())
    }

    #[test]
    fn a_subresource_keeps_its_own_kind() {
        assert_eq!(part(&View::Whole, Some("u")).as_deref(), Some(SCALE));
        assert_eq!(part(&View::Whole, Some("v")), None, "of another incarnation");
        let metadata = r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","uid":"u"}}"#;
        assert_eq!(part(&View::Metadata, None).as_deref(), Some(metadata));
        let replicas = View::Fields(vec!["/spec/replicas".to_owned()]);
        assert_eq!(part(&replicas, None).as_deref(), Some(SCALE));
    }

    #[test]
    fn an_invalid_pointer_is_refused() {
        assert!(Cut::new(&View::Fields(vec!["spec".to_owned()])).is_err());
    }
}
