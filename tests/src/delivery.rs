//! The delivery of a plugin's file, as who means well does it.

use std::path::Path;

use anyhow::Context;

/// Has `write` make another file, and puts it in the place of `file` in one step, so that nobody sees half of it.
pub fn replace(file: &Path, write: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let next = file.with_file_name(".next");
    write(&next)?;
    std::fs::rename(&next, file).with_context(|| format!("replace {}", file.display()))
}
