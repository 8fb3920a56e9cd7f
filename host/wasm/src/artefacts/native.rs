//! The one place where bytes become machine code that runs, and hence the one with `unsafe`: Rust cannot know that the
//! bytes are what the compiler made. The two functions say why they are.

use std::os::fd::AsRawFd as _;

use wasmtime::Engine;
use wasmtime::component::Component;

use super::seal::Unsealed;

/// The component in `code`, which must be what `Engine::precompile_component` answered: in this process, or in the
/// process of this program that was started for it, over a pipe that nobody else has.
#[expect(unsafe_code, reason = "see the comment")]
pub(crate) fn from_compiler(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes are the compiler's own, as the contract says; the only caller has them from `compile`.
    unsafe { Component::deserialize(engine, code) }
}

/// The component in a file of the cache. It is mapped, not read, so that the system can share and drop its pages.
#[expect(unsafe_code, reason = "see the comment")]
pub(super) fn from_cache(engine: &Engine, artefact: &Unsealed) -> wasmtime::Result<Component> {
    // The open file itself, not whatever has its name by now.
    let path = format!("/dev/fd/{}", artefact.file().as_raw_fd());
    // SAFETY: `Unsealed` is the proof that a host with this directory's key wrote these bytes, and it writes only what
    // its compiler answered. They were hashed through the same open file that is mapped here, so nobody can have put
    // another in its place between. The file itself cannot be changed by anybody but this user: it is this user's, has
    // no permission to write for anyone (which was checked at the open file), and hosts never open one to write but
    // create, rename and unlink. Whoever is this user can read and write the host's own memory anyway.
    let mapped = unsafe { Component::deserialize_file(engine, path) };
    mapped.or_else(|_| {
        // Without /dev/fd. Read and checked once more, in the memory that is then used.
        let content = artefact.content()?;
        from_compiler(engine, &content)
    })
}
