//! The effect of deletions on the objects of a [`Host`](super::Host).

use serde_json::{Value, json};

use super::objects::{Asked, Write, check_version, has_finalizers, reference, refused};
use super::{State, selector};
use crate::bindings::windlass::plugin::types::ApiError;
use crate::bindings::windlass::plugin::writes::{Collection, DeleteOptions};
use crate::error::ApiReason;
use crate::object::ObjectRef;

impl State {
    pub(super) fn delete(&mut self, target: &ObjectRef, options: &DeleteOptions) -> Result<Option<String>, ApiError> {
        let asked = Asked { verb: "delete", target };
        self.record_deletion(&asked, Value::Null, options);
        self.check(&asked)?;
        self.delete_one(&asked, options)
    }

    fn record_deletion(&mut self, asked: &Asked, body: Value, options: &DeleteOptions) {
        self.writes.push(Write {
            verb: asked.verb,
            target: asked.target.clone(),
            body,
            subresource: None,
            owned: false,
            force: false,
            dry_run: options.dry_run,
            manager_suffix: None,
            fields: None,
        });
    }

    pub(super) fn delete_collection(
        &mut self,
        collection: &Collection,
        options: &DeleteOptions,
    ) -> Result<Option<Vec<ObjectRef>>, ApiError> {
        let Collection { kind, namespace, label_selector, field_selector, all } = collection;
        let target = ObjectRef::cluster_scoped(kind.api_version.clone(), kind.kind.clone(), "");
        let target = ObjectRef { namespace: namespace.clone(), ..target };
        let asked = Asked { verb: "deletecollection", target: &target };
        let body = json!({"labelSelector": label_selector, "fieldSelector": field_selector, "all": all});
        self.record_deletion(&asked, body, options);
        self.check(&asked)?;
        if !all && label_selector.is_none() && field_selector.is_none() {
            return Err(refused(ApiReason::Invalid, &asked));
        }
        let wanted = |object: &&Value| {
            let found = reference(object);
            found.api_version == kind.api_version
                && found.kind == kind.kind
                && (namespace.is_none() || *namespace == found.namespace)
                && label_selector.as_ref().is_none_or(|it| selector::matches(it, &object["metadata"]["labels"]))
                && field_selector.as_ref().is_none_or(|it| {
                    let (field, value) = it.split_once('=').unwrap_or((it, ""));
                    self.is_indexed(field, value, object)
                })
        };
        let deleted: Vec<_> = self.objects.values().filter(wanted).map(reference).collect();
        for target in &deleted {
            self.delete_one(&Asked { verb: "delete", target }, options)?;
        }
        Ok(Some(deleted))
    }

    fn delete_one(&mut self, asked: &Asked, options: &DeleteOptions) -> Result<Option<String>, ApiError> {
        let target = asked.target;
        let Some(mut object) = self.find(target).cloned() else { return Err(refused(ApiReason::NotFound, asked)) };
        check_version(Some(&object), options.resource_version.as_deref(), asked)?;
        let waits = has_finalizers(&object);
        if waits {
            object["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
        }
        match (waits, options.dry_run) {
            (true, false) => return Ok(Some(self.put(object).to_string())),
            (true, true) => return Ok(Some(object.to_string())),
            (false, false) => self.remove(target, options.propagation),
            (false, true) => {}
        }
        Ok(None)
    }
}
