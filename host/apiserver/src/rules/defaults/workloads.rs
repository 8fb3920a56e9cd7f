//! Defaults of pods and of everything that has a pod template.

use serde_json::{Map, Value, json};

use super::{default, default_text, each};
use crate::object::as_map_mut;

type Spec = Map<String, Value>;

pub(super) fn deployment(spec: &mut Spec) {
    default(spec, "replicas", json!(1));
    default(spec, "revisionHistoryLimit", json!(10));
    default(spec, "progressDeadlineSeconds", json!(600));
    default(spec, "strategy", json!({}));
    rolling_update(spec, "strategy", &[("maxSurge", json!("25%")), ("maxUnavailable", json!("25%"))]);
    template(spec);
}

pub(super) fn replica_set(spec: &mut Spec) {
    default(spec, "replicas", json!(1));
    template(spec);
}

pub(super) fn stateful_set(spec: &mut Spec) {
    default(spec, "replicas", json!(1));
    default(spec, "revisionHistoryLimit", json!(10));
    default_text(spec, "podManagementPolicy", "OrderedReady");
    default(spec, "persistentVolumeClaimRetentionPolicy", json!({ "whenDeleted": "Retain", "whenScaled": "Retain" }));
    default(spec, "updateStrategy", json!({}));
    rolling_update(spec, "updateStrategy", &[("partition", json!(0))]);
    template(spec);
}

pub(super) fn daemon_set(spec: &mut Spec) {
    default(spec, "revisionHistoryLimit", json!(10));
    default(spec, "updateStrategy", json!({}));
    rolling_update(spec, "updateStrategy", &[("maxSurge", json!(0)), ("maxUnavailable", json!(1))]);
    template(spec);
}

pub(super) fn job(spec: &mut Spec) {
    let no_completions = spec.get("completions").is_none_or(Value::is_null);
    let no_parallelism = spec.get("parallelism").is_none_or(Value::is_null);
    // A job with parallelism alone is a work queue: its completions stay open.
    if no_completions && no_parallelism {
        spec.insert("completions".to_owned(), json!(1));
    }
    default(spec, "parallelism", json!(1));
    default(spec, "backoffLimit", json!(6));
    default(spec, "suspend", json!(false));
    default(spec, "manualSelector", json!(false));
    default_text(spec, "completionMode", "NonIndexed");
    default_text(spec, "podReplacementPolicy", "TerminatingOrFailed");
    template(spec);
}

pub(super) fn cron_job(spec: &mut Spec) {
    default_text(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", json!(false));
    default(spec, "successfulJobsHistoryLimit", json!(3));
    default(spec, "failedJobsHistoryLimit", json!(1));
    let template_spec = spec.get_mut("jobTemplate").and_then(|template| template.get_mut("spec"));
    if let Some(inner) =
        template_spec.and_then(|spec| spec.get_mut("template")).and_then(|template| template.get_mut("spec"))
    {
        pod(as_map_mut(inner));
    }
}

/// The parameters of a rolling update exist only where the type is that.
fn rolling_update(spec: &mut Spec, key: &str, parameters: &[(&str, Value)]) {
    let Some(strategy) = spec.get_mut(key).and_then(Value::as_object_mut) else { return };
    default_text(strategy, "type", "RollingUpdate");
    if strategy["type"] != "RollingUpdate" {
        return;
    }
    default(strategy, "rollingUpdate", json!({}));
    let rolling = as_map_mut(&mut strategy["rollingUpdate"]);
    for (key, value) in parameters {
        default(rolling, key, value.clone());
    }
}

fn template(spec: &mut Spec) {
    let inner = spec.get_mut("template").and_then(|template| template.get_mut("spec"));
    if let Some(inner) = inner.and_then(Value::as_object_mut) {
        pod(inner);
    }
}

/// Defaults of a pod's spec.
pub(super) fn pod(spec: &mut Spec) {
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "schedulerName", "default-scheduler");
    default(spec, "terminationGracePeriodSeconds", json!(30));
    default(spec, "securityContext", json!({}));
    // The deprecated name mirrors the new one, whichever is given.
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        if let Some(name) = spec.get(from).cloned() {
            default(spec, to, name);
        }
    }
    for list in ["containers", "initContainers"] {
        each(spec, list).for_each(container);
    }
    each(spec, "volumes").for_each(volume);
}

fn container(container: &mut Spec) {
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    default(container, "resources", json!({}));
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
    default_text(container, "imagePullPolicy", policy);
    each(container, "ports").for_each(|port| default_text(port, "protocol", "TCP"));
    for variable in each(container, "env") {
        if let Some(field) = variable.get_mut("valueFrom").and_then(|from| from.get_mut("fieldRef")) {
            default_text(as_map_mut(field), "apiVersion", "v1");
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(key).and_then(Value::as_object_mut) {
            self::probe(probe);
        }
    }
}

/// Without a tag an image means `latest`; a digest pins it.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn probe(probe: &mut Spec) {
    default(probe, "timeoutSeconds", json!(1));
    default(probe, "periodSeconds", json!(10));
    default(probe, "successThreshold", json!(1));
    default(probe, "failureThreshold", json!(3));
    if let Some(get) = probe.get_mut("httpGet").and_then(Value::as_object_mut) {
        default_text(get, "path", "/");
        default_text(get, "scheme", "HTTP");
    }
}

fn volume(volume: &mut Spec) {
    const READABLE: u32 = 0o644;
    for key in ["secret", "configMap", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(key).and_then(Value::as_object_mut) {
            default(source, "defaultMode", json!(READABLE));
        }
    }
    if let Some(source) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
        default(source, "type", json!(""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_untagged_and_latest_images_are_always_pulled() {
        for image in ["nginx", "nginx:latest", "host:5000/nginx"] {
            assert!(is_latest(image), "{image}");
        }
        for image in ["nginx:1", "host:5000/nginx:1", "nginx@sha256:00"] {
            assert!(!is_latest(image), "{image}");
        }
    }

    #[test]
    fn a_recreate_strategy_gets_no_rolling_parameters() {
        let mut spec = json!({ "strategy": { "type": "Recreate" } });
        deployment(as_map_mut(&mut spec));
        assert_eq!(spec["strategy"], json!({ "type": "Recreate" }));
    }
}
