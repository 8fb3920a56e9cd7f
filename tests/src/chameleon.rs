//! The guest `chameleon`, which does what a marker in its bytes says.

use std::path::Path;

use anyhow::{Context, ensure};

/// What stands before the mode in the component's bytes.
const MARKER: &[u8] = b"CHAMELEON-MODE=";
/// How many bytes the mode may have; the rest is filled with dots.
const ROOM: usize = 32;

/// Writes the guest, in `mode`, to `path`.
pub fn write(mode: &str, path: &Path) -> anyhow::Result<()> {
    let mut bytes = std::fs::read(crate::paths::guest("chameleon")?)?;
    let at = bytes.windows(MARKER.len()).position(|window| window == MARKER).context("the guest has its marker")?;
    ensure!(mode.len() <= ROOM, "the mode {mode} is longer than {ROOM} bytes");
    let room = &mut bytes[at + MARKER.len()..at + MARKER.len() + ROOM];
    room.fill(b'.');
    room[..mode.len()].copy_from_slice(mode.as_bytes());
    std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
}
