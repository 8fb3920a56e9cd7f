//! The paths whose instructions are counted. Each runs a number of times in this process.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use serde_json::json;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::{Absent, CallContext};
use windlass_core::clock::{Clock, Moment};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::outcome::CallResult;
use windlass_core::queue::{ItemExponential, Queue};
use windlass_core::rights::principal::Principal;
use windlass_core::write::{Operation, WriteOptions};
use windlass_kube::client::{self, ConnectOptions};
use windlass_kube::{Discovery, Informers, Subscription, Writer, object_of};
use windlass_wasm::{CallLimits, Request, Sandbox, SandboxOptions};

use crate::guests::Core;
use crate::peer::Peer;
use crate::server;
use crate::support;

/// A path through the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// A key is added to the workqueue, taken out, and done.
    Queue,
    /// Parses the text of a Pod into an object for a cache.
    Parse,
    /// Processes a line of a watch: a store shows the object, and a subscriber is notified.
    Event,
    /// Gets an object and its text from a store.
    Get,
    /// A call of a plugin that does nothing, in a fresh instance.
    Call,
    /// A server-side apply, from the plan to the answer.
    Write,
    /// A server-side apply like the one above, but over TLS and HTTP/2, to an API server in a different process.
    Request,
}

impl Path {
    pub(crate) const ALL: [Self; 7] =
        [Self::Queue, Self::Parse, Self::Event, Self::Get, Self::Call, Self::Write, Self::Request];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Parse => "parse",
            Self::Event => "event",
            Self::Get => "get",
            Self::Call => "call",
            Self::Write => "write",
            Self::Request => "request",
        }
    }

    pub(crate) fn named(name: &str) -> anyhow::Result<Self> {
        Self::ALL.into_iter().find(|path| path.name() == name).with_context(|| format!("there is no path {name}"))
    }

    /// A small and a large number of operations. They differ enough for a clear result, and counting takes about a
    /// second.
    pub(crate) fn counts(self) -> (u32, u32) {
        match self {
            Self::Queue | Self::Get => (1_000, 21_000),
            Self::Parse | Self::Event => (100, 2_100),
            Self::Call | Self::Write | Self::Request => (100, 600),
        }
    }

    pub(crate) fn run(self, count: u32) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match self {
            Self::Queue => queue(count),
            Self::Parse => parse(count),
            Self::Event => runtime.block_on(events(count)).map(drop),
            Self::Get => get(&runtime.block_on(events(0))?.1, count),
            Self::Call => runtime.block_on(calls(count)),
            Self::Write => runtime.block_on(async { writes(server::client(0), count).await }),
            Self::Request => runtime.block_on(requests(count)),
        }
    }
}

/// A clock that stands still, so that waiting is not counted.
struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Moment {
        Moment(Duration::ZERO)
    }

    fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
        futures::future::pending().boxed()
    }
}

fn queue(count: u32) -> anyhow::Result<()> {
    let queue = Queue::new(Arc::new(NoTime), ItemExponential::default());
    let keys: Vec<_> = (0..100).map(|number| ObjectKey::namespaced("prod", format!("shop-{number}"))).collect();
    for key in keys.iter().cycle().take(count as usize) {
        queue.add(key.clone());
        let taken = queue.get().now_or_never().flatten().context("the key is there")?;
        queue.done(&taken);
    }
    Ok(())
}

fn pods() -> WatchSpec {
    WatchSpec::all(ObjectKind::new("v1", "Pod"))
}

fn parse(count: u32) -> anyhow::Result<()> {
    let (spec, text) = (pods(), server::pod(1).to_string());
    for _ in 0..count {
        black_box(object_of(&spec, black_box(&text))?);
    }
    Ok(())
}

/// A cache after `count` events, and its informers, which it needs.
async fn events(count: u32) -> anyhow::Result<(Informers, Subscription)> {
    let client = server::client(count);
    let informers = Informers::new(client.clone(), Discovery::new(client));
    let mut subscription = informers.subscribe(pods());
    let last = (count + 1).to_string();
    loop {
        let object = subscription.store().get(&shop());
        if object.is_some_and(|object| object.header.version.to_string() == last) {
            return Ok((informers, subscription));
        }
        drop(subscription.next().await.context("the informer runs")?);
    }
}

fn shop() -> ObjectKey {
    ObjectKey::namespaced("prod", "shop")
}

fn get(subscription: &Subscription, count: u32) -> anyhow::Result<()> {
    let key = shop();
    for _ in 0..count {
        let object = subscription.store().get(black_box(&key)).context("it is there")?;
        black_box(object.text());
    }
    Ok(())
}

/// Created once, as in the host; only the context is created for each call.
fn principal() -> Arc<Principal> {
    Arc::new(support::principal("guest".into()))
}

fn call(principal: &Arc<Principal>, kind: ObjectKind) -> Arc<CallContext> {
    Arc::new(CallContext {
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        ..CallContext::detached(principal.clone(), "guest", kind, shop())
    })
}

async fn calls(count: u32) -> anyhow::Result<()> {
    let mut options = SandboxOptions { threads: 1, concurrent_calls: 1, ..SandboxOptions::default() };
    // Under valgrind, there is not enough address space for the default pool.
    (options.limits.memories, options.limits.instances) = (1, 4);
    let sandbox = Sandbox::new(options)?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("guest.wasm");
    std::fs::write(&path, Core::default().component())?;
    let plugin = sandbox.load(&path).await?;
    let ports = Absent::ports();
    let called = plugin.clone();
    let principal = principal();
    let calls = async move {
        for _ in 0..count {
            let call = call(&principal, ObjectKind::new("v1", "ConfigMap"));
            let request = Request {
                controller: call.controller.clone(),
                key: shop(),
                uid: None,
                object: None,
                deleting: false,
                attempt: 0,
                trace_id: call.trace_id.clone(),
            };
            let ended = Box::pin(called.reconcile(request, &ports, call, CallLimits::default())).await;
            ensure!(matches!(ended.result, CallResult::Done), "{:?}", ended.result);
        }
        Ok(())
    };
    tokio::spawn(calls).await?
}

async fn writes(client: Client, count: u32) -> anyhow::Result<()> {
    let writer = Writer::new(client.clone(), Discovery::new(client));
    let principal = principal();
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shop", "namespace": "prod", "labels": {"app": "shop"}},
        "spec": {"containers": [{"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 8080}]}]},
    });
    // Created outside the loop, because in a host the plugin would create it.
    let object = object.to_string();
    for _ in 0..count {
        let operation = Operation::Apply { object: object.clone(), options: WriteOptions::default() };
        let written = writer.write(call(&principal, ObjectKind::new("v1", "Pod")), operation).await;
        ensure!(written.as_ref().is_ok_and(Option::is_some), "{written:?}");
    }
    Ok(())
}

async fn requests(count: u32) -> anyhow::Result<()> {
    let peer = Peer::start()?;
    let options = ConnectOptions { kubeconfig: Some(peer.kubeconfig()), ..ConnectOptions::default() };
    let client = client::connect(&options).await?.client;
    support::namespace(&client, "prod").await?;
    writes(client, count).await
}
