//! Decides whether a deleted child is created again, by the plugin or by a controller.

use serde_json::Value;

/// Whether an object is created again after a deletion. `owners` are its owners, with `None` for an owner that does not
/// exist. Finished Jobs and Pods are not created again, and neither are old revisions of a workload.
pub(super) fn is_made_again(object: &Value, owners: &[Option<&Value>]) -> bool {
    let is_record = is_old_revision(object, owners) || is_finished(object);
    !is_record && !owners.iter().flatten().any(|owner| is_finished(owner))
}

/// Whether the object is an old revision that a workload keeps.
pub(super) fn is_old_revision(object: &Value, owners: &[Option<&Value>]) -> bool {
    // If a plugin keeps such objects itself, they do not count as old revisions.
    let is_of = |kinds: &[&str]| {
        let mut owners = owners.iter().flatten().filter(|owner| owner["apiVersion"] == "apps/v1");
        owners.any(|owner| owner["kind"].as_str().is_some_and(|kind| kinds.contains(&kind)))
    };
    match object["kind"].as_str() {
        Some("ControllerRevision") => is_of(&["Deployment", "StatefulSet", "DaemonSet"]),
        // A Deployment keeps its earlier ReplicaSets, scaled to zero.
        Some("ReplicaSet") => object["spec"]["replicas"] == 0 && is_of(&["Deployment"]),
        _ => false,
    }
}

/// Whether the object is a Job or a Pod that has finished.
fn is_finished(object: &Value) -> bool {
    let status = &object["status"];
    match (object["apiVersion"].as_str(), object["kind"].as_str()) {
        (Some("batch/v1"), Some("Job")) => {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            conditions.any(|it| it["status"] == "True" && (it["type"] == "Complete" || it["type"] == "Failed"))
        }
        (Some("v1"), Some("Pod")) => status["phase"] == "Succeeded" || status["phase"] == "Failed",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(condition: &str) -> Value {
        let conditions = json!([{"type": condition, "status": "True"}]);
        json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": conditions}})
    }

    #[test]
    fn finished_jobs_and_their_pods_are_not_created_again() {
        let pod = |phase: &str| json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase}});
        assert!(is_made_again(&pod("Running"), &[Some(&job("Suspended"))]));
        assert!(!is_made_again(&pod("Succeeded"), &[Some(&job("Suspended"))]));
        assert!(!is_made_again(&pod("Running"), &[Some(&job("Failed"))]), "a Pod that the Job still has");
        assert!(!is_made_again(&job("Complete"), &[Some(&json!({"kind": "CronTab"}))]));
        assert!(is_made_again(&job("Suspended"), &[None]));
    }

    #[test]
    fn old_revisions_are_not_created_again() {
        let apps = |kind: &str| json!({"apiVersion": "apps/v1", "kind": kind});
        let (deployment, daemon_set) = (apps("Deployment"), apps("DaemonSet"));
        let set = |replicas: u8| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": replicas}});
        assert!(is_made_again(&set(1), &[Some(&deployment)]));
        assert!(!is_made_again(&set(0), &[Some(&deployment)]));
        assert!(is_made_again(&set(0), &[Some(&json!({"kind": "Shop"}))]), "a ReplicaSet that a plugin wants so");
        let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision"});
        assert!(!is_made_again(&revision, &[Some(&daemon_set)]));
        assert!(is_made_again(&revision, &[Some(&json!({"kind": "Shop"}))]), "a revision that a plugin keeps");
    }
}
