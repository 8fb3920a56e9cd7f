use std::time::SystemTime;

use serde_json::{Value, json};

use super::*;
use crate::clock::{Clock, Time};

fn now() -> Moment {
    Time::start(Clock::Given(SystemTime::UNIX_EPOCH)).now()
}

fn template(image: &str) -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "web", "image": image }] } })
}

fn deployment(replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default", "uid": "d", "generation": 1 },
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 1,
            "selector": { "matchLabels": { "app": "web" } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } },
            "template": template(image),
        },
        "status": {},
    })
}

/// A set with a size, available pods and a revision.
fn set(image: &str, size: i64, available: i64, revision: i64) -> Arc<Value> {
    let mut template = template(image);
    template["metadata"]["labels"][HASH_LABEL] = json!(format!("hash{revision}"));
    Arc::new(json!({
        "metadata": {
            "name": format!("web-hash{revision}"),
            "namespace": "default",
            "creationTimestamp": format!("2026-01-01T00:00:0{revision}Z"),
            "annotations": { "deployment.kubernetes.io/revision": revision.to_string() },
        },
        "spec": { "replicas": size, "template": template },
        "status": { "replicas": size, "readyReplicas": available, "availableReplicas": available },
    }))
}

/// The new sizes of the sets after a look, by name.
fn sizes(outcome: &Outcome) -> Vec<(&str, i64)> {
    let written = outcome.writes.iter().filter_map(|write| match write {
        Write::Create(_, set) | Write::Replace(_, set) => Some(set),
        _ => None,
    });
    written.map(|set| (object::name(set), integer(set, "/spec/replicas"))).collect()
}

fn status(outcome: &Outcome) -> &Value {
    match outcome.writes.last() {
        Some(Write::Status(_, deployment)) => deployment,
        other => panic!("the last write is the status: {other:?}"),
    }
}

fn progressing(outcome: &Outcome) -> (&str, &str) {
    let conditions = items(status(outcome), "/status/conditions");
    let found = condition(conditions, "Progressing").expect("there is a deadline");
    (text(found, "/reason"), text(found, "/message"))
}

#[test]
fn a_new_deployment_gets_a_set_of_its_template() {
    let outcome = look(&deployment(3, "nginx:1"), &[], now());
    let Some(Write::Create(_, set)) = outcome.writes.first() else { panic!("{outcome:?}") };
    let hash = object::label(set, HASH_LABEL).expect("it is labelled");
    assert_eq!(object::name(set), format!("web-{hash}"));
    assert_eq!(set["spec"]["selector"]["matchLabels"][HASH_LABEL], hash);
    assert_eq!(set["spec"]["template"]["metadata"]["labels"][HASH_LABEL], hash);
    assert_eq!(set["spec"]["replicas"], 3);
    assert_eq!(set["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"], "4");
    assert_eq!(status(&outcome)["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(progressing(&outcome), ("NewReplicaSetCreated", &*format!("Created new replica set \"web-{hash}\"")));
}

#[test]
fn a_rollout_goes_step_by_step_within_surge_and_unavailability() {
    let deployment = deployment(4, "nginx:2");
    let steps = [
        // The old set has four pods, and the new set may have one.
        ((4, 4), None, vec![1]),
        // All five pods exist, but the new one is not ready: one old pod may be deleted.
        ((4, 4), Some((1, 0)), vec![3]),
        ((3, 3), Some((1, 0)), vec![2]),
        ((3, 3), Some((2, 2)), vec![1]),
        // Two of the five pods are not available yet.
        ((2, 2), Some((3, 1)), vec![]),
    ];
    for ((old, old_available), new, expected) in steps {
        let mut sets = vec![set("nginx:1", old, old_available, 1)];
        sets.extend(new.map(|(size, available)| set("nginx:2", size, available, 2)));
        let outcome = look(&deployment, &sets, now());
        let sizes: Vec<i64> = sizes(&outcome).into_iter().map(|(_, size)| size).collect();
        assert_eq!(sizes, expected, "{old}/{old_available} {new:?}");
    }
}

#[test]
fn pods_that_never_became_available_go_first() {
    let rollout_of = |sets: &[Arc<Value>]| look(&deployment(4, "nginx:3"), sets, now());
    let sets = [set("nginx:1", 3, 3, 1), set("nginx:2", 2, 0, 2), set("nginx:3", 0, 0, 3)];
    assert_eq!(sizes(&rollout_of(&sets)), [("web-hash2", 0)]);
}

#[test]
fn a_recreated_deployment_waits_until_the_old_pods_are_gone() {
    let mut deployment = deployment(2, "nginx:2");
    deployment["spec"]["strategy"] = json!({ "type": "Recreate" });
    assert_eq!(sizes(&look(&deployment, &[set("nginx:1", 2, 2, 1)], now())), [("web-hash1", 0)]);
    let mut shrunk = Value::clone(&set("nginx:1", 0, 0, 1));
    shrunk["status"]["replicas"] = json!(2);
    assert!(sizes(&look(&deployment, &[shrunk.into()], now())).is_empty());
    let outcome = look(&deployment, &[set("nginx:1", 0, 0, 1)], now());
    assert_eq!(sizes(&outcome).first().map(|(_, size)| *size), Some(2));
}

#[test]
fn a_rollback_makes_the_old_set_the_newest_revision() {
    let sets = [set("nginx:1", 0, 0, 1), set("nginx:2", 4, 4, 2)];
    let outcome = look(&deployment(4, "nginx:1"), &sets, now());
    let Some(Write::Replace(_, renewed)) = outcome.writes.first() else { panic!("{outcome:?}") };
    assert_eq!(object::name(renewed), "web-hash1");
    let annotations = &renewed["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(status(&outcome)["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
}

#[test]
fn a_paused_deployment_is_scaled_and_not_rolled_out() {
    let mut deployment = deployment(5, "nginx:2");
    deployment["spec"]["paused"] = json!(true);
    let outcome = look(&deployment, &[set("nginx:1", 2, 2, 1)], now());
    assert_eq!(sizes(&outcome), [("web-hash1", 5)]);
    assert_eq!(progressing(&outcome), ("DeploymentPaused", "Deployment is paused"));
}

#[test]
fn a_complete_rollout_names_its_set_and_prunes_old_revisions() {
    let mut deployment = deployment(2, "nginx:3");
    let sets = [set("nginx:1", 0, 0, 1), set("nginx:2", 0, 0, 2), set("nginx:3", 2, 2, 3)];
    let first = look(&deployment, &sets, now());
    assert_eq!(
        progressing(&first),
        ("NewReplicaSetAvailable", "ReplicaSet \"web-hash3\" has successfully progressed.")
    );
    assert_eq!(status(&first)["status"]["unavailableReplicas"], 0);
    assert_eq!(first.again, None);
    deployment["status"] = status(&first)["status"].clone();
    let mut observed: Vec<Arc<Value>> = Vec::new();
    for set in &sets {
        let mut set = Value::clone(set);
        set["metadata"]["generation"] = json!(1);
        set["status"]["observedGeneration"] = json!(1);
        observed.push(set.into());
    }
    let second = look(&deployment, &observed, now());
    assert_eq!(second.writes.first(), Some(&Write::Delete(replica_sets::resource(), Arc::clone(&observed[0]))));
}

#[test]
fn a_rollout_without_progress_exceeds_its_deadline() {
    let mut deployment = deployment(2, "nginx:1");
    let sets = [set("nginx:1", 2, 0, 1)];
    deployment["status"] = status(&look(&deployment, &sets, now()))["status"].clone();
    deployment["status"]["conditions"] =
        json!([progress::new_condition("Progressing", "True", "ReplicaSetUpdated", "", "1969-12-31T23:49:00Z")]);
    let outcome = look(&deployment, &sets, now());
    assert_eq!(
        progressing(&outcome),
        ("ProgressDeadlineExceeded", "ReplicaSet \"web-hash1\" has timed out progressing.")
    );
}
