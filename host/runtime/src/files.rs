//! Follows the files of a directory as they appear, change and go: plugins, policies and configurations.
//!
//! The system's notifications say when to look, and a slow poll looks too: a network file system notifies nobody, a
//! queue of notifications overflows, and the file behind a link changes where nobody watches. What has changed is
//! decided by content, so a file that is touched, or written again with the same bytes, has not. A `ConfigMap` in a Pod
//! is a directory of links through `..data`, which is replaced as a whole: each look follows the links anew.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The quiet time in the directory before the next look, as one change often takes several writes.
const DIRECTORY_QUIET_TIME: Duration = Duration::from_millis(100);
/// How long it may go on happening until it is looked at all the same.
const UNREST_MAX: Duration = Duration::from_secs(2);
/// How often it is looked at without a reason.
const DIRECTORY_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Why a file or a directory cannot be read, in one line.
pub type Problem = String;

/// The new state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// It has these bytes now, by their SHA-256.
    Is([u8; 32]),
    /// It is there and cannot be read.
    Unreadable(Problem),
    /// It is there, and may not run, and why. Nobody who only looks at files says so.
    Withheld(Problem),
    /// It has more bytes than it may have, so it is not read.
    TooLarge(u64),
    /// It is not there any more.
    Gone,
}

/// A file that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: PathBuf,
    /// Its new state.
    pub content: Content,
}

/// The files of one directory. Follows them as long as it lives.
pub struct Files {
    directory: PathBuf,
    wanted: PathFilter,
    /// The most bytes that a file may have.
    most: u64,
    poll: Duration,
    hint: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    /// The directory that is watched, which another of the same name is not.
    watched: Option<FileIdentity>,
    seen: BTreeMap<PathBuf, SeenFile>,
    has_looked: bool,
    /// Something has happened since the last look.
    is_due: bool,
    /// The problem with the directory at the last look.
    problem: Option<Problem>,
}

/// Selects files by path.
type PathFilter = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// A file as it was at the last look.
#[derive(Clone, Debug)]
struct SeenFile {
    identity: Option<FileIdentity>,
    content: Content,
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
    /// Follows those files of `directory`, not below it, that are `wanted`. Hidden ones never are. What has more than
    /// `most` bytes is not read.
    pub(crate) fn follow(directory: &Path, most: u64, wanted: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self::polling(directory, most, move |path| !is_hidden(path) && wanted(path), DIRECTORY_POLL_INTERVAL)
    }

    /// Follows the one file `path`, which may not be there yet.
    #[must_use]
    pub fn follow_one(path: &Path, most: u64) -> Self {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = path.file_name().map(std::ffi::OsStr::to_owned);
        Self::polling(directory, most, move |other| other.file_name() == name.as_deref(), DIRECTORY_POLL_INTERVAL)
    }

    fn polling(
        directory: &Path,
        most: u64,
        wanted: impl Fn(&Path) -> bool + Send + Sync + 'static,
        poll: Duration,
    ) -> Self {
        let hint = Arc::new(Notify::new());
        let notified = hint.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error may stand for lost notifications, so it is a reason to look as well.
            if event.is_err() || event.is_ok_and(|event| may_change(event.kind)) {
                notified.notify_one();
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "the system notifies of no changes of files: they are noticed within {poll:?}");
        }
        Self {
            directory: directory.to_owned(),
            wanted: Arc::new(wanted),
            most,
            poll,
            hint,
            watcher: watcher.ok(),
            watched: None,
            seen: BTreeMap::new(),
            has_looked: false,
            is_due: false,
            problem: None,
        }
    }

    /// The changes since the last time, in the order of the paths; the first time, all files that there are, at once
    /// and even if there are none. After that it waits until something has changed. Nothing is lost when the future is
    /// dropped.
    ///
    /// While the directory itself cannot be read, nothing has changed: that is told in the log, and no file has gone.
    pub async fn changes(&mut self) -> Vec<Change> {
        if !self.has_looked {
            let first = self.look().await;
            self.has_looked = true;
            return first;
        }
        loop {
            if !self.is_due {
                // Kept, as the notification is gone once it was heard, and the future may be dropped before the look.
                self.is_due = timeout(self.poll, self.hint.notified()).await.is_ok();
            }
            if self.is_due {
                // Ends by either time limit.
                let _ = timeout(UNREST_MAX, self.quiet()).await;
            }
            let changes = self.look().await;
            self.is_due = false;
            if !changes.is_empty() {
                return changes;
            }
        }
    }

    /// Why the directory cannot be read, if so.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    async fn quiet(&self) {
        while timeout(DIRECTORY_QUIET_TIME, self.hint.notified()).await.is_ok() {}
    }

    async fn look(&mut self) -> Vec<Change> {
        self.keep_watching();
        let (directory, wanted, seen) = (self.directory.clone(), self.wanted.clone(), self.seen.clone());
        let most = self.most;
        let looked = windlass_world::spawn_blocking(move || look(&directory, &wanted, most, seen)).await;
        let now = match looked {
            Ok(Ok(now)) => now,
            Ok(Err(error)) => return self.blind(&error),
            Err(error) => return self.blind(&error),
        };
        if self.problem.take().is_some() {
            tracing::info!(directory = %self.directory.display(), "the directory can be read again");
        }
        let changes = differences(&self.seen, &now);
        self.seen = now;
        changes
    }

    fn blind(&mut self, error: &dyn std::error::Error) -> Vec<Change> {
        let problem = error.to_string();
        if self.problem.as_ref() != Some(&problem) {
            let directory = self.directory.display();
            tracing::error!(%directory, error = problem, "cannot look for changed files: what was there is kept");
            self.problem = Some(problem);
        }
        vec![]
    }

    /// Watches the directory, and the one that has taken its place.
    fn keep_watching(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let Ok(now) = FileIdentity::of(&self.directory) else { return };
        let is_same = |was: &FileIdentity| (was.device, was.inode) == (now.device, now.inode);
        if self.watched.as_ref().is_some_and(is_same) {
            return;
        }
        // What was watched under this name may be gone already.
        let _ = watcher.unwatch(&self.directory);
        match watcher.watch(&self.directory, RecursiveMode::NonRecursive) {
            Ok(()) => self.watched = Some(now),
            Err(error) => {
                let (directory, poll) = (self.directory.display(), self.poll);
                tracing::warn!(%directory, %error, "changes of files are not noticed at once; they are within {poll:?}");
                // Not once a poll: it will not work the next time either.
                self.watcher = None;
            }
        }
    }
}

/// Whether the file `path` is hidden, as editors and copies in progress make them.
pub(crate) fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// True if an event may have changed content. Reading a file is an event too, even if the host itself reads it.
fn may_change(kind: EventKind) -> bool {
    !kind.is_access() || kind == EventKind::Access(AccessKind::Close(AccessMode::Write))
}

/// The state of all wanted files, given how they were.
fn look(
    directory: &Path,
    wanted: &PathFilter,
    most: u64,
    mut seen: BTreeMap<PathBuf, SeenFile>,
) -> std::io::Result<BTreeMap<PathBuf, SeenFile>> {
    let mut now = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if !wanted(&path) || path.is_dir() {
            continue;
        }
        let identity = FileIdentity::of(&path).ok();
        let known = seen.remove(&path).filter(|known| identity.is_some() && known.identity == identity);
        let state = known.unwrap_or_else(|| SeenFile { identity, content: read(&path, most) });
        now.insert(path, state);
    }
    Ok(now)
}

fn read(path: &Path, most: u64) -> Content {
    match digest(path, most) {
        Ok(Some(digest)) => Content::Is(digest),
        Ok(None) => Content::TooLarge(most),
        Err(error) => Content::Unreadable(error.to_string()),
    }
}

/// None: it has more than `most` bytes, or comes to have them meanwhile.
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
