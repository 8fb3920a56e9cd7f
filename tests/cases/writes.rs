//! Writes whose answers are lost on the way, on both servers: whatever the plugin was told, its key waits until the server
//! has told what became of them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use tokio::time::timeout;
use windlass_core::error::ApiReason;
use windlass_core::fence::Fenced;
use windlass_core::grants::{Grants, LiveGrants, Rule};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::overlay::{Overlay, WrittenState};
use windlass_core::ports::{CallContext, Writes as _};
use windlass_core::principal::{Principal, Role};
use windlass_core::settle::{self, Settled};
use windlass_core::trigger::Triggers;
use windlass_core::write::{Operation, WriteOptions};
use windlass_kube::{ConnectOptions, Discovery, Writer, client};
use windlass_proxy::{Fault, Loss, Match, Verb};
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::{PATIENCE, until};

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
    /// A call that may do everything, and what waits for all that it sets in motion.
    fn call(&self) -> (CallContext, Settled) {
        let all = || vec!["*".to_owned()];
        let rules = vec![Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() }];
        let principal = Principal {
            role: Role::Plugin,
            plugin: "writes".into(),
            digest: "0123456789ab".into(),
            replica: "test".into(),
            grants: LiveGrants::new(Grants::new(rules)),
            impersonate: None,
            fence: Fenced::default(),
        };
        let (hold, settled) = settle::hold();
        let call = CallContext {
            principal: Arc::new(principal),
            controller: "writes".into(),
            primary_kind: config_maps(),
            primary_key: ObjectKey::namespaced(self.server.objects().namespace(), "primary"),
            primary: None,
            trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
            trace: <_>::default(),
            triggers: Triggers::default(),
            hold,
            overlay: Overlay::default(),
            lines: <_>::default(),
            cpu_permit: windlass_core::fair::CpuPermit::default(),
            config: "{}".into(),
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
    timeout(PATIENCE / 4, settled.wait()).await.context("one read settles it")?;
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
    timeout(PATIENCE, settled.wait()).await.context("its answer comes")?;
    assert_eq!(behind.created().await?.len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_answer_is_lost_is_settled_by_one_read_on_the_embedded_server() -> anyhow::Result<()> {
    a_create_whose_answer_is_lost(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_answer_is_lost_is_settled_by_one_read_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_create_whose_answer_is_lost(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_a_cancelled_call_is_carried_out_and_waited_for_on_the_embedded_server() -> anyhow::Result<()> {
    a_call_that_is_cancelled(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_a_cancelled_call_is_carried_out_and_waited_for_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_call_that_is_cancelled(Kind::Real).await
}
