//! The contents of a new cluster: its namespaces and the `kubernetes` service.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::request::{Target, WriteOptions};
use crate::storage::state::State;
use crate::verbs::create;

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Creates the first objects.
pub(crate) fn populate(state: &mut State, address: SocketAddr) {
    for name in NAMESPACES {
        add(state, "namespaces", None, json!({ "metadata": { "name": name } }));
    }
    let service = json!({
        "metadata": { "name": "kubernetes", "labels": { "component": "apiserver", "provider": "kubernetes" } },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": address.port() }],
        },
    });
    add(state, "services", Some("default"), service);
}

fn add(state: &mut State, plural: &str, namespace: Option<&str>, object: Value) {
    let options = WriteOptions::of_component("kube-apiserver");
    let Some(resource) = state.registry.find("", "v1", plural) else { return };
    let target = Target {
        resource: Arc::clone(resource),
        namespace: namespace.map(str::to_owned),
        name: None,
        subresource: None,
    };
    if let Err(error) = create::create(state, &target, &options, object) {
        tracing::error!(plural, %error, "a first object could not be made; the server goes on without it");
    }
}
