//! Parses the answer to a mutation: the object's new state, for the plugin and for the call's overlay.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::cache::overlay::Overlay;
use windlass_core::object::{Object, ObjectKind};

use crate::informer::parse::{self, ObjectParser, ParseError};
use crate::writer::plan::{How, Plan};

/// The result of a committed mutation.
#[derive(Debug)]
pub(crate) enum Answered {
    /// The whole object, as a watch would show it.
    Whole(Object),
    /// Something else, such as a `Scale`, a `TokenRequest`, or the `Status` of an eviction.
    Other(Arc<str>),
    /// The object is gone. Contains its UID if the server returned it.
    Gone {
        uid: Option<String>,
        /// The last state, if the server returned it.
        last: Option<Arc<str>>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerObject<'a> {
    #[serde(borrow)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    metadata: Option<AnswerMetadata<'a>>,
    #[serde(borrow)]
    details: Option<Details<'a>>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct AnswerMetadata<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    finalizers: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
}

/// Whether a namespace has content, which keeps it alive just as the finalizers in its metadata do.
fn has_content(top: &AnswerObject<'_>) -> bool {
    #[derive(Deserialize)]
    struct AnswerSpec<'a> {
        #[serde(borrow, default)]
        finalizers: Vec<&'a RawValue>,
    }
    let is_namespace = top.api_version.as_deref() == Some("v1") && top.kind.as_deref() == Some("Namespace");
    let spec =
        top.spec.filter(|_| is_namespace).and_then(|spec| serde_json::from_str::<AnswerSpec<'_>>(spec.get()).ok());
    spec.is_some_and(|spec| !spec.finalizers.is_empty())
}

impl AnswerMetadata<'_> {
    /// Whether nothing keeps the object alive any more, so that the server has removed it with this answer.
    fn has_gone(&self) -> bool {
        let waits =
            self.deletion_grace_period_seconds != Some(0) || self.finalizers.as_ref().is_some_and(|it| !it.is_empty());
        self.deletion_timestamp.is_some() && !waits
    }
}

/// Parses the answer to the committed `plan`.
pub(crate) fn read(plan: &Plan, text: &str) -> Result<Answered, ParseError> {
    if plan.is_unstored() {
        return parse::clean(text, &plan.resource.kind).map(Answered::Other);
    }
    // Nearly every answer is a whole object, and is parsed only once.
    if plan.how != How::Delete
        && let Some(object) = ObjectParser::for_one(&plan.resource.kind).living(text, &plan.key.name)?
    {
        return Ok(Answered::Whole(object));
    }
    let top: AnswerObject<'_> = serde_json::from_str(text)?;
    let uid = |uid: Option<Cow<'_, str>>| uid.map(Cow::into_owned).filter(|uid| !uid.is_empty());
    if plan.how == How::Delete && top.kind.as_deref() == Some("Status") {
        return Ok(Answered::Gone { uid: uid(top.details.and_then(|details| details.uid)), last: None });
    }
    let has_content = has_content(&top);
    let is_whole = is_of(&top, &plan.resource.kind, &plan.subresource);
    let metadata = top.metadata.unwrap_or_default();
    // A server may answer a delete with the last state of the removed object, which is not terminating.
    let is_deleted = plan.how == How::Delete && metadata.deletion_timestamp.is_none();
    let is_named = metadata.name.as_deref() == Some(&*plan.key.name);
    if is_deleted || (is_whole && is_named && !has_content && metadata.has_gone()) {
        let last = (plan.how != How::Delete).then(|| parse::clean(text, &plan.resource.kind)).transpose()?;
        return Ok(Answered::Gone { uid: uid(metadata.uid), last });
    }
    if !is_whole || !is_named {
        return parse::clean(text, &plan.resource.kind).map(Answered::Other);
    }
    whole(&plan.resource.kind, text).map(Answered::Whole)
}

/// An object as a full watch of its kind would have it.
pub(crate) fn whole(kind: &ObjectKind, text: &str) -> Result<Object, ParseError> {
    ObjectParser::for_one(kind).object(text)
}

/// The answer of a subresource is the whole object only if it says so.
fn is_of(top: &AnswerObject<'_>, kind: &ObjectKind, subresource: &str) -> bool {
    match (&top.api_version, &top.kind) {
        (Some(api_version), Some(of)) => **api_version == *kind.api_version && **of == *kind.kind,
        _ => subresource.is_empty(),
    }
}

impl Answered {
    /// Makes the object visible to later reads of the same call.
    pub(crate) fn lay(&self, plan: &Plan, overlay: &Overlay) {
        let (kind, key) = (&plan.resource.kind, plan.key.clone());
        match self {
            Self::Whole(object) => overlay.record(kind.clone(), key, Some(object.clone())),
            Self::Gone { uid, .. } => overlay.gone(kind, key, uid.as_deref().map(Into::into)),
            Self::Other(_) => overlay.doubt(kind, key),
        }
        if plan.withheld {
            overlay.mark_dry_run(kind, &plan.key);
        }
    }

    /// The text for the plugin.
    pub(crate) fn into_text(self) -> Option<Arc<str>> {
        match self {
            Self::Whole(object) => Some(object.text()),
            Self::Other(text) => Some(text),
            Self::Gone { last, .. } => last,
        }
    }
}
