//! Patches the bytes of guests, so that one build serves for many plugins.

use std::path::Path;

use anyhow::{Context, ensure};

/// Writes the guest `name` to `path`, with `value` after the `marker` in its bytes. The guest has `room` bytes for it;
/// dots fill the rest.
pub fn write(name: &str, (marker, room): (&[u8], usize), value: &str, path: &Path) -> anyhow::Result<()> {
    let mut bytes = std::fs::read(crate::paths::guest(name)?)?;
    let at = bytes.windows(marker.len()).position(|window| window == marker).context("the guest has its marker")?;
    ensure!(value.len() <= room, "{value} is longer than {room} bytes");
    let room = &mut bytes[at + marker.len()..at + marker.len() + room];
    room.fill(b'.');
    room[..value.len()].copy_from_slice(value.as_bytes());
    std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
}
