//! Keeps compiled plugins and their manifests from one run of the host to the next.
//!
//! Machine code is only loaded from a directory that no other user may write to, and only if a seal proves that a host
//! with this directory's key wrote exactly these bytes for exactly this component and engine. Other files are removed
//! and created again. Nothing here can make loading fail: without the directory, or if the disk is full, every plugin
//! is compiled each time.

mod bounds;
mod directory;
mod native;
mod seal;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::digest::{self, Digests};
use crate::engine::CompileEffort;

use bounds::{Bounds, Cleaning};
use directory::Directory;
use seal::{SealKey, Unsealed};

pub use directory::CacheError;
pub(crate) use native::from_compiler;

/// Must be increased when a file of an older host would be misinterpreted.
const FORMAT: u32 = 1;

/// The artefacts in one directory for one engine. Several hosts may share a directory.
#[derive(Debug)]
pub(crate) struct Artefacts {
    directory: Directory,
    key: SealKey,
    /// Identifies what the code was compiled for.
    engine: String,
    pinned: Mutex<Vec<Weak<Pinned>>>,
    cleaning: Mutex<Cleaning>,
    is_reported: AtomicBool,
}

/// An artefact in use by a plugin. It is not removed while this exists.
#[derive(Debug)]
pub(crate) struct Pinned {
    names: [String; 3],
}

/// A component found in the cache.
pub(crate) struct Found {
    pub(crate) component: Component,
    /// The size of the component's file.
    pub(crate) size: u64,
    /// The answer of `describe`. `None` if it is not in the cache.
    pub(crate) manifest: Option<String>,
    pub(crate) pinned: Arc<Pinned>,
}

/// A component's script from the cache.
pub(crate) struct KeptScript {
    /// The digests of the component that contains the script.
    pub(crate) digests: Digests,
    pub(crate) script: Arc<str>,
    /// The size of the component's file.
    pub(crate) size: u64,
}

impl Artefacts {
    /// Opens the directory `path`, and creates it if necessary.
    pub(crate) fn open(path: &Path, engine: &Engine) -> Result<Self, CacheError> {
        Self::bounded(path, engine, Bounds::default())
    }

    fn bounded(path: &Path, engine: &Engine, bounds: Bounds) -> Result<Self, CacheError> {
        let directory = Directory::open(path)?;
        let key = directory.key()?;
        Ok(Self {
            directory,
            key,
            engine: engine_name(engine),
            pinned: Mutex::default(),
            cleaning: Mutex::new(Cleaning::new(bounds)),
            is_reported: AtomicBool::new(false),
        })
    }

    /// The directory of the cache.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Finds the component with these `digests`, if the cache has its code, compiled with this `effort`.
    pub(crate) fn find(&self, engine: &Engine, digests: &Digests, effort: CompileEffort) -> Option<Found> {
        let name = self.code_name(&digests.code, effort);
        let unsealed = self.unsealed(&name)?;
        let component = match native::from_cache(engine, &unsealed) {
            Ok(component) => component,
            Err(error) => {
                self.reject(&name, &format!("the engine refuses it: {error:#}"));
                return None;
            }
        };
        let manifest = self.manifest(&digests.file);
        let pinned = self.pin([name, manifest_name(&digests.file), script_name(&digests.file)]);
        // Records the last use. On a read-only disk this fails, but there the clean-up cannot remove the file either.
        let _ = unsealed.file().set_modified(std::time::SystemTime::now());
        self.clean_when_due();
        Some(Found { component, size: unsealed.note(), manifest, pinned })
    }

    /// Stores the code of the component with these `digests`, whose file has `size` bytes. Returns it in the form in
    /// which it is found later: mapped from the file, so that the system may drop unused pages. `None` if it could not
    /// be stored, which is logged.
    pub(crate) fn keep(
        &self,
        engine: &Engine,
        (digests, effort): (&Digests, CompileEffort),
        code: &[u8],
        size: u64,
    ) -> Option<Found> {
        self.write(&self.code_name(&digests.code, effort), code, size)?;
        if effort == CompileEffort::Full {
            // The quick code is not needed any more. If there is none, this fails without consequence.
            let _ = self.directory.remove(&self.code_name(&digests.code, CompileEffort::Quick));
        }
        self.find(engine, digests, effort)
    }

    /// Stores the script of the component with these `digests`, whose file has `size` bytes, unless it is stored
    /// already.
    pub(crate) fn keep_script(&self, digests: &Digests, script: &str, size: u64) {
        let name = script_name(&digests.file);
        match self.unsealed(&name) {
            // Records the last use, so that the script is kept as long as the code.
            Some(kept) => drop(kept.file().set_modified(std::time::SystemTime::now())),
            None => drop(self.write(&name, [&*digests.code, script].concat().as_bytes(), size)),
        }
    }

    /// The component whose file has this `digest`, if its script is in the cache.
    pub(crate) fn script(&self, digest: &str) -> Option<KeptScript> {
        let kept = self.unsealed(&script_name(digest))?;
        let _ = kept.file().set_modified(std::time::SystemTime::now());
        let text = String::from_utf8(kept.content().ok()?).ok()?;
        let (code, script) = text.split_at_checked(digest.len())?;
        let digests = Digests { file: digest.to_owned(), code: code.to_owned() };
        Some(KeptScript { digests, script: script.into(), size: kept.note() })
    }

    /// Stores the answer of `describe` of the component with `digest`.
    pub(crate) fn keep_manifest(&self, digest: &str, manifest: &str) {
        self.write(&manifest_name(digest), manifest.as_bytes(), 0);
    }

    /// Stores the reason why the component with `digest` is not run within the limits named by `terms`.
    pub(crate) fn keep_refusal(&self, digest: &str, terms: &str, refusal: &[u8]) {
        self.write(&self.refusal_name(digest, terms), refusal, 0);
        self.clean_when_due();
    }

    /// The reason why the component with `digest` is not run within the limits named by `terms`, and its age.
    pub(crate) fn refusal(&self, digest: &str, terms: &str) -> Option<(Vec<u8>, Duration)> {
        let refusal = self.unsealed(&self.refusal_name(digest, terms))?;
        let kept = refusal.file().metadata().and_then(|file| file.modified()).ok()?;
        let age = std::time::SystemTime::now().duration_since(kept).ok()?;
        Some((refusal.content().ok()?, age))
    }

    fn manifest(&self, digest: &str) -> Option<String> {
        let name = manifest_name(digest);
        let manifest = self.unsealed(&name)?;
        let _ = manifest.file().set_modified(std::time::SystemTime::now());
        manifest.content().ok().and_then(|bytes| String::from_utf8(bytes).ok())
    }

    fn write(&self, name: &str, content: &[u8], note: u64) -> Option<()> {
        let end = self.key.seal(name, content, note);
        match self.directory.write(name, &[content, &end]) {
            Ok(()) => Some(()),
            Err(error) => {
                // Reported only once, because later attempts would fail in the same way.
                if !self.is_reported.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        directory = %self.path().display(), %error,
                        "compiled plugins cannot be kept: each is compiled again at the next start"
                    );
                }
                None
            }
        }
    }

    /// The file `name`, if this host, or a host that shares its key, wrote it under this name.
    fn unsealed(&self, name: &str) -> Option<Unsealed> {
        let file = match self.directory.read(name) {
            Ok(file) => file?,
            Err(error) => {
                self.reject(name, &error.to_string());
                return None;
            }
        };
        match self.key.unseal(name, file) {
            Ok(unsealed) => Some(unsealed),
            Err(error) => {
                self.reject(name, &error.to_string());
                None
            }
        }
    }

    fn reject(&self, name: &str, why: &str) {
        tracing::warn!(
            file = %self.path().join(name).display(), why,
            "a compiled plugin in the cache is not used: it is removed and created again"
        );
        if let Err(error) = self.directory.remove(name) {
            tracing::warn!(file = %self.path().join(name).display(), %error, "cannot remove the file from the cache; delete it by hand");
        }
    }

    fn code_name(&self, digest: &str, effort: CompileEffort) -> String {
        let effort = match effort {
            CompileEffort::Full => "",
            CompileEffort::Quick => "quick.",
        };
        format!("{digest}.{}.{effort}code", self.engine)
    }

    fn refusal_name(&self, digest: &str, terms: &str) -> String {
        format!("{digest}.{}.{terms}.refusal", self.engine)
    }

    fn pin(&self, names: [String; 3]) -> Arc<Pinned> {
        let pinned = Arc::new(Pinned { names });
        let mut all = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(&pinned));
        pinned
    }

    fn clean_when_due(&self) {
        let due = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner).due();
        let Some(bounds) = due else { return };
        let pinned: Vec<_> = {
            let all = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        let in_use = |name: &str| pinned.iter().any(|it| it.names.iter().any(|used| used == name));
        match self.directory.entries() {
            Ok(entries) => {
                for name in bounds.surplus(entries, std::time::SystemTime::now(), in_use) {
                    tracing::debug!(file = %self.path().join(&name).display(), "removing an unused file of the cache");
                    // Another host may have removed it first.
                    let _ = self.directory.remove(&name);
                }
            }
            Err(error) => {
                tracing::warn!(
                    directory = %self.path().display(), %error,
                    "cannot clean up the cache of compiled plugins; it may exceed its limits of size and age"
                );
            }
        }
    }
}

fn manifest_name(digest: &str) -> String {
    format!("{digest}.{FORMAT}.manifest")
}

fn script_name(digest: &str) -> String {
    format!("{digest}.{FORMAT}.script")
}

/// Identifies what `engine` can run: its version, its settings and the processor's features.
fn engine_name(engine: &Engine) -> String {
    use std::hash::Hash as _;
    let mut hasher = digest::Hasher::default();
    FORMAT.hash(&mut hasher);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let mut name = hasher.hex();
    name.truncate(32);
    name
}

/// The default directory of artefacts: `$XDG_CACHE_HOME/windlass`, or else `~/.cache/windlass`.
#[must_use]
pub fn default_cache_dir() -> Option<PathBuf> {
    let absolute = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("windlass"))
}

#[cfg(test)]
mod tests;
