//! Tests the installation of CRDs in manifests, with both kinds of server.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::object::ObjectKind;
use windlass_core::rights::principal::{Principal, Role};
use windlass_kube::{Definition, DefinitionError, Definitions, Discovery, Installed, Refusal};

use crate::cluster::{Cluster, cluster};
use crate::script::{Reply, Script};

const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(30);
const PLUGIN: &str = "windlass/widgets";

pub(crate) fn role() -> Principal {
    Principal { role: Role::Definitions, ..Principal::of_plugin("role", "host", "host-1") }
}

/// A CRD in a group that no other test uses.
fn widgets(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true)],
        },
    })
}

fn version(name: &str, storage: bool) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "description": "what is wanted"}}});
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

fn definition(document: &Value) -> Definition {
    Definition::read(document.as_object().expect("an object")).expect("sound")
}

impl Cluster {
    fn group(&self) -> String {
        format!("{}.example.com", self.namespace)
    }

    async fn install(&self, manager: &str, document: &Value) -> Result<Installed, DefinitionError> {
        let definitions = Definitions::new(self.connection.client.clone(), self.discovery.clone());
        definitions.install(&role(), manager, &definition(document), ESTABLISHED_TIMEOUT).await
    }

    fn writes_of_the_role(&self) -> u64 {
        let requests = self.server.iter().flat_map(windlass_apiserver::ApiServer::requests);
        requests.filter(|count| count.user_agent.contains("(role@") && count.verb == "patch").map(|it| it.count).sum()
    }
}

#[tokio::test]
async fn a_planned_install_reports_its_change_and_writes_nothing() {
    let cluster = cluster().await;
    let mut document = widgets(&cluster.group());
    let definitions = Definitions::new(cluster.connection.client.clone(), cluster.discovery.clone());
    let would =
        async |document: &Value| definitions.would_install(&role(), &definition(document)).await.expect("an answer");
    assert_eq!(would(&document).await.as_deref(), Some("it would be created"));
    cluster.install(PLUGIN, &document).await.expect("installed");
    assert_eq!(would(&document).await, None);
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({"type": "object"});
    let change = would(&document).await.expect("a change");
    assert!(change.starts_with("it would be changed: spec.versions[name=v1]."), "{change}");
    assert!(change.contains("properties.status.type: none → \"object\""), "{change}");
    if cluster.server.is_some() {
        assert_eq!(cluster.writes_of_the_role(), 1);
    }
}

#[tokio::test]
async fn a_definition_is_installed_once_and_updated_when_it_changes() {
    let cluster = cluster().await;
    let mut document = widgets(&cluster.group());
    let kind = ObjectKind::new(format!("{}/v1", cluster.group()), "Widget");
    assert!(cluster.discovery.resolve(&kind).await.is_err(), "not served yet");
    assert_eq!(cluster.install(PLUGIN, &document).await.expect("installed"), Installed::Created);
    cluster.discovery.resolve(&kind).await.expect("discovery has heard of it");
    assert_eq!(cluster.install(PLUGIN, &document).await.expect("installed"), Installed::Unchanged);
    if cluster.server.is_some() {
        assert_eq!(cluster.writes_of_the_role(), 1, "what is there is not written again");
    }
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({"type": "object"});
    assert_eq!(cluster.install(PLUGIN, &document).await.expect("installed"), Installed::Updated);
    assert_eq!(cluster.install(PLUGIN, &document).await.expect("installed"), Installed::Unchanged);
}

#[tokio::test]
async fn a_stored_version_stays_until_nothing_is_stored_in_it() {
    let cluster = cluster().await;
    let mut document = widgets(&cluster.group());
    cluster.install(PLUGIN, &document).await.expect("installed");
    document["spec"]["versions"] = json!([version("v1", false), version("v2", true)]);
    assert_eq!(cluster.install(PLUGIN, &document).await.expect("installed"), Installed::Updated);
    document["spec"]["versions"] = json!([version("v2", true)]);
    let error = cluster.install(PLUGIN, &document).await.expect_err("v1 would be gone");
    let DefinitionError::Refused { refusal: Refusal::DropsStored { versions }, .. } = &error else { panic!("{error}") };
    assert_eq!(versions[..], ["v1"]);
}

#[tokio::test]
async fn fields_of_other_managers_are_not_taken_over() {
    let cluster = cluster().await;
    let mut document = widgets(&cluster.group());
    cluster.install("somebody", &document).await.expect("installed");
    assert_eq!(cluster.install(PLUGIN, &document).await.expect("the same"), Installed::Unchanged);
    document["spec"]["names"]["shortNames"] = json!(["wd"]);
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["description"] = "else".into();
    let error = cluster.install(PLUGIN, &document).await.expect_err("somebody has the versions");
    assert!(matches!(&error, DefinitionError::OtherManagers { .. }), "{error}");
    assert!(error.to_string().contains("somebody"), "{error}");
}

#[tokio::test]
async fn a_kind_that_another_definition_has_is_not_waited_for() {
    let cluster = cluster().await;
    cluster.install(PLUGIN, &widgets(&cluster.group())).await.expect("installed");
    let mut other = widgets(&cluster.group());
    other["metadata"]["name"] = format!("gadgets.{}", cluster.group()).into();
    other["spec"]["names"]["plural"] = "gadgets".into();
    let error = cluster.install(PLUGIN, &other).await.expect_err("the kind is taken");
    assert!(matches!(&error, DefinitionError::NamesTaken { .. }), "{error}");
}

#[tokio::test]
async fn concurrent_installs_of_one_definition_all_succeed() {
    let cluster = cluster().await;
    let document = widgets(&cluster.group());
    let installed = futures::future::join_all((0..8).map(|_| cluster.install(PLUGIN, &document))).await;
    for installed in installed {
        installed.expect("installed");
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_the_server_ends() {
    let mut document = widgets("example.com");
    document["metadata"]["resourceVersion"] = "1".into();
    let script = Script::default().lists([Reply::Json(200, document.clone())]);
    let client = script.client();
    document["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    let definitions = Definitions::new(client.clone(), Discovery::new(client));
    let error = definitions
        .install(&role(), PLUGIN, &definition(&document), ESTABLISHED_TIMEOUT)
        .await
        .expect_err("no condition");
    assert!(matches!(&error, DefinitionError::NotEstablished { limit: ESTABLISHED_TIMEOUT, .. }), "{error}");
    assert_eq!(script.mutations_asked().len(), 0, "it is there already");
    assert!(script.asked().len() > 10, "it was looked at again and again");
}
