//! Fetches plugins into the store: one pull for all that want the same, few at once, from mirrors and registries.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use tokio::time::timeout;
use windlass_oci::{
    ContentDigest, ManifestBytes, Network, OciError, OciReference, OciVersion, PluginManifest, Registry,
};

use crate::disk::{SystemDisk, UnfinishedFile};
use crate::error::{FetchError, MirrorFailure, MirrorFailures, StoreError};
use crate::flights::Flights;
use crate::limits::StoreLimits;
use crate::names::StoredName;
use crate::shelf::Shelf;
use crate::slots::PullSlots;
use crate::stored::{Collected, ResolvedTag, Stored};
use crate::wanted::{FetchScope, Server, WantedPlugin};

/// The size of the parts in which a component is written.
const WRITTEN_PART_BYTES: usize = 256 << 10;

/// Fetches plugins, and keeps them in a directory. Clones share everything.
#[derive(Clone)]
pub struct PluginStore {
    shelf: Arc<Shelf>,
    network: Network,
    limits: StoreLimits,
    slots: Arc<PullSlots>,
    flights: Arc<Flights>,
}

/// Why a server did not give a component.
enum PullProblem {
    Server(OciError),
    /// Another server would not help.
    Host(FetchError),
}

impl PluginStore {
    /// Opens the store in `directory`, which is created if it is not there. `network` reaches the registries, and says
    /// which authorities are trusted. May block.
    pub fn open(directory: &Path, limits: StoreLimits, network: Network) -> Result<Self, StoreError> {
        Self::on_disk(directory, limits, network, Arc::new(SystemDisk))
    }

    pub(crate) fn on_disk(
        directory: &Path,
        limits: StoreLimits,
        network: Network,
        disk: Arc<dyn crate::disk::Disk>,
    ) -> Result<Self, StoreError> {
        let shelf = Arc::new(Shelf::open(directory, limits.clone(), disk)?);
        let slots = Arc::new(PullSlots::new(limits.pulls, limits.pulls_per_server));
        Ok(Self { shelf, network, limits, slots, flights: Arc::default() })
    }

    /// The plugin with this digest, if it was fetched from the repository of `image` for `scope` and is whole. Sends no
    /// request. May block: the first time, it reads the whole file.
    #[must_use]
    pub fn stored(&self, scope: &FetchScope, image: &OciReference, digest: &ContentDigest) -> Option<Stored> {
        self.shelf.find(&StoredName::new(scope, image, digest))
    }

    /// Says which plugins are in use, by the digests of their manifests: those that run, and those to which a rollback
    /// would return. They stay. Of the others, the store removes what is beyond its limits. Before the first call it
    /// removes nothing. May block.
    pub fn retain(&self, in_use: &HashSet<ContentDigest>) -> io::Result<Collected> {
        self.shelf.retain(in_use)
    }

    /// Fetches a plugin, unless it is here. A tag is resolved each time. Fetches of one digest at the same time share
    /// one pull. Dropping the future ends the pull if no other fetch shares it.
    pub async fn fetch(&self, wanted: &WantedPlugin) -> Result<Stored, FetchError> {
        let servers = wanted.servers()?;
        let name = match wanted.image.version() {
            OciVersion::Digest(digest) => StoredName::new(&wanted.scope, &wanted.image, digest),
            // A fetch that begins now must not get a digest that the tag had before.
            OciVersion::Tag(_) => return self.pull(wanted, &servers).await,
        };
        let (store, of_flight) = (self.clone(), wanted.clone());
        let flight = async move {
            match store.find(&name).await? {
                Some(stored) => Ok(stored),
                None => store.pull(&of_flight, &servers).await,
            }
        };
        self.flights.join(wanted, flight).await
    }

    async fn pull(&self, wanted: &WantedPlugin, servers: &[Server]) -> Result<Stored, FetchError> {
        let registry = wanted.image.host();
        let (manifest, server) = self.manifest(wanted, servers).await?;
        let plugin = manifest.read(&self.limits.registry).map_err(|source| FetchError::Artefact {
            registry: registry.to_owned(),
            by_digest: matches!(wanted.image.version(), OciVersion::Digest(_)),
            source: Arc::new(source),
        })?;
        let name = StoredName::new(&wanted.scope, &wanted.image, manifest.digest());
        let resolved = match wanted.image.version() {
            OciVersion::Tag(tag) => Some(ResolvedTag { tag: tag.clone(), server }),
            OciVersion::Digest(_) => None,
        };
        let alone = self.flights.alone(&name);
        let _alone = alone.lock().await;
        let stored = match self.find(&name).await? {
            Some(stored) => stored,
            None => self.pull_into(name, servers, manifest, plugin).await?,
        };
        Ok(stored.with_tag(resolved))
    }

    /// Pulls the component, and places both.
    async fn pull_into(
        &self,
        name: StoredName,
        servers: &[Server],
        manifest: ManifestBytes,
        plugin: PluginManifest,
    ) -> Result<Stored, FetchError> {
        let (of_name, of_plugin) = (name.clone(), plugin.clone());
        let held = self
            .on_shelf(move |shelf| shelf.hold_component(&of_name, &of_plugin).map_err(|error| shelf.unwritable(error)))
            .await?;
        let bytes = manifest.bytes().len() as u64 + if held.is_some() { 0 } else { plugin.component_bytes() };
        let _reserved = self.on_shelf(move |shelf| shelf.reserve(bytes)).await?;
        let component = if held.is_some() { None } else { Some(self.component(servers, &plugin).await?) };
        self.on_shelf(move |shelf| {
            shelf.keep(&name, &manifest, &plugin, component).map_err(|error| shelf.unwritable(error))
        })
        .await
    }

    /// The manifest that the image names, and the host of the server that gave it.
    async fn manifest(&self, wanted: &WantedPlugin, servers: &[Server]) -> Result<(ManifestBytes, String), FetchError> {
        let version = wanted.image.version();
        let is_tag = matches!(version, OciVersion::Tag(_));
        let asked: Vec<_> = servers.iter().filter(|server| server.resolves_tags || !is_tag).collect();
        self.of_first(&asked, |server| async move {
            let registry = Registry::new(self.network.clone(), server.options(&self.limits.registry));
            let manifest = registry.manifest(&server.at(version)).await.map_err(PullProblem::Server)?;
            Ok((manifest, server.reference.host().to_owned()))
        })
        .await
    }

    /// The component in a new file.
    async fn component(&self, servers: &[Server], plugin: &PluginManifest) -> Result<UnfinishedFile, FetchError> {
        let asked: Vec<_> = servers.iter().collect();
        self.of_first(&asked, |server| self.component_of(server, plugin)).await
    }

    async fn component_of(&self, server: &Server, plugin: &PluginManifest) -> Result<UnfinishedFile, PullProblem> {
        let registry = Registry::new(self.network.clone(), server.options(&self.limits.registry));
        let reference = server.at(&OciVersion::Digest(plugin.digest().clone()));
        let mut download = registry.component(&reference, plugin).await.map_err(PullProblem::Server)?;
        let unwritable = |shelf: &Shelf, error| shelf.unwritable(error);
        let new_file = self.on_shelf(move |shelf| shelf.new_file().map_err(|error| unwritable(shelf, error)));
        let mut file = new_file.await.map_err(PullProblem::Host)?;
        let mut part = Vec::with_capacity(WRITTEN_PART_BYTES);
        loop {
            let chunk = download.chunk().await.map_err(PullProblem::Server)?;
            let is_end = chunk.is_none();
            part.extend_from_slice(&chunk.unwrap_or_default());
            if part.len() < WRITTEN_PART_BYTES && !is_end {
                continue;
            }
            let writing = self.on_shelf(move |shelf| {
                let written = file.write(&part).and_then(|()| if is_end { file.sync() } else { Ok(()) });
                written.map_err(|error| unwritable(shelf, error))?;
                part.clear();
                Ok((file, part))
            });
            (file, part) = writing.await.map_err(PullProblem::Host)?;
            if is_end {
                return Ok(file);
            }
        }
    }

    /// Asks `servers` one after the other until one of them gives it. The error is that of the last one.
    async fn of_first<'a, T, A>(
        &self,
        servers: &[&'a Server],
        attempt: impl Fn(&'a Server) -> A,
    ) -> Result<T, FetchError>
    where
        A: Future<Output = Result<T, PullProblem>>,
    {
        let mut mirrors = Vec::new();
        let mut last = None;
        for server in servers {
            let host = server.reference.host();
            if let Some((mirror, source)) = last.take() {
                mirrors.push(MirrorFailure { mirror, source });
            }
            let _slot = self.slots.take(host).await;
            let within = self.limits.pull_time;
            match timeout(within, attempt(server)).await {
                Ok(Ok(given)) => return Ok(given),
                Ok(Err(PullProblem::Host(error))) => return Err(error),
                Ok(Err(PullProblem::Server(error))) => last = Some((host.to_owned(), Arc::new(error))),
                Err(_) => {
                    let error = OciError::TimedOut { server: host.to_owned() };
                    last = Some((host.to_owned(), Arc::new(error)));
                }
            }
        }
        let (registry, source) = last.ok_or(FetchError::Interrupted)?;
        Err(FetchError::Registry { registry, source, mirrors: MirrorFailures(mirrors) })
    }

    async fn find(&self, name: &StoredName) -> Result<Option<Stored>, FetchError> {
        let name = name.clone();
        self.on_shelf(move |shelf| Ok(shelf.find(&name))).await
    }

    /// Does blocking work.
    async fn on_shelf<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Shelf>) -> Result<T, FetchError> + Send + 'static,
    ) -> Result<T, FetchError> {
        let of_store = self.shelf.clone();
        spawn_blocking(move || work(&of_store)).await.map_err(|_| FetchError::Interrupted)?
    }
}
