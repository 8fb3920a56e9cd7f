//! From a file to its machine code: out of the cache if it has it, else out of the compiler, and then into the cache.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::Component;

use crate::artefacts::{Found, Pinned, from_compiler};
use crate::compile::{CompileError, CompileFailure, compile};
use crate::component::{check_imports, check_preamble, entry};
use crate::digest;
use crate::load_error::{LoadProblem, explained};
use crate::sandbox::{Shared, TaskError};

/// For what is done beside compiling within its deadline: reading, hashing, writing.
const BESIDE: Duration = Duration::from_secs(30);

/// A plugin's part of the cache of compiled plugins.
#[derive(Debug)]
pub(crate) struct Kept {
    /// It was not compiled for this plugin.
    pub(crate) found: bool,
    /// Its hold on a file of the cache. None: there is no cache.
    pub(crate) pinned: Option<Arc<Pinned>>,
}

/// A component that can be linked.
pub(crate) struct Obtained {
    pub(crate) component: Component,
    pub(crate) digest: String,
    /// Of its file.
    pub(crate) size: u64,
    /// The answer of `describe`, if it was asked before. None: it is to be asked.
    pub(crate) manifest: Option<String>,
    pub(crate) kept: Kept,
}

/// The component in the file `path`.
pub(crate) async fn obtain(shared: &Arc<Shared>, path: &Path) -> Result<Obtained, LoadProblem> {
    if let Some(obtained) = look_up(shared, path).await? {
        return Ok(obtained);
    }
    let _permit = shared.compilations.acquire().await.map_err(|_| TaskError::ShutDown)?;
    // When this is dropped, the compiler ends: a thread cannot be told, but it sees its pipe close.
    let (_waiting, cancelled) = UnixStream::pair().map_err(|error| LoadProblem::Host(error.to_string()))?;
    let time = shared.limits.compile_deadline;
    let work = {
        let (shared, path) = (shared.clone(), path.to_owned());
        // Read once: what is compiled is what has the digest, whatever becomes of the file meanwhile.
        move || PluginFile::read(shared, &path)?.compiled(&cancelled)
    };
    let late = || Err(CompileFailure::Deadline { limit: time }.into());
    shared.run_blocking(time.saturating_add(BESIDE), work).await?.unwrap_or_else(late)
}

/// The component with `digest`, if the cache has it.
pub(crate) async fn cached(shared: &Arc<Shared>, digest: &str) -> Result<Option<Obtained>, LoadProblem> {
    let Some(artefacts) = shared.artefacts.clone() else { return Ok(None) };
    let _permit = shared.readers.acquire().await.map_err(|_| TaskError::ShutDown)?;
    let (engine, digest) = (shared.engine.clone(), digest.to_owned());
    let work = move || artefacts.find(&engine, &digest).map(|found| obtained(found, digest, true));
    Ok(shared.run_blocking(BESIDE, work).await?.flatten())
}

/// The component in the file `path`, if the cache has it. What is compiled meanwhile holds up nobody here.
async fn look_up(shared: &Arc<Shared>, path: &Path) -> Result<Option<Obtained>, LoadProblem> {
    if shared.artefacts.is_none() {
        return Ok(None);
    }
    let _permit = shared.readers.acquire().await.map_err(|_| TaskError::ShutDown)?;
    let (task, path) = (shared.clone(), path.to_owned());
    let work = move || PluginFile::read(task, &path)?.found();
    let late = || Err(LoadProblem::Host(format!("reading it and the cache had not ended after {BESIDE:?}")));
    shared.run_blocking(BESIDE, work).await?.unwrap_or_else(late)
}

fn obtained(found: Found, digest: String, was_there: bool) -> Obtained {
    let Found { component, size, manifest, pinned } = found;
    Obtained { component, digest, size, manifest, kept: Kept { found: was_there, pinned: Some(pinned) } }
}

/// A file as it was read.
struct PluginFile {
    shared: Arc<Shared>,
    bytes: Vec<u8>,
    digest: String,
}

impl PluginFile {
    fn read(shared: Arc<Shared>, path: &Path) -> Result<Self, LoadProblem> {
        let bytes = read(path, shared.limits.file_bytes)?;
        check_preamble(&bytes)?;
        let digest = digest::sha256(&bytes);
        Ok(Self { shared, bytes, digest })
    }

    /// The cache's knowledge of it: its code, or that it has none.
    fn found(&self) -> Result<Option<Obtained>, LoadProblem> {
        let Self { shared, digest, .. } = self;
        let artefacts = shared.artefacts.as_deref();
        if let Some(found) = artefacts.and_then(|them| them.find(&shared.engine, digest)) {
            return Ok(Some(obtained(found, digest.clone(), true)));
        }
        shared.refusals.of(digest, artefacts).map_or(Ok(None), Err)
    }

    fn compiled(self, cancelled: &UnixStream) -> Result<Obtained, LoadProblem> {
        // The same bytes may have been compiled for another file while this one waited.
        if let Some(obtained) = self.found()? {
            return Ok(obtained);
        }
        let (shared, digest) = (self.shared.clone(), self.digest.clone());
        self.compiled_anew(cancelled).inspect_err(|problem| {
            shared.refusals.keep(&digest, problem, shared.artefacts.as_deref());
        })
    }

    fn compiled_anew(self, cancelled: &UnixStream) -> Result<Obtained, LoadProblem> {
        let Self { shared, bytes, digest } = self;
        let code =
            compile(&shared.compiler, &shared.engine, &shared.limits, &bytes, cancelled).map_err(
                |error| match error {
                    CompileError::Invalid(why) => LoadProblem::Compile(why),
                    CompileError::Failure(failure) => failure.into(),
                    CompileError::Host(why) => LoadProblem::Host(why),
                },
            )?;
        // Before it is kept: what needs more than calls may have is refused here.
        let component = from_compiler(&shared.engine, &code).map_err(|error| {
            let is_the_machines = error.chain().any(<dyn std::error::Error>::is::<std::io::Error>);
            let why = explained(&error);
            if is_the_machines { LoadProblem::Host(why) } else { LoadProblem::NoRoom(why) }
        })?;
        let size = bytes.len() as u64;
        drop(bytes);
        // What is no plugin is not worth a place on the disk.
        let (entry, _) = entry(&shared.engine, &component)?;
        check_imports(&shared.engine, &component, entry)?;
        let kept = shared.artefacts.as_ref().and_then(|them| them.keep(&shared.engine, &digest, &code, size));
        if let Some(found) = kept {
            return Ok(obtained(found, digest, false));
        }
        Ok(Obtained { component, digest, size, manifest: None, kept: Kept { found: false, pinned: None } })
    }
}

pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, LoadProblem> {
    // Before opening it: opening a pipe waits for its other end.
    let metadata = path.metadata().map_err(LoadProblem::Read)?;
    if !metadata.is_file() {
        return Err(LoadProblem::NotAFile);
    }
    if metadata.len() > limit {
        return Err(LoadProblem::TooLarge { limit });
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(LoadProblem::Read)?;
    // Its size may have changed: what comes out counts.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(LoadProblem::Read)?;
    if bytes.len() as u64 > limit { Err(LoadProblem::TooLarge { limit }) } else { Ok(bytes) }
}
