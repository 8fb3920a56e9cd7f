//! The guest `hostile`, which attacks its host. A marker in its bytes determines how.

use std::path::Path;

use crate::marker;

/// The text before the mode in the component's bytes, and the greatest length of the mode in bytes.
const MARKER: (&[u8], usize) = (b"HOSTILE-MODE=", 32);

/// Writes the guest to `directory`, set to `mode`. The mode is also the name of the file and of the plugin.
pub fn write(mode: &str, directory: &Path) -> anyhow::Result<()> {
    marker::write("hostile", MARKER, mode, &directory.join(format!("{mode}.wasm")))
}
