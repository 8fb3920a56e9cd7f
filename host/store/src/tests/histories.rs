//! Random histories of a store, with stops of its host and damage to its files, against a model.

use proptest::prelude::*;

use super::crashes::{FailingDisk, Failure};
use super::*;

const HISTORY_PLUGINS: usize = 5;
const UNUSED_PLUGINS: usize = 2;

#[derive(Clone, Debug)]
enum Step {
    Fetch(usize),
    /// The plugins in use are those whose bit is set, as far as they are there.
    Retain(u8),
    Damage(usize),
    /// The host stops within this step, at that operation on files, and starts again.
    Stop(Box<Step>, usize, bool),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let simple = prop_oneof![
        3 => (0..HISTORY_PLUGINS).prop_map(Step::Fetch),
        2 => any::<u8>().prop_map(Step::Retain),
        1 => (0..HISTORY_PLUGINS).prop_map(Step::Damage),
    ];
    let stopped = (simple.clone(), 1_usize..14, any::<bool>())
        .prop_map(|(step, at, loses)| Step::Stop(Box::new(step), at, loses));
    proptest::collection::vec(prop_oneof![4 => simple, 2 => stopped, 1 => Just(Step::Restart)], 1..14)
}

/// A store, and the plugins that must be in it.
struct History {
    servers: LyingServers,
    directory: TempDir,
    store: PluginStore,
    digests: Vec<String>,
    in_use: HashSet<usize>,
}

fn limits() -> StoreLimits {
    StoreLimits { unused_plugins: UNUSED_PLUGINS, ..StoreLimits::default() }
}

/// The components of two plugins are the same.
fn component_of(plugin: usize) -> Vec<u8> {
    component(u8::try_from(plugin / 2).expect("few"), 100 + plugin / 2)
}

impl History {
    fn new() -> Self {
        let servers = LyingServers::default();
        let digests = (0..HISTORY_PLUGINS)
            .map(|plugin| {
                let component = component_of(plugin);
                servers.has(&component);
                let (manifest, _) = windlass_lying_registry::plugin_of(&component);
                let mut manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("it is JSON");
                manifest["annotations"]["plugin"] = plugin.into();
                let bytes = manifest.to_string();
                let digest = digest_of(bytes.as_bytes());
                let reply = Reply::ok("application/vnd.oci.image.manifest.v1+json", bytes.as_bytes());
                servers.reply(&format!("GET /v2/shop/manifests/{digest}"), reply);
                digest
            })
            .collect();
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path(), &servers, limits(), Arc::new(SystemDisk));
        Self { servers, directory, store, digests, in_use: HashSet::new() }
    }

    fn reopen(&mut self, disk: Arc<dyn Disk>) {
        self.store = open(self.directory.path(), &self.servers, limits(), disk);
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Fetch(plugin) => {
                let fetched = self.store.fetch(&wanted(&by_digest(&self.digests[*plugin]))).await;
                if let Ok(stored) = fetched {
                    let content = std::fs::read(&stored.path).expect("it is there");
                    assert!(content == component_of(*plugin), "plugin {plugin} has other contents");
                }
            }
            Step::Retain(bits) => {
                let is_used = |plugin: &usize| bits >> plugin & 1 == 1 && self.found(*plugin).is_some();
                self.in_use = (0..HISTORY_PLUGINS).filter(is_used).collect();
                let digests = self.in_use.iter().map(|plugin| digest(&self.digests[*plugin])).collect();
                if self.store.retain(&digests).is_ok() {
                    let unused = list(&self.directory.path().join("manifests")).len();
                    assert!(unused <= self.in_use.len() + UNUSED_PLUGINS, "{unused} plugins are there");
                }
            }
            Step::Damage(plugin) => {
                let file = digest_of(&component_of(*plugin)).replace("sha256:", "") + ".wasm";
                let path = self.directory.path().join("components").join(file);
                if path.exists() {
                    std::fs::write(path, b"\0asm, damaged").expect("written");
                    self.in_use.retain(|other| other / 2 != plugin / 2);
                }
            }
            Step::Stop(step, at, loses) => {
                let failure = if *loses { Failure::PowerLoss } else { Failure::Stop };
                let disk = FailingDisk::new(*at, failure);
                self.reopen(Arc::new(SystemDisk));
                self.store = open(self.directory.path(), &self.servers, limits(), disk.clone());
                Box::pin(self.step(step)).await;
                self.reopen_after(&disk);
            }
            Step::Restart => self.reopen(Arc::new(SystemDisk)),
        }
    }

    fn reopen_after(&mut self, disk: &FailingDisk) {
        // The store of the stopped host is dropped first, as its process is gone.
        let elsewhere = tempfile::tempdir().expect("a directory");
        self.store = open(elsewhere.path(), &self.servers, limits(), Arc::new(SystemDisk));
        disk.crash();
        self.reopen(Arc::new(SystemDisk));
        let components = list(&self.directory.path().join("components")).len();
        let manifests = list(&self.directory.path().join("manifests")).len();
        assert!(components <= manifests, "a component without a manifest");
        assert_eq!(list(&self.directory.path().join("unfinished")), Vec::<String>::new());
    }

    fn found(&self, plugin: usize) -> Option<Stored> {
        let image = by_tag().parse().expect("a reference");
        self.store.stored(&FetchScope::Cluster, &image, &digest(&self.digests[plugin]))
    }

    /// All plugins in use are whole, and the others are whole or not there.
    fn check(&self) {
        for plugin in 0..HISTORY_PLUGINS {
            let found = self.found(plugin);
            if let Some(stored) = &found {
                let content = std::fs::read(&stored.path).expect("it is there");
                assert!(content == component_of(plugin), "plugin {plugin} has other contents");
            }
            assert!(found.is_some() || !self.in_use.contains(&plugin), "plugin {plugin} is in use, but gone");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_plugins_in_use_are_whole(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let mut history = History::new();
            for step in &steps {
                history.step(step).await;
                history.check();
            }
        });
    }
}
