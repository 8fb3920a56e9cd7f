//! Decides when to look at directories again: after a notification of the system, and otherwise after a poll interval.
//! Notifications alone are not enough: network file systems send none, the queue of notifications may overflow, and the
//! target of a link may lie in a directory that is not watched.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The longest wait for a quiet time if changes do not stop.
const UNREST_MAX: Duration = Duration::from_secs(2);

/// Waits for changes in directories, but not in their subdirectories.
#[derive(Debug)]
pub struct DirectoryWatcher {
    quiet_time: Duration,
    poll_interval: Duration,
    hint: Arc<Notify>,
    /// `None` if the system sends no notifications.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeMap<PathBuf, DirectoryIdentity>,
    /// Whether a change was notified since the last look.
    is_due: bool,
    has_warned: bool,
}

/// Device and inode. They show whether a directory was replaced by another directory with the same path.
type DirectoryIdentity = (u64, u64);

impl DirectoryWatcher {
    /// Creates a watcher without directories. After a change, [`due`](Self::due) waits until nothing has happened for
    /// `quiet_time`, because one change often takes several writes. Without a notification, a look is due after
    /// `poll_interval`.
    #[must_use]
    pub fn new(quiet_time: Duration, poll_interval: Duration) -> Self {
        let hint = Arc::new(Notify::new());
        let notified = hint.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error may mean lost notifications, so it is a reason to look, too.
            if event.is_err() || event.is_ok_and(|event| may_change(event.kind)) {
                notified.notify_one();
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "the system sends no notifications of changed files: changes are noticed within {poll_interval:?}");
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

    /// Watches exactly these directories. Returns whether one of them was not watched before. Such a directory may
    /// have changed without a notification.
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

    /// Waits until it is time to look. After a notification, a look stays due until [`looked`](Self::looked) is called,
    /// even if this future or the look is dropped.
    pub async fn due(&mut self) {
        if !self.is_due {
            self.is_due = timeout(self.poll_interval, self.hint.notified()).await.is_ok();
        }
        if self.is_due {
            // Ends after a quiet time, or after the longest wait.
            let _ = timeout(UNREST_MAX, self.quiet()).await;
        }
    }

    /// Records that the caller has looked at the files.
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

/// Whether an event may have changed content. Opening a directory is also an event, even when the caller opens it for
/// its look.
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
    async fn a_change_stays_due_if_the_waiting_future_is_dropped() {
        let here = tempfile::tempdir().expect("a directory");
        let mut watcher = watching(here.path());
        std::fs::write(here.path().join("a"), "1").expect("written");
        // Consumes all notifications of the write, and then sends one.
        watcher.hint.notified().await;
        watcher.quiet().await;
        watcher.hint.notify_one();
        assert!(timeout(Duration::ZERO, watcher.due()).await.is_err(), "it waits for a quiet time");
        timeout(Duration::from_mins(1), watcher.due()).await.expect("still due");
        watcher.looked();
        assert!(!watcher.is_due);
    }

    #[tokio::test]
    async fn a_directory_that_replaces_another_is_watched() {
        let at = tempfile::tempdir().expect("a directory");
        let here = at.path().join("src");
        std::fs::create_dir(&here).expect("made");
        let mut watcher = watching(&here);
        assert!(!watcher.watch_only([&*here]), "it is watched already");
        std::fs::rename(&here, at.path().join("old")).expect("renamed");
        std::fs::create_dir(&here).expect("made");
        assert!(watcher.watch_only([&*here]), "the directory is a new one");
        // The rename may or may not have been notified, because the watch of the old directory has ended.
        watcher.quiet().await;
        std::fs::write(here.join("a"), "1").expect("written");
        timeout(Duration::from_mins(1), watcher.due()).await.expect("it is notified");
        assert!(watcher.is_due, "not by the poll");
        assert!(!watcher.watch_only([]) && watcher.watched.is_empty());
    }
}
