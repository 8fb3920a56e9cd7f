//! Adds files to the store's directory, finds them, and removes them.
//!
//! The directory has two folders of finished files: manifests, and components. The name of a manifest says which plugin
//! it belongs to. The manifest is written last and removed first, so a fetch or a removal that breaks off never leaves
//! a manifest without its component. All state is in the files, and several hosts may share them: at worst one of them
//! removes what another one then fetches again.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use windlass_oci::{ContentDigest, ManifestBytes, PluginManifest, RegistryLimits};

use crate::disk::{self, Disk, FoundFile, UnfinishedFile};
use crate::error::{FetchError, StoreError};
use crate::limits::StoreLimits;
use crate::names::{self, StoredName};
use crate::reading::{FileState, digest_of, opened, readable};
use crate::room::{self, KeptPlugin};
use crate::stored::{Collected, Pin, Stored};

#[derive(Default)]
struct ShelfState {
    /// The manifests that the host uses. `None` before its first `retain`: until then nothing is removed.
    in_use: Option<HashSet<ContentDigest>>,
    pins: HashMap<StoredName, Weak<Pin>>,
    /// The components that were found to match their digests.
    verified: HashMap<ContentDigest, FileState>,
    /// The component of each manifest that was read.
    components: HashMap<StoredName, ContentDigest>,
    /// The bytes of the pulls in progress.
    reserved: u64,
}

impl ShelfState {
    fn pin(&mut self, name: &StoredName) -> Arc<Pin> {
        self.pins.retain(|_, pin| pin.strong_count() > 0);
        if let Some(pin) = self.pins.get(name).and_then(Weak::upgrade) {
            return pin;
        }
        let pin = Arc::new(Pin);
        self.pins.insert(name.clone(), Arc::downgrade(&pin));
        pin
    }

    fn is_protected(&self, name: &StoredName) -> bool {
        let is_pinned = self.pins.get(name).is_some_and(|pin| pin.strong_count() > 0);
        is_pinned || self.in_use.as_ref().is_none_or(|in_use| in_use.contains(&name.digest))
    }
}

/// Room that a pull has been given.
pub(crate) struct Reserved {
    shelf: Arc<Shelf>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.shelf.state().reserved -= self.bytes;
    }
}

/// The store's directory. All methods may block.
pub(crate) struct Shelf {
    directory: PathBuf,
    manifests: PathBuf,
    components: PathBuf,
    unfinished: PathBuf,
    limits: StoreLimits,
    disk: Arc<dyn Disk>,
    /// Is held while files are placed or removed.
    state: Mutex<ShelfState>,
}

impl Shelf {
    /// Opens or creates the directory, and removes what a host that broke off has left there.
    pub(crate) fn open(directory: &Path, limits: StoreLimits, disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let folder = |name: &str| directory.join(name);
        let shelf = Self {
            directory: directory.to_owned(),
            manifests: folder("manifests"),
            components: folder("components"),
            unfinished: folder("unfinished"),
            limits,
            disk,
            state: Mutex::default(),
        };
        shelf.make_folders()?;
        let wrong = |source| StoreError::Use { directory: directory.to_owned(), source };
        shelf.remove_unfinished().map_err(wrong)?;
        shelf.remove_orphans(&mut shelf.state()).map_err(wrong)?;
        Ok(shelf)
    }

    /// Makes the folders that are not there. Someone may empty the cache of a running host.
    fn make_folders(&self) -> Result<(), StoreError> {
        let folders = [&self.directory, &self.manifests, &self.components, &self.unfinished];
        folders.into_iter().try_for_each(|folder| disk::private(folder))
    }

    fn state(&self) -> MutexGuard<'_, ShelfState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_unfinished(&self) -> io::Result<()> {
        for FoundFile { name, .. } in self.disk.list(&self.unfinished)? {
            let path = self.unfinished.join(name);
            // An error says that the file is gone, or that there are no locks here.
            if !self.disk.is_locked(&path).unwrap_or(false) {
                self.disk.remove(&path)?;
            }
        }
        Ok(())
    }

    /// Removes the components that no manifest names. Returns their size in bytes.
    fn remove_orphans(&self, state: &mut ShelfState) -> io::Result<u64> {
        // The components come first: another host places a component before its manifest.
        let files = self.disk.list(&self.components)?;
        let Some(kept) = self.kept(state)? else { return Ok(0) };
        let named: HashSet<String> = kept.iter().map(|it| names::component(&it.component)).collect();
        let mut bytes = 0;
        for file in files.into_iter().filter(|file| !named.contains(&file.name)) {
            self.disk.remove(&self.components.join(&file.name))?;
            bytes += file.bytes;
        }
        Ok(bytes)
    }

    /// The plugins on the disk. `None` if a manifest cannot be read: then nothing may be removed, because the manifest
    /// may be one of a plugin in use. Other files than manifests are removed.
    fn kept(&self, state: &mut ShelfState) -> io::Result<Option<Vec<KeptPlugin>>> {
        self.make_folders().map_err(io::Error::other)?;
        let components: HashMap<String, u64> =
            self.disk.list(&self.components)?.into_iter().map(|file| (file.name, file.bytes)).collect();
        let mut kept = Vec::new();
        let mut known = HashMap::new();
        for FoundFile { name: file, bytes: manifest_bytes, used } in self.disk.list(&self.manifests)? {
            let path = self.manifests.join(&file);
            let named = match StoredName::parse(&file) {
                Some(name) => self.component_of(state, &name).map(|component| Some((name, component?))),
                None => Ok(None),
            };
            let (name, component) = match named {
                Ok(Some(named)) => named,
                Ok(None) => {
                    tracing::warn!(file = %path.display(), "not a manifest that the store has written: it is removed");
                    self.disk.remove(&path)?;
                    continue;
                }
                Err(error) => {
                    let file = path.display();
                    tracing::warn!(%file, %error, "cannot read a stored manifest: the store removes nothing meanwhile");
                    return Ok(None);
                }
            };
            let component_bytes = components.get(&names::component(&component)).copied().unwrap_or_default();
            known.insert(name.clone(), component.clone());
            let is_protected = state.is_protected(&name);
            kept.push(KeptPlugin { name, manifest_bytes, component, component_bytes, used, is_protected });
        }
        state.components = known;
        Ok(Some(kept))
    }

    /// The component that a manifest names. `None` if the file is no manifest, or is not there.
    fn component_of(&self, state: &ShelfState, name: &StoredName) -> io::Result<Option<ContentDigest>> {
        if let Some(known) = state.components.get(name) {
            return Ok(Some(known.clone()));
        }
        Ok(self.manifest(name)?.map(|manifest| manifest.component_digest().clone()))
    }

    /// Reads a manifest. `None` if it is not there, or is not what its name says.
    fn manifest(&self, name: &StoredName) -> io::Result<Option<PluginManifest>> {
        // The limits of a fetch may have been lowered since.
        let limits = RegistryLimits { component_bytes: u64::MAX, config_bytes: u64::MAX, ..RegistryLimits::default() };
        let Some(file) = opened(&self.manifests.join(name.file()))? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(limits.manifest_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        let manifest = ManifestBytes::new(bytes.into());
        if *manifest.digest() != name.digest {
            return Ok(None);
        }
        Ok(manifest.read(&limits).ok())
    }

    /// The plugin `name`, if it is there and whole. Its files are read and their digests computed, unless that was done
    /// before and they have not changed.
    pub(crate) fn find(&self, name: &StoredName) -> Option<Stored> {
        // Keeps the files there while they are read.
        let pin = self.state().pin(name);
        let manifest = readable(&self.manifests.join(name.file()), self.manifest(name).transpose())?;
        self.is_whole(&manifest).then(|| self.stored(&manifest, pin))
    }

    fn stored(&self, manifest: &PluginManifest, pin: Arc<Pin>) -> Stored {
        Stored::new(manifest, self.components.join(names::component(manifest.component_digest())), pin)
    }

    /// Whether the component of `plugin` is there, with its length and digest.
    fn is_whole(&self, plugin: &PluginManifest) -> bool {
        let path = self.components.join(names::component(plugin.component_digest()));
        let is_whole = self.check(&path, plugin).transpose();
        let is_whole = readable(&path, is_whole);
        if is_whole == Some(false) {
            tracing::warn!(file = %path.display(), "a stored plugin is damaged: it is fetched again");
        }
        is_whole.unwrap_or_default()
    }

    /// Compares the file of a component with its length and digest. `None` if there is no file.
    fn check(&self, path: &Path, plugin: &PluginManifest) -> io::Result<Option<bool>> {
        let Some(mut file) = opened(path)? else { return Ok(None) };
        let digest = plugin.component_digest();
        let state = FileState::of(&file)?;
        if self.state().verified.get(digest) == Some(&state) {
            return Ok(Some(true));
        }
        let is_whole = state.bytes == plugin.component_bytes() && digest_of(&mut file)? == *digest;
        if is_whole {
            self.state().verified.insert(digest.clone(), state);
        }
        Ok(Some(is_whole))
    }

    /// Holds the plugin of the same repository and scope that has the same component, if that is there and whole.
    pub(crate) fn hold_component(&self, name: &StoredName, plugin: &PluginManifest) -> io::Result<Option<Arc<Pin>>> {
        let mut state = self.state();
        let kept = self.kept(&mut state)?.unwrap_or_default();
        let is_from_there = |it: &&KeptPlugin| it.name.from == name.from && it.component == *plugin.component_digest();
        let pin = kept.iter().find(is_from_there).map(|it| state.pin(&it.name));
        drop(state);
        Ok(pin.filter(|_| self.is_whole(plugin)))
    }

    /// Makes room for `bytes` more, by removing plugins that are not in use.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reserved, FetchError> {
        let mut state = self.state();
        let more = state.reserved.saturating_add(bytes);
        let unwritable = |error| self.unwritable(error);
        let kept = self.kept(&mut state).map_err(unwritable)?;
        let kept = kept.ok_or_else(|| unwritable(io::Error::other("a manifest there cannot be read")))?;
        let (removed, is_room) = room::removed(&kept, &self.limits, more);
        if !is_room {
            let (directory, limit) = (self.directory.clone(), self.limits.bytes);
            return Err(FetchError::StoreFull { directory, bytes, limit });
        }
        self.remove(&mut state, &removed).map_err(unwritable)?;
        state.reserved = more;
        Ok(Reserved { shelf: self.clone(), bytes })
    }

    /// Notes that the plugins with these digests are in use, and removes others beyond their bounds.
    pub(crate) fn retain(&self, in_use: &HashSet<ContentDigest>) -> io::Result<Collected> {
        let mut state = self.state();
        let before = state.in_use.replace(in_use.clone()).unwrap_or_default();
        let Some(mut kept) = self.kept(&mut state)? else { return Ok(Collected::default()) };
        // A plugin whose use has just ended was used last.
        let now = windlass_world::now();
        let has_ended = |it: &&mut KeptPlugin| before.contains(&it.name.digest) && !in_use.contains(&it.name.digest);
        for plugin in kept.iter_mut().filter(has_ended) {
            self.disk.touch(&self.manifests.join(plugin.name.file()))?;
            plugin.used = now;
        }
        let (removed, _) = room::removed(&kept, &self.limits, state.reserved);
        self.remove(&mut state, &removed)
    }

    fn remove(&self, state: &mut ShelfState, removed: &[&StoredName]) -> io::Result<Collected> {
        for name in removed {
            self.disk.remove(&self.manifests.join(name.file()))?;
            state.components.remove(*name);
        }
        let bytes = if removed.is_empty() { 0 } else { self.remove_orphans(state)? };
        Ok(Collected { plugins: removed.len(), bytes })
    }

    /// A new file for a component.
    pub(crate) fn new_file(&self) -> io::Result<UnfinishedFile> {
        self.make_folders().map_err(io::Error::other)?;
        UnfinishedFile::new(&self.disk, &self.unfinished)
    }

    /// Places a plugin that was pulled. `component` is its file, or `None` if the caller holds a plugin with it.
    pub(crate) fn keep(
        &self,
        name: &StoredName,
        manifest: &ManifestBytes,
        plugin: &PluginManifest,
        component: Option<UnfinishedFile>,
    ) -> io::Result<Stored> {
        let mut written = self.new_file()?;
        written.write(manifest.bytes())?;
        written.sync()?;
        let mut state = self.state();
        let file = names::component(plugin.component_digest());
        // A file that is there and whole may have links to it, so it is not replaced.
        let is_there = opened(&self.components.join(&file)).is_ok_and(|opened| {
            let found = opened.and_then(|file| FileState::of(&file).ok());
            found.is_some() && found.as_ref() == state.verified.get(plugin.component_digest())
        });
        if let Some(component) = component.filter(|_| !is_there) {
            state.verified.remove(plugin.component_digest());
            component.place(&self.components, &file)?;
        }
        written.place(&self.manifests, &name.file())?;
        let pin = state.pin(name);
        Ok(self.stored(plugin, pin))
    }

    pub(crate) fn unwritable(&self, error: io::Error) -> FetchError {
        FetchError::disk(self.directory.clone(), error)
    }
}
