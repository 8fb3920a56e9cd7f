//! Delivers a plugin's file in the proper way.

use std::path::Path;

use anyhow::Context;

/// Lets `write` create another file, and moves it to `file` in one step, so that nobody sees half of it.
pub fn replace(file: &Path, write: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let next = file.with_file_name(".next");
    write(&next)?;
    std::fs::rename(&next, file).with_context(|| format!("replace {}", file.display()))
}
