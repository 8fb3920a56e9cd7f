//! Between the form in which an object is stored and the version in which a request speaks.
//!
//! Custom resources differ in `apiVersion` only, unless their definition names a webhook: then it is asked, by `verbs`
//! before they write and by `server` before it answers, and nothing is done here. Events are stored in the core form, and
//! autoscalers in that of `autoscaling/v2`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::object;
use crate::resources::registry::Registry;
use crate::resources::resource::ResourceType;
use crate::resources::{autoscaler_convert, events_convert};

/// The stored object as a request for `resource` sees it.
pub(crate) fn for_reader(resource: &ResourceType, stored: &Arc<Value>) -> Arc<Value> {
    if stored["apiVersion"].as_str() == Some(resource.api_version().as_str()) {
        return Arc::clone(stored);
    }
    if resource.id.group == "events.k8s.io" {
        return Arc::new(events_convert::from_core(stored));
    }
    if resource.id.group == "autoscaling" && resource.version == "v1" {
        return Arc::new(autoscaler_convert::to_v1(stored));
    }
    if resource.converter().is_some() {
        return Arc::clone(stored);
    }
    let mut object = Value::clone(stored);
    object["apiVersion"] = json!(resource.api_version());
    Arc::new(object)
}

/// The object in the form that is stored when a request for `resource` writes it.
pub(crate) fn for_storage(registry: &Registry, resource: &ResourceType, mut object: Value) -> Value {
    if resource.id.group == "events.k8s.io" {
        return events_convert::to_core(&object);
    }
    if resource.id.group == "autoscaling" && resource.version == "v1" {
        return autoscaler_convert::from_v1(&object);
    }
    if let Some(stored) = registry.storage_type(&resource.storage) {
        object::as_map_mut(&mut object).insert("apiVersion".to_owned(), json!(stored.api_version()));
    }
    object
}
