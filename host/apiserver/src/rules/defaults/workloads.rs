//! Defaults of pods and of everything that has a pod template.

use serde_json::{Map, Value, json};

use super::{default, default_text, each};
use crate::object::{self, as_map_mut};
use crate::schema::typed::quantity;

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
    if let Some(policy) = spec.get_mut("persistentVolumeClaimRetentionPolicy").and_then(Value::as_object_mut) {
        default_text(policy, "whenDeleted", "Retain");
        default_text(policy, "whenScaled", "Retain");
    }
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
    // A job with a parallelism but no completions is a work queue: its completions stay unset.
    if no_completions && no_parallelism {
        spec.insert("completions".to_owned(), json!(1));
    }
    default(spec, "parallelism", json!(1));
    default(spec, "backoffLimit", json!(6));
    default(spec, "suspend", json!(false));
    default(spec, "manualSelector", json!(false));
    default_text(spec, "completionMode", "NonIndexed");
    let is_judged = spec.get("podFailurePolicy").is_some_and(Value::is_object);
    default(spec, "podReplacementPolicy", json!(if is_judged { "Failed" } else { "TerminatingOrFailed" }));
    if let Some(policy) = spec.get_mut("podFailurePolicy").and_then(Value::as_object_mut) {
        for pattern in each(policy, "rules").flat_map(|rule| each(rule, "onPodConditions")) {
            default_text(pattern, "status", "True");
        }
    }
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

/// Sets default parameters of a strategy, if its type is `RollingUpdate`.
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

/// Sets the defaults of a pod template.
pub(super) fn template(spec: &mut Spec) {
    let inner = spec.get_mut("template").and_then(|template| template.get_mut("spec"));
    if let Some(inner) = inner.and_then(Value::as_object_mut) {
        pod(inner);
    }
}

/// Sets the defaults of a pod, among them some that are not set in a template.
pub(super) fn lone_pod(spec: &mut Spec) {
    default(spec, "enableServiceLinks", json!(true));
    if let Some(Value::Number(grace)) = spec.get_mut("terminationGracePeriodSeconds")
        && grace.as_i64().is_some_and(|seconds| seconds < 0)
    {
        *grace = 1.into();
    }
    for list in ["containers", "initContainers"] {
        each(spec, list).for_each(request_the_limits);
    }
    pod(spec);
    if spec.get("hostNetwork") == Some(&json!(true)) {
        for list in ["containers", "initContainers"] {
            each(spec, list).for_each(take_host_ports);
        }
    }
}

/// Sets host ports equal to container ports, for a pod in the host network.
fn take_host_ports(container: &mut Spec) {
    for port in each(container, "ports") {
        if port.get("hostPort").is_none_or(|port| *port == json!(0))
            && let Some(number) = port.get("containerPort").cloned()
        {
            port.insert("hostPort".to_owned(), number);
        }
    }
}

/// Sets missing requests of a container to its limits.
fn request_the_limits(container: &mut Spec) {
    let limits = container.get("resources").and_then(|resources| resources.get("limits"));
    let Some(limits) = limits.and_then(Value::as_object).filter(|limits| !limits.is_empty()).cloned() else { return };
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    default(resources, "requests", json!({}));
    let requests = as_map_mut(&mut resources["requests"]);
    limits.into_iter().for_each(|(name, limit)| default(requests, &name, limit));
}

/// Sets the values that admission in a real server sets: the priority, by default or as in the replaced pod
/// (`plugin/pkg/admission/priority`), and tolerations of five minutes for lost nodes
/// (`plugin/pkg/admission/defaulttolerationseconds`). An update sets the tolerations again, because an applied list of
/// tolerations lacks them.
pub(super) fn admit_pod(spec: &mut Spec, current: Option<&Value>) {
    match current {
        Some(current) => {
            for key in ["priority", "preemptionPolicy"] {
                if !current[key].is_null() {
                    default(spec, key, current[key].clone());
                }
            }
        }
        None if spec.get("priorityClassName").is_none_or(|class| *class == json!("")) => {
            default(spec, "priority", json!(0));
            default_text(spec, "preemptionPolicy", "PreemptLowerPriority");
        }
        None => {}
    }
    default(spec, "tolerations", json!([]));
    let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let is_tolerated = tolerations.iter().any(|toleration| {
            let is =
                |member: &str, wanted: &str| ["", wanted].contains(&toleration[member].as_str().unwrap_or_default());
            is("key", key) && is("effect", "NoExecute")
        });
        if !is_tolerated {
            let toleration =
                json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 });
            tolerations.push(toleration);
        }
    }
}

/// The quality of service class of a pod.
pub(super) fn quality_of_service(spec: &Value) -> &'static str {
    let containers = ["/containers", "/initContainers"].into_iter().flat_map(|list| object::items(spec, list));
    let (mut says_something, mut is_guaranteed) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |kind: &str| {
                let amount = &container["resources"][kind][resource];
                (!amount.is_null() && quantity::compare(amount, &json!("0")).is_gt()).then_some(amount)
            };
            let (request, limit) = (amount("requests"), amount("limits"));
            says_something |= request.is_some() || limit.is_some();
            is_guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (says_something, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Sets the defaults of a pod's spec.
pub(super) fn pod(spec: &mut Spec) {
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "schedulerName", "default-scheduler");
    default(spec, "terminationGracePeriodSeconds", json!(30));
    default(spec, "securityContext", json!({}));
    // The old and the new field for the service account always have the same value.
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
        if let Some(from) = variable.get_mut("valueFrom").and_then(Value::as_object_mut) {
            field_reference(from);
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) {
        for hook in ["postStart", "preStop"] {
            lifecycle.get_mut(hook).and_then(Value::as_object_mut).into_iter().for_each(http_get);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(key).and_then(Value::as_object_mut) {
            self::probe(probe);
        }
    }
}

/// Whether an image may change: its tag is `latest` or missing, and it has no digest.
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
    http_get(probe);
}

fn http_get(handler: &mut Spec) {
    if let Some(get) = handler.get_mut("httpGet").and_then(Value::as_object_mut) {
        default_text(get, "path", "/");
        default_text(get, "scheme", "HTTP");
    }
}

/// Sets the default version of a reference to a pod's field, from a variable or a file.
fn field_reference(owner: &mut Spec) {
    if let Some(field) = owner.get_mut("fieldRef").and_then(Value::as_object_mut) {
        default_text(field, "apiVersion", "v1");
    }
}

fn volume(volume: &mut Spec) {
    const READABLE: u32 = 0o644;
    const TOKEN_SECONDS: u32 = 3600;
    for key in ["secret", "configMap", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(key).and_then(Value::as_object_mut) {
            default(source, "defaultMode", json!(READABLE));
        }
    }
    if let Some(source) = volume.get_mut("downwardAPI").and_then(Value::as_object_mut) {
        each(source, "items").for_each(field_reference);
    }
    if let Some(projected) = volume.get_mut("projected").and_then(Value::as_object_mut) {
        for source in each(projected, "sources") {
            if let Some(files) = source.get_mut("downwardAPI").and_then(Value::as_object_mut) {
                each(files, "items").for_each(field_reference);
            }
            if let Some(token) = source.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
                default(token, "expirationSeconds", json!(TOKEN_SECONDS));
            }
        }
    }
    if let Some(disk) = volume.get_mut("azureDisk").and_then(Value::as_object_mut) {
        default_text(disk, "cachingMode", "ReadWrite");
        default_text(disk, "kind", "Shared");
        default_text(disk, "fsType", "ext4");
        default(disk, "readOnly", json!(false));
    }
    let has_source = volume.iter().any(|(key, value)| key != "name" && !value.is_null());
    if !has_source {
        volume.insert("emptyDir".to_owned(), json!({}));
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
    fn requests_default_to_limits_and_determine_the_quality_of_service() {
        let pod = |resources: Value| {
            let mut spec = json!({ "containers": [{ "name": "c", "image": "i", "resources": resources }] });
            lone_pod(as_map_mut(&mut spec));
            (spec["containers"][0]["resources"]["requests"].clone(), quality_of_service(&spec))
        };
        assert_eq!(pod(json!({})), (Value::Null, "BestEffort"));
        let limits = json!({ "cpu": "1", "memory": "1Gi" });
        assert_eq!(pod(json!({ "limits": limits })), (limits.clone(), "Guaranteed"));
        let requests = json!({ "cpu": "100m" });
        let expected = json!({ "cpu": "100m", "memory": "1Gi" });
        assert_eq!(pod(json!({ "limits": limits, "requests": requests })), (expected, "Burstable"));
    }

    #[test]
    fn a_volume_without_a_source_is_empty() {
        let mut spec = json!({ "volumes": [{ "name": "v" }, { "name": "w", "configMap": { "name": "c" } }] });
        pod(as_map_mut(&mut spec));
        assert_eq!(spec["volumes"][0], json!({ "name": "v", "emptyDir": {} }));
        assert_eq!(spec["volumes"][1].get("emptyDir"), None);
    }

    #[test]
    fn a_new_pod_tolerates_lost_nodes_unless_it_says_otherwise() {
        let mut spec = json!({ "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists" }] });
        admit_pod(as_map_mut(&mut spec), None);
        let keys: Vec<&Value> =
            object::items(&spec, "/tolerations").iter().map(|toleration| &toleration["key"]).collect();
        assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
        assert_eq!((&spec["priority"], &spec["preemptionPolicy"]), (&json!(0), &json!("PreemptLowerPriority")));
    }

    #[test]
    fn an_updated_pod_keeps_its_priority_and_gets_its_tolerations_back() {
        let gpu = json!({ "key": "gpu", "operator": "Exists", "effect": "NoSchedule" });
        let mut spec = json!({ "tolerations": [gpu], "preemptionPolicy": "Never" });
        admit_pod(as_map_mut(&mut spec), Some(&json!({ "priority": 7, "preemptionPolicy": "PreemptLowerPriority" })));
        assert_eq!(object::items(&spec, "/tolerations").len(), 3);
        assert_eq!((&spec["priority"], &spec["preemptionPolicy"]), (&json!(7), &json!("Never")));
    }

    #[test]
    fn a_recreate_strategy_gets_no_rolling_parameters() {
        let mut spec = json!({ "strategy": { "type": "Recreate" } });
        deployment(as_map_mut(&mut spec));
        assert_eq!(spec["strategy"], json!({ "type": "Recreate" }));
    }
}
