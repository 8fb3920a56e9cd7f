//! The objects of a [`Host`](super::Host), and the effects of requests on them.

use serde_json::{Value, json};

use super::forms::{json_patch, merge, projected};
use super::{Key, State, selector};
use crate::bindings::windlass::plugin::cache::ListQuery;
use crate::bindings::windlass::plugin::owners::Claimed;
use crate::bindings::windlass::plugin::types::{ApiError, Page};
use crate::bindings::windlass::plugin::writes::{
    DeleteWrite, FieldValidation, ObjectWrite, Operation, PatchType, PatchWrite, Propagation, WriteOptions,
};
use crate::error::ApiReason;
use crate::object::{ObjectKind, ObjectRef};

/// A change that a plugin requested.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// `create`, `update`, `patch`, `apply`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// The written object. Its name is empty if the server generates the name, if the object needs none, and for a
    /// collection.
    pub target: ObjectRef,
    /// The object or the patch. It is null for a deletion. For a collection it has `labelSelector`, `fieldSelector` and
    /// `all`.
    pub body: Value,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// Whether the primary should control it.
    pub owned: bool,
    /// Whether an apply should take over the fields of other managers.
    pub force: bool,
    /// Whether the write was a dry run.
    pub dry_run: bool,
    /// The suffix of the field manager, if it has one.
    pub manager_suffix: Option<String>,
    /// The pointers to the fields of the answer. `None` for all of it.
    pub fields: Option<Vec<String>>,
}

/// The part of a request that is known even if it fails.
pub(super) struct Asked<'a> {
    pub(super) verb: &'static str,
    pub(super) target: &'a ObjectRef,
}

pub(super) fn key_of(target: &ObjectRef) -> Key {
    (target.api_version.clone(), target.kind.clone(), target.namespace.clone(), target.name.clone())
}

pub(super) fn reference(object: &Value) -> ObjectRef {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    ObjectRef {
        cluster: None,
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        namespace: metadata["namespace"].as_str().map(str::to_owned),
        name: text(&metadata["name"]),
        uid: metadata["uid"].as_str().map(str::to_owned),
    }
}

pub(super) fn refused(reason: ApiReason, asked: &Asked) -> ApiError {
    let code = match reason {
        ApiReason::NotFound => 404,
        ApiReason::AlreadyExists | ApiReason::Conflict => 409,
        ApiReason::Invalid => 422,
        ApiReason::TooManyRequests => 429,
        ApiReason::Expired => 410,
        ApiReason::TooLarge => 413,
        ApiReason::Timeout | ApiReason::UnknownOutcome => 504,
        ApiReason::LeaseLost => 503,
        ApiReason::ServerError | ApiReason::Other => 500,
        _ => 403,
    };
    ApiError {
        code,
        reason,
        status_reason: format!("{reason:?}"),
        message: "the test makes this request fail".to_owned(),
        retry_after_ms: None,
        verb: if asked.verb == "apply" { "patch" } else { asked.verb }.to_owned(),
        resource: asked.target.kind.to_lowercase() + "s",
        object: Some(asked.target.clone()),
    }
}

impl State {
    /// Stores an object, complete with the fields that a server adds.
    pub(super) fn put(&mut self, mut object: Value) -> Value {
        self.version += 1;
        self.definitions.fill(&mut object);
        let target = reference(&object);
        let is_named = !target.api_version.is_empty() && !target.kind.is_empty() && !target.name.is_empty();
        assert!(is_named, "an object has apiVersion, kind and metadata.name: {object}");
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = json!(self.version.to_string());
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{}", self.version));
        }
        if metadata["generation"].is_null() {
            metadata["generation"] = json!(1);
        }
        self.objects.insert(key_of(&target), object.clone());
        object
    }

    /// Removes an object, and the objects that it controls, as the garbage collector does.
    pub(super) fn remove(&mut self, target: &ObjectRef, propagation: Propagation) {
        let Some(gone) = self.objects.remove(&key_of(target)) else { return };
        let owner = &gone["metadata"]["uid"];
        let children = self.objects.values().filter(|object| controller(object) == Some(owner));
        for mut object in children.cloned().collect::<Vec<_>>() {
            if propagation == Propagation::Orphan {
                if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
                    owners.retain(|reference| reference["uid"] != *owner);
                }
                self.put(object);
            } else if has_finalizers(&object) {
                object["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
                self.put(object);
            } else {
                self.remove(&reference(&object), Propagation::Background);
            }
        }
    }

    pub(super) fn find(&self, target: &ObjectRef) -> Option<&Value> {
        let found = self.objects.get(&key_of(target))?;
        let is_meant = target.uid.is_none() || target.uid.as_deref() == found["metadata"]["uid"].as_str();
        is_meant.then_some(found)
    }

    pub(super) fn check(&self, asked: &Asked) -> Result<(), ApiError> {
        let fails = |(verb, kind, _): &&(String, String, ApiReason)| verb == asked.verb && *kind == asked.target.kind;
        self.failing.iter().find(fails).map_or(Ok(()), |(.., reason)| Err(refused(*reason, asked)))
    }

    pub(super) fn read(
        &mut self,
        verb: &'static str,
        target: &ObjectRef,
        fields: Option<&[String]>,
    ) -> Result<Option<String>, ApiError> {
        self.check(&Asked { verb, target })?;
        Ok(self.find(target).map(|object| projected(object, fields).to_string()))
    }

    pub(super) fn list(&mut self, query: &ListQuery) -> Result<Page, ApiError> {
        let target = ObjectRef::cluster_scoped(query.kind.api_version.clone(), query.kind.kind.clone(), "");
        self.check(&Asked { verb: "list", target: &target })?;
        let wanted = |object: &&Value| {
            let found = reference(object);
            let is_of_kind = found.api_version == query.kind.api_version && found.kind == query.kind.kind;
            is_of_kind
                && (query.namespace.is_none() || query.namespace == found.namespace)
                && query.label_selector.as_ref().is_none_or(|it| selector::matches(it, &object["metadata"]["labels"]))
                && query.index.as_ref().is_none_or(|it| self.is_indexed(&it.index, &it.value, object))
                && (!query.owned || self.is_owned(object))
        };
        let items = self.objects.values().filter(wanted);
        let items = items.map(|object| projected(object, query.fields.as_deref()).to_string()).collect();
        Ok(Page { items, next_token: None })
    }

    pub(super) fn is_indexed(&self, index: &str, value: &str, object: &Value) -> bool {
        let known = self.indexes.get(index);
        let pointer = known.unwrap_or_else(|| panic!("the test's host has no index {index}: say `host.index(…)`"));
        let found = object.pointer(pointer).unwrap_or(&Value::Null);
        *found == value || found.as_array().is_some_and(|all| all.iter().any(|one| one == value))
    }

    fn is_owned(&self, object: &Value) -> bool {
        let uid = self.primary.as_ref().map(|primary| &primary["metadata"]["uid"]);
        uid.is_some() && controller(object) == uid
    }

    pub(super) fn claim(&mut self, kind: &ObjectKind, label_selector: &str) -> Result<Claimed, Vec<ApiError>> {
        let target = ObjectRef::cluster_scoped(kind.api_version.clone(), kind.kind.clone(), "");
        self.check(&Asked { verb: "claim", target: &target }).map_err(|error| vec![error])?;
        let mut claimed = Claimed { adopted: Vec::new(), released: Vec::new() };
        let all: Vec<Value> = self.objects.values().cloned().collect();
        for mut object in all {
            let target = reference(&object);
            if target.api_version != kind.api_version || target.kind != kind.kind {
                continue;
            }
            let is_matched = selector::matches(label_selector, &object["metadata"]["labels"]);
            if is_matched && controller(&object).is_none() {
                self.own(&mut object);
                claimed.adopted.push(target);
            } else if !is_matched && self.is_owned(&object) {
                object["metadata"]["ownerReferences"] = json!([]);
                claimed.released.push(target);
            } else {
                continue;
            }
            self.put(object);
        }
        Ok(claimed)
    }

    /// Makes the primary the controller of an object.
    fn own(&self, object: &mut Value) {
        let primary = self.primary.as_ref();
        let primary = primary.expect("a test whose plugin owns something makes its request by `host.request(…)`");
        let owner = json!({
            "apiVersion": primary["apiVersion"], "kind": primary["kind"], "name": primary["metadata"]["name"],
            "uid": primary["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        });
        let owners = &mut object["metadata"]["ownerReferences"];
        match owners.as_array_mut() {
            Some(owners) if owners.contains(&owner) => {}
            Some(owners) => owners.push(owner),
            None => *owners = json!([owner]),
        }
    }

    pub(super) fn write(&mut self, operation: &Operation) -> Result<Option<String>, ApiError> {
        let (written, options) = match operation {
            Operation::Create(write) => (self.write_object("create", write)?, &write.options),
            Operation::Update(write) => (self.write_object("update", write)?, &write.options),
            Operation::Apply(write) => (self.write_object("apply", write)?, &write.options),
            Operation::Patch(write) => (self.patch(write)?, &write.options),
            Operation::Delete(DeleteWrite { target, options }) => return self.delete(target, options),
        };
        let (Some(text), Some(fields)) = (&written, &options.fields) else { return Ok(written) };
        let object: Value = serde_json::from_str(text).expect("the host has JSON");
        Ok(Some(projected(&object, Some(fields)).to_string()))
    }

    fn record(&mut self, asked: &Asked, body: Value, options: &WriteOptions) {
        self.writes.push(Write {
            verb: asked.verb,
            target: asked.target.clone(),
            body,
            subresource: options.subresource.as_ref().map(|subresource| subresource.name.clone()),
            owned: options.owned,
            force: options.force,
            dry_run: options.dry_run,
            manager_suffix: options.manager_suffix.clone(),
            fields: options.fields.clone(),
        });
    }

    fn write_object(&mut self, verb: &'static str, write: &ObjectWrite) -> Result<Option<String>, ApiError> {
        let ObjectWrite { object: text, options } = write;
        let body: Value = serde_json::from_str(text).expect("the SDK sends JSON");
        let parent = options.subresource.as_ref().and_then(|subresource| subresource.parent.clone());
        let of_another_kind = parent.is_some();
        let mut target = parent.unwrap_or_else(|| reference(&body));
        let asked = Asked { verb, target: &target };
        self.record(&asked, body.clone(), options);
        self.check(&asked)?;
        if of_another_kind {
            return Ok(Some(body.to_string()));
        }
        let found = self.find(&target).cloned();
        check_version(found.as_ref(), options.resource_version.as_deref(), &asked)?;
        let is_part = options.subresource.is_some();
        let mut object = match (verb, found) {
            ("create", Some(_)) => return Err(refused(ApiReason::AlreadyExists, &asked)),
            ("update", None) => return Err(refused(ApiReason::NotFound, &asked)),
            (_, None) if is_part => return Err(refused(ApiReason::NotFound, &asked)),
            ("apply", Some(mut found)) => {
                merge(&mut found, &body, true);
                found
            }
            ("update", Some(found)) if is_part => {
                let part = options.subresource.as_ref().map_or("", |part| &part.name);
                let mut object = found;
                object[part] = body[part].clone();
                object
            }
            ("update", Some(found)) => {
                let mut object = body;
                object["metadata"]["uid"] = found["metadata"]["uid"].clone();
                object
            }
            _ => body,
        };
        let metadata = &object["metadata"];
        if verb == "create" && target.name.is_empty() && metadata["generateName"].is_null() {
            // An object without a name is of a kind that is not stored.
            return Ok(Some(self.answers.get(&target.kind).unwrap_or(&object).to_string()));
        }
        if target.name.is_empty() {
            let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default();
            target.name = format!("{prefix}{}", self.version + 1);
            object["metadata"]["name"] = json!(target.name);
        }
        self.keep(object, options, &Asked { verb, target: &target })
    }

    /// Stores the result of a write, unless it was a dry run, and returns it.
    fn keep(&mut self, mut object: Value, options: &WriteOptions, asked: &Asked) -> Result<Option<String>, ApiError> {
        if options.owned {
            self.own(&mut object);
        }
        self.definitions.fill(&mut object);
        let subresource = options.subresource.as_ref().map(|subresource| &*subresource.name);
        let is_strict = options.field_validation == FieldValidation::Strict;
        let misfits = self.definitions.misfits(&object, subresource, is_strict);
        if !misfits.is_empty() {
            let message = format!("the object does not fit its definition: {}", misfits.join("; "));
            return Err(ApiError { message, ..refused(ApiReason::Invalid, asked) });
        }
        let before = self.objects.get(&key_of(&reference(&object)));
        if let Some(before) = before
            && before["spec"] != object["spec"]
        {
            object["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap_or(1) + 1);
        }
        if options.dry_run {
            return Ok(Some(object.to_string()));
        }
        let waited =
            before.is_some_and(|before| !before["metadata"]["deletionTimestamp"].is_null() && has_finalizers(before));
        let is_last = waited && !has_finalizers(&object);
        let kept = self.put(object);
        if is_last {
            self.remove(&reference(&kept), Propagation::Background);
        }
        Ok(Some(kept.to_string()))
    }

    fn patch(&mut self, write: &PatchWrite) -> Result<Option<String>, ApiError> {
        let PatchWrite { target, patch_type, patch, options } = write;
        let patch: Value = serde_json::from_str(patch).expect("the SDK sends JSON");
        let asked = Asked { verb: "patch", target };
        self.record(&asked, patch.clone(), options);
        self.check(&asked)?;
        let Some(mut object) = self.find(target).cloned() else { return Err(refused(ApiReason::NotFound, &asked)) };
        check_version(Some(&object), options.resource_version.as_deref(), &asked)?;
        match patch_type {
            PatchType::Merge | PatchType::Strategic => merge(&mut object, &patch, false),
            PatchType::Json => {
                for operation in patch.as_array().into_iter().flatten() {
                    json_patch(&mut object, operation).ok_or_else(|| refused(ApiReason::Invalid, &asked))?;
                }
            }
        }
        self.keep(object, options, &asked)
    }
}

pub(super) fn check_version(found: Option<&Value>, wanted: Option<&str>, asked: &Asked) -> Result<(), ApiError> {
    let version = found.and_then(|found| found["metadata"]["resourceVersion"].as_str());
    match wanted {
        Some(wanted) if version != Some(wanted) => Err(refused(ApiReason::Conflict, asked)),
        _ => Ok(()),
    }
}

pub(super) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
}

fn controller(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true).map(|owner| &owner["uid"])
}
