//! Delivers the file of a plugin as an operator should: in one step.

use std::path::Path;

use anyhow::Context;

/// Lets `write` create a new file, and moves the new file to `file` in one step, so that the host never sees
/// half of it.
pub fn replace(file: &Path, write: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let next = file.with_file_name(".next");
    write(&next)?;
    std::fs::rename(&next, file).with_context(|| format!("replace {}", file.display()))
}
