//! Obtains the machine code of a file: from the cache if possible, otherwise from the compiler, whose result is then
//! stored in the cache.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::Component;

use crate::artefacts::{Found, KeptScript, Pinned, from_compiler};
use crate::compile::{CompileError, CompileFailure, Haste, compile};
use crate::component::{check_imports, check_preamble, entry};
use crate::digest::Digests;
use crate::engine::CompileEffort;
use crate::limits::Limits;
use crate::load_error::{LoadProblem, explained};
use crate::sandbox::{Shared, TaskError};
use crate::script;

/// The time for all work except compiling, which has its own deadline: reading, hashing, writing.
const BESIDE_COMPILING_TIMEOUT: Duration = Duration::from_secs(30);

/// How many times longer it may take to compile better code for a running plugin than code that is waited for.
const BETTER_CODE_DEADLINE_FACTOR: u32 = 4;

/// A plugin's use of the cache of compiled plugins.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Whether the code was found in the cache.
    pub(crate) found: bool,
    /// Keeps the cache's file in use. `None` if there is no cache.
    pub(crate) pinned: Option<Arc<Pinned>>,
}

/// A component that can be linked.
pub(crate) struct Obtained {
    pub(crate) component: Component,
    pub(crate) digest: String,
    /// The component's script, if it has one.
    pub(crate) script: Option<Arc<str>>,
    /// The size of the file.
    pub(crate) size: u64,
    /// The earlier answer of `describe`. `None` if it must be called.
    pub(crate) manifest: Option<String>,
    pub(crate) kept: Kept,
    /// The input for better code, if this component was compiled fast.
    pub(crate) unimproved: Option<Unimproved>,
}

/// A component that was compiled fast.
#[derive(Debug)]
pub(crate) struct Unimproved {
    /// The bytes that are compiled, without the script.
    bytes: Vec<u8>,
    digests: Digests,
}

/// The component in the file `path`.
pub(crate) async fn obtain(shared: &Arc<Shared>, path: &Path) -> Result<Obtained, LoadProblem> {
    if let Some(obtained) = look_up(shared, path).await? {
        return Ok(obtained);
    }
    let _permit = shared.compilations.acquire().await.map_err(|_| TaskError::ShutDown)?;
    // When this is dropped, the compiler ends: its thread cannot be cancelled, but notices that the pipe is closed.
    let (_waiting, cancelled) = UnixStream::pair().map_err(|error| LoadProblem::Host(error.to_string()))?;
    let time = shared.limits.compile_deadline;
    let work = {
        let (shared, path) = (shared.clone(), path.to_owned());
        // The file is read once, so the digest belongs to exactly the compiled bytes, even if the file changes
        // meanwhile.
        move || PluginFile::read(shared, &path)?.compiled(&cancelled)
    };
    let late = || Err(CompileFailure::Deadline { limit: time }.into());
    shared.run_blocking(time.saturating_add(BESIDE_COMPILING_TIMEOUT), work).await?.unwrap_or_else(late)
}

/// The component with `digest`, if the cache has it.
pub(crate) async fn cached(shared: &Arc<Shared>, digest: &str) -> Result<Option<Obtained>, LoadProblem> {
    let Some(artefacts) = shared.artefacts.clone() else { return Ok(None) };
    let _permit = shared.readers.acquire().await.map_err(|_| TaskError::ShutDown)?;
    let (engine, digest) = (shared.engine.clone(), digest.to_owned());
    let work = move || {
        let (digests, script, size) = match artefacts.script(&digest) {
            Some(KeptScript { digests, script, size }) => (digests, Some(script), Some(size)),
            None => (Digests::of_whole(&digest), None, None),
        };
        // Without the file, code that was compiled fast cannot be improved, but it is better than none for a rollback.
        let efforts = [CompileEffort::Full, CompileEffort::Quick];
        let found = efforts.into_iter().find_map(|effort| artefacts.find(&engine, &digests, effort))?;
        let size = size.unwrap_or(found.size);
        Some(Obtained { script, size, ..obtained(found, digest, true) })
    };
    Ok(shared.run_blocking(BESIDE_COMPILING_TIMEOUT, work).await?.flatten())
}

/// The component in the file `path`, if the cache has it. This does not wait for compilations.
async fn look_up(shared: &Arc<Shared>, path: &Path) -> Result<Option<Obtained>, LoadProblem> {
    if shared.artefacts.is_none() {
        return Ok(None);
    }
    let _permit = shared.readers.acquire().await.map_err(|_| TaskError::ShutDown)?;
    let (task, path) = (shared.clone(), path.to_owned());
    let work = move || PluginFile::read(task, &path)?.look_up();
    let late = || {
        Err(LoadProblem::Host(format!(
            "reading the file and the cache had not ended after {BESIDE_COMPILING_TIMEOUT:?}"
        )))
    };
    shared.run_blocking(BESIDE_COMPILING_TIMEOUT, work).await?.unwrap_or_else(late)
}

fn obtained(found: Found, digest: String, was_there: bool) -> Obtained {
    let Found { component, size, manifest, pinned } = found;
    let kept = Kept { found: was_there, pinned: Some(pinned) };
    Obtained { component, digest, script: None, size, manifest, kept, unimproved: None }
}

/// A file as it was read.
struct PluginFile {
    shared: Arc<Shared>,
    /// The bytes without the script.
    bytes: Vec<u8>,
    script: Option<Arc<str>>,
    /// The size with the script.
    size: u64,
    digests: Digests,
}

impl PluginFile {
    fn read(shared: Arc<Shared>, path: &Path) -> Result<Self, LoadProblem> {
        let mut bytes = read(path, shared.limits.file_bytes)?;
        check_preamble(&bytes)?;
        let (code, script) = script::parts(&bytes);
        let (digests, script, compiled) = (Digests::of(&bytes, code), script.map(Arc::from), code.len());
        let size = bytes.len() as u64;
        bytes.truncate(compiled);
        Ok(Self { shared, bytes, script, size, digests })
    }

    /// The effort with which the file must be compiled, if its code is not cached.
    fn effort(&self) -> CompileEffort {
        let is_large = self.shared.quick_from.is_some_and(|from| self.bytes.len() as u64 >= from);
        if is_large { CompileEffort::Quick } else { CompileEffort::Full }
    }

    /// As [`Self::found`]. If the code is not the best, the result includes the bytes, so that better code can be
    /// compiled.
    fn look_up(self) -> Result<Option<Obtained>, LoadProblem> {
        let found = self.found()?;
        Ok(found.map(|(obtained, effort)| self.complete(obtained, effort)))
    }

    /// Adds the data of the file to `obtained`: its script and size, and its bytes if the code was
    /// compiled quickly, so that it can be compiled again with full effort.
    fn complete(self, obtained: Obtained, effort: CompileEffort) -> Obtained {
        if let (Some(artefacts), Some(script)) = (&self.shared.artefacts, &self.script) {
            artefacts.keep_script(&self.digests, script, self.size);
        }
        let Self { bytes, script, size, digests, .. } = self;
        let unimproved = (effort == CompileEffort::Quick).then_some(Unimproved { bytes, digests });
        Obtained { script, size, unimproved, ..obtained }
    }

    /// The code that the cache has for this file, with the effort that it was compiled with.
    fn found(&self) -> Result<Option<(Obtained, CompileEffort)>, LoadProblem> {
        let Self { shared, digests, .. } = self;
        let artefacts = shared.artefacts.as_deref();
        let find = |effort| Some((artefacts?.find(&shared.engine, digests, effort)?, effort));
        let quick = || if self.effort() == CompileEffort::Quick { find(CompileEffort::Quick) } else { None };
        if let Some((found, effort)) = find(CompileEffort::Full).or_else(quick) {
            return Ok(Some((obtained(found, digests.file.clone(), true), effort)));
        }
        shared.refusals.of(&digests.code, self.effort(), artefacts).map_or(Ok(None), Err)
    }

    fn compiled(self, cancelled: &UnixStream) -> Result<Obtained, LoadProblem> {
        // The same bytes may have been compiled for another file while this task waited.
        if let Some((obtained, effort)) = self.found()? {
            return Ok(self.complete(obtained, effort));
        }
        let (shared, effort) = (self.shared.clone(), self.effort());
        let how = (effort, Haste::Awaited);
        let obtained =
            compiled(&shared, &shared.limits, &self.bytes, &self.digests, how, cancelled).inspect_err(|problem| {
                shared.refusals.keep((&self.digests.code, effort), problem, shared.artefacts.as_deref());
            })?;
        Ok(self.complete(obtained, effort))
    }
}

/// Compiles a component, and stores its code if there is a cache.
fn compiled(
    shared: &Shared,
    limits: &Limits,
    bytes: &[u8],
    digests: &Digests,
    (effort, haste): (CompileEffort, Haste),
    cancelled: &UnixStream,
) -> Result<Obtained, LoadProblem> {
    let code = compile(&shared.compiler, limits, (effort, haste), bytes, cancelled).map_err(|error| match error {
        CompileError::Invalid(why) => LoadProblem::Compile(why),
        CompileError::Failure(failure) => failure.into(),
        CompileError::Host(why) => LoadProblem::Host(why),
    })?;
    // The code is loaded before it is stored, because this fails for a component that needs more than calls may have.
    let component = from_compiler(&shared.engine, &code).map_err(|error| {
        let is_the_machines = error.chain().any(<dyn std::error::Error>::is::<std::io::Error>);
        let why = explained(&error);
        if is_the_machines { LoadProblem::Host(why) } else { LoadProblem::NoRoom(why) }
    })?;
    // A file that is not a plugin is not worth storing.
    let (entry, abi) = entry(&shared.engine, &component)?;
    check_imports(&shared.engine, &component, entry, abi)?;
    let (size, digest) = (bytes.len() as u64, digests.file.clone());
    let kept = shared.artefacts.as_ref().and_then(|them| them.keep(&shared.engine, (digests, effort), &code, size));
    if let Some(found) = kept {
        return Ok(obtained(found, digest, false));
    }
    let kept = Kept { found: false, pinned: None };
    Ok(Obtained { component, digest, script: None, size, manifest: None, kept, unimproved: None })
}

/// Compiles better code for a component that was compiled fast. This happens for one component at a time, concurrently
/// with compilations that callers wait for.
pub(crate) async fn improve(
    shared: &Arc<Shared>,
    Unimproved { bytes, digests }: Unimproved,
) -> Result<Obtained, LoadProblem> {
    let _permit = shared.improvements.acquire().await.map_err(|_| TaskError::ShutDown)?;
    let (_waiting, cancelled) = UnixStream::pair().map_err(|error| LoadProblem::Host(error.to_string()))?;
    // Other work has precedence for the processors, and processor time has its own limit.
    let time = shared.limits.compile_deadline.saturating_mul(BETTER_CODE_DEADLINE_FACTOR);
    let (task, limits) = (shared.clone(), Limits { compile_deadline: time, ..(*shared.limits).clone() });
    let how = (CompileEffort::Full, Haste::Unhurried);
    let work = move || {
        let artefacts = task.artefacts.as_deref();
        // Another task may have compiled the component while this task waited, or may have found that it cannot be
        // compiled.
        if let Some(found) = artefacts.and_then(|them| them.find(&task.engine, &digests, CompileEffort::Full)) {
            return Ok(obtained(found, digests.file, true));
        }
        if let Some(problem) = task.refusals.of(&digests.code, CompileEffort::Full, artefacts) {
            return Err(problem);
        }
        compiled(&task, &limits, &bytes, &digests, how, &cancelled)
            .inspect_err(|problem| task.refusals.keep((&digests.code, CompileEffort::Full), problem, artefacts))
    };
    let late = || Err(CompileFailure::Deadline { limit: time }.into());
    shared.run_blocking(time.saturating_add(BESIDE_COMPILING_TIMEOUT), work).await?.unwrap_or_else(late)
}

pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, LoadProblem> {
    windlass_files::read_whole(path, limit).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => LoadProblem::TooLarge { limit },
        _ if windlass_files::is_irregular(&error) => LoadProblem::NotAFile,
        _ => LoadProblem::Read(error),
    })
}
