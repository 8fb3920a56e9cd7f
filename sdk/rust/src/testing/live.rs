//! How a [`Host`](super::Host) answers live reads.

use serde_json::{Value, json};

use super::State;
use super::objects::{Asked, key_of, refused};
use crate::bindings::windlass::plugin::cache;
use crate::bindings::windlass::plugin::live::{ListQuery, ListedKind, LogQuery, ServedKind, View};
use crate::bindings::windlass::plugin::types::{ApiError, Page};
use crate::error::ApiReason;
use crate::object::{ObjectKind, ObjectRef};

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

impl State {
    pub(super) fn live_get(
        &mut self,
        target: &ObjectRef,
        subresource: Option<&str>,
        view: &View,
    ) -> Result<Option<String>, ApiError> {
        let asked = Asked { verb: "get", target };
        self.check(&asked)?;
        let Some(object) = self.find(target) else { return Ok(None) };
        let part = match subresource {
            None | Some("status") => object.clone(),
            Some("scale") => scale(object),
            // As on the real host, the error names no object, because the object itself exists.
            Some(_) => return Err(ApiError { object: None, ..refused(ApiReason::NotFound, &asked) }),
        };
        Ok(Some(viewed(&part, view).to_string()))
    }

    pub(super) fn live_list(&mut self, query: &ListQuery) -> Result<Page, ApiError> {
        let asked = cache::ListQuery {
            kind: query.kind.clone(),
            namespace: query.namespace.clone(),
            label_selector: query.label_selector.clone(),
            // A field selector is handled like an index: the test sets the field that its name stands for.
            index: query.field_selector.as_ref().map(|selector| {
                let (field, value) = selector.split_once('=').unwrap_or((selector, ""));
                cache::IndexMatch { index: field.to_owned(), value: value.to_owned() }
            }),
            owned: false,
            fields: None,
            limit: query.limit,
            max_bytes: None,
            page_token: query.page_token.clone(),
        };
        let mut page = self.list(&asked)?;
        for item in &mut page.items {
            let object: Value = serde_json::from_str(item).expect("the host has JSON");
            *item = viewed(&object, &query.view).to_string();
        }
        Ok(page)
    }

    pub(super) fn live_log(&mut self, query: &LogQuery) -> Result<String, ApiError> {
        let asked = Asked { verb: "get", target: &query.target };
        self.check(&asked)?;
        let log = self.logs.get(&key_of(&query.target)).ok_or_else(|| refused(ApiReason::NotFound, &asked))?;
        let lines: Vec<_> = log.split_inclusive('\n').collect();
        let wanted = query.tail_lines.map_or(lines.len(), |lines| usize::try_from(lines).unwrap_or(usize::MAX));
        let mut text = lines[lines.len().saturating_sub(wanted)..].concat();
        let most = query.limit_bytes.map_or(text.len(), |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        text.truncate(text.floor_char_boundary(most));
        Ok(text)
    }

    pub(super) fn live_served(&mut self, kind: &ObjectKind) -> Result<Option<ServedKind>, ApiError> {
        let target = ObjectRef::cluster_scoped(kind.api_version.clone(), kind.kind.clone(), "");
        self.check(&Asked { verb: "served", target: &target })?;
        Ok((!self.unserved.contains(kind)).then(|| served(kind)))
    }

    /// The kinds of the objects in the cluster, and of the definitions.
    pub(super) fn live_kinds(&mut self) -> Result<Vec<ListedKind>, ApiError> {
        let target = ObjectRef::cluster_scoped("", "", "");
        self.check(&Asked { verb: "kinds", target: &target })?;
        let of_objects = self.objects.keys().map(|(api_version, kind, ..)| ObjectKind::new(&**api_version, &**kind));
        let mut kinds: Vec<_> = of_objects.chain(self.definitions.kinds()).collect();
        kinds.retain(|kind| !self.unserved.contains(kind));
        let group = |kind: &ObjectKind| kind.api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        // Of one kind in two versions, the first stands for both.
        kinds.sort_by_key(|kind| (group(kind), kind.kind.clone(), kind.api_version.clone()));
        kinds.dedup_by_key(|kind| (group(kind), kind.kind.clone()));
        Ok(kinds.into_iter().map(|kind| ListedKind { served: served(&kind), kind }).collect())
    }
}

fn served(kind: &ObjectKind) -> ServedKind {
    ServedKind {
        resource: kind.kind.to_lowercase() + "s",
        namespaced: true,
        verbs: VERBS.map(str::to_owned).into(),
        subresources: vec!["status".to_owned()],
    }
}

fn viewed(object: &Value, view: &View) -> Value {
    match view {
        View::Whole => object.clone(),
        View::Metadata => {
            json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": object["metadata"]})
        }
        View::Fields(fields) => super::forms::projected(object, Some(fields)),
    }
}

fn scale(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut of_scale = json!({"name": metadata["name"], "uid": metadata["uid"]});
    for name in ["namespace", "resourceVersion"] {
        if let Some(value) = metadata.get(name) {
            of_scale[name] = value.clone();
        }
    }
    let replicas = |part: &str| json!({"replicas": object[part]["replicas"].as_u64().unwrap_or_default()});
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": of_scale, "spec": replicas("spec"),
        "status": replicas("status"),
    })
}
