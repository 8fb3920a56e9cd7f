//! Deletions of many objects at once.

use crate::bindings::windlass::plugin::writes;
use crate::error::Error;
use crate::native::writes as host;
use crate::object::{ObjectKind, ObjectRef};
use crate::writes::Propagation;

/// A deletion of objects of one kind that is ready to be sent. All conditions must hold.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before `send`"]
pub struct DeleteCollection {
    collection: writes::Collection,
    options: writes::DeleteOptions,
}

impl DeleteCollection {
    pub(super) fn of(api_version: &str, kind: &str) -> Self {
        let kind = ObjectKind::new(api_version, kind);
        let collection =
            writes::Collection { kind, namespace: None, label_selector: None, field_selector: None, all: false };
        let options = writes::DeleteOptions {
            resource_version: None,
            propagation: Propagation::Background,
            grace_period_ms: None,
            dry_run: false,
        };
        Self { collection, options }
    }

    /// Only objects in this namespace, instead of the primary's.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.collection.namespace = Some(namespace.into());
        self
    }

    /// Only objects with these labels, such as `app=web,tier in (front,back)`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.collection.label_selector = Some(selector.into());
        self
    }

    /// Only objects with these fields, such as `status.phase=Failed`, as far as the API supports them for the kind.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.collection.field_selector = Some(selector.into());
        self
    }

    /// Deletes all objects of the kind and namespace.
    pub fn all(mut self) -> Self {
        self.collection.all = true;
        self
    }

    /// Sets what happens to the dependents of these objects.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.options.propagation = propagation;
        self
    }

    /// Sets the grace period of each object in milliseconds, rounded up to whole seconds.
    pub fn grace_period_ms(mut self, milliseconds: u32) -> Self {
        self.options.grace_period_ms = Some(milliseconds);
        self
    }

    /// Makes the server check the deletion and respond as if it had made it, without making it.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Sends the deletion, and returns the affected objects: each is deleted, or waits for finalizers or its grace
    /// period. `None` if the server does not report them. After an error, some may be deleted.
    pub fn send(self) -> Result<Option<Vec<ObjectRef>>, Error> {
        Ok(host::delete_collection(&self.collection, &self.options)?)
    }
}
