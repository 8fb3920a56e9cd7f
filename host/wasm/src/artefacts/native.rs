//! The only place where bytes become executable machine code, and therefore the only one with `unsafe`: Rust cannot
//! check that the bytes come from the compiler. Each of the two functions explains why its bytes do.

use std::os::fd::AsRawFd as _;

use wasmtime::Engine;
use wasmtime::component::Component;

use super::seal::Unsealed;

/// The component in `code`, which must be the result of `Engine::precompile_component`, either in this process or in a
/// child process of this program that was started for it, over a pipe that no other process has.
#[expect(unsafe_code, reason = "see the comment")]
pub(crate) fn from_compiler(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes come from the compiler, as the contract requires; the only caller gets them from `compile`.
    unsafe { Component::deserialize(engine, code) }
}

/// The component in a file of the cache. The file is mapped instead of read, so that the system can share and drop its
/// pages.
#[expect(unsafe_code, reason = "see the comment")]
pub(super) fn from_cache(engine: &Engine, artefact: &Unsealed) -> wasmtime::Result<Component> {
    // Uses the open file itself, because its name may refer to another file by now.
    let path = format!("/dev/fd/{}", artefact.file().as_raw_fd());
    // SAFETY: `Unsealed` proves that a host with this directory's key wrote these bytes, and hosts write only what
    // their compiler returned. The bytes were hashed through the same open file that is mapped here, so the file cannot
    // have been replaced in between. Only this user can change the file: it is owned by this user, it is not writable
    // for anyone (which was checked on the open file), and hosts never open such a file for writing but only create,
    // rename and unlink files. A process of this user can read and write the host's own memory anyway.
    let mapped = unsafe { Component::deserialize_file(engine, path) };
    mapped.or_else(|_| {
        // On systems without /dev/fd, the content is read into memory and checked there again.
        let content = artefact.content()?;
        from_compiler(engine, &content)
    })
}
