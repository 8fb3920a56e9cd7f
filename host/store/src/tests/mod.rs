//! Tests of the whole store against registries that lie. Time is simulated.

mod crashes;
mod files;
mod histories;
mod hostile;
mod mirrors;
mod sharing;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tempfile::TempDir;
use windlass_core::call::http::HttpError;
use windlass_egress::tls::Trust;
use windlass_lying_registry::{COMPONENT, LOCAL, LyingServers, Reply, TestNames, Then, blob_path, digest_of};
use windlass_oci::{ContentDigest, Dial, DialedStream, Network, PlainHttp};

use crate::disk::{Disk, SystemDisk};
use crate::{FetchError, FetchScope, Mirror, PluginStore, StoreLimits, Stored, WantedPlugin};

const FIRST: &str = "GET /v2/shop/manifests/1";

/// The connections of a test.
struct Servers(LyingServers);

impl Dial for Servers {
    fn dial(
        &self,
        addresses: Vec<SocketAddr>,
        _limit: Duration,
    ) -> BoxFuture<'static, Result<Box<dyn DialedStream>, HttpError>> {
        let stream = self.0.connect(addresses[0]);
        async move { Ok(Box::new(stream) as Box<dyn DialedStream>) }.boxed()
    }
}

fn network(servers: &LyingServers) -> Network {
    let trust = Trust::of_platform("--registry-ca");
    Network { resolver: Arc::new(TestNames), dial: Arc::new(Servers(servers.clone())), trust: Arc::new(trust) }
}

/// A store in a test's network, and its directory.
struct Client {
    servers: LyingServers,
    store: PluginStore,
    directory: TempDir,
}

impl Client {
    fn of(servers: &LyingServers) -> Self {
        Self::with(servers, StoreLimits::default(), Arc::new(SystemDisk))
    }

    fn limited(servers: &LyingServers, limits: StoreLimits) -> Self {
        Self::with(servers, limits, Arc::new(SystemDisk))
    }

    fn with(servers: &LyingServers, limits: StoreLimits, disk: Arc<dyn Disk>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path(), servers, limits, disk);
        Self { servers: servers.clone(), store, directory }
    }

    /// The same directory, as another process opens it.
    fn reopened(self) -> Self {
        let Self { servers, store, directory } = self;
        drop(store);
        let store = open(directory.path(), &servers, StoreLimits::default(), Arc::new(SystemDisk));
        Self { servers, store, directory }
    }

    async fn fetch(&self, image: &str) -> Result<Stored, FetchError> {
        self.store.fetch(&wanted(image)).await
    }

    /// The reason why the plugin is not fetched. The store must then be as empty as before.
    async fn refusal(&self, image: &str) -> &'static str {
        match self.fetch(image).await {
            Ok(_) => "fetched",
            Err(error) => {
                assert_eq!(self.files(), Vec::<String>::new(), "a file is left behind after: {error}");
                error.reason()
            }
        }
    }

    /// All files below the directory.
    fn files(&self) -> Vec<String> {
        let mut files: Vec<_> = ["manifests", "components", "unfinished"]
            .iter()
            .flat_map(|folder| list(&self.directory.path().join(folder)))
            .collect();
        files.sort();
        files
    }

    fn requests(&self) -> usize {
        self.servers.seen().len()
    }

    fn component_file(&self, component: &[u8]) -> PathBuf {
        let name = digest_of(component).replace("sha256:", "") + ".wasm";
        self.directory.path().join("components").join(name)
    }
}

fn open(directory: &Path, servers: &LyingServers, limits: StoreLimits, disk: Arc<dyn Disk>) -> PluginStore {
    PluginStore::on_disk(directory, limits, network(servers), disk).expect("the directory can be used")
}

fn list(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("it is there");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// The plugin `image` from a registry on this machine.
fn wanted(image: &str) -> WantedPlugin {
    let plain_http = PlainHttp::OnThisMachine;
    WantedPlugin { plain_http, ..WantedPlugin::of_cluster(image.parse().expect("a reference")) }
}

fn by_tag() -> String {
    format!("oci://{LOCAL}/shop:1")
}

fn by_digest(digest: &str) -> String {
    format!("oci://{LOCAL}/shop@{digest}")
}

fn digest(text: &str) -> ContentDigest {
    ContentDigest::parse(text).expect("a digest")
}

/// A component of `bytes` bytes, which `id` makes different from others.
fn component(id: u8, bytes: usize) -> Vec<u8> {
    let mut component = b"\0asm".to_vec();
    component.resize(bytes, id);
    component
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_fetched_once_and_then_found() {
    let client = Client::of(&LyingServers::honest());
    let stored = client.fetch(&by_tag()).await.expect("it is honest");
    assert_eq!(std::fs::read(&stored.path).expect("it is there"), COMPONENT);
    assert_eq!((stored.bytes, stored.file_digest.as_str()), (COMPONENT.len() as u64, &*digest_of(COMPONENT)));
    let resolved = stored.resolved.clone().expect("by tag");
    assert_eq!((resolved.tag.as_str(), resolved.server.as_str()), ("1", LOCAL));
    assert_eq!(client.requests(), 2, "the manifest and the component");
    let again = client.fetch(&by_tag()).await.expect("it is honest");
    assert_eq!((again.digest, client.requests()), (stored.digest.clone(), 3), "the tag is resolved again");
    let found = client.fetch(&by_digest(stored.digest.as_str())).await.expect("it is here");
    assert_eq!((found.resolved, client.requests()), (None, 3), "a digest needs no request");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_host_finds_its_plugins_without_a_registry() {
    let servers = LyingServers::honest();
    let client = Client::of(&servers);
    let fetched = client.fetch(&by_tag()).await.expect("it is honest").digest;
    servers.reply(FIRST, Reply::raw("").then(Then::Hang));
    let client = client.reopened();
    let image = by_tag().parse().expect("a reference");
    let stored = client.store.stored(&FetchScope::Cluster, &image, &fetched).expect("it is here");
    assert_eq!(std::fs::read(stored.path).expect("it is there"), COMPONENT);
    assert_eq!(client.fetch(&by_tag()).await.expect_err("it hangs").reason(), "TimedOut");
}

/// A user who fetches an artefact from one repository cannot pass it off as one of another repository or tenant.
#[tokio::test(start_paused = true)]
async fn a_digest_counts_only_for_the_repository_and_tenant_it_came_from() {
    let client = Client::of(&LyingServers::honest());
    let digest = client.fetch(&by_tag()).await.expect("it is honest").digest;
    let other = format!("oci://{LOCAL}/team/allowed@{digest}");
    let image = other.parse().expect("a reference");
    assert!(client.store.stored(&FetchScope::Cluster, &image, &digest).is_none());
    assert_eq!(client.fetch(&other).await.expect_err("the repository has none").reason(), "NotFound");
    let before = client.requests();
    let tenant = FetchScope::Namespace("tenant".to_owned());
    let image = by_digest(digest.as_str()).parse().expect("a reference");
    assert!(client.store.stored(&tenant, &image, &digest).is_none());
    let stored = client.store.fetch(&WantedPlugin { scope: tenant, ..wanted(&by_digest(digest.as_str())) }).await;
    assert!(stored.is_ok() && client.requests() == before + 2, "the tenant needs the right to pull");
    assert_eq!(list(&client.directory.path().join("components")).len(), 1, "equal files are there once");
}

#[tokio::test(start_paused = true)]
async fn only_listed_registries_are_asked_at_public_addresses() {
    use crate::AddressPolicy;
    let client = Client::of(&LyingServers::honest());
    let public = || AddressPolicy::public();
    let listed = |registries: &[&str]| AddressPolicy::listed(registries.iter().map(|&it| it.to_owned()).collect());
    for (image, addresses, expected) in [
        ("oci://registry.example.com/shop:1", listed(&[]), "RegistryNotAllowed"),
        ("oci://registry.example.com:444/shop:1", listed(&["registry.example.com"]), "RegistryNotAllowed"),
        ("oci://private.example.com/shop:1", listed(&["private.example.com"]), "AddressRefused"),
        ("oci://127.0.0.1:5000/shop:1", public(), "AddressRefused"),
        ("oci://169.254.169.254/shop:1", public(), "AddressRefused"),
    ] {
        let error = client.store.fetch(&WantedPlugin { addresses, ..wanted(image) }).await.expect_err(image);
        assert_eq!(error.reason(), expected, "{image}");
        assert_eq!(error.is_final(), expected == "RegistryNotAllowed", "{image}");
    }
    assert_eq!(client.requests(), 0);
}
