//! The guest `chameleon`. A marker in its bytes determines what it does.

use std::path::Path;

use crate::marker;

/// The text before the mode in the component's bytes, and the greatest length of the mode in bytes.
const MARKER: (&[u8], usize) = (b"CHAMELEON-MODE=", 32);

/// Writes the guest to `path`, set to `mode`.
pub fn write(mode: &str, path: &Path) -> anyhow::Result<()> {
    marker::write("chameleon", MARKER, mode, path)
}
