//! The objects at the end of a run, without the values that differ between any two runs, so that runs can be compared.

mod children;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_apiserver::Snapshot;

use crate::normalizer::Normalizer;
use crate::scenario::ObjectName;
use crate::trace::Entry;

/// The user of the scenario.
pub(crate) const USER: &str = "check-user";

/// The field manager of edits by another client, and the annotation that it leaves.
pub(crate) const FOREIGN: &str = "check-somebody-else";
const MARK: &str = "windlass.dev/edited-by-somebody-else";

/// The merge patch of an edit that does not concern the plugin.
pub(crate) fn foreign_mark() -> Value {
    json!({"metadata": {"annotations": {MARK: "yes"}}})
}

/// Removes what [`foreign_mark`] adds. An object that has no other annotation then has no annotations.
pub(crate) fn remove_foreign_mark(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    if annotations.remove(MARK).is_some() && annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// The objects at the end of a run, by resource and name, without times, UIDs and versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EndState {
    pub(crate) objects: BTreeMap<String, Value>,
    /// Objects that are terminating but do not disappear.
    pub(crate) stuck: Vec<String>,
    /// Objects with an owner that does not exist.
    pub(crate) orphans: Vec<String>,
    /// Objects with an owner.
    pub(crate) owned: Vec<OwnedObject>,
    /// Objects without an owner that the plugin has created and the user has not changed. Their places by UID.
    pub(crate) of_plugin: BTreeMap<String, String>,
    /// The objects that the user has applied, in the form in which the user would now apply them.
    pub(crate) asked: Vec<Value>,
    /// Objects whose status names a generation that the object has not reached.
    pub(crate) ahead: Vec<String>,
}

/// An object with an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedObject {
    /// Its name as it is.
    pub(crate) name: ObjectName,
    /// Whether the plugin or a controller is expected to recreate the object after a deletion.
    pub(crate) is_made_again: bool,
}

/// The host's actions after it was stopped gracefully and started again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SecondRun {
    /// Whether anything changed.
    pub(crate) changed: bool,
    pub(crate) entries: Vec<Entry>,
}

/// A difference between two end states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateDifference {
    pub(crate) object: String,
    /// A JSON pointer. Empty for the whole object.
    pub(crate) pointer: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// Kinds that are not compared, because they only record what happened or who leads.
const LEFT_OUT: [&str; 3] = ["events", "events.events.k8s.io", "leases.coordination.k8s.io"];

/// The resource versions of the objects at the beginning of a scenario. Each state of each object has its own resource
/// version, so this shows which objects were changed later.
pub(crate) struct Beginning(BTreeSet<String>);

impl Beginning {
    pub(crate) fn of(begins: &Snapshot) -> Beginning {
        let objects = begins.objects();
        Beginning(objects.iter().map(|(_, object)| version(object).to_owned()).collect())
    }

    /// The objects in `all`, a later state, that were created or changed since the beginning.
    fn changed<'a>(&self, all: &'a [(String, Arc<Value>)]) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let changed = all
            .iter()
            .filter(|(resource, object)| !LEFT_OUT.contains(&resource.as_str()) && !self.0.contains(version(object)));
        changed.map(|(resource, object)| (resource.as_str(), &**object))
    }
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

impl EndState {
    /// The end state of the objects that were created or changed since the beginning. `made` has the UIDs of the
    /// objects that the plugin has created. The normalizer learns the objects' UIDs and names.
    pub(crate) fn of(
        end: &Snapshot,
        beginning: &Beginning,
        made: &BTreeMap<String, Option<String>>,
        normalizer: &mut Normalizer,
    ) -> EndState {
        let all = end.objects();
        let by_uid: BTreeMap<&str, &Value> = all.iter().map(|(_, object)| (uid(object), &**object)).collect();
        normalizer.learn(beginning.changed(&all));
        let mut state = EndState::default();
        let mut alike: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (resource, object) in beginning.changed(&all) {
            let metadata = &object["metadata"];
            let place = normalizer.place(resource, object);
            if metadata["deletionTimestamp"].is_string() && !is_kept_by_user(metadata) {
                state.stuck.push(place.clone());
            }
            let mut managers = metadata["managedFields"].as_array().into_iter().flatten();
            let (is_of_user, is_made) = (managers.any(|it| it["manager"] == USER), made.contains_key(uid(object)));
            if is_of_user {
                state.asked.push(asked(object));
            }
            let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
            let owners: Vec<Option<&Value>> =
                owners.map(|owner| by_uid.get(owner["uid"].as_str().unwrap_or_default()).copied()).collect();
            if owners.is_empty() {
                // Objects with an owner are not listed, because the collector deletes them with their owner.
                state.of_plugin.extend((is_made && !is_of_user).then(|| (uid(object).to_owned(), place.clone())));
            } else {
                let is_made_again = (is_made || !is_of_user) && children::is_made_again(object, &owners);
                state.owned.push(OwnedObject { name: ObjectName::of(object), is_made_again });
            }
            if owners.contains(&None) && (is_made || !is_of_user) {
                state.orphans.push(place.clone());
            }
            let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
            if observed > metadata["generation"].as_i64() && observed.is_some() {
                state.ahead.push(place.clone());
            }
            if children::is_old_revision(object, &owners) {
                // The number of old revisions only shows how often the workload was changed.
                continue;
            }
            let comparable = comparable(object, normalizer);
            if normalizer.is_named_anew(object) {
                alike.entry(place).or_default().push(comparable);
            } else {
                state.objects.insert(place, comparable);
            }
        }
        for (place, mut objects) in alike {
            objects.sort_by_cached_key(ToString::to_string);
            let numbered = objects.into_iter().enumerate();
            state.objects.extend(numbered.map(|(index, object)| (format!("{place} #{}", index + 1), object)));
        }
        state
    }

    /// The values that differ from the state `expected`.
    pub(crate) fn differences(&self, expected: &EndState) -> Vec<StateDifference> {
        let mut found = Vec::new();
        for (object, wanted) in &expected.objects {
            match self.objects.get(object) {
                Some(value) => compare(object, "", wanted, value, &mut found),
                None => found.push(difference(object, "", "there", "not there")),
            }
        }
        let more = self.objects.keys().filter(|object| !expected.objects.contains_key(*object));
        found.extend(more.map(|object| difference(object, "", "not there", "there")));
        found
    }
}

fn difference(object: &str, pointer: &str, expected: &str, found: &str) -> StateDifference {
    let [object, pointer, expected, found] = [object, pointer, expected, found].map(str::to_owned);
    StateDifference { object, pointer, expected, found }
}

fn compare(object: &str, pointer: &str, expected: &Value, found: &Value, differences: &mut Vec<StateDifference>) {
    match (expected, found) {
        (Value::Object(wanted), Value::Object(there)) => {
            let names = wanted.keys().chain(there.keys().filter(|name| !wanted.contains_key(*name)));
            for name in names {
                let pointer = windlass_core::object::pointer::joined(pointer, name);
                let of = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or(Value::Null);
                compare(object, &pointer, &of(wanted), &of(there), differences);
            }
        }
        (Value::Array(wanted), Value::Array(there)) if wanted.len() == there.len() => {
            for (index, (wanted, there)) in wanted.iter().zip(there).enumerate() {
                compare(object, &format!("{pointer}/{index}"), wanted, there, differences);
            }
        }
        _ if expected == found => {}
        _ => differences.push(difference(object, pointer, &shown(expected), &shown(found))),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        value => value.to_string(),
    }
}

/// Whether the user has added all finalizers of an object that has some.
fn is_kept_by_user(metadata: &Value) -> bool {
    let lists = metadata["managedFields"].as_array().into_iter().flatten().filter(|it| it["manager"] == USER);
    let of_user: Vec<&Value> = lists.map(|it| &it["fieldsV1"]["f:metadata"]["f:finalizers"]).collect();
    let is_of_user = |finalizer: &Value| of_user.iter().any(|it| !it[format!("v:{finalizer}")].is_null());
    metadata["finalizers"].as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_of_user))
}

/// The part of an object that expresses what a user wants.
fn asked(object: &Value) -> Value {
    let mut asked = object.clone();
    if let Some(members) = asked.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = asked.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| matches!(name.as_str(), "name" | "namespace" | "labels" | "annotations"));
    }
    asked
}

/// The metadata fields that differ between any two runs.
const METADATA_OF_RUN: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "deletionTimestamp"];

/// The prefix of the annotations that count the changes of a Deployment.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The object without values that differ between any two runs.
fn comparable(object: &Value, normalizer: &Normalizer) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !METADATA_OF_RUN.contains(&name.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| name != MARK && !name.starts_with(REVISION));
            normalizer.replace_versions(annotations);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(owner) = owner.as_object_mut() {
                owner.remove("uid");
            }
        }
    }
    match (object["apiVersion"].as_str(), object["kind"].as_str()) {
        (Some("v1"), Some("Service")) => without_allocations(&mut object["spec"]),
        (Some("v1"), Some("Pod")) => without_addresses(&mut object["status"]),
        _ => {}
    }
    if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        // Conditions form a map by type. The order of the list only shows which type was written first.
        conditions.sort_by(|one, other| one["type"].as_str().cmp(&other["type"].as_str()));
    }
    normalizer.normalize(&mut object);
    object
}

/// Removes values that the API server allocates at random.
fn without_allocations(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    // A headless service gets no allocated address.
    if spec.get("clusterIP").is_some_and(|address| address != "None") {
        spec.retain(|name, _| !matches!(name.as_str(), "clusterIP" | "clusterIPs" | "healthCheckNodePort"));
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        port.remove("nodePort");
    }
}

/// Removes values that a node assigns to each new Pod.
fn without_addresses(status: &mut Value) {
    let Some(status) = status.as_object_mut() else { return };
    status.retain(|name, _| !matches!(name.as_str(), "podIP" | "podIPs"));
    let lists = status.iter_mut().filter(|(name, _)| name.ends_with("ontainerStatuses"));
    let containers = lists.filter_map(|(_, list)| list.as_array_mut()).flatten();
    for container in containers.filter_map(Value::as_object_mut) {
        container.remove("containerID");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn state(objects: &[(&str, Value)]) -> EndState {
        let normalizer = Normalizer::new(Duration::from_hours(438_288), BTreeSet::new());
        let objects =
            objects.iter().map(|(place, object)| ((*place).to_owned(), comparable(object, &normalizer))).collect();
        EndState { objects, ..EndState::default() }
    }

    #[test]
    fn times_uids_and_versions_make_no_difference() {
        let object = |uid: &str, time: &str| {
            let owner = json!({"name": "a", "uid": uid});
            json!({
                "metadata": {"uid": uid, "resourceVersion": uid, "generation": 1, "ownerReferences": [owner]},
                "status": {"observedGeneration": uid.len(), "conditions": [{"lastTransitionTime": time}]},
            })
        };
        let one = state(&[("a", object("1", "2020-01-01T00:00:00Z"))]);
        assert_eq!(one.differences(&state(&[("a", object("22", "2020-01-01T00:01:00Z"))])), []);
    }

    #[test]
    fn the_mark_of_a_foreign_edit_can_be_removed_without_a_trace() {
        let mut object = foreign_mark();
        remove_foreign_mark(&mut object);
        assert_eq!(object, json!({"metadata": {}}));
        let mut object = foreign_mark();
        object["metadata"]["annotations"]["mine"] = "a".into();
        remove_foreign_mark(&mut object);
        assert_eq!(object, json!({"metadata": {"annotations": {"mine": "a"}}}));
        let mut empty = json!({"metadata": {"annotations": {}}});
        remove_foreign_mark(&mut empty);
        assert_eq!(empty, json!({"metadata": {"annotations": {}}}), "this is no trace of an edit");
    }

    #[test]
    fn an_object_that_only_the_users_finalizer_keeps_is_not_stuck() {
        let metadata = |finalizers: &Value, fields: &Value| {
            let fields = json!({"f:metadata": {"f:finalizers": fields}});
            json!({"finalizers": finalizers, "managedFields": [{"manager": USER, "fieldsV1": fields}]})
        };
        let fields = json!({".": {}, "v:\"a/b\"": {}});
        assert!(is_kept_by_user(&metadata(&json!(["a/b"]), &fields)));
        assert!(!is_kept_by_user(&metadata(&json!(["a/b", "plugin"]), &fields)));
        assert!(!is_kept_by_user(&metadata(&Value::Null, &fields)));
    }

    #[test]
    fn the_order_of_conditions_and_the_number_of_changes_make_no_difference() {
        let deployment = |revision: &str, types: [&str; 2]| {
            let conditions = types.map(|it| json!({"type": it, "status": "True"}));
            let annotations = json!({"deployment.kubernetes.io/revision": revision});
            state(&[("a", json!({"metadata": {"annotations": annotations}, "status": {"conditions": conditions}}))])
        };
        let one = deployment("1", ["Available", "Progressing"]);
        assert_eq!(one.differences(&deployment("2", ["Progressing", "Available"])), []);
        assert_ne!(one.differences(&deployment("1", ["Available", "Ready"])), []);
    }

    #[test]
    fn values_assigned_by_a_node_make_no_difference() {
        let pod = |address: &str, ready: bool| {
            let container = json!({"name": "web", "containerID": address, "ready": ready});
            let status = json!({"podIP": address, "podIPs": [{"ip": address}], "containerStatuses": [container]});
            state(&[("a", json!({"apiVersion": "v1", "kind": "Pod", "status": status}))])
        };
        assert_eq!(pod("1", true).differences(&pod("2", true)), []);
        let pointer = "/status/containerStatuses/0/ready";
        assert_eq!(pod("1", false).differences(&pod("2", true)), [difference("a", pointer, "true", "false")]);
    }

    #[test]
    fn a_difference_names_its_object_and_place() {
        let expected = state(&[("a", json!({"data": {"x/y": "1"}, "list": [1, 2]})), ("b", json!({}))]);
        let found = state(&[("a", json!({"data": {"x/y": "2"}, "list": [1]})), ("c", json!({}))]);
        let wanted = [
            difference("a", "/data/x~1y", "\"1\"", "\"2\""),
            difference("a", "/list", "[1,2]", "[1]"),
            difference("b", "", "there", "not there"),
            difference("c", "", "not there", "there"),
        ];
        assert_eq!(found.differences(&expected), wanted);
    }
}
