//! Validates objects: the rules of `metadata` for every kind, and for built-in kinds the rules that users are most
//! likely to break. A real server has more rules, as README.md explains.

mod admission;
mod admission_policies;
mod autoscalers;
mod certificates;
mod definitions;
mod embedded;
mod events;
mod job_policies;
mod jobs;
mod limits;
mod metadata;
mod networks;
mod nodes;
mod pods;
mod policies;
mod report;
mod scale;
mod services;
mod storage;
mod stored;
mod table;
mod workloads;

pub(crate) use metadata::metadata;
use report::Report;
use serde_json::Value;

use crate::cause::Cause;
use crate::resources::resource::ResourceType;
use crate::schema::{Judgement, Schema};

/// Validates a custom resource, except its metadata. CEL rules rely on the types in the schema, so they are skipped if
/// a value may have the wrong type.
pub(crate) fn custom(
    resource: &ResourceType,
    schema: &Schema,
    subresource: &str,
    object: &Value,
    previous: Option<&Value>,
) -> Judgement {
    const BLOCKING: [&str; 5] = [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    let mut causes = match subresource {
        "status" => schema.validate_status(object, previous),
        _ => schema.validate(object, previous),
    };
    if let Some(paths) = &resource.scale {
        scale::scale(paths, subresource, object, &mut causes);
    }
    if schema.embeds() {
        embedded::check(schema.root(), object, "", &mut causes);
    }
    if !schema.has_rules() {
        return Judgement { causes, warnings: Vec::new() };
    }
    if causes.iter().any(|cause| BLOCKING.contains(&cause.reason)) {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors \
                   to complete validation";
        causes.push(Cause::invalid("<nil>", &Value::Null, why));
        return Judgement { causes, warnings: Vec::new() };
    }
    let found = schema.check_rules(object, previous);
    causes.extend(found.causes);
    Judgement { causes, warnings: found.warnings }
}

/// All errors in a built-in object after a write, except errors in its metadata. `subresource` is empty for a write to
/// the object itself.
pub(crate) fn builtin(
    resource: &ResourceType,
    subresource: &str,
    object: &Value,
    previous: Option<&Value>,
) -> Vec<Cause> {
    let mut report = Report::default();
    let found = &mut report;
    match (resource.id.group.as_str(), resource.kind.as_str()) {
        ("apps", kind @ ("Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")) => {
            workloads::workload(kind, object, previous, found);
        }
        ("apps", "ControllerRevision") => {
            found.not_negative("revision", &object["revision"]);
            found.immutable("data", object, previous);
        }
        ("batch", "Job") => jobs::job(object, previous, found),
        ("batch", "CronJob") => jobs::cron_job(object, previous, found),
        (group @ ("" | "events.k8s.io"), "Event") => events::event(group, object, previous, found),
        ("storage.k8s.io", "StorageClass") => storage::storage_class(object, previous, found),
        ("storage.k8s.io", "VolumeAttributesClass") => storage::attributes_class(object, previous, found),
        ("storage.k8s.io", "CSIDriver") => storage::driver(object, found),
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment(object, found),
        ("node.k8s.io", "RuntimeClass") => nodes::runtime_class(object, previous, found),
        ("networking.k8s.io", "Ingress") => networks::ingress(object, found),
        ("networking.k8s.io", "IngressClass") => networks::ingress_class(object, previous, found),
        ("networking.k8s.io", "NetworkPolicy") => networks::network_policy(object, found),
        ("discovery.k8s.io", "EndpointSlice") => networks::endpoint_slice(object, previous, found),
        ("rbac.authorization.k8s.io", kind @ ("Role" | "ClusterRole")) => policies::role(kind, object, found),
        ("rbac.authorization.k8s.io", kind) => policies::binding(kind, object, previous, found),
        ("policy", "PodDisruptionBudget") => policies::budget(object, found),
        ("autoscaling", "HorizontalPodAutoscaler") if resource.version == "v2" => {
            autoscalers::autoscaler(object, found);
        }
        ("coordination.k8s.io", "Lease") => policies::lease(object, found),
        ("scheduling.k8s.io", "PriorityClass") => policies::priority_class(object, previous, found),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            admission::webhooks(object, found);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission_policies::policy(object, found),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            admission_policies::binding(object, found);
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            certificates::signing_request(subresource, object, previous, found);
        }
        // Clients may write any status of a definition, because the server overwrites it.
        ("apiextensions.k8s.io", _) if subresource == "status" => {}
        ("apiextensions.k8s.io", _) => return definitions::validate(object, previous),
        ("", "Pod") => pods::pod(subresource, object, previous, found),
        ("", kind) => core(kind, object, previous, found),
        _ => {}
    }
    report.0
}

/// Validates objects of the core group.
fn core(kind: &str, object: &Value, previous: Option<&Value>, found: &mut Report) {
    match kind {
        "ReplicationController" => workloads::replication_controller(object, found),
        "PodTemplate" => pods::template(&object["template"], "template", found),
        "Service" => services::service(object, previous, found),
        "ConfigMap" => stored::config_map(object, previous, found),
        "Secret" => stored::secret(object, previous, found),
        "PersistentVolumeClaim" => storage::claim(object, previous, found),
        "PersistentVolume" => storage::volume(object, previous, found),
        "ResourceQuota" => {
            policies::quota(object, found);
            limits::quota_scopes(object, previous, found);
        }
        "LimitRange" => limits::limit_range(object, found),
        "Node" => nodes::node(object, previous, found),
        "Endpoints" => networks::endpoints(object, found),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;
    use crate::resources::builtin;

    /// Lists without a length limit are validated under the state's lock, so this must be fast. The time limit of the
    /// test is far above linear time, and far below quadratic time.
    #[test]
    fn validation_takes_linear_time() {
        const VALIDATED_ITEMS: usize = 40_000;
        let list = |item: fn(usize) -> Value| (0..VALIDATED_ITEMS).map(item).collect::<Vec<_>>();
        let spec = json!({
            "schedulingGates": list(|index| json!({ "name": format!("g{index}") })),
            "tolerations": list(|index| json!({ "key": format!("k{index}"), "operator": "Exists" })),
            "topologySpreadConstraints": list(|index| json!({
                "maxSkew": 1, "topologyKey": format!("k{index}"), "whenUnsatisfiable": "DoNotSchedule",
            })),
            "containers": [{
                "name": "c",
                "image": "i",
                "resources": { "claims": list(|index| json!({ "name": "a", "request": format!("r{index}") })) },
                "volumeMounts": list(|index| json!({ "name": "v", "mountPath": format!("/m{index}") })),
                "volumeDevices": list(|index| json!({ "name": "d", "devicePath": format!("/d{index}") })),
            }],
            "resourceClaims": [{ "name": "a", "resourceClaimName": "a" }],
        });
        let pod = json!({ "metadata": { "name": "p", "namespace": "n" }, "spec": spec });
        let class = json!({ "provisioner": "p", "allowedTopologies": [
            { "matchLabelExpressions": [{ "key": "k", "values": list(|index| json!(index.to_string())) }] },
        ] });
        let codes = json!({ "operator": "In", "values": list(|index| json!(index + 1)) });
        let job =
            json!({ "spec": { "podFailurePolicy": { "rules": [{ "action": "Ignore", "onExitCodes": codes }] } } });
        let resources = builtin::resources();
        for (kind, object) in [("Pod", pod), ("StorageClass", class), ("Job", job)] {
            let resource = resources.iter().find(|resource| resource.kind == kind).expect("the kind");
            let begin = Instant::now();
            let causes = builtin(resource, "", &object, Some(&object));
            assert!(causes.iter().all(|cause| cause.reason != "FieldValueDuplicate"), "{kind}");
            // Quadratic validation would take several minutes.
            assert!(begin.elapsed() < Duration::from_mins(1), "{kind}: {:?}", begin.elapsed());
        }
    }

    #[test]
    fn ephemeral_containers_change_through_their_subresource_only() {
        let resources = builtin::resources();
        let pods = resources.iter().find(|resource| resource.kind == "Pod").expect("pods");
        let pod = |debuggers: Value| {
            json!({
                "metadata": { "name": "p", "namespace": "n" },
                "spec": { "containers": [{ "name": "c", "image": "i" }], "ephemeralContainers": debuggers },
            })
        };
        let (now, before) = (pod(json!([{ "name": "d", "image": "i" }])), pod(Value::Null));
        let fields = |subresource| -> Vec<String> {
            let causes = builtin(pods, subresource, &now, Some(&before));
            causes.into_iter().filter(|cause| cause.reason == "FieldValueForbidden").map(|cause| cause.field).collect()
        };
        assert_eq!(fields(""), ["spec"]);
        assert_eq!(fields("ephemeralcontainers"), [""; 0]);
    }

    #[test]
    fn ephemeral_containers_are_only_added() {
        let resources = builtin::resources();
        let pods = resources.iter().find(|resource| resource.kind == "Pod").expect("pods");
        let pod = |debuggers: Value, annotations: Value| {
            json!({
                "metadata": { "name": "p", "namespace": "n", "annotations": annotations },
                "spec": { "containers": [{ "name": "c", "image": "i" }], "ephemeralContainers": debuggers },
            })
        };
        let debugger = |name: &str, image: &str| json!({ "name": name, "image": image });
        let refusals = |now: &Value, before: &Value| -> Vec<String> {
            let causes = builtin(pods, "ephemeralcontainers", now, Some(before));
            let forbidden = causes.into_iter().filter(|cause| cause.reason == "FieldValueForbidden");
            forbidden.map(|cause| cause.message).collect()
        };
        let before = pod(json!([debugger("a", "i"), debugger("b", "i")]), json!({}));
        let added = json!([debugger("b", "i"), debugger("c", "i"), debugger("a", "i")]);
        assert_eq!(refusals(&pod(added.clone(), json!({})), &before), [""; 0]);
        let changed = pod(json!([debugger("b", "other")]), json!({}));
        let [removed, changed] = refusals(&changed, &before).try_into().expect("two");
        assert!(removed.contains("existing ephemeral containers \"a\" may not be removed"), "{removed}");
        assert!(changed.contains("existing ephemeral containers \"b\" may not be changed"), "{changed}");
        let mirror = json!({ "kubernetes.io/config.mirror": "x" });
        let of_static = refusals(&pod(added, mirror.clone()), &pod(Value::Null, mirror));
        assert!(of_static.len() == 1 && of_static[0].contains("static pods do not support"), "{of_static:?}");
    }

    #[test]
    fn a_container_cannot_repeat_a_claim() {
        let resources = builtin::resources();
        let pods = resources.iter().find(|resource| resource.kind == "Pod").expect("pods");
        let claims = [("a", "x"), ("a", "y"), ("a", "x"), ("a", ""), ("b", ""), ("b", "x"), ("b", "")];
        let claims = claims.map(|(name, request)| json!({ "name": name, "request": request }));
        let pod = json!({ "metadata": { "name": "p", "namespace": "n" }, "spec": { "containers": [
            { "name": "c", "image": "i", "resources": { "claims": claims } },
        ] } });
        let causes = builtin(pods, "", &pod, None);
        let doubles: Vec<_> = causes.iter().filter(|cause| cause.reason == "FieldValueDuplicate").collect();
        let messages: Vec<&str> = doubles.iter().map(|cause| cause.message.as_str()).collect();
        let expected = ["a/x", "a", "a", "b", "b"].map(|key| format!("Duplicate value: {key:?}"));
        assert_eq!(messages, expected);
    }
}
