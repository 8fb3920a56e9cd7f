//! Tests writes whose responses are lost, on both servers. Whatever the plugin has returned, its key waits until the
//! server has shown the write's outcome.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_core::cache::overlay::WrittenState;
use windlass_core::call::ports::CallContext;
use windlass_core::error::ApiReason;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::rights::grants::{Grants, LiveGrants, Rule};
use windlass_core::rights::principal::Principal;
use windlass_core::write::settle::{self, Settled};
use windlass_core::write::{Operation, WriteOptions};
use windlass_kube::{ConnectOptions, Discovery, Writer, client};
use windlass_proxy::{Fault, Loss, Match, RuleHandle, Verb};
use windlass_tests::host::Host;
use windlass_tests::objects::Objects;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::{CONDITION_TIMEOUT, until};

use crate::webapp;

/// A writer behind a proxy.
struct Behind {
    server: Server,
    proxy: Proxied,
    writer: Writer,
}

async fn behind(kind: Kind) -> anyhow::Result<Behind> {
    let server = Server::start(kind).await?;
    let proxy = Proxied::start(&server, 3).await?;
    let options = ConnectOptions { kubeconfig: Some(proxy.kubeconfig().to_owned()), ..ConnectOptions::default() };
    let client = client::connect(&options).await?.client;
    let writer = Writer::new(client.clone(), Discovery::new(client));
    Ok(Behind { server, proxy, writer })
}

impl Behind {
    /// A call that may do everything. It waits for everything that it starts.
    fn call(&self) -> (CallContext, Settled) {
        let all = || vec!["*".to_owned()];
        let rules = vec![Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() }];
        let principal = Principal {
            grants: LiveGrants::new(Grants::new(rules)),
            ..Principal::of_plugin("writes", "0123456789ab", "test")
        };
        let (hold, settled) = settle::hold();
        let call = CallContext {
            trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
            hold,
            ..CallContext::detached(
                principal,
                "writes",
                config_maps(),
                ObjectKey::namespaced(self.server.objects().namespace(), "primary"),
            )
        };
        (call, settled)
    }

    /// The names of the `ConfigMap`s that the test has created.
    async fn created(&self) -> anyhow::Result<Vec<String>> {
        let all = self.server.objects().list("ConfigMap", "windlass=writes").await?;
        Ok(all.iter().filter_map(|it| it["metadata"]["name"].as_str()).map(str::to_owned).collect())
    }
}

fn config_maps() -> ObjectKind {
    ObjectKind::new("v1", "ConfigMap")
}

fn create() -> Operation {
    let metadata = json!({"generateName": "lost-", "labels": {"windlass": "writes"}});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
    Operation::Create { object, options: WriteOptions::default() }
}

fn creates() -> Match {
    Match::verb(Verb::Create).resource("configmaps")
}

async fn a_create_whose_answer_is_lost(kind: Kind) -> anyhow::Result<()> {
    let behind = behind(kind).await?;
    let lost = behind.proxy.add(Fault::Lose(Loss::Reset).on(creates()).times(1));
    let (call, settled) = behind.call();
    let overlay = call.overlay.clone();
    let error = behind.writer.write(Arc::new(call), create()).await.expect_err("its answer was lost");
    assert_eq!((error.reason, lost.fired()), (ApiReason::UnknownOutcome, 1), "{error}");
    timeout(CONDITION_TIMEOUT / 4, settled.wait()).await.context("one read settles it")?;
    let key = error.object.context("the name that the host chose")?.key;
    assert_eq!(behind.created().await?, [key.name.to_string()]);
    let left = overlay.get(&config_maps(), &key).and_then(|known| known.left);
    assert!(matches!(left, Some(WrittenState::State(..))), "{left:?}");
    Ok(())
}

async fn a_call_that_is_cancelled(kind: Kind) -> anyhow::Result<()> {
    let behind = behind(kind).await?;
    let second = Duration::from_secs(2);
    let _slow = behind.proxy.add(Fault::DelayResponse(second..=second).on(creates()));
    let (call, settled) = behind.call();
    let create = behind.writer.write(Arc::new(call), create());
    let begun = until("the create is sent", || async {
        let sent = behind.proxy.count(&creates());
        if sent == 1 { Ok(()) } else { Err(sent) }
    });
    tokio::select! {
        written = create => panic!("its answer was held back: {written:?}"),
        begun = begun => begun?,
    }
    timeout(CONDITION_TIMEOUT, settled.wait()).await.context("its answer comes")?;
    assert_eq!(behind.created().await?.len(), 1);
    Ok(())
}

/// The number of `WebApp`s.
const WRITTEN_WEBAPPS: usize = 100;
/// The number of users that make changes at once.
const CONCURRENT_URGENT_CHANGES: usize = 16;

/// Scales all `WebApp`s to this many replicas. Returns the time until each reports them.
async fn scaled_to(replicas: u64, objects: &Objects) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let webapp = |number: usize| {
        json!({
            "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "metadata": {"name": format!("app-{number}")},
            "spec": {"image": "registry.example/shop:1", "replicas": replicas, "port": 8080},
        })
    };
    let applied = (0..WRITTEN_WEBAPPS).map(|number| async move { objects.apply(&webapp(number)).await.map(|_| ()) });
    stream::iter(applied).buffer_unordered(CONCURRENT_URGENT_CHANGES).try_collect::<()>().await?;
    until("all WebApps say that they are ready", || async {
        let all = objects.list("WebApp", "").await?;
        let is_ready = |it: &Value| {
            let (status, generation) = (&it["status"], &it["metadata"]["generation"]);
            status["observedGeneration"] == *generation && status["readyReplicas"] == replicas
        };
        let ready = all.iter().filter(|it| is_ready(it)).count();
        anyhow::ensure!(ready == WRITTEN_WEBAPPS, "{ready} are ready");
        Ok(())
    })
    .await?;
    Ok(began.elapsed())
}

async fn lost_answers_to_a_plugins_writes(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let (proxy, plugins) = (Proxied::start(&server, 5).await?, webapp::plugin_directory()?);
    server.install_webapp().await?;
    let objects = server.objects();
    let host = Host::run(proxy.kubeconfig(), objects.namespace(), plugins.path())?;
    host.says("controller started").await?;
    scaled_to(1, objects).await?;
    let quiet = scaled_to(2, objects).await?;
    let loses = ["webapps.apps.kubedojo.io/status", "deployments.apps"].map(|resource| {
        let writes = Match::writes().resource(resource).agent("(webapp@");
        proxy.add(Fault::Lose(Loss::Reset).on(writes).with_probability(0.05))
    });
    let took = scaled_to(3, objects).await?;
    let lost = usize::try_from(loses.iter().map(RuleHandle::fired).sum::<u64>())?;
    drop(loses);
    host.says_times("mutation settled plugin=webapp ", lost).await?;
    let log = host.log();
    let settled = |how: &str| log.lines().filter(|line| line.contains(&format!("settled={how}"))).count();
    println!(
        "figures: {kind:?}: {WRITTEN_WEBAPPS} WebApps scaled in {:.1} s; in {:.1} s with {lost} lost answers, of which {} showed",
        quiet.as_secs_f64(),
        took.as_secs_f64(),
        settled("committed")
    );
    assert!(lost > 0, "no answer was lost");
    assert_eq!(settled("expired"), 0, "a key has waited for the end of all time: {log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_delays_a_key_only_briefly_on_the_embedded_server() -> anyhow::Result<()> {
    lost_answers_to_a_plugins_writes(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_delays_a_key_only_briefly_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    lost_answers_to_a_plugins_writes(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_read_settles_a_create_with_a_lost_answer_on_the_embedded_server() -> anyhow::Result<()> {
    a_create_whose_answer_is_lost(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_read_settles_a_create_with_a_lost_answer_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_create_whose_answer_is_lost(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_calls_write_is_made_and_awaited_on_the_embedded_server() -> anyhow::Result<()> {
    a_call_that_is_cancelled(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_calls_write_is_made_and_awaited_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_call_that_is_cancelled(Kind::Real).await
}
