//! The sandbox as the host uses it, with a cache that an informer fills.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::CallContext;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::outcome::CallResult;
use windlass_core::rights::principal::Principal;
use windlass_wasm::{CallLimits, Called, Plugin, Request, Sandbox, SandboxOptions};

use crate::guests::{Core, MANIFEST};
use crate::support::{self, Cached};

/// A `ConfigMap` of 2 KiB.
pub(crate) fn object() -> String {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "prod", "name": "shop"}, "data": {"text": "x".repeat(1_930)},
    });
    object.to_string()
}

/// A sandbox, and a cache for its plugins.
pub(crate) struct Host {
    sandbox: Sandbox,
    cached: Cached,
    principal: Arc<Principal>,
}

impl Host {
    pub(crate) async fn new() -> anyhow::Result<Self> {
        let spec = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
        let cached = Cached::start(spec, 1, async |client| {
            support::namespace(client, "prod").await?;
            let config_maps = support::api(client, Some("prod"), "ConfigMap", "configmaps");
            support::create(&config_maps, serde_json::from_str(&object())?).await
        });
        Ok(Self {
            sandbox: Sandbox::new(SandboxOptions { threads: 2, concurrent_calls: 64, ..SandboxOptions::default() })?,
            cached: cached.await?,
            principal: Arc::new(support::principal("guest".into())),
        })
    }

    pub(crate) async fn load(&self, name: &str, component: &[u8]) -> anyhow::Result<Arc<Plugin>> {
        let path = self.cached.directory.path().join(format!("{name}.wasm"));
        std::fs::write(&path, component)?;
        Ok(self.sandbox.load(&path).await?)
    }

    /// Loads `count` plugins, each with different code.
    pub(crate) async fn load_many(&self, count: usize) -> anyhow::Result<Vec<Arc<Plugin>>> {
        let mut plugins = Vec::with_capacity(count);
        for number in 0..count {
            let name = format!("guest-{number}");
            let manifest = MANIFEST.replacen("\"name\":\"guest\"", &format!("\"name\":\"{name}\""), 1);
            let reconcile = format!("(drop (i32.add (i32.const {number}) (i32.const 1)))");
            let guest = Core { manifest, reconcile, ..Core::default() };
            plugins.push(self.load(&name, &guest.component()).await?);
        }
        Ok(plugins)
    }

    /// Makes one call after the other, in a task, like a worker.
    pub(crate) async fn calls(self: &Arc<Self>, plugin: &Arc<Plugin>, count: u32) -> anyhow::Result<()> {
        self.guests_own(plugin, count).await.map(drop)
    }

    /// Makes calls from two callers at the same time; each call is of the next plugin.
    pub(crate) async fn calls_in_turn(self: &Arc<Self>, plugins: &[Arc<Plugin>], count: u32) -> anyhow::Result<()> {
        let callers = [0, plugins.len() / 2].map(|first| {
            let (host, plugins) = (self.clone(), plugins.to_vec());
            tokio::spawn(async move {
                let turns = plugins.iter().cycle().skip(first).take(count as usize / 2);
                for plugin in turns {
                    host.call(plugin).await?;
                }
                anyhow::Ok(())
            })
        });
        for caller in callers {
            caller.await??;
        }
        Ok(())
    }

    /// The charged processor time of the guest's thread per call.
    pub(crate) async fn guests_own(self: &Arc<Self>, plugin: &Arc<Plugin>, count: u32) -> anyhow::Result<Duration> {
        let (host, called) = (self.clone(), plugin.clone());
        let calls = async move {
            let mut cpu = Duration::ZERO;
            for _ in 0..count {
                cpu += host.call(&called).await?.cpu;
            }
            Ok(cpu / count)
        };
        tokio::spawn(calls).await?
    }

    async fn call(&self, plugin: &Arc<Plugin>) -> anyhow::Result<Called> {
        let key = ObjectKey::namespaced("prod", "shop");
        let call = Arc::new(CallContext {
            trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
            ..CallContext::detached(self.principal.clone(), "guest", ObjectKind::new("v1", "ConfigMap"), key.clone())
        });
        let request = Request {
            controller: call.controller.clone(),
            key,
            uid: None,
            object: None,
            deleting: false,
            attempt: 0,
            trace_id: call.trace_id.clone(),
        };
        let called = Box::pin(plugin.reconcile(request, &self.cached.ports, call, CallLimits::default())).await;
        anyhow::ensure!(matches!(called.result, CallResult::Done | CallResult::RequeueAfter(_)), "{:?}", called.result);
        Ok(called)
    }
}
