//! Sets the values that the server adds to built-in objects: documented defaults (`workloads`, `others`), and values
//! that it decides when an object is stored, such as finalizers of namespaces, cluster IPs and phases.
//!
//! Clients that apply only part of an object must find the same values in all other fields as on a real server.

mod admission;
mod others;
mod workloads;

use serde_json::{Map, Value, json};

use crate::authz::User;
use crate::cause::Cause;
use crate::object::{self, text};
use crate::resources::resource::ResourceType;
use crate::resources::{autoscaler_convert, crd};
use crate::storage::state::State;

/// Sets `key` if it is missing.
fn default(map: &mut Map<String, Value>, key: &str, value: Value) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value;
    }
}

/// Sets `key` if it is missing or an empty string.
fn default_text(map: &mut Map<String, Value>, key: &str, value: &str) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() || *slot == json!("") {
        *slot = json!(value);
    }
}

/// Iterates over the maps in the list under `key`.
fn each<'a>(map: &'a mut Map<String, Value>, key: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = map.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Fills in the documented defaults of a built-in object.
pub(crate) fn apply(resource: &ResourceType, object: &mut Value) {
    let spec_is_map = object.get("spec").is_some_and(Value::is_object);
    match (resource.id.group.as_str(), resource.kind.as_str()) {
        ("" | "apps" | "batch", kind) if spec_is_map && kind != "Namespace" => {
            let spec = object::map_mut(object, "spec");
            match resource.kind.as_str() {
                "Pod" => workloads::lone_pod(spec),
                "Deployment" => workloads::deployment(spec),
                "ReplicaSet" | "ReplicationController" => workloads::replica_set(spec),
                "StatefulSet" => workloads::stateful_set(spec),
                "DaemonSet" => workloads::daemon_set(spec),
                "Job" => workloads::job(spec),
                "CronJob" => workloads::cron_job(spec),
                "Service" => others::service(spec),
                "PersistentVolumeClaim" => others::claim(spec),
                "LimitRange" => others::limit_range(spec),
                "PersistentVolume" => others::volume(spec),
                _ => {}
            }
            if resource.kind == "ReplicationController" {
                others::select_like_template(object);
                others::label_like_template(object);
            }
        }
        ("autoscaling", "HorizontalPodAutoscaler") if spec_is_map => {
            autoscaler_convert::default_spec(&resource.version, object::map_mut(object, "spec"));
        }
        // The label contains the name, so it is set later if the name is generated later.
        ("", "Namespace") if !object::name(object).is_empty() => others::namespace(object),
        ("", "PodTemplate") => workloads::template(object::as_map_mut(object)),
        ("", "Secret") => others::secret(object),
        ("", "Endpoints") => others::endpoints(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => others::binding(object),
        ("networking.k8s.io", "IngressClass") => others::ingress_class(object),
        ("storage.k8s.io", kind) => others::storage(kind, object),
        ("scheduling.k8s.io", "PriorityClass") => {
            default_text(object::as_map_mut(object), "preemptionPolicy", "PreemptLowerPriority");
        }
        ("networking.k8s.io", "NetworkPolicy") => others::network_policy(object),
        ("discovery.k8s.io", "EndpointSlice") => others::endpoint_slice(object),
        (
            "admissionregistration.k8s.io",
            kind @ ("ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration"),
        ) => admission::webhooks(kind, object),
        ("admissionregistration.k8s.io", kind @ ("ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding"))
            if spec_is_map =>
        {
            admission::policy(kind, object);
        }
        ("apiextensions.k8s.io", _) => crd::default_definition(object),
        _ => {}
    }
}

/// Sets the values that admission plugins of a real server set before webhooks see the object. The object may be new,
/// or replace `current`. Does nothing for subresources.
pub(crate) fn admit(resource: &ResourceType, subresource: &str, object: &mut Value, current: Option<&Value>) {
    if (resource.id.group.as_str(), resource.kind.as_str(), subresource) == ("", "Pod", "") {
        workloads::admit_pod(object::map_mut(object, "spec"), current.map(|pod| &pod["spec"]));
    }
}

/// Sets the values that the server decides when it stores a new object.
pub(crate) fn on_create(
    state: &mut State,
    resource: &ResourceType,
    user: &User,
    object: &mut Value,
) -> Result<(), Cause> {
    match (resource.id.group.as_str(), resource.kind.as_str()) {
        ("", "Namespace") => {
            let mut finalizers = object::strings(object, "/spec/finalizers");
            if !finalizers.contains(&"kubernetes") {
                finalizers.push("kubernetes");
            }
            object["spec"] = json!({ "finalizers": finalizers });
            others::namespace(object);
            object["status"] = json!({ "phase": "Active" });
        }
        ("", "Pod") => {
            let quality = workloads::quality_of_service(&object["spec"]);
            object["status"] = json!({ "phase": "Pending", "qosClass": quality });
            if !object::items(object, "/spec/schedulingGates").is_empty() {
                object["status"]["conditions"] = json!([others::gated(&state.now())]);
            }
        }
        ("", "PersistentVolumeClaim" | "PersistentVolume") => object["status"] = json!({ "phase": "Pending" }),
        ("", "Service") => {
            object["status"] = json!({ "loadBalancer": {} });
            state.addresses.allocate(object, None)?;
        }
        ("batch", "Job") => {
            others::job_selector(object);
            others::label_like_template(object);
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => others::requested_by(user, object),
        ("apiextensions.k8s.io", _) => crd::record_storage_version(object),
        _ => {}
    }
    Ok(())
}

/// Sets the values that the server decides when it replaces an object.
pub(crate) fn on_update(
    state: &mut State,
    resource: &ResourceType,
    object: &mut Value,
    current: &Value,
) -> Result<(), Cause> {
    match (resource.id.group.as_str(), resource.kind.as_str()) {
        ("", "Service") => {
            if text(object, "/spec/type") != "ExternalName" && text(current, "/spec/type") != "ExternalName" {
                keep_addresses(object, current);
            }
            give_up_addresses(object, current);
            state.addresses.allocate(object, Some(current))?;
        }
        // As in `podStatusStrategy.PrepareForUpdate` in `pkg/registry/core/pod/strategy.go`.
        ("", "Pod") if text(object, "/status/qosClass").is_empty() => {
            object::copy_field(object::map_mut_value(object, "status"), &current["status"], "qosClass");
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            others::date_conditions(object, current, &state.now());
        }
        _ => {}
    }
    Ok(())
}

/// Removes fields that only the old type of a service has, if the type changes and the client does not set them.
fn give_up_addresses(service: &mut Value, current: &Value) {
    let kind = |service: &Value| text(service, "/spec/type").to_owned();
    let (before, now) = (kind(current), kind(service));
    let loses = |kinds: &[&str]| kinds.contains(&before.as_str()) && !kinds.contains(&now.as_str());
    let mut gone: Vec<&str> = Vec::new();
    if loses(&["ClusterIP", "NodePort", "LoadBalancer"]) {
        gone.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
    }
    let loses_ports = loses(&["NodePort", "LoadBalancer"]);
    if loses_ports {
        gone.push("externalTrafficPolicy");
    }
    if loses(&["LoadBalancer"]) {
        gone.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    let old_ports = object::items(current, "/spec/ports");
    let spec = object::map_mut(service, "spec");
    spec.retain(|name, value| !(gone.contains(&name.as_str()) && current["spec"].get(name) == Some(value)));
    for port in each(spec, "ports").filter(|_| loses_ports) {
        let was_there =
            |port: &Map<String, Value>| old_ports.iter().any(|old| old.get("nodePort") == port.get("nodePort"));
        if was_there(port) {
            port.remove("nodePort");
        }
    }
}

/// Keeps allocated values, such as addresses and ports, if the client leaves them out.
fn keep_addresses(service: &mut Value, current: &Value) {
    let spec = object::map_mut(service, "spec");
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let Some(value) = current["spec"].get(key) {
            default(spec, key, value.clone());
        }
    }
    let old_ports = object::items(current, "/spec/ports");
    let wants_node_ports = matches!(spec.get("type").and_then(Value::as_str), Some("NodePort" | "LoadBalancer"));
    if !wants_node_ports {
        return;
    }
    for port in each(spec, "ports") {
        let same = old_ports.iter().find(|old| old["port"] == port["port"] && old["protocol"] == port["protocol"]);
        if let Some(node_port) = same.and_then(|old| old.get("nodePort")) {
            default(port, "nodePort", node_port.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_completed_as_a_real_server_does() {
        let mut spec = json!({ "template": { "spec": { "containers": [{ "name": "a", "image": "nginx", "ports": [{ "containerPort": 80 }] }] } } });
        workloads::deployment(object::as_map_mut(&mut spec));
        assert_eq!(spec["replicas"], 1);
        assert_eq!(spec["strategy"]["rollingUpdate"]["maxSurge"], "25%");
        let container = &spec["template"]["spec"]["containers"][0];
        assert_eq!(container["imagePullPolicy"], "Always");
        assert_eq!(container["ports"][0]["protocol"], "TCP");
    }
}
