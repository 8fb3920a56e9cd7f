//! Maintains a file of the running version, `NAME.current.wasm`, for plugins whose policies say `rollout: shadow` (ADR
//! 28). The first one is a copy of `NAME.wasm`, made by [`keep_first`] after the file was loaded and before it runs. If
//! a plugin runs already when its policy says so, the copy is made here. If the copy disappears, it is not made again
//! from a different `NAME.wasm`, which was not promoted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::error::explained;
use windlass_policy::RolloutStrategy;

use super::directory::hexadecimal;
use super::directory::plugin_files::FileRole;
use super::rollout::{RolloutError, keep_as_current};
use crate::files::{Change, Content, Files};
use crate::host::Host;
use crate::observe::status::PluginPhase;
use crate::policies::Changes;
use crate::rejections::Digest;

/// The pause before a failed copy is tried again.
const COPY_RETRY_DELAY: Duration = Duration::from_mins(1);

/// Returns the digest of the running version of a plugin.
type RunningDigest = Arc<dyn Fn(&str) -> Option<Digest> + Send + Sync>;

/// The files of plugins, as this process has seen them, and as it has reported them.
pub(crate) struct CurrentFiles {
    host: Arc<Host>,
    policies: Changes,
    /// Returns the digest of the running version of a plugin.
    runs: RunningDigest,
    plugins: BTreeMap<Arc<str>, SeenPlugin>,
}

/// The files of one plugin.
struct SeenPlugin {
    directory: PathBuf,
    own: Content,
    current: Content,
    /// The last version known to this process that was in `NAME.current.wasm`, or ran.
    kept: Option<Digest>,
    /// Whether a different `NAME.wasm` must wait, according to the last policy. A deleted policy does not change this,
    /// as it may come back.
    waits: bool,
    /// Both files as last reported.
    reported: [Content; 2],
}

impl CurrentFiles {
    /// Has not seen any file yet.
    pub(crate) fn new(host: Arc<Host>) -> Self {
        let policies = host.policies.changes();
        let of = host.clone();
        let runs = Arc::new(move |plugin: &str| running(&of, plugin));
        Self { host, policies, runs, plugins: BTreeMap::new() }
    }

    /// The next changes to report. Cancel-safe.
    pub(crate) async fn changes(&mut self, files: &mut Files) -> Vec<Change> {
        loop {
            let is_short = self.plugins.values().any(SeenPlugin::is_short);
            let changes = tokio::select! {
                biased;
                changes = files.changes() => return self.take(changes).await,
                () = self.policies.next() => self.settle_all().await,
                () = tokio::time::sleep(COPY_RETRY_DELAY), if is_short => self.settle_all().await,
            };
            if !changes.is_empty() {
                return changes;
            }
        }
    }

    /// Takes over `changes`, and returns the changes to report.
    pub(crate) async fn take(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let (mut reported, mut touched) = (Vec::new(), BTreeSet::new());
        for change in changes {
            let (plugin, role) = FileRole::of(&change.path);
            if role == FileRole::Next {
                reported.push(change);
                continue;
            }
            let seen = self.plugins.entry(plugin.clone()).or_insert_with(|| SeenPlugin::of(&change.path));
            match role {
                FileRole::Current => seen.current = change.content,
                FileRole::Own | FileRole::Next => seen.own = change.content,
            }
            touched.insert(plugin);
        }
        for plugin in touched {
            reported.extend(self.settle(&plugin).await);
        }
        reported
    }

    async fn settle_all(&mut self) -> Vec<Change> {
        let mut reported = Vec::new();
        for plugin in self.plugins.keys().cloned().collect::<Vec<_>>() {
            reported.extend(self.settle(&plugin).await);
        }
        reported
    }

    /// Decides what to report about one plugin's files, and returns the part that differs from the last report.
    async fn settle(&mut self, plugin: &Arc<str>) -> Vec<Change> {
        let Some(seen) = self.plugins.get_mut(plugin) else { return vec![] };
        seen.waits = waits(&self.host, plugin).unwrap_or(seen.waits);
        let runs = (self.runs)(plugin);
        match (seen.current.clone(), &runs) {
            (Content::Is(digest), _) => seen.kept = Some(hexadecimal(&digest)),
            // Once the policy says that a new version must wait, the running version may not be replaced.
            (Content::Gone, Some(runs)) => seen.kept = Some(runs.clone()),
            (Content::Gone, None) if !seen.waits => seen.kept = None,
            _ => {}
        }
        let now = match (seen.own.clone(), seen.current.clone()) {
            (Content::Is(digest), Content::Gone) if seen.waits => {
                let own = hexadecimal(&digest);
                if seen.kept.as_ref().is_some_and(|kept| *kept != own) {
                    [Content::Is(digest), Content::Withheld(gone(plugin))]
                } else if runs.is_none_or(|runs| runs != own) {
                    // `keep_first` copies the file before the version runs.
                    [Content::Is(digest), Content::Gone]
                } else {
                    match keep(&seen.directory, plugin, &own).await {
                        // The copy counts only once a look has found it, because it may be gone by then.
                        Ok(()) | Err(NotKept::Others) => return vec![],
                        Err(NotKept::Failed(problem)) => [Content::Withheld(problem), Content::Gone],
                    }
                }
            }
            (own, current) => [own, current],
        };
        let news = seen.report(plugin, now);
        if seen.own == Content::Gone && seen.current == Content::Gone {
            self.plugins.remove(plugin);
        }
        news
    }
}

impl SeenPlugin {
    fn of(path: &Path) -> Self {
        Self {
            directory: path.parent().unwrap_or(Path::new("")).to_owned(),
            own: Content::Gone,
            current: Content::Gone,
            kept: None,
            waits: false,
            reported: [Content::Gone, Content::Gone],
        }
    }

    /// Whether the file of the current version is missing.
    fn is_short(&self) -> bool {
        let is_there = matches!(self.own, Content::Is(_)) && self.current == Content::Gone;
        self.reported[0] != self.own || (self.waits && is_there)
    }

    fn report(&mut self, plugin: &str, now: [Content; 2]) -> Vec<Change> {
        let before = std::mem::replace(&mut self.reported, now.clone());
        let parts = [FileRole::Own, FileRole::Current].into_iter().zip(now).zip(before);
        let news = parts.filter(|((_, now), before)| now != before);
        news.map(|((role, content), _)| Change { path: role.path(&self.directory, plugin), content }).collect()
    }
}

/// Why a version that was loaded may not run.
#[derive(Debug)]
pub(crate) enum NotKept {
    /// The files have changed. The next look will find that.
    Others,
    /// The file could not be kept, for this reason.
    Failed(String),
}

/// Whether a different `NAME.wasm` must wait, according to the policy. `None` without a policy.
fn waits(host: &Host, plugin: &str) -> Option<bool> {
    let Host { policies, rollback, read_only, .. } = host;
    // Without rollback, as with `windlass dev`, every new file is wanted. A read-only host keeps nothing.
    if !*rollback || *read_only {
        return Some(false);
    }
    Some(policies.rollout(plugin)? == RolloutStrategy::Shadow)
}

/// The digest of the running version of `plugin`, unless it is about to end.
fn running(host: &Host, plugin: &str) -> Option<Digest> {
    let status = host.status.known(plugin).filter(|status| status.phase() != PluginPhase::Ending)?;
    Some(status.generation()?.digest().clone())
}

/// If new versions must wait, keeps the loaded `NAME.wasm` with this digest as the current version, before it runs.
pub(crate) async fn keep_first(host: &Host, plugin: &Arc<str>, file: &Path, digest: &Digest) -> Result<(), NotKept> {
    if FileRole::of(file).1 != FileRole::Own || waits(host, plugin) != Some(true) {
        return Ok(());
    }
    if running(host, plugin).is_some_and(|runs| runs != *digest) {
        // The policy appeared while this version was loaded, and another version runs.
        return Err(NotKept::Others);
    }
    keep(file.parent().unwrap_or(Path::new("")), plugin, digest).await
}

/// Waits until a version that could not be kept may be loaded again: it can now be kept, it no longer needs to be, or
/// the file has changed.
pub(crate) async fn until_kept(host: &Host, plugin: &Arc<str>, file: &Path, digest: &Digest) {
    let mut policies = host.policies.changes();
    while let Err(NotKept::Failed(_)) = keep_first(host, plugin, file, digest).await {
        // It does not matter whether the time has passed or a policy has changed.
        let _ = tokio::time::timeout(COPY_RETRY_DELAY, policies.next()).await;
    }
}

async fn keep(directory: &Path, plugin: &Arc<str>, digest: &Digest) -> Result<(), NotKept> {
    let (of, name, wanted) = (directory.to_owned(), plugin.clone(), digest.clone());
    let keeping = move || keep_as_current(&of, &name, &wanted);
    let kept = windlass_world::spawn_blocking(keeping).await.unwrap_or_else(|error| {
        let (path, source) = (FileRole::Current.path(directory, plugin), std::io::Error::other(error));
        Err(RolloutError::Io { path, source })
    });
    match kept {
        Ok(false) => Ok(()),
        Ok(true) => {
            tracing::info!(
                %plugin, digest = &**digest,
                "{plugin}.wasm was copied to {plugin}.current.wasm, which runs: a new {plugin}.wasm waits until it is \
                 promoted"
            );
            Ok(())
        }
        Err(RolloutError::OtherDigest { .. } | RolloutError::NoNext(_) | RolloutError::IsThere(_)) => {
            Err(NotKept::Others)
        }
        Err(error) => Err(NotKept::Failed(not_kept(plugin, &error))),
    }
}

fn not_kept(plugin: &str, error: &RolloutError) -> String {
    format!(
        "its policy says rollout: shadow, and the version that runs cannot be kept as {plugin}.current.wasm ({}): let the host \
         write the directory, or copy the file yourself",
        explained(error)
    )
}

fn gone(plugin: &str) -> String {
    format!(
        "its policy says rollout: shadow, {plugin}.wasm is not the version that ran last, and \
         {plugin}.current.wasm does not exist: copy the version that is to run to {plugin}.current.wasm"
    )
}

#[cfg(test)]
mod tests;
