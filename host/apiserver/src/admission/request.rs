//! The write request that admission decides about.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::resources::registry::Registry;
use crate::resources::resource::ResourceType;
use crate::resources::{builtin, convert};
use crate::warnings::Warnings;

/// The operation that is to be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOperation {
    Create,
    Update,
    Delete,
}

impl WriteOperation {
    /// The operation as rules name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WriteOperation::Create => "CREATE",
            WriteOperation::Update => "UPDATE",
            WriteOperation::Delete => "DELETE",
        }
    }
}

/// Lists the stored objects of a resource, of all namespaces or one.
pub(crate) type StoredObjects<'a> = dyn Fn(&ResourceType, Option<&str>) -> Vec<Arc<Value>> + 'a;

/// A write. The objects before and after it are passed separately.
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) operation: WriteOperation,
    pub(crate) resource: &'a Arc<ResourceType>,
    pub(crate) subresource: &'a str,
    /// Empty for cluster-scoped objects. For a namespace, its own name.
    pub(crate) namespace: &'a str,
    /// Empty if the server will generate the name.
    pub(crate) name: &'a str,
    pub(crate) old: Option<&'a Value>,
    /// The options of the request, such as `CreateOptions`.
    pub(crate) options: Value,
    pub(crate) dry_run: bool,
    /// Receives the warnings of policies and webhooks.
    pub(crate) warnings: &'a Warnings,
    /// The stored namespace of the object.
    pub(crate) namespace_object: Option<Arc<Value>>,
    pub(crate) registry: &'a Registry,
    pub(crate) list: &'a StoredObjects<'a>,
}

impl AdmissionRequest<'_> {
    /// Whether the request is about a namespace itself.
    pub(crate) fn is_of_namespaces(&self) -> bool {
        self.resource.id == builtin::namespaces()
    }

    /// The resources that serve the same objects in other groups and versions, if no webhook is needed for the
    /// conversion.
    pub(crate) fn equivalents(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        let is_same = |other: &Arc<ResourceType>| other.storage == self.resource.storage && other.converter().is_none();
        self.registry.all().filter(move |other| is_same(other) && !Arc::ptr_eq(other, self.resource))
    }

    /// Converts an object of the request to the version of an equivalent resource. Objects of subresources exist in
    /// only one version.
    pub(crate) fn in_form_of(&self, resource: &Arc<ResourceType>, object: &Value) -> Value {
        self.converted(self.resource, resource, object)
    }

    /// Converts an object from the version of an equivalent resource back to the request's.
    pub(crate) fn back_from(&self, resource: &Arc<ResourceType>, object: &Value) -> Value {
        self.converted(resource, self.resource, object)
    }

    fn converted(&self, from: &Arc<ResourceType>, to: &Arc<ResourceType>, object: &Value) -> Value {
        let is_own_kind = object["kind"] == json!(from.kind);
        if Arc::ptr_eq(from, to) || !is_own_kind {
            return object.clone();
        }
        Value::clone(&convert::for_reader(to, &Arc::new(convert::for_storage(self.registry, from, object.clone()))))
    }

    /// Group, version and kind of the object in the body of a request to `resource`.
    pub(crate) fn kind_in(&self, resource: &ResourceType) -> Value {
        let subresource = resource.subresources.iter().find(|found| found.name == self.subresource);
        match subresource {
            Some(found) => json!({ "group": found.group, "version": found.version, "kind": found.kind }),
            None => json!({ "group": resource.id.group, "version": resource.version, "kind": resource.kind }),
        }
    }
}
