//! Endpoints and endpoint slices: the addresses of the pods that a service selects.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::pod;
use super::values::controller_reference;
use super::writes::{Outcome, Write};
use crate::object::{self, items, label, label_selector, text};
use crate::resources::resource::GroupResource;

/// A real server's limit for a slice.
const SLICE_ENDPOINTS_MAX: usize = 100;

const HEADLESS: &str = "service.kubernetes.io/headless";
const OF_SERVICE: &str = "kubernetes.io/service-name";
const MANAGED_BY: (&str, &str) = ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");
const MANAGED_ENDPOINTS: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");

pub(super) fn services() -> GroupResource {
    GroupResource::new("", "services")
}

pub(super) fn resource() -> GroupResource {
    GroupResource::new("", "endpoints")
}

pub(super) fn slices() -> GroupResource {
    GroupResource::new("discovery.k8s.io", "endpointslices")
}

/// Whether a service selects the pod.
pub(super) fn selects(service: &Value, pod: &Value) -> bool {
    let selector = service.pointer("/spec/selector");
    let is_empty = selector.and_then(Value::as_object).is_none_or(Map::is_empty);
    !is_empty && text(service, "/spec/type") != "ExternalName" && label_selector::has_all(pod, selector)
}

/// The pods, grouped by their list of ports.
type ByPorts<'a> = BTreeMap<String, (Value, Vec<&'a Arc<Value>>)>;

/// Decides what to write for a service with a selector, given its pods and the existing Endpoints and slices.
pub(super) fn look(
    service: &Value,
    pods: &[Arc<Value>],
    slices: &[Arc<Value>],
    endpoints: Option<&Arc<Value>>,
) -> Outcome {
    let mut by_ports = ByPorts::new();
    for pod in pods.iter().filter(|pod| !pod::is_ended(pod) && !text(pod, "/status/podIP").is_empty()) {
        let ports = ports(service, pod);
        by_ports.entry(ports.to_string()).or_insert_with(|| (ports, Vec::new())).1.push(pod);
    }
    let mut writes = slice_writes(service, &by_ports, slices);
    let new = with_metadata(
        service,
        endpoints,
        &[MANAGED_ENDPOINTS],
        json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": { "name": object::name(service) },
            "subsets": by_ports.values().map(|(ports, pods)| subset(service, ports, pods)).collect::<Vec<_>>(),
        }),
    );
    writes.push(if endpoints.is_some() { Write::Replace(resource(), new) } else { Write::Create(resource(), new) });
    Outcome::of(writes)
}

/// Deletes the Endpoints of a service that is gone or has no selector. The garbage collector deletes its slices.
pub(super) fn look_at_none(endpoints: &Arc<Value>) -> Outcome {
    let is_ours = label(endpoints, MANAGED_ENDPOINTS.0) == Some(MANAGED_ENDPOINTS.1);
    Outcome::of(is_ours.then(|| Write::Delete(resource(), Arc::clone(endpoints))).into_iter().collect())
}

/// The ports of the service on this pod. Ports that the pod does not have are left out.
fn ports(service: &Value, pod: &Value) -> Value {
    let number = |target: &Value| match target.as_str() {
        None => target.as_i64(),
        Some(name) => {
            let mut ports = items(pod, "/spec/containers").iter().flat_map(|container| items(container, "/ports"));
            ports.find(|port| port["name"] == name).and_then(|port| port["containerPort"].as_i64())
        }
    };
    let port = |port: &Value| {
        let found = number(&port["targetPort"]).filter(|found| *found != 0).or(port["port"].as_i64())?;
        Some(json!({ "name": text(port, "/name"), "port": found, "protocol": text(port, "/protocol") }))
    };
    let is_found = |port: &&Value| !port["targetPort"].is_string() || number(&port["targetPort"]).is_some();
    items(service, "/spec/ports").iter().filter(is_found).filter_map(port).collect()
}

/// Fills the existing slices, creates missing ones, and deletes the rest.
fn slice_writes(service: &Value, by_ports: &ByPorts, slices: &[Arc<Value>]) -> Vec<Write> {
    let full =
        by_ports.values().flat_map(|(ports, pods)| pods.chunks(SLICE_ENDPOINTS_MAX).map(move |pods| (ports, pods)));
    let mut old = slices.iter();
    let mut writes: Vec<Write> = full
        .map(|(ports, pods)| {
            let slice = old.next();
            let new = new_slice(service, slice, ports, pods);
            if slice.is_some() { Write::Replace(self::slices(), new) } else { Write::Create(self::slices(), new) }
        })
        .collect();
    writes.extend(old.map(|slice| Write::Delete(self::slices(), Arc::clone(slice))));
    writes
}

fn new_slice(service: &Value, old: Option<&Arc<Value>>, ports: &Value, pods: &[&Arc<Value>]) -> Value {
    let endpoints: Vec<Value> = pods.iter().map(|pod| endpoint(service, pod)).collect();
    let metadata = json!({
        "generateName": format!("{}-", object::name(service)),
        "ownerReferences": [controller_reference(service)],
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    });
    with_metadata(service, old, &[(OF_SERVICE, object::name(service)), MANAGED_BY], slice)
}

/// Writes `new` in place of the old object, if there is one. Its labels are the service's and those in `own`.
fn with_metadata(service: &Value, old: Option<&Arc<Value>>, own: &[(&str, &str)], mut new: Value) -> Value {
    if let Some(old) = old {
        new["metadata"] = old["metadata"].clone();
    }
    let labels = service.pointer("/metadata/labels").and_then(Value::as_object);
    let mut labels: Map<String, Value> = labels.cloned().unwrap_or_default();
    labels.remove(HEADLESS);
    if text(service, "/spec/clusterIP") == "None" {
        labels.insert(HEADLESS.to_owned(), json!(""));
    }
    labels.extend(own.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
    new["metadata"]["labels"] = Value::Object(labels);
    new["metadata"]["namespace"] = json!(object::namespace(service));
    new
}

fn is_offered(service: &Value, pod: &Value) -> bool {
    let offers_all = service.pointer("/spec/publishNotReadyAddresses") == Some(&json!(true));
    offers_all || pod::is_ready(pod) && !object::is_terminating(pod)
}

fn target(pod: &Value) -> Value {
    json!({
        "kind": "Pod",
        "name": object::name(pod),
        "namespace": object::namespace(pod),
        "uid": object::uid(pod),
    })
}

/// The entry for a pod in an endpoint slice.
fn endpoint(service: &Value, pod: &Value) -> Value {
    let mut endpoint = json!({
        "addresses": [text(pod, "/status/podIP")],
        "conditions": {
            "ready": is_offered(service, pod),
            "serving": pod::is_ready(pod),
            "terminating": object::is_terminating(pod),
        },
        "nodeName": text(pod, "/spec/nodeName"),
        "targetRef": target(pod),
    });
    if let Some(host) = host(service, pod) {
        endpoint["hostname"] = json!(host);
    }
    endpoint
}

/// The pod's DNS name within its headless service.
fn host<'a>(service: &Value, pod: &'a Value) -> Option<&'a str> {
    let host = text(pod, "/spec/hostname");
    (!host.is_empty() && text(pod, "/spec/subdomain") == object::name(service)).then_some(host)
}

/// The subset of Endpoints for pods with the same ports.
fn subset(service: &Value, ports: &Value, pods: &[&Arc<Value>]) -> Value {
    let address = |pod: &&Arc<Value>| {
        let mut address = json!({
            "ip": text(pod, "/status/podIP"),
            "nodeName": text(pod, "/spec/nodeName"),
            "targetRef": target(pod),
        });
        if let Some(host) = host(service, pod) {
            address["hostname"] = json!(host);
        }
        address
    };
    let (ready, unready): (Vec<&Arc<Value>>, Vec<&Arc<Value>>) =
        pods.iter().copied().partition(|pod| is_offered(service, pod));
    let mut subset = json!({ "ports": ports });
    for (key, pods) in [("addresses", ready), ("notReadyAddresses", unready)] {
        if !pods.is_empty() {
            subset[key] = pods.iter().map(address).collect();
        }
    }
    subset
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "web", "namespace": "default", "uid": "s", "labels": { "tier": "front" } },
            "spec": {
                "clusterIP": "10.96.0.7",
                "selector": { "app": "web" },
                "ports": [{ "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" }],
            },
        })
    }

    fn pod(number: usize, ready: bool, port: i64) -> Arc<Value> {
        Arc::new(json!({
            "metadata": { "name": format!("web-{number:03}"), "namespace": "default", "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "ports": [{ "name": "http", "containerPort": port }] }] },
            "status": {
                "phase": "Running",
                "podIP": format!("198.18.0.{number}"),
                "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
            },
        }))
    }

    fn written(outcome: &Outcome, kind: &str) -> Vec<Value> {
        let objects = outcome.writes.iter().filter_map(|write| match write {
            Write::Create(_, object) | Write::Replace(_, object) => Some(object.clone()),
            _ => None,
        });
        objects.filter(|object| object["kind"] == kind).collect()
    }

    #[test]
    fn the_endpoints_of_a_service_are_its_ready_pods() {
        let outcome = look(&service(), &[pod(1, true, 8080), pod(2, false, 8080)], &[], None);
        let slices = written(&outcome, "EndpointSlice");
        let [slice] = slices.as_slice() else { panic!("one slice: {slices:?}") };
        assert_eq!(slice["ports"], json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]));
        assert_eq!(slice["endpoints"][0]["conditions"]["ready"], true);
        assert_eq!(slice["endpoints"][1]["conditions"]["ready"], false);
        assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "web");
        assert_eq!(slice["metadata"]["labels"]["tier"], "front");
        let endpoints = written(&outcome, "Endpoints");
        assert_eq!(endpoints[0]["subsets"][0]["addresses"][0]["ip"], "198.18.0.1");
        assert_eq!(endpoints[0]["subsets"][0]["notReadyAddresses"][0]["ip"], "198.18.0.2");
    }

    #[test]
    fn pods_with_other_ports_are_in_another_slice() {
        let outcome = look(&service(), &[pod(1, true, 8080), pod(2, true, 9090)], &[], None);
        assert_eq!(written(&outcome, "EndpointSlice").len(), 2);
        assert_eq!(written(&outcome, "Endpoints")[0]["subsets"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn a_slice_has_at_most_a_hundred_pods_and_surplus_slices_are_deleted() {
        let pods: Vec<Arc<Value>> = (0..150).map(|number| pod(number, true, 80)).collect();
        let slices = written(&look(&service(), &pods, &[], None), "EndpointSlice");
        let sizes = slices.iter().map(|slice| slice["endpoints"].as_array().map(Vec::len));
        assert_eq!(sizes.collect::<Vec<_>>(), [Some(100), Some(50)]);
        let old: Vec<Arc<Value>> = slices.into_iter().map(Arc::new).collect();
        let shrunk = look(&service(), &pods[..10], &old, None);
        assert!(shrunk.writes.contains(&Write::Delete(self::slices(), Arc::clone(&old[1]))), "{shrunk:?}");
    }

    #[test]
    fn a_service_without_a_selector_selects_nothing() {
        let mut all = service();
        all["spec"]["selector"] = json!({});
        assert!(!selects(&all, &pod(1, true, 80)));
        assert!(selects(&service(), &pod(1, true, 80)));
    }
}
