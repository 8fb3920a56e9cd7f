//! A cache that is filled from an embedded server, for primaries that exist.

use std::net::SocketAddr;

use tokio::runtime::Runtime;
use windlass_apiserver::ApiServer;
use windlass_core::cache::watch::{IndexSource, WatchSpec};
use windlass_core::object::ObjectKind;
use windlass_kube::client::{self, ConnectOptions};
use windlass_kube::{Discovery, Informers, SubscribeOptions, Subscription};

use super::key;
use crate::dispatch::route::Stores;
use crate::tests::stage::create;

/// A cache with `ConfigMap`s of the namespace `prod`. It has its own runtime, whose clock is not paused.
pub(crate) struct Filled {
    subscription: Subscription,
    runtime: Option<Runtime>,
    server: ApiServer,
    _informers: Informers,
}

impl Filled {
    /// A cache with `ConfigMap`s of these names, indexed by their label `app`.
    pub(crate) fn with(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        // Use another thread, because this one is in a runtime already.
        let filled = std::thread::spawn(move || {
            let runtime = Runtime::new().expect("a runtime");
            let mut filled = runtime.block_on(Self::fill(&names));
            filled.runtime = Some(runtime);
            filled
        });
        filled.join().expect("filled")
    }

    /// The index by the label.
    pub(crate) fn by_app() -> IndexSource {
        IndexSource::Label("app".into())
    }

    /// The objects of the cache as primaries.
    pub(crate) fn primaries(&self) -> Stores {
        Stores::new([self.subscription.store().clone()])
    }

    /// Creates another object, and returns when the cache has it.
    pub(crate) fn add(&mut self, name: &str) {
        create_config_map(self.server.address(), name);
        let (runtime, subscription) = (self.runtime.as_ref().expect("it runs"), &mut self.subscription);
        let shown = async {
            while subscription.store().get(&key(name)).is_none() {
                subscription.next().await;
            }
        };
        // Use another thread, because this one is in a runtime already.
        std::thread::scope(|scope| scope.spawn(|| runtime.block_on(shown)).join()).expect("the cache shows it");
    }

    async fn fill(names: &[String]) -> Self {
        let server = ApiServer::start(windlass_apiserver::Config::default()).await.expect("it starts");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, server.kubeconfig()).expect("written");
        let options = ConnectOptions { kubeconfig: Some(path), ..ConnectOptions::default() };
        let client = client::connect(&options).await.expect("the server answers").client;
        create(
            server.address(),
            "/api/v1/namespaces",
            r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"prod"}}"#,
        );
        for name in names {
            create_config_map(server.address(), name);
        }
        let informers = Informers::new(client.clone(), Discovery::new(client));
        let options = SubscribeOptions { indexes: vec![Self::by_app()], budget: None };
        let spec = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
        let mut subscription = informers.subscribe_with(spec, options).expect("it can be indexed");
        while names.iter().any(|name| subscription.store().get(&key(name)).is_none()) {
            subscription.next().await;
        }
        Self { subscription, runtime: None, server, _informers: informers }
    }
}

fn create_config_map(server: SocketAddr, name: &str) {
    let metadata = format!(r#"{{"name":"{name}","labels":{{"app":"web"}}}}"#);
    let object = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata}}}"#);
    create(server, "/api/v1/namespaces/prod/configmaps", &object);
}

impl Drop for Filled {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
