//! A child as cached, reduced to what the decisions need.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::CREATED_BY;
use crate::object::{ObjectKey, ObjectKind, ObjectRef};

/// A cached object that cannot be read, although the server sent it.
#[derive(Debug, thiserror::Error)]
#[error("a cached {kind} cannot be read: {source}")]
pub struct UnreadableChild {
    pub kind: ObjectKind,
    pub source: serde_json::Error,
}

/// An object of an owned kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedChildren {
    pub kind: ObjectKind,
    pub key: ObjectKey,
    pub uid: Arc<str>,
    pub version: Arc<str>,
    /// The UID of its controller.
    pub controller: Option<Arc<str>>,
    /// The controller's name, for messages.
    pub controller_name: Option<String>,
    /// The value of its label [`CREATED_BY`].
    pub created_by: Option<String>,
    /// Whether the child is being deleted, and waits for finalizers or its grace period.
    pub deleting: bool,
    pub text: Arc<str>,
}

#[derive(Deserialize)]
struct ChildHead {
    metadata: ChildMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChildMetadata {
    name: Arc<str>,
    namespace: Option<Arc<str>>,
    uid: Arc<str>,
    resource_version: Arc<str>,
    deletion_timestamp: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<ChildOwner>>,
}

#[derive(Deserialize)]
struct ChildOwner {
    kind: String,
    name: String,
    uid: Arc<str>,
    controller: Option<bool>,
}

impl ObservedChildren {
    /// Reads a child from the cached JSON `text` of an object of `kind`.
    pub fn read(kind: &ObjectKind, text: Arc<str>) -> Result<Self, UnreadableChild> {
        let head: ChildHead =
            serde_json::from_str(&text).map_err(|source| UnreadableChild { kind: kind.clone(), source })?;
        let ChildMetadata { name, namespace, uid, resource_version, deletion_timestamp, labels, owner_references } =
            head.metadata;
        let controller = owner_references.into_iter().flatten().find(|owner| owner.controller == Some(true));
        Ok(Self {
            kind: kind.clone(),
            key: ObjectKey { namespace, name },
            uid,
            version: resource_version,
            controller_name: controller.as_ref().map(|owner| format!("{} {}", owner.kind, owner.name)),
            controller: controller.map(|owner| owner.uid),
            created_by: labels.and_then(|mut labels| labels.remove(CREATED_BY)),
            deleting: deletion_timestamp.is_some(),
            text,
        })
    }

    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        ObjectRef { kind: self.kind.clone(), key: self.key.clone(), uid: Some(self.uid.clone()) }
    }
}
