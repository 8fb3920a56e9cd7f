//! When to look at directories again: the system's notifications say so, and so does a slow poll. A network file system
//! notifies nobody, a queue of notifications overflows, and the target of a link changes where nobody watches.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The longest wait for the quiet time while changes go on.
const UNREST_MAX: Duration = Duration::from_secs(2);

/// Waits for changes in directories, but not below them.
#[derive(Debug)]
pub struct DirectoryWatcher {
    quiet_time: Duration,
    poll_interval: Duration,
    hint: Arc<Notify>,
    /// `None` if the system notifies of nothing.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeMap<PathBuf, DirectoryIdentity>,
    /// Something has happened since the last look.
    is_due: bool,
    has_warned: bool,
}

/// Device and inode, by which a directory differs from another one that has taken its place.
type DirectoryIdentity = (u64, u64);

impl DirectoryWatcher {
    /// Watches nothing yet. After a change, [`due`](Self::due) waits until nothing has happened for `quiet_time`,
    /// because one change often takes several writes. Without a notification, a look is due after `poll_interval`.
    #[must_use]
    pub fn new(quiet_time: Duration, poll_interval: Duration) -> Self {
        let hint = Arc::new(Notify::new());
        let notified = hint.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error may stand for lost notifications, so it is a reason to look as well.
            if event.is_err() || event.is_ok_and(|event| may_change(event.kind)) {
                notified.notify_one();
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "the system does not notify of changed files: changes are noticed within {poll_interval:?}");
        }
        Self {
            quiet_time,
            poll_interval,
            hint,
            watcher: watcher.ok(),
            watched: BTreeMap::new(),
            is_due: false,
            has_warned: false,
        }
    }

    /// Watches exactly these directories. Returns whether one of them was not watched before: what changed in it until
    /// now is not notified.
    pub fn watch_only<'p>(&mut self, directories: impl IntoIterator<Item = &'p Path>) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let found = directories.into_iter().filter_map(|path| Some((path.to_owned(), identity(path)?)));
        let found: BTreeMap<_, _> = found.collect();
        self.watched.retain(|path, watched| {
            let stays = found.get(path) == Some(watched);
            if !stays {
                // The directory may be gone, and its watch with it.
                let _ = watcher.unwatch(path);
            }
            stays
        });
        let mut has_new = false;
        for (path, identity) in found {
            if self.watched.contains_key(&path) {
                continue;
            }
            match watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(path, identity);
                    has_new = true;
                }
                Err(error) if !self.has_warned => {
                    self.has_warned = true;
                    let (directory, within) = (path.display(), self.poll_interval);
                    tracing::warn!(%directory, %error, "cannot watch for changed files: changes are noticed within {within:?}");
                }
                Err(_) => {}
            }
        }
        has_new
    }

    /// Waits until it is time to look. A change that was notified stays due until [`looked`](Self::looked), even if
    /// this future or the look is dropped.
    pub async fn due(&mut self) {
        if !self.is_due {
            self.is_due = timeout(self.poll_interval, self.hint.notified()).await.is_ok();
        }
        if self.is_due {
            // Ends by either time limit.
            let _ = timeout(UNREST_MAX, self.quiet()).await;
        }
    }

    /// A look has ended.
    pub fn looked(&mut self) {
        self.is_due = false;
    }

    async fn quiet(&self) {
        while timeout(self.quiet_time, self.hint.notified()).await.is_ok() {}
    }
}

fn identity(directory: &Path) -> Option<DirectoryIdentity> {
    std::fs::metadata(directory).ok().map(|found| (found.dev(), found.ino()))
}

/// Whether an event may have changed content. Opening is an event too, even if the one who looks opens a directory.
fn may_change(kind: EventKind) -> bool {
    !kind.is_access() || kind == EventKind::Access(AccessKind::Close(AccessMode::Write))
}

#[cfg(test)]
mod tests {
    use notify::event::CreateKind;

    use super::*;

    fn watching(directory: &Path) -> DirectoryWatcher {
        let mut watcher = DirectoryWatcher::new(Duration::from_millis(20), Duration::from_hours(1));
        assert!(watcher.watch_only([directory]), "it was not watched before");
        watcher
    }

    #[test]
    fn opening_and_reading_change_nothing() {
        for kind in [AccessKind::Open(AccessMode::Any), AccessKind::Read, AccessKind::Close(AccessMode::Read)] {
            assert!(!may_change(EventKind::Access(kind)), "{kind:?}");
        }
        for kind in [EventKind::Access(AccessKind::Close(AccessMode::Write)), EventKind::Create(CreateKind::File)] {
            assert!(may_change(kind), "{kind:?}");
        }
    }

    #[tokio::test]
    async fn a_change_survives_a_dropped_future_that_had_heard_of_it() {
        let here = tempfile::tempdir().expect("a directory");
        let mut watcher = watching(here.path());
        std::fs::write(here.path().join("a"), "1").expect("written");
        // All notifications of it were heard, but for one.
        watcher.hint.notified().await;
        watcher.quiet().await;
        watcher.hint.notify_one();
        assert!(timeout(Duration::ZERO, watcher.due()).await.is_err(), "it waits until nothing more happens");
        timeout(Duration::from_mins(1), watcher.due()).await.expect("still due");
        watcher.looked();
        assert!(!watcher.is_due);
    }

    #[tokio::test]
    async fn a_directory_in_the_place_of_another_is_watched() {
        let at = tempfile::tempdir().expect("a directory");
        let here = at.path().join("src");
        std::fs::create_dir(&here).expect("made");
        let mut watcher = watching(&here);
        assert!(!watcher.watch_only([&*here]), "it is watched already");
        std::fs::rename(&here, at.path().join("old")).expect("renamed");
        std::fs::create_dir(&here).expect("made");
        assert!(watcher.watch_only([&*here]), "it is another one");
        // The renaming may have been notified, or not: the watch of the old directory has ended.
        watcher.quiet().await;
        std::fs::write(here.join("a"), "1").expect("written");
        timeout(Duration::from_mins(1), watcher.due()).await.expect("it is notified");
        assert!(watcher.is_due, "not by the poll");
        assert!(!watcher.watch_only([]) && watcher.watched.is_empty());
    }
}
