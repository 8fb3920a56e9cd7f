//! Follows the files of directories as they appear, change and go: plugins, policies and configurations.
//!
//! A [`DirectoryWatcher`] says when to look. Changes are found by content, so touching a file, or writing the same
//! bytes again, is no change. A `ConfigMap` in a Pod is a directory of links through `..data`, which is replaced as a
//! whole, so each look follows the links anew.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use windlass_files::DirectoryWatcher;

/// How long the directory must be quiet before the next look, as one change often takes several writes.
const DIRECTORY_QUIET_TIME: Duration = Duration::from_millis(100);
/// How often to look without a notification.
const DIRECTORY_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The new state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The file's bytes have this SHA-256.
    Is([u8; 32]),
    /// The file exists but cannot be read, for this reason in one line.
    Unreadable(String),
    /// The file exists but may not run, for this reason. [`Files`] itself never returns this.
    Withheld(String),
    /// The file is larger than this limit in bytes, so it is not read.
    TooLarge(u64),
    /// The file no longer exists.
    Gone,
}

/// A file whose state has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: PathBuf,
    /// Its new state.
    pub content: Content,
}

/// Follows the files of some directories for as long as it lives.
pub struct Files {
    directories: Vec<PathBuf>,
    wanted: PathFilter,
    /// The largest size of a file, in bytes.
    most: u64,
    watcher: DirectoryWatcher,
    seen: BTreeMap<PathBuf, SeenFile>,
    has_looked: bool,
    /// The problem with the directory at the last look.
    problem: Option<String>,
}

/// Selects files by path.
type PathFilter = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// A file as it was at the last look.
#[derive(Clone, Debug)]
struct SeenFile {
    identity: Option<FileIdentity>,
    content: Content,
}

impl SeenFile {
    /// Whether there is no reason to read the file again until it changes. An error, as when the process has too many
    /// open files, may be over by the next look.
    fn was_read(&self) -> bool {
        !matches!(self.content, Content::Unreadable(_))
    }
}

/// Metadata that differs once a file was written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileIdentity {
    fn of(path: &Path) -> std::io::Result<Self> {
        let it = std::fs::metadata(path)?;
        Ok(Self {
            device: it.dev(),
            inode: it.ino(),
            size: it.size(),
            modified: (it.mtime(), it.mtime_nsec()),
            changed: (it.ctime(), it.ctime_nsec()),
        })
    }
}

impl Files {
    /// Follows the files directly in `directories` for which `wanted` is true, except hidden ones. Files of more than
    /// `most` bytes are not read. While a directory cannot be read, there are no changes in it.
    pub(crate) fn follow(
        directories: Vec<PathBuf>,
        most: u64,
        wanted: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::polling(directories, most, move |path| !is_hidden(path) && wanted(path), DIRECTORY_POLL_INTERVAL)
    }

    /// Follows the one file `path`, which may not exist yet.
    #[must_use]
    pub fn follow_one(path: &Path, most: u64) -> Self {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = path.file_name().map(std::ffi::OsStr::to_owned);
        let is_it = move |other: &Path| other.file_name() == name.as_deref();
        Self::polling(vec![directory.to_owned()], most, is_it, DIRECTORY_POLL_INTERVAL)
    }

    fn polling(
        directories: Vec<PathBuf>,
        most: u64,
        wanted: impl Fn(&Path) -> bool + Send + Sync + 'static,
        poll: Duration,
    ) -> Self {
        Self {
            directories,
            wanted: Arc::new(wanted),
            most,
            watcher: DirectoryWatcher::new(DIRECTORY_QUIET_TIME, poll),
            seen: BTreeMap::new(),
            has_looked: false,
            problem: None,
        }
    }

    /// Waits for changes and returns them in the order of the paths. The first call returns all existing files at once,
    /// even if there are none. Cancel-safe.
    ///
    /// While the directory itself cannot be read, this logs the problem and reports no change: no file counts as gone.
    pub async fn changes(&mut self) -> Vec<Change> {
        if !self.has_looked {
            let first = self.look().await;
            self.has_looked = true;
            return first;
        }
        loop {
            self.watcher.due().await;
            let changes = self.look().await;
            self.watcher.looked();
            if !changes.is_empty() {
                return changes;
            }
        }
    }

    /// Has the next look return `path` as changed, unless it cannot be read for this reason: the caller could not.
    pub(crate) fn could_not_read(&mut self, path: &Path, problem: String) {
        if let Some(seen) = self.seen.get_mut(path) {
            seen.content = Content::Unreadable(problem);
        }
    }

    /// Why the directory cannot be read, if so.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    async fn look(&mut self) -> Vec<Change> {
        self.watcher.watch_only(self.directories.iter().map(|directory| &**directory));
        let (directories, wanted, seen) = (self.directories.clone(), self.wanted.clone(), self.seen.clone());
        let most = self.most;
        let looked = windlass_world::spawn_blocking(move || look(&directories, &wanted, most, &seen)).await;
        let (now, unreadable) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                self.blind(&self.shown_directories(), error.to_string());
                return vec![];
            }
        };
        if let Some((directory, error)) = unreadable {
            self.blind(&directory.display().to_string(), error.to_string());
        } else if self.problem.take().is_some() {
            tracing::info!(directory = %self.shown_directories(), "the directory can be read again");
        }
        let changes = differences(&self.seen, &now);
        self.seen = now;
        changes
    }

    fn blind(&mut self, directory: &str, problem: String) {
        if self.problem.as_ref() != Some(&problem) {
            tracing::error!(
                directory,
                error = problem,
                "cannot look for changed files: the files last seen still count"
            );
            self.problem = Some(problem);
        }
    }

    fn shown_directories(&self) -> String {
        let shown: Vec<_> = self.directories.iter().map(|directory| directory.display().to_string()).collect();
        shown.join(", ")
    }
}

/// Whether the file `path` is hidden, as the temporary files of editors and copies are.
pub(crate) fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// The state of all wanted files, given their previous state, and a directory that cannot be read, if there is one. The
/// files of such a directory keep their state, and those of the others are up to date.
fn look(
    directories: &[PathBuf],
    wanted: &PathFilter,
    most: u64,
    seen: &BTreeMap<PathBuf, SeenFile>,
) -> (BTreeMap<PathBuf, SeenFile>, Option<(PathBuf, std::io::Error)>) {
    let (mut now, mut unreadable) = (BTreeMap::new(), None);
    for directory in directories {
        match look_into(directory, wanted, most, seen) {
            Ok(files) => now.extend(files),
            Err(error) => {
                let before = seen.iter().filter(|(path, _)| path.parent() == Some(directory));
                now.extend(before.map(|(path, state)| (path.clone(), state.clone())));
                unreadable = Some((directory.clone(), error));
            }
        }
    }
    (now, unreadable)
}

/// The state of the wanted files of one directory.
fn look_into(
    directory: &Path,
    wanted: &PathFilter,
    most: u64,
    seen: &BTreeMap<PathBuf, SeenFile>,
) -> std::io::Result<Vec<(PathBuf, SeenFile)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if !wanted(&path) || path.is_dir() {
            continue;
        }
        let identity = FileIdentity::of(&path).ok();
        let is_same = |known: &&SeenFile| identity.is_some() && known.identity == identity && known.was_read();
        let known = seen.get(&path).filter(is_same).cloned();
        let state = known.unwrap_or_else(|| SeenFile { identity, content: read(&path, most) });
        files.push((path, state));
    }
    Ok(files)
}

fn read(path: &Path, most: u64) -> Content {
    match digest(path, most) {
        Ok(Some(digest)) => Content::Is(digest),
        Ok(None) => Content::TooLarge(most),
        Err(error) => Content::Unreadable(error.to_string()),
    }
}

/// The SHA-256 of the file at `path`. `None` if the file has more than `most` bytes, or grows beyond that while it is
/// read.
fn digest(path: &Path, most: u64) -> std::io::Result<Option<[u8; 32]>> {
    let mut file = windlass_files::open(path)?;
    if file.metadata()?.len() > most {
        return Ok(None);
    }
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut block = vec![0; 1 << 16];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(Some(hash.finalize().into())),
            read => {
                bytes += read as u64;
                if bytes > most {
                    return Ok(None);
                }
                hash.update(&block[..read]);
            }
        }
    }
}

fn differences(before: &BTreeMap<PathBuf, SeenFile>, now: &BTreeMap<PathBuf, SeenFile>) -> Vec<Change> {
    let is_new = |path: &PathBuf, seen: &SeenFile| before.get(path).is_none_or(|before| before.content != seen.content);
    let changed = now.iter().filter(|(path, seen)| is_new(path, seen));
    let changed = changed.map(|(path, seen)| Change { path: path.clone(), content: seen.content.clone() });
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    let gone = gone.map(|path| Change { path: path.clone(), content: Content::Gone });
    let mut all: Vec<_> = changed.chain(gone).collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

#[cfg(test)]
mod tests;
