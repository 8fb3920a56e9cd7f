//! Notifies followers of configurations when their files may have changed. One watch covers the whole directory for all
//! plugins. A watch for each plugin would exhaust the user's limit, take a thread each, and look at every file a
//! thousand times whenever one of a thousand changes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::{CONFIG_BYTES_MAX, SUFFIX};
use crate::files::Files;
use crate::object_names::ObjectNames;

/// The configurations in one directory. Clones share them.
#[derive(Clone)]
pub(crate) struct ConfigFiles(Arc<ConfigFilesInner>);

struct ConfigFilesInner {
    directory: PathBuf,
    names: ObjectNames,
    /// The followers by the names of their files.
    followers: Mutex<BTreeMap<OsString, watch::Sender<()>>>,
}

impl ConfigFiles {
    /// The configurations in `directory`, and those of objects, to which `names` belong. No follower is notified
    /// before [`follow`](Self::follow) runs.
    pub(crate) fn of(directory: &Path, names: ObjectNames) -> Self {
        let directory = directory.to_owned();
        Self(Arc::new(ConfigFilesInner { directory, names, followers: Mutex::default() }))
    }

    /// The directory in which the configuration of `plugin` is.
    pub(crate) fn directory_of(&self, plugin: &str) -> &Path {
        self.0.names.directory_of(plugin, &self.0.directory)
    }

    /// A receiver that is notified whenever the file at `path`, which is in the directory, may have changed since this
    /// call.
    pub(crate) fn changes_of(&self, path: &Path) -> watch::Receiver<()> {
        let name = path.file_name().unwrap_or_default().to_owned();
        self.followers().entry(name).or_default().subscribe()
    }

    /// Number of files that have a follower, or had one recently.
    #[cfg(test)]
    pub(crate) fn followed(&self) -> usize {
        self.followers().len()
    }

    /// Follows the directory, for ever.
    pub(crate) async fn follow(&self) {
        let mut files = Files::follow(self.0.names.with(&self.0.directory), CONFIG_BYTES_MAX, is_configuration);
        files.changes().await;
        // Files may have changed between their first read and the first look.
        self.notify(|_| true);
        loop {
            let changes = files.changes().await;
            self.notify(|name| changes.iter().any(|change| change.path.file_name() == Some(name)));
        }
    }

    /// Notifies the followers whose file `is_meant` selects, and forgets those that are gone.
    fn notify(&self, is_meant: impl Fn(&OsStr) -> bool) {
        self.followers().retain(|name, followers| {
            if is_meant(name) {
                followers.send_replace(());
            }
            followers.receiver_count() > 0
        });
    }

    fn followers(&self) -> MutexGuard<'_, BTreeMap<OsString, watch::Sender<()>>> {
        self.0.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_configuration(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(SUFFIX.as_bytes()))
}
