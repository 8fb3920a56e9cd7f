//! Shared by the benchmarks: a cache as in the host, whose objects come from the embedded API server; and the host as a
//! process.

pub(crate) mod process;

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Config, StandIns};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::{Absent, Ports};
use windlass_core::rights::grants::{Grants, LiveGrants, Rule};
use windlass_core::rights::principal::Principal;
use windlass_kube::client::{self, ConnectOptions};
use windlass_kube::{Discovery, Informers, Readable, Reader, Subscription};

/// An API server, and a cache of one kind of its objects.
pub(crate) struct Cached {
    /// Ports that only read the cache.
    pub(crate) ports: Ports,
    /// A directory for the benchmark's files.
    pub(crate) directory: tempfile::TempDir,
    pub(crate) cache: Subscription,
    _informers: Informers,
    _server: ApiServer,
}

impl Cached {
    /// Starts a server that `fill` fills, and a cache that waits for `objects` objects of `spec`.
    pub(crate) async fn start(
        spec: WatchSpec,
        objects: usize,
        fill: impl AsyncFnOnce(&Client) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let server = ApiServer::start(Config { stand_ins: StandIns::NONE, ..Config::default() }).await?;
        let directory = tempfile::tempdir()?;
        let kubeconfig: PathBuf = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig())?;
        fill(&windlass_tests::server::client(&kubeconfig).await?).await?;
        let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
        let client = client::connect(&options).await?.client;
        let informers = Informers::new(client.clone(), Discovery::new(client));
        let mut cache = informers.subscribe(spec.clone());
        while cache.store().len() < objects {
            cache.next().await;
        }
        let readable = Readable { spec, store: cache.store().clone(), indexes: vec![] };
        let ports = Ports { reads: Arc::new(Reader::new(vec![readable])), ..Absent::ports() };
        Ok(Self { ports, directory, cache, _informers: informers, _server: server })
    }
}

/// The API of a kind of the core group, in `namespace` if the kind is namespaced.
pub(crate) fn api(client: &Client, namespace: Option<&str>, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Creates `object`.
pub(crate) async fn create(api: &Api<DynamicObject>, object: Value) -> anyhow::Result<()> {
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

/// Creates a namespace.
pub(crate) async fn namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    create(&api(client, None, "Namespace", "namespaces"), object).await
}

/// A plugin with all rights.
pub(crate) fn principal(plugin: Arc<str>) -> Principal {
    let all = || vec!["*".to_owned()];
    let rule = Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() };
    Principal { grants: LiveGrants::new(Grants::new(vec![rule])), ..Principal::of_plugin(plugin, "bench", "bench") }
}
