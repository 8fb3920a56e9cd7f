//! Creates the contents of a new cluster: namespaces and the `kubernetes` service; with authorization, the default
//! roles; and with the stand-in for pods, a node.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{StandIns, cluster_roles, stand_ins};
use crate::authz::RBAC;
use crate::object::text;
use crate::request::{Target, WriteOptions};
use crate::storage::state::State;
use crate::verbs::create;

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The default roles of kube-apiserver 1.36.3, one a line; the example `default_roles` generates the file.
const DEFAULT_ROLES: &str = include_str!("default_roles.jsonl");

/// Creates the first objects.
pub(crate) fn populate(state: &mut State, address: SocketAddr, played: StandIns) {
    for name in NAMESPACES {
        add(state, ("", "namespaces"), None, json!({ "metadata": { "name": name } }));
    }
    let service = json!({
        "metadata": { "name": "kubernetes", "labels": { "component": "apiserver", "provider": "kubernetes" } },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": address.port() }],
        },
    });
    add(state, ("", "services"), Some("default"), service);
    if state.by_roles {
        add_roles(state);
    }
    if played.contains(StandIns::PODS) {
        stand_ins::add_node(state);
    }
}

/// The roles and bindings of a new cluster. Without them, not even discovery would be allowed.
fn add_roles(state: &mut State) {
    for line in DEFAULT_ROLES.lines() {
        let Ok(object) = serde_json::from_str::<Value>(line) else { continue };
        let plural = format!("{}s", text(&object, "/kind").to_lowercase());
        let namespace = text(&object, "/metadata/namespace").to_owned();
        add(state, (RBAC, &plural), (!namespace.is_empty()).then_some(&namespace), object);
    }
    while cluster_roles::aggregate(state) {}
}

fn add(state: &mut State, (group, plural): (&str, &str), namespace: Option<&str>, object: Value) {
    let options = WriteOptions::of_component("kube-apiserver");
    let Some(resource) = state.registry.find(group, "v1", plural) else { return };
    let target = Target {
        resource: Arc::clone(resource),
        namespace: namespace.map(str::to_owned),
        name: None,
        subresource: None,
    };
    if let Err(error) = create::create(state, &target, &options, object) {
        tracing::error!(plural, %error, "cannot create an initial object; the server continues without it");
    }
}
