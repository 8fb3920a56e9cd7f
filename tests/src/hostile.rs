//! The guest `hostile`, which attacks its host as a marker in its bytes says.

use std::path::Path;

use crate::marker;

/// The text before the mode in the component's bytes, and how many bytes the mode may have.
const MARKER: (&[u8], usize) = (b"HOSTILE-MODE=", 32);

/// Writes the guest, in `mode`, to `directory`, under the mode's name, which is the plugin's too.
pub fn write(mode: &str, directory: &Path) -> anyhow::Result<()> {
    marker::write("hostile", MARKER, mode, &directory.join(format!("{mode}.wasm")))
}
