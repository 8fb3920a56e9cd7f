//! The guest `chameleon`, which does what a marker in its bytes says.

use std::path::Path;

use crate::marker;

/// The text before the mode in the component's bytes, and how many bytes the mode may have.
const MARKER: (&[u8], usize) = (b"CHAMELEON-MODE=", 32);

/// Writes the guest, in `mode`, to `path`.
pub fn write(mode: &str, path: &Path) -> anyhow::Result<()> {
    marker::write("chameleon", MARKER, mode, path)
}
