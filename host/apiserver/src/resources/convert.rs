//! Converts between the stored form of an object and the version of a request.
//!
//! Without a conversion webhook, versions of a custom resource differ only in `apiVersion` and in the fields of their
//! schemas. With a webhook, this module converts nothing: `verbs` calls the webhook before it writes, and `server`
//! before it answers. Events are stored in the core form, and autoscalers as `autoscaling/v2`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::object::{self, text};
use crate::resources::registry::Registry;
use crate::resources::resource::{CustomVersion, ResourceType};
use crate::resources::{autoscaler_convert, events_convert};
use crate::schema::Malformed;

/// Converts a stored object to the version of a request to `resource`.
pub(crate) fn for_reader(resource: &ResourceType, stored: &Arc<Value>) -> Arc<Value> {
    let is_own_version = stored["apiVersion"].as_str().is_some_and(|version| resource.has_api_version(version));
    if is_own_version && resource.custom.as_ref().is_none_or(|custom| is_newer(stored, custom)) {
        return Arc::clone(stored);
    }
    if let Some(custom) = &resource.custom {
        return Arc::new(custom_for_reader(resource, custom, stored));
    }
    if resource.id.group == "events.k8s.io" {
        return Arc::new(events_convert::from_core(stored));
    }
    if resource.id.group == "autoscaling" && resource.version == "v1" {
        return Arc::new(autoscaler_convert::to_v1(stored));
    }
    let mut object = Value::clone(stored);
    object["apiVersion"] = json!(resource.api_version());
    Arc::new(object)
}

/// Converts an object from a request to `resource` to the stored form.
pub(crate) fn for_storage(registry: &Registry, resource: &ResourceType, mut object: Value) -> Value {
    if resource.id.group == "events.k8s.io" {
        return events_convert::to_core(&object);
    }
    if resource.id.group == "autoscaling" && resource.version == "v1" {
        return autoscaler_convert::from_v1(&object);
    }
    if let Some(stored) = registry.storage_type(&resource.storage)
        && stored.version != resource.version
    {
        convert_custom(stored, &mut object);
    }
    object
}

/// Whether the object was written with the current schemas.
fn is_newer(stored: &Value, custom: &CustomVersion) -> bool {
    object::resource_version(stored).parse().is_ok_and(|version: u64| version > custom.defined_at)
}

/// Converts a custom resource for a reader, like a real server: prunes and defaults the object by the schema of its
/// stored version, and then prunes it by the schema of the requested version.
fn custom_for_reader(resource: &ResourceType, custom: &CustomVersion, stored: &Value) -> Value {
    let mut object = stored.clone();
    let version = text(stored, "/apiVersion").rsplit('/').next().unwrap_or_default();
    if let Some(schema) = custom.schemas.get(version) {
        schema.prune(&mut object);
        // This cannot fail, because malformed parts are dropped. The returned unknown fields are not needed.
        let _ = schema.coerce_embedded(&mut object, Malformed::Dropped);
        schema.default(&mut object);
    }
    if version != resource.version && resource.converter().is_none() {
        convert_custom(resource, &mut object);
    }
    object
}

fn convert_custom(resource: &ResourceType, object: &mut Value) {
    object::as_map_mut(object).insert("apiVersion".to_owned(), json!(resource.api_version()));
    if let Some(custom) = &resource.custom {
        custom.schema.prune(object);
    }
}
