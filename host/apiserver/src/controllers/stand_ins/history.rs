//! Controller revisions: they keep the earlier templates of a stateful or daemon set. `kubectl rollout history` reads
//! them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::values::{controller_reference, hash, integer};
use super::writes::Write;
use crate::object::{self, label};
use crate::resources::resource::GroupResource;

/// The label with the hash of a stateful set's controller revision.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// The label with the revision of a pod: the name in a stateful set, the hash in a daemon set.
pub(super) const POD_LABEL: &str = "controller-revision-hash";

pub(super) fn resource() -> GroupResource {
    GroupResource::new("apps", "controllerrevisions")
}

/// The revision of an owner's current template.
#[derive(Debug)]
pub(super) struct TemplateRevision {
    pub(super) name: String,
    pub(super) hash: String,
    /// The writes that make this revision the newest.
    pub(super) writes: Vec<Write>,
}

/// Finds the revision of the owner's template, or creates it.
pub(super) fn latest(owner: &Value, revisions: &[Arc<Value>]) -> TemplateRevision {
    let data = patch(&owner["spec"]["template"]);
    let newest = revisions.iter().map(|revision| integer(revision, "/revision")).max().unwrap_or_default();
    if let Some(found) = revisions.iter().find(|revision| revision["data"] == data) {
        let mut writes = Vec::new();
        if integer(found, "/revision") < newest {
            let mut renewed = Value::clone(found);
            renewed["revision"] = json!(newest.saturating_add(1));
            writes.push(Write::Replace(resource(), renewed));
        }
        let hash = [HASH_LABEL, POD_LABEL].into_iter().find_map(|key| label(found, key)).unwrap_or_default();
        return TemplateRevision { name: object::name(found).to_owned(), hash: hash.to_owned(), writes };
    }
    let hash = hash(&data, integer(owner, "/status/collisionCount"));
    let name = format!("{}-{hash}", object::name(owner));
    let mut labels = owner["spec"]["template"]["metadata"]["labels"].clone();
    let key = if owner["kind"] == "DaemonSet" { POD_LABEL } else { HASH_LABEL };
    object::as_map_mut(&mut labels).insert(key.to_owned(), json!(hash));
    let revision = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": object::namespace(owner),
            "labels": labels,
            "annotations": owner["metadata"]["annotations"],
            "ownerReferences": [controller_reference(owner)],
        },
        "data": data,
        "revision": newest.saturating_add(1),
    });
    TemplateRevision { name, hash, writes: vec![Write::Create(resource(), revision)] }
}

/// The template in a revision.
pub(super) fn template(revision: &Value) -> Value {
    let mut template = revision["data"]["spec"]["template"].clone();
    object::as_map_mut(&mut template).remove("$patch");
    template
}

/// The patch in a revision, which restores its template.
fn patch(template: &Value) -> Value {
    let mut template = template.clone();
    object::as_map_mut(&mut template).insert("$patch".to_owned(), json!("replace"));
    json!({ "spec": { "template": template } })
}

/// Deletes the oldest revisions beyond the owner's limit that no pod uses.
pub(super) fn cleanup(owner: &Value, revisions: &[Arc<Value>], latest: &str, pods: &[Arc<Value>]) -> Vec<Write> {
    let Some(limit) = owner.pointer("/spec/revisionHistoryLimit").and_then(Value::as_u64) else { return Vec::new() };
    let is_live = |revision: &Value| {
        let names = [Some(object::name(revision)), label(revision, POD_LABEL)];
        let of = |pod: &Arc<Value>| label(pod, POD_LABEL).is_some_and(|found| names.contains(&Some(found)));
        object::name(revision) == latest || pods.iter().any(of)
    };
    let mut old: Vec<&Arc<Value>> = revisions.iter().filter(|revision| !is_live(revision)).collect();
    old.sort_by_key(|revision| integer(revision, "/revision"));
    let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    old.into_iter().take(excess).map(|revision| Write::Delete(resource(), Arc::clone(revision))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(image: &str) -> Value {
        json!({
            "kind": "StatefulSet",
            "metadata": { "name": "db", "namespace": "default" },
            "spec": { "revisionHistoryLimit": 1, "template": { "spec": { "containers": [{ "image": image }] } } },
        })
    }

    fn created(found: &TemplateRevision) -> Arc<Value> {
        match found.writes.as_slice() {
            [Write::Create(_, revision)] => Arc::new(revision.clone()),
            other => panic!("a revision is created: {other:?}"),
        }
    }

    #[test]
    fn each_template_is_one_revision_and_the_current_one_is_the_newest() {
        let first = created(&latest(&owner("a"), &[]));
        let second = created(&latest(&owner("b"), &[Arc::clone(&first)]));
        assert_eq!((&first["revision"], &second["revision"]), (&json!(1), &json!(2)));
        assert_eq!(template(&second), owner("b")["spec"]["template"]);
        let both = [Arc::clone(&first), Arc::clone(&second)];
        assert!(latest(&owner("b"), &both).writes.is_empty());
        let back = latest(&owner("a"), &both);
        assert_eq!(back.name, object::name(&first));
        let [Write::Replace(_, renewed)] = back.writes.as_slice() else { panic!("{back:?}") };
        assert_eq!(renewed["revision"], 3);
    }

    #[test]
    fn unused_revisions_beyond_the_limit_are_deleted() {
        let mut revisions: Vec<Arc<Value>> = Vec::new();
        for image in ["a", "b", "c", "d"] {
            revisions.push(created(&latest(&owner(image), &revisions)));
        }
        let pod = Arc::new(json!({ "metadata": { "labels": { POD_LABEL: object::name(&revisions[0]) } } }));
        let gone = cleanup(&owner("d"), &revisions, object::name(&revisions[3]), &[pod]);
        assert_eq!(gone, [Write::Delete(resource(), Arc::clone(&revisions[1]))]);
    }
}
