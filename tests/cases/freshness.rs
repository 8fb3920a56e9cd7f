//! Tests whether caches know how fresh they are, on both servers, and after an old backup of etcd is restored.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_core::cache::freshness::{Evidence, Proof};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_kube::{ConnectOptions, Discovery, InformerOptions, Informers, Subscription, client};
use windlass_tests::busy;
use windlass_tests::cluster::OwnCluster;
use windlass_tests::objects::Objects;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::{CONDITION_TIMEOUT, until};

/// The number of writers, and of writes by each of them. Together they put the cache further ahead of the backup than
/// the server's own writes at its start.
const WRITERS: usize = 8;
const WRITES_OF_WRITER: usize = 100;

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

async fn connect(kubeconfig: &Path) -> anyhow::Result<(Informers, Objects)> {
    let kubeconfig = Some(kubeconfig.to_owned());
    let connection = client::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await?;
    let options = InformerOptions {
        silence: Duration::from_secs(2),
        reachability: connection.reachability.clone(),
        ..InformerOptions::default()
    };
    let discovery = Discovery::new(connection.client.clone()).compare_versions(true);
    let informers = Informers::with_options(connection.client.clone(), discovery, options);
    Ok((informers, Objects::new(connection.client, "default")))
}

/// Makes a write that the watch of `spec` does not select, and then checks how fresh its cache is.
async fn proven(server: &Server, informers: &Informers, spec: WatchSpec) -> anyhow::Result<Evidence> {
    let subscription = informers.subscribe(spec.clone());
    ensure!(subscription.synced().await, "{:?}", subscription.status());
    server.objects().apply(&config_map("other", "1")).await?;
    match timeout(CONDITION_TIMEOUT, informers.prove(&spec)).await.with_context(|| format!("no proof for {spec}"))? {
        Proof::Proven(evidence) => Ok(evidence),
        Proof::Lost => bail!("{spec} is lost: {:?}", subscription.status()),
    }
}

async fn proofs(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let (informers, _) = connect(server.kubeconfig()).await?;
    let watch = |kind: &str, selector: Option<&str>| WatchSpec {
        namespace: Some(server.objects().namespace().into()),
        label_selector: selector.map(|it| it.parse().expect("a selector")),
        ..WatchSpec::all(ObjectKind::new("v1", kind))
    };
    for spec in [watch("Service", None), watch("Service", Some("app=a")), watch("ConfigMap", Some("app=a"))] {
        let evidence = proven(&server, &informers, spec.clone()).await?;
        ensure!(evidence != Evidence::Listed, "{spec} was listed again");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_caches_are_proven_to_be_fresh_on_the_embedded_server() -> anyhow::Result<()> {
    proofs(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_caches_are_proven_to_be_fresh_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    proofs(Kind::Real).await
}

/// The value of a `ConfigMap` in the cache.
fn cached(subscription: &Subscription, name: &str) -> Result<String, String> {
    let object = subscription.store().get(&ObjectKey::namespaced("default", name)).ok_or("nothing")?;
    let object: Value = serde_json::from_str(&object.text()).map_err(|error| error.to_string())?;
    Ok(object["data"]["value"].as_str().unwrap_or_default().to_owned())
}

async fn shows(subscription: &Subscription, name: &str, value: &str) -> anyhow::Result<()> {
    let is_shown = || match cached(subscription, name) {
        Ok(seen) if seen == value => Ok(()),
        other => Err(other),
    };
    until(&format!("{name} is {value}"), || async { is_shown() }).await
}

async fn write_much(objects: &Objects) -> anyhow::Result<()> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let objects = objects.clone();
        writers.spawn(async move {
            for number in 0..WRITES_OF_WRITER {
                objects.apply(&config_map(&format!("lost-{writer}"), &number.to_string())).await?;
            }
            anyhow::Ok(())
        });
    }
    writers.join_all().await.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_resumed_on_an_older_state_ends_in_a_list_of_it() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let mut cluster = OwnCluster::start(&[]).await?;
    let kubeconfig = cluster.running()?.kubeconfig().to_owned();
    let (informers, objects) = connect(&kubeconfig).await?;
    objects.apply(&config_map("kept", "old")).await?;
    drop(informers);
    cluster.back_up().await?;

    let (informers, objects) = connect(&kubeconfig).await?;
    let spec = WatchSpec { namespace: Some("default".into()), ..WatchSpec::all(ObjectKind::new("v1", "ConfigMap")) };
    let subscription = informers.subscribe(spec);
    write_much(&objects).await?;
    objects.apply(&config_map("kept", "new")).await?;
    shows(&subscription, "kept", "new").await?;
    cluster.restore().await?;

    let is_other = subscription.when(|status| status.epoch == 1);
    timeout(CONDITION_TIMEOUT, is_other).await.with_context(|| format!("{:?}", subscription.status()))?;
    shows(&subscription, "kept", "old").await?;
    ensure!(cached(&subscription, "lost-0").is_err(), "it is not in the backup");
    objects.apply(&config_map("later", "1")).await?;
    shows(&subscription, "later", "1").await?;
    cluster.stop()
}
