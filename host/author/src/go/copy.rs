//! Makes copies of Go modules in a directory that builds share, one for each version of a module.
//!
//! A copy gets its name in one step, when it is complete. So a build never sees a part of it, and of two builds that
//! make the same copy, one comes first and both use its result.

use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::rules::GuestModule;

/// The file of a copy that records its number of files and bytes. Its modification time is the time of the last use.
const RECORD: &str = "windlass-copy";
/// The prefix of copies that are not complete.
const UNFINISHED: &str = ".unfinished-";
/// The maximum size of a source file.
const SOURCE_BYTES_MAX: u64 = 64 << 20;
/// The maximum size of a record.
const COPY_RECORD_BYTES_MAX: u64 = 64;
/// Copies that no build has used for this time are deleted.
const COPY_UNUSED_MAX: Duration = Duration::from_hours(30 * 24);
/// A copy that is still unfinished after this time was left by a build that crashed.
const COPY_MADE_WITHIN: Duration = Duration::from_hours(1);

/// A copy cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot copy {module} to {}: {source}{}", path.display(), advice(source))]
pub struct CopyError {
    module: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ". A copy takes about 10 MB; nothing of an unfinished one was left behind"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ". Name a directory that you may write to with --cache-dir"
        }
        _ => "",
    }
}

/// A directory of copies.
pub(super) struct Copies<'d> {
    pub(super) directory: &'d Path,
    /// Writes a file.
    pub(super) write: fn(&Path, &[u8]) -> io::Result<()>,
}

impl Copies<'_> {
    /// The folder of a copy. It may not exist.
    fn folder(&self, module: &GuestModule, version: &str, sum: &str) -> PathBuf {
        let name = format!("{}@{version}-{}", module.path.replace('/', "+"), module.key(sum));
        self.directory.join(name)
    }

    /// The folder of an existing copy of the module with the checksum `sum`. A damaged copy does not count.
    pub(super) fn existing(&self, module: &GuestModule, version: &str, sum: &str) -> Option<PathBuf> {
        let folder = self.folder(module, version, sum);
        let record = windlass_files::read_text(&folder.join(RECORD), COPY_RECORD_BYTES_MAX).ok()?;
        let contents = CopyContents::of(&folder).ok()?;
        if record != contents.record() {
            return None;
        }
        // This sets the time of the last use. Without it, the copy may be deleted and made again, which does no harm.
        let _ = windlass_files::replace(&folder.join(RECORD), record.as_bytes());
        Some(folder)
    }

    /// Makes a copy from the module's files in `original`, and returns its folder.
    pub(super) fn make(
        &self,
        module: &GuestModule,
        version: &str,
        sum: &str,
        original: Option<&Path>,
    ) -> Result<PathBuf, CopyError> {
        let folder = self.folder(module, version, sum);
        let failed = |source| CopyError { module: module.path, path: folder.clone(), source };
        let unfinished = self.unfinished().map_err(failed)?;
        let made = self.fill(module, original, &unfinished).and_then(|()| publish(module, &unfinished, &folder));
        // If the copy was published under its name, this folder is gone already.
        let removed = remove_folder(&unfinished);
        made.and(removed).map_err(failed)?;
        self.delete_unused(module, &folder);
        Ok(folder)
    }

    /// Makes a folder for a copy that is not complete. Its name is random: builds in different containers can have the
    /// same process id, and a build that was killed leaves its folder behind.
    fn unfinished(&self) -> io::Result<PathBuf> {
        std::fs::create_dir_all(self.directory)?;
        // As with `create_dir`, the umask decides which other users may read the copy.
        let permissions = std::fs::Permissions::from_mode(0o777);
        let made = tempfile::Builder::new().prefix(UNFINISHED).permissions(permissions).tempdir_in(self.directory)?;
        Ok(made.keep())
    }

    fn fill(&self, module: &GuestModule, original: Option<&Path>, to: &Path) -> io::Result<()> {
        if let Some(original) = original {
            self.copy_folder(module, original, "", to)?;
        }
        for (path, content) in module.added() {
            let path = to.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(to))?;
            (self.write)(&path, &content)?;
        }
        (self.write)(&to.join(RECORD), CopyContents::of(to)?.record().as_bytes())
    }

    fn copy_folder(&self, module: &GuestModule, original: &Path, folder: &str, to: &Path) -> io::Result<()> {
        let mut is_created = false;
        for entry in std::fs::read_dir(original.join(folder))? {
            let entry = entry?;
            // The module cache has no links, and Go refuses names that are not text.
            let (kind, Ok(name)) = (entry.file_type()?, entry.file_name().into_string()) else { continue };
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if kind.is_dir() {
                if module.leads_to_folder(&path) {
                    self.copy_folder(module, original, &path, to)?;
                }
                continue;
            }
            let is_wanted = module.has_folder(folder) || path == "go.mod" || path == "LICENSE";
            if !kind.is_file() || !is_wanted {
                continue;
            }
            let text = windlass_files::read_whole(&entry.path(), SOURCE_BYTES_MAX)?;
            let Some(copied) = module.copied(&path, &text) else { continue };
            if !is_created {
                std::fs::create_dir_all(to.join(folder))?;
                is_created = true;
            }
            (self.write)(&to.join(&path), &copied)?;
        }
        Ok(())
    }

    /// Deletes unfinished copies that crashed builds have left, and copies of `module` that no build has used for a
    /// long time. Ages count up to the time of the new copy `made`.
    fn delete_unused(&self, module: &GuestModule, made: &Path) {
        let prefix = format!("{}@", module.path.replace('/', "+"));
        let modified = |path: &Path| std::fs::metadata(path).and_then(|it| it.modified());
        let (Ok(now), Ok(entries)) = (modified(&made.join(RECORD)), std::fs::read_dir(self.directory)) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let (of, most) = match () {
                () if name.starts_with(UNFINISHED) => (path.clone(), COPY_MADE_WITHIN),
                () if name.starts_with(&prefix) => (path.join(RECORD), COPY_UNUSED_MAX),
                () => continue,
            };
            let age = modified(&of).ok().and_then(|used| now.duration_since(used).ok());
            if age.is_some_and(|age| age > most) {
                // A later build tries again.
                let _ = remove_folder(&path);
            }
        }
    }
}

/// Gives a complete copy its name.
fn publish(module: &GuestModule, unfinished: &Path, folder: &Path) -> io::Result<()> {
    let publish = || std::fs::rename(unfinished, folder);
    let is_taken = |error: &io::Error| matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists);
    match publish() {
        Err(error) if is_taken(&error) => {}
        other => return other,
    }
    // Another build may have made the same copy meanwhile. Otherwise, the existing copy is damaged.
    if CopyContents::of(folder)? == CopyContents::of(unfinished)? {
        return Ok(());
    }
    tracing::warn!(folder = %folder.display(), module = module.path, "a copy of a Go module is damaged, so it is made again");
    remove_folder(folder)?;
    match publish() {
        Err(error) if is_taken(&error) => Ok(()),
        other => other,
    }
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The size of a copy, without the record. A crash of the machine may leave files without their content.
#[derive(Debug, Default, PartialEq, Eq)]
struct CopyContents {
    files: u64,
    bytes: u64,
}

impl CopyContents {
    fn of(folder: &Path) -> io::Result<Self> {
        let mut contents = Self::default();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                } else if !entry.file_name().to_string_lossy().contains(RECORD) {
                    contents.files += 1;
                    contents.bytes += entry.metadata()?.len();
                }
            }
        }
        Ok(contents)
    }

    fn record(&self) -> String {
        format!("{} files, {} bytes\n", self.files, self.bytes)
    }
}

#[cfg(test)]
mod tests;
