//! Adoption: a workload becomes the controller of the objects that its selector matches, and releases objects that the
//! selector no longer matches.

use std::sync::Arc;

use serde_json::{Value, json};

use super::values::{controller_reference, controller_uid};
use super::writes::Write;
use crate::object::{self, items, label_selector};
use crate::resources::resource::GroupResource;

/// The writes that adopt and release objects: a selected object without a controller is adopted, and a controlled
/// object that is no longer selected is released.
pub(super) fn look<'a>(
    workload: &Value,
    resource: &GroupResource,
    objects: impl IntoIterator<Item = &'a Arc<Value>>,
) -> Vec<Write> {
    let mut writes = Vec::new();
    for object in objects.into_iter().filter(|object| !object::is_terminating(object)) {
        let changed = match controller_uid(object) {
            None if label_selector::is_selected_by(workload, object) => {
                let mut owners = items(object, "/metadata/ownerReferences").to_vec();
                owners.push(controller_reference(workload));
                let mut adopted = Value::clone(object);
                adopted["metadata"]["ownerReferences"] = json!(owners);
                adopted
            }
            Some(uid) if uid == object::uid(workload) && !label_selector::is_selected_by(workload, object) => {
                let mut released = Value::clone(object);
                object::remove_owner_references(&mut released, |owner| owner == uid);
                released
            }
            _ => continue,
        };
        writes.push(Write::Replace(resource.clone(), changed));
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orphans_are_adopted_and_strangers_released() {
        let set = json!({
            "metadata": { "name": "web", "uid": "s" },
            "spec": { "selector": { "matchLabels": { "app": "web" } } },
        });
        let pod = |app: &str, controller: Option<&str>| {
            let owners = controller.map(|uid| json!([{ "uid": uid, "controller": true }]));
            Arc::new(json!({ "metadata": { "labels": { "app": app }, "ownerReferences": owners } }))
        };
        let controllers = |pods: &[Arc<Value>]| {
            let writes = look(&set, &GroupResource::new("", "pods"), pods);
            let controllers = writes.into_iter().map(|write| match write {
                Write::Replace(_, pod) => controller_uid(&pod).map(str::to_owned),
                other => panic!("only references change: {other:?}"),
            });
            controllers.collect::<Vec<_>>()
        };
        assert_eq!(controllers(&[pod("web", None)]), [Some("s".to_owned())]);
        assert_eq!(controllers(&[pod("debug", Some("s"))]), [None]);
        let left = [pod("web", Some("s")), pod("web", Some("other")), pod("db", None)];
        assert!(controllers(&left).is_empty());
    }
}
