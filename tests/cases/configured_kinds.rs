//! A plugin whose configuration names the kinds that it watches (`kindsFrom` in its manifest).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use windlass_tests::chameleon;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use crate::admin::{plugin, watched};
use crate::kinds::{self, says};

const CONFIG_MAP: &str = "{apiVersion: v1, kind: ConfigMap}";
const SECRET: &str = "{apiVersion: v1, kind: Secret}";
/// The server does not serve this kind at first.
const MISSING: &str = "{apiVersion: named.windlass.dev/v1, kind: Named}";
const MISSING_CONTROLLER: &str = "chameleon.named.named.windlass.dev";
/// Nothing for Secrets.
const POLICY: &str = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: chameleon\nrules:\n\
    - {apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, delete]}\n\
    - {apiGroups: [\"\"], resources: [services], verbs: [get, list, watch]}\n\
    - {apiGroups: [named.windlass.dev], resources: [nameds], verbs: [get, list, watch]}\n";

/// The definition of the kind. The group belongs to this test alone, because tests that share a real server expect
/// their kinds to be absent at first.
fn definition() -> anyhow::Result<Value> {
    let text = kinds::definition("Namespaced", "string").to_string();
    Ok(serde_json::from_str(&text.replace("Missing", "Named").replace("missing", "named"))?)
}

/// The states of the plugin's controllers, with their reasons.
async fn controllers(address: SocketAddr) -> anyhow::Result<BTreeMap<String, (String, String)>> {
    let shown = plugin(address, "chameleon").await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |it: &Value| (text(&it["name"]), (text(&it["state"]), text(&it["reason"])));
    Ok(shown["controllers"].as_array().context("a list")?.iter().map(of).collect())
}

/// Waits until the plugin has exactly these controllers: the name of each, its state and a part of the reason.
async fn has(address: SocketAddr, wanted: &[(&str, &str, &str)]) -> anyhow::Result<()> {
    until(&format!("the controllers are {wanted:?}"), || async {
        let found = controllers(address).await?;
        let is_so = |(name, state, why): &(&str, &str, &str)| {
            found.get(*name).is_some_and(|(is, reason)| is == state && reason.contains(why))
        };
        ensure!(found.len() == wanted.len() && wanted.iter().all(is_so), "{found:?}");
        Ok(())
    })
    .await
}

async fn kinds_come_and_go_with_the_configuration(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let (objects, plugins) = (server.objects(), tempfile::tempdir()?);
    chameleon::write("kinds", &plugins.path().join("chameleon.wasm"))?;
    std::fs::write(plugins.path().join("chameleon.policy.yaml"), POLICY)?;
    let configure = |config: &str| {
        let text =
            format!("apiVersion: windlass.dev/v1alpha1\nkind: PluginConfig\nplugin: chameleon\nconfig: {config}\n");
        std::fs::write(plugins.path().join("chameleon.config.yaml"), text)
    };
    let add = async |kind: &str, name: &str| {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        if kind == "Service" {
            object["spec"] = json!({"ports": [{"port": 80}]});
        }
        objects.apply(&object).await
    };
    let (host, address) = watched(&server, plugins.path(), &["--grants=policy", "--leases=none"]).await?;
    has(address, &[("chameleon", "waiting", "names no kind at /kinds")]).await?;

    configure(&format!("{{kinds: [{CONFIG_MAP}, {SECRET}, {MISSING}]}}"))?;
    add("ConfigMap", "first").await?;
    host.says("chameleon finds ConfigMap first as chameleon").await?;
    let waits = [("chameleon.configmap", "running", ""), ("chameleon.secret", "waiting", "secrets")];
    has(address, &[waits[0], waits[1], (MISSING_CONTROLLER, "waiting", "named.windlass.dev/v1")]).await?;

    objects.apply(&definition()?).await?;
    says(&host, &["controller started", MISSING_CONTROLLER], 1).await?;
    kinds::create_of(objects.client(), "Named", Some(objects.namespace()), "second", json!("large")).await?;
    host.says("chameleon finds Named second as chameleon").await?;

    let expired = json!({"metadata": {"annotations": {"chameleon.windlass.dev/expired": "true"}}});
    objects.merge("ConfigMap", "first", &expired).await?;
    until("the expired object is deleted", || async {
        ensure!(objects.get("ConfigMap", "first").await?.is_none());
        Ok(())
    })
    .await?;

    configure("{kinds: 7}")?;
    let said = host.says("the former one stays in force").await?;
    ensure!(said.contains("config/kinds"), "{said}");
    configure(&format!("{{kinds: [{MISSING}]}}"))?;
    has(address, &[(MISSING_CONTROLLER, "running", "")]).await?;
    says(&host, &["chameleon finds Named second"], 2).await?;
    configure(&format!("{{kinds: [{MISSING}, {CONFIG_MAP}]}}"))?;
    add("ConfigMap", "third").await?;
    host.says("chameleon finds ConfigMap third as chameleon").await?;
    let started = |controller: &str| {
        let log = host.log();
        log.lines().filter(|line| line.contains("controller started") && line.contains(controller)).count()
    };
    ensure!((started(MISSING_CONTROLLER), started("chameleon.configmap")) == (1, 2), "{}", host.log());

    configure(&format!("{{kinds: [{MISSING}], related: [{{apiVersion: v1, kind: Service}}]}}"))?;
    says(&host, &["controller stopped", "names other kinds", MISSING_CONTROLLER], 1).await?;
    says(&host, &["controller started", MISSING_CONTROLLER], 2).await?;
    let seen = host.log().matches("chameleon finds Named second").count();
    add("Service", "related").await?;
    host.says_times("chameleon finds Named second", seen + 1).await?;

    configure("{kinds: []}")?;
    has(address, &[("chameleon", "waiting", "names no kind at /kinds")]).await?;
    ensure!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_come_and_go_with_the_configuration_on_the_embedded_server() -> anyhow::Result<()> {
    kinds_come_and_go_with_the_configuration(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_come_and_go_with_the_configuration_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    kinds_come_and_go_with_the_configuration(Kind::Real).await
}
