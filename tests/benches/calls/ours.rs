//! The sandbox as the host uses it, with a cache that an informer has filled.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use windlass_apiserver::{ApiServer, Config};
use windlass_core::fence::Fenced;
use windlass_core::grants::{Grants, LiveGrants, Rule};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::outcome::CallResult;
use windlass_core::overlay::Overlay;
use windlass_core::ports::{Absent, CallContext, Ports};
use windlass_core::principal::{Principal, Role};
use windlass_core::settle::Hold;
use windlass_core::watch::WatchSpec;
use windlass_kube::client::{self, ConnectOptions};
use windlass_kube::{Discovery, Informers, Readable, Reader, Subscription};
use windlass_wasm::{CallLimits, Called, Plugin, Request, Sandbox, SandboxOptions};

use crate::guests::{Core, MANIFEST};

/// A `ConfigMap` of 2 KiB.
pub(crate) fn object() -> String {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "prod", "name": "shop"}, "data": {"text": "x".repeat(1_930)},
    });
    object.to_string()
}

/// A sandbox, and what its plugins can read.
pub(crate) struct Host {
    sandbox: Sandbox,
    ports: Ports,
    principal: Arc<Principal>,
    directory: tempfile::TempDir,
    _server: ApiServer,
    _informers: Informers,
    _cache: Subscription,
}

impl Host {
    pub(crate) async fn new() -> anyhow::Result<Self> {
        let server = ApiServer::start(Config { stand_ins: false, ..Config::default() }).await?;
        let directory = tempfile::tempdir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig())?;
        fill(&windlass_tests::server::client(&kubeconfig).await?).await?;
        let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
        let client = client::connect(&options).await?.client;
        let spec = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
        let informers = Informers::new(client.clone(), Discovery::new(client));
        let mut cache = informers.subscribe(spec.clone());
        while cache.store().is_empty() {
            cache.next().await;
        }
        let readable = Readable { spec, store: cache.store().clone(), indexes: vec![] };
        Ok(Self {
            sandbox: Sandbox::new(SandboxOptions { threads: 2, ..SandboxOptions::default() })?,
            ports: Ports { reads: Arc::new(Reader::new(vec![readable])), ..Absent::ports() },
            principal: Arc::new(principal()),
            directory,
            _server: server,
            _informers: informers,
            _cache: cache,
        })
    }

    pub(crate) async fn load(&self, name: &str, component: &[u8]) -> anyhow::Result<Arc<Plugin>> {
        let path = self.directory.path().join(format!("{name}.wasm"));
        std::fs::write(&path, component)?;
        Ok(self.sandbox.load(&path).await?)
    }

    /// So many plugins, none of which has the code of another.
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

    /// One call after the other.
    pub(crate) async fn calls(&self, plugin: &Arc<Plugin>, count: u32) -> anyhow::Result<()> {
        for _ in 0..count {
            self.call(plugin).await?;
        }
        Ok(())
    }

    /// The same by two callers at once, each call of the next plugin.
    pub(crate) async fn calls_in_turn(&self, plugins: &[Arc<Plugin>], count: u32) -> anyhow::Result<()> {
        let caller = async |first: usize| {
            let turns = plugins.iter().cycle().skip(first).take(count as usize / 2);
            for plugin in turns {
                self.call(plugin).await?;
            }
            anyhow::Ok(())
        };
        let (one, other) = tokio::join!(caller(0), caller(plugins.len() / 2));
        one.and(other)
    }

    /// What the guest's thread uses for a call, as it is charged.
    pub(crate) async fn guests_own(&self, plugin: &Arc<Plugin>, count: u32) -> anyhow::Result<Duration> {
        let mut cpu = Duration::ZERO;
        for _ in 0..count {
            cpu += self.call(plugin).await?.cpu;
        }
        Ok(cpu / count)
    }

    async fn call(&self, plugin: &Arc<Plugin>) -> anyhow::Result<Called> {
        let key = ObjectKey::namespaced("prod", "shop");
        let call = Arc::new(CallContext {
            principal: self.principal.clone(),
            controller: "guest".into(),
            primary_kind: ObjectKind::new("v1", "ConfigMap"),
            primary_key: key.clone(),
            primary: None,
            trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
            hold: Hold::detached(),
            overlay: Overlay::default(),
            turn: windlass_core::fair::Turn::default(),
            config: "{}".into(),
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
        let called = Box::pin(plugin.reconcile(request, &self.ports, call, CallLimits::default())).await;
        anyhow::ensure!(called.result == CallResult::Done, "{:?}", called.result);
        Ok(called)
    }
}

/// Creates the object and its namespace.
async fn fill(client: &kube::Client) -> anyhow::Result<()> {
    let resource =
        |kind: &str, plural: &str| ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural);
    let namespaces: Api<DynamicObject> = Api::all_with(client.clone(), &resource("Namespace", "namespaces"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}});
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
    let config_maps: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "prod", &resource("ConfigMap", "configmaps"));
    config_maps.create(&PostParams::default(), &serde_json::from_str(&object())?).await?;
    Ok(())
}

fn principal() -> Principal {
    let all = || vec!["*".to_owned()];
    let rule = Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() };
    Principal {
        plugin: "guest".into(),
        role: Role::Plugin,
        digest: "bench".into(),
        replica: "bench".into(),
        grants: LiveGrants::new(Grants::new(vec![rule])),
        impersonate: None,
        fence: Fenced::default(),
    }
}
