//! Tests the embedded API server without a socket: kube-rs uses it instead of an address.

use kube::api::{Api, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;
use windlass_apiserver::{ApiServer, Config};

#[tokio::test(start_paused = true)]
async fn a_client_takes_the_service_of_a_server_in_the_process() {
    let server = ApiServer::in_process(&Config { seed: Some(1), ..Config::default() });
    let client = kube::Client::new(server.service(), "default");
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let config_maps: Api<DynamicObject> = Api::default_namespaced_with(client, &kind);
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let object = serde_json::from_value(object).expect("an object");
    let created = config_maps.create(&PostParams::default(), &object).await.expect("it is created");
    let found = config_maps.list(&ListParams::default()).await.expect("a list");
    assert_eq!(found.items.len(), 1);
    assert_eq!(found.items[0].metadata, created.metadata);
}
