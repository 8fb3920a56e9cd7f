//! Loads files, and the versions before rejected ones, in the background.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_wasm::Plugin;

use super::{DirectoryNews, Reload, as_loaded};
use crate::observe::status::PluginPhase;
use crate::plugins::current_files::{NotKept, keep_first, until_kept};
use crate::plugins::directory::FileRefusal;
use crate::plugins::directory::plugin_files::FileRole;
use crate::plugins::{announce, prepare};
use crate::rejections::{Digest, Rejection};
use crate::supervise::caught;

/// How long a file that fails to load must be unchanged before that is reported, because it may still be being written.
const FILE_SETTLED_AFTER: Duration = Duration::from_secs(1);
/// The pause before another attempt to load a file that changed between the look and the read.
pub(super) const FILE_READ_RETRY_DELAY: Duration = Duration::from_millis(500);

impl Reload {
    pub(super) fn load(&self, plugin: Arc<str>, path: PathBuf, digest: Digest) {
        let status = self.host.status.plugin(&plugin);
        if status.generation().is_none() && status.phase() != PluginPhase::Ending {
            status.set(PluginPhase::Loading, None);
        }
        let (sandbox, sender, host) = (self.sandbox.clone(), self.sender.clone(), self.host.clone());
        let stop = self.phases.stop.clone();
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            let load = async {
                match FileRole::of(&path).1 {
                    FileRole::Own => prepare::load(&sandbox, &path).await,
                    FileRole::Current | FileRole::Next => prepare::load_as(&sandbox, &plugin, &path).await,
                }
            };
            let result = match caught("load", &host.panics, load).await {
                Some(Ok(loaded)) if *loaded.digest() != digest => {
                    tokio::time::sleep(FILE_READ_RETRY_DELAY).await;
                    None
                }
                Some(Ok(loaded)) => match keep_first(&host, &plugin, &path, &digest).await {
                    Ok(()) => Some(Ok(loaded)),
                    Err(NotKept::Others) => {
                        tokio::time::sleep(FILE_READ_RETRY_DELAY).await;
                        None
                    }
                    Err(NotKept::Failed(problem)) => Some(Err(FileRefusal::Withheld { path: path.clone(), problem })),
                },
                Some(Err(refusal)) => Some(Err(refusal)),
                None => {
                    let message = format!("{}: the host's loader panicked", path.display());
                    Some(Err(FileRefusal::NotLoaded { reason: "host", message }))
                }
            };
            let (failed, is_short) =
                (matches!(result, Some(Err(_))), matches!(result, Some(Err(FileRefusal::Withheld { .. }))));
            let settles = if failed { settles_in(&path).await } else { Duration::ZERO };
            // The receiver ends with the host.
            let _ = sender.send(DirectoryNews::Loaded { plugin: plugin.clone(), digest: digest.clone(), result });
            if failed {
                tokio::time::sleep(settles).await;
                let _ = sender.send(DirectoryNews::Settled { plugin: plugin.clone(), digest: digest.clone() });
            }
            if is_short {
                until_kept(&host, &plugin, &path, &digest).await;
                let _ = sender.send(DirectoryNews::Kept { plugin, digest });
            }
        }));
    }

    pub(super) fn loaded(
        &mut self,
        plugin: &Arc<str>,
        digest: &Digest,
        result: Option<Result<Arc<Plugin>, FileRefusal>>,
    ) {
        let result = result.map(|result| {
            result.map(|generation| {
                announce::loaded(&self.host, &generation);
                as_loaded(&generation)
            })
        });
        self.catalog.loaded(plugin, digest, result);
    }

    /// Looks in the cache of compiled plugins for the version before the rejected file.
    pub(super) fn revive(&self, plugin: Arc<str>, path: PathBuf, former: String, rejection: Rejection) {
        let (sandbox, sender, panics) = (self.sandbox.clone(), self.sender.clone(), self.host.panics.clone());
        tokio::spawn(self.phases.stop.clone().run_until_cancelled_owned(async move {
            match caught("load", &panics, sandbox.load_digest(&plugin, &path, &former)).await {
                Some(Ok(Some(former))) => {
                    // The receiver ends with the host.
                    let _ = sender.send(DirectoryNews::Revived { rejection, former });
                }
                Some(Ok(None)) => tracing::warn!(
                    %plugin, former,
                    "the previous version is no longer in the cache; the plugin waits for another file"
                ),
                Some(Err(error)) => tracing::error!(
                    %plugin, former, %error,
                    "the previous version cannot be loaded; the plugin waits for another file"
                ),
                None => {}
            }
        }));
    }

    pub(super) fn revived(&mut self, rejection: &Rejection, former: &Arc<Plugin>) {
        match self.catalog.revive(former.name(), &as_loaded(former)) {
            Ok(()) => {
                self.start(former);
                announce::revived(&self.host, former, rejection);
            }
            Err(problem) => announce::not_revived(former, &problem),
        }
    }
}

/// The time after which the file `path` has certainly been written completely.
pub(super) async fn settles_in(path: &Path) -> Duration {
    let written = tokio::fs::metadata(path).await.and_then(|it| it.modified());
    let age = written.ok().and_then(|written| written.elapsed().ok()).unwrap_or_default();
    FILE_SETTLED_AFTER.saturating_sub(age)
}
