//! Tests against registries that lie. The network is in memory, so that time is simulated and addresses are free.

mod artefacts;
mod login;
mod pushes;
mod redirects;
mod slow;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_core::call::http::HttpError;
use windlass_egress::tls::Trust;
use windlass_lying_registry::{
    COMPONENT, LOCAL, LyingServers as World, Reply, TestNames, Then, blob_path, certificates, manifest, plugin_of,
};

use crate::artefact::{CONFIG_TYPE, LAYER_TYPE, MANIFEST_TYPE, StatedContent, written};
use crate::{
    ComponentNames, Dial, DialedStream, Documents, Network, OciError, OciReference, PlainHttp, PublishedPlugin,
    Registry, RegistryOptions,
};

impl Dial for World {
    fn dial(
        &self,
        addresses: Vec<SocketAddr>,
        _limit: Duration,
    ) -> BoxFuture<'static, Result<Box<dyn DialedStream>, HttpError>> {
        let stream = self.connect(addresses[0]);
        async move { Ok(Box::new(stream) as Box<dyn DialedStream>) }.boxed()
    }
}

/// The manifest and the configuration of the plugin `shop`.
fn plugin() -> (Vec<u8>, Vec<u8>) {
    plugin_of(COMPONENT)
}

/// A client in a test's world, and the folder to which it pulls.
struct Client {
    world: World,
    registry: Registry,
    folder: TempDir,
}

impl Client {
    /// A client of a registry on this machine.
    fn of(world: &World) -> Self {
        Self::with(world, RegistryOptions { plain_http: PlainHttp::OnThisMachine, ..RegistryOptions::default() })
    }

    fn with(world: &World, options: RegistryOptions) -> Self {
        Self::trusting(world, options, Trust::of_platform("--ca-file"))
    }

    /// A client by TLS, whose servers have certificates for `names`.
    fn with_tls(mut world: World, options: RegistryOptions, names: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("ca.pem");
        let (authority, tls) = certificates(names);
        std::fs::write(&path, authority).expect("written");
        world.tls = Some(tls);
        Self::trusting(&world, options, Trust::named(&path, "--ca-file").expect("it is PEM"))
    }

    fn trusting(world: &World, options: RegistryOptions, trust: Trust) -> Self {
        let network = Network { resolver: Arc::new(TestNames), dial: Arc::new(world.clone()), trust: Arc::new(trust) };
        let folder = tempfile::tempdir().expect("a directory");
        Self { world: world.clone(), registry: Registry::new(network, options), folder }
    }

    async fn pull(&self, reference: &str) -> Result<PublishedPlugin, OciError> {
        let reference: OciReference = reference.parse()?;
        let plugin = self.registry.look_up(&reference).await?;
        self.registry.pull(&reference, &plugin, &self.folder.path().join("shop.wasm"), None).await?;
        Ok(plugin)
    }

    /// Pulls the plugin, which must fail. Returns the error's reason.
    async fn refusal(&self, reference: &str) -> &'static str {
        match self.pull(reference).await {
            Ok(_) => "pulled",
            Err(error) => {
                assert_eq!(self.files(), Vec::<String>::new(), "a file is left behind after: {error}");
                error.reason()
            }
        }
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("it is there");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

/// The reason why `shop:1` is not pulled from the local registry of `world`.
async fn refusal(world: &World) -> &'static str {
    Client::of(world).refusal(&format!("oci://{LOCAL}/shop:1")).await
}

#[tokio::test(start_paused = true)]
async fn an_honest_plugin_is_pulled_byte_for_byte() {
    let client = Client::of(&World::honest());
    let plugin = client.pull(&format!("oci://{LOCAL}/shop:1")).await.expect("it is honest");
    let bytes = std::fs::read(client.folder.path().join("shop.wasm")).expect("it is there");
    assert_eq!((bytes.as_slice(), client.files().len()), (COMPONENT, 1));
    assert_eq!(*plugin.manifest.digest(), StatedContent::of(&self::plugin().0).digest);
    assert_eq!(plugin.documents.expect("it has some").manifest["version"], "1.0.0");
    assert!(client.world.seen().iter().all(|request| !request.head.contains("authorization")));
}

#[test]
fn a_plugin_is_written_as_the_registry_of_the_tests_has_it() {
    let documents = Documents { manifest: json!({"name": "shop", "version": "1.0.0"}), ..Documents::default() };
    assert_eq!(written(&StatedContent::of(COMPONENT), &ComponentNames::default(), &documents), plugin());
}
