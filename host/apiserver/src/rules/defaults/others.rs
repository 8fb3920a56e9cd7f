//! Defaults for built-in kinds that do not run pods.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::{default, default_text, each};
use crate::authz::User;
use crate::object::{self, as_map_mut, text};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn service(spec: &mut Map<String, Value>) {
    default_text(spec, "type", "ClusterIP");
    default_text(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" {
        const THREE_HOURS: u32 = 10_800;
        default(spec, "sessionAffinityConfig", json!({}));
        let config = as_map_mut(&mut spec["sessionAffinityConfig"]);
        default(config, "clientIP", json!({}));
        default(as_map_mut(&mut config["clientIP"]), "timeoutSeconds", json!(THREE_HOURS));
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    if kind != "ExternalName" {
        default_text(spec, "internalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
    for port in each(spec, "ports") {
        default_text(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(Value::Null);
        if port.get("targetPort").is_none_or(|target| [json!(null), json!(0), json!("")].contains(target)) {
            port.insert("targetPort".to_owned(), number);
        }
    }
}

/// Adds a label with the namespace's name, so that selectors can select it.
pub(super) fn namespace(namespace: &mut Value) {
    let name = json!(object::name(namespace));
    let labels = object::map_mut(object::map_mut_value(namespace, "metadata"), "labels");
    labels.insert("kubernetes.io/metadata.name".to_owned(), name);
}

/// Moves `stringData` into `data`. It is only another way to write `data`, and is not stored.
pub(super) fn secret(secret: &mut Value) {
    let fields = as_map_mut(secret);
    default_text(fields, "type", "Opaque");
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    let data = object::map_mut(secret, "data");
    for (key, value) in texts {
        data.insert(key, json!(BASE64_STANDARD.encode(value.as_str().unwrap_or_default())));
    }
}

pub(super) fn binding(binding: &mut Value) {
    default_text(object::map_mut(binding, "roleRef"), "apiGroup", RBAC);
    for subject in each(as_map_mut(binding), "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            default_text(subject, "apiGroup", RBAC);
        }
    }
}

/// Sets the user of a certificate request, which is always its creator.
pub(super) fn requested_by(user: &User, request: &mut Value) {
    let info = user.info();
    let spec = object::map_mut(request, "spec");
    for field in ["username", "uid", "groups", "extra"] {
        match info.get(field) {
            Some(value) => spec.insert(field.to_owned(), value.clone()),
            None => spec.remove(field),
        };
    }
}

/// Fills in missing times in the conditions of a certificate request.
pub(super) fn date_conditions(request: &mut Value, current: &Value, now: &str) {
    let before = object::items(current, "/status/conditions");
    let Some(conditions) = request.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else { return };
    for condition in conditions {
        let same = before.iter().find(|old| ["type", "status"].iter().all(|field| old[*field] == condition[*field]));
        let since = same.map(|old| &old["lastTransitionTime"]).filter(|since| !since.is_null()).cloned();
        let condition = as_map_mut(condition);
        default(condition, "lastUpdateTime", json!(now));
        default(condition, "lastTransitionTime", since.unwrap_or_else(|| json!(now)));
    }
}

pub(super) fn network_policy(policy: &mut Value) {
    let types =
        if policy.pointer("/spec/egress").is_some() { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    let spec = object::map_mut(policy, "spec");
    default(spec, "policyTypes", types);
    default(spec, "podSelector", json!({}));
    for rules in ["ingress", "egress"] {
        for rule in each(spec, rules) {
            each(rule, "ports").for_each(|port| default_text(port, "protocol", "TCP"));
        }
    }
}

pub(super) fn endpoint_slice(slice: &mut Value) {
    for port in each(as_map_mut(slice), "ports") {
        default(port, "name", json!(""));
        default_text(port, "protocol", "TCP");
    }
}

/// Sets the defaults of endpoints, like `SetDefaults_Endpoints` of `pkg/apis/core/v1/defaults.go`.
pub(super) fn endpoints(endpoints: &mut Value) {
    for subset in each(as_map_mut(endpoints), "subsets") {
        for port in each(subset, "ports") {
            default_text(port, "protocol", "TCP");
        }
    }
}

/// Makes a job select its pods by the job's UID, unless it has a manual selector.
pub(super) fn job_selector(job: &mut Value) {
    if job.pointer("/spec/manualSelector") == Some(&json!(true)) {
        return;
    }
    let uid = text(job, "/metadata/uid").to_owned();
    let name = text(job, "/metadata/name").to_owned();
    let spec = object::map_mut(job, "spec");
    spec.insert("selector".to_owned(), json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": uid } }));
    let template = spec.entry("template").or_insert_with(|| json!({}));
    let labels = object::map_mut(object::map_mut_value(template, "metadata"), "labels");
    for prefix in ["", "batch.kubernetes.io/"] {
        labels.insert(format!("{prefix}controller-uid"), json!(uid));
        labels.insert(format!("{prefix}job-name"), json!(name));
    }
}

/// Sets a missing selector to the template's labels, like `SetDefaults_ReplicationController` in
/// `pkg/apis/core/v1/defaults.go`.
pub(super) fn select_like_template(object: &mut Value) {
    let labels = object.pointer("/spec/template/metadata/labels").cloned().unwrap_or_default();
    let has_one =
        object.pointer("/spec/selector").and_then(Value::as_object).is_some_and(|selector| !selector.is_empty());
    if !has_one && labels.is_object() {
        object::map_mut(object, "spec").insert("selector".to_owned(), labels);
    }
}

pub(super) fn label_like_template(object: &mut Value) {
    let labels = object.pointer("/spec/template/metadata/labels").cloned().unwrap_or_default();
    let has_some =
        object.pointer("/metadata/labels").is_some_and(|own| own.as_object().is_none_or(|own| !own.is_empty()));
    if !has_some && labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        object::metadata_mut(object).insert("labels".to_owned(), labels);
    }
}

/// The condition of a pod that waits for its scheduling gates, like `applySchedulingGatedCondition` in
/// `pkg/registry/core/pod/strategy.go`.
pub(super) fn gated(now: &str) -> Value {
    json!({
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": null,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    })
}

/// Sets default requests and limits in a limit range for containers, like `SetDefaults_LimitRangeItem` in
/// `pkg/apis/core/v1/defaults.go`.
pub(super) fn limit_range(spec: &mut Map<String, Value>) {
    for limit in each(spec, "limits").filter(|limit| limit.get("type") == Some(&json!("Container"))) {
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(given) = limit.get(from).and_then(Value::as_object).filter(|given| !given.is_empty()).cloned()
            else {
                continue;
            };
            default(limit, to, json!({}));
            let into = as_map_mut(&mut limit[to]);
            given.into_iter().for_each(|(name, amount)| default(into, &name, amount));
        }
    }
}

/// Sets the defaults of a volume claim, and adapts the two fields that name its data source to each other, like
/// `DropDisabledFields`, `EnforceDataSourceBackwardsCompatibility` and `NormalizeDataSources` in
/// `pkg/api/persistentvolumeclaim/util.go`.
pub(super) fn claim(spec: &mut Map<String, Value>) {
    default_text(spec, "volumeMode", "Filesystem");
    let text = |source: &Value, name: &str| source[name].as_str().unwrap_or_default().to_owned();
    let is_usual = |source: &Value| match text(source, "apiGroup").as_str() {
        "" => text(source, "kind") == "PersistentVolumeClaim",
        "snapshot.storage.k8s.io" => text(source, "kind") == "VolumeSnapshot",
        _ => false,
    };
    if spec.get("dataSource").is_some_and(|source| !is_usual(source)) {
        spec.remove("dataSource");
    }
    if spec.get("dataSourceRef").is_some_and(|reference| !text(reference, "namespace").is_empty()) {
        spec.remove("dataSourceRef");
    }
    for (from, to) in [("dataSourceRef", "dataSource"), ("dataSource", "dataSourceRef")] {
        if let Some(source) = spec.get(from).filter(|source| source.is_object()).cloned() {
            default(spec, to, source);
        }
    }
}

pub(super) fn volume(spec: &mut Map<String, Value>) {
    default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_text(spec, "volumeMode", "Filesystem");
    if let Some(Value::Object(path)) = spec.get_mut("hostPath") {
        default(path, "type", json!(""));
    }
}

pub(super) fn storage(kind: &str, object: &mut Value) {
    let fields = as_map_mut(object);
    match kind {
        "StorageClass" => {
            default_text(fields, "reclaimPolicy", "Delete");
            default_text(fields, "volumeBindingMode", "Immediate");
        }
        "CSIDriver" => {
            let spec = object::map_mut(object, "spec");
            default(spec, "attachRequired", json!(true));
            for flag in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
                default(spec, flag, json!(false));
            }
            default_text(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
            default(spec, "volumeLifecycleModes", json!(["Persistent"]));
        }
        _ => {}
    }
}

pub(super) fn ingress_class(class: &mut Value) {
    if let Some(Value::Object(parameters)) = class.pointer_mut("/spec/parameters") {
        default_text(parameters, "scope", "Cluster");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_data_becomes_data() {
        let mut object = json!({ "stringData": { "a": "hi", "b": "abc", "c": "" } });
        secret(&mut object);
        assert_eq!(object, json!({ "type": "Opaque", "data": { "a": "aGk=", "b": "YWJj", "c": "" } }));
    }

    #[test]
    fn a_replication_controller_defaults_its_selector_to_its_template() {
        let selected = |selector: Value| {
            let template = json!({ "metadata": { "labels": { "a": "b" } } });
            let mut object = json!({ "spec": { "selector": selector, "template": template } });
            select_like_template(&mut object);
            object["spec"]["selector"].clone()
        };
        assert_eq!(selected(json!(null)), json!({ "a": "b" }));
        assert_eq!(selected(json!({})), json!({ "a": "b" }));
        assert_eq!(selected(json!({ "c": "d" })), json!({ "c": "d" }));
    }

    #[test]
    fn a_service_port_targets_itself() {
        let mut spec = json!({ "ports": [{ "port": 80 }] });
        service(as_map_mut(&mut spec));
        assert_eq!(spec["ports"], json!([{ "port": 80, "protocol": "TCP", "targetPort": 80 }]));
    }
}
