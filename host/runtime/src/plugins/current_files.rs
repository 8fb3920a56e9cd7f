//! Sees to it that plugins whose policies say `rollout: shadow` have a file of the version that runs,
//! `NAME.current.wasm` (ADR 28). The first is a copy of `NAME.wasm`: whoever loads that file has it kept by
//! [`keep_first`], before anything of it runs. What runs already when its policy says so is kept here. One that goes is
//! not made anew of another `NAME.wasm`, which nobody has promoted.

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

/// The pause before a file is copied again that could not be.
const COPY_RETRY_DELAY: Duration = Duration::from_mins(1);

/// Answers the digest of what runs of a plugin.
type RunningDigest = Arc<dyn Fn(&str) -> Option<Digest> + Send + Sync>;

/// The plugins' files, as they were seen, and as others are told of them.
pub(crate) struct CurrentFiles {
    host: Arc<Host>,
    policies: Changes,
    /// The digest of what runs of a plugin.
    runs: RunningDigest,
    plugins: BTreeMap<Arc<str>, SeenPlugin>,
}

/// The files of one plugin.
struct SeenPlugin {
    directory: PathBuf,
    own: Content,
    current: Content,
    /// The last version that was in `NAME.current.wasm` or ran, as far as this process knows.
    kept: Option<Digest>,
    /// Another version waits, as the last policy has said. That a policy is gone says nothing: it may come back.
    waits: bool,
    /// Both as others were told of them.
    told: [Content; 2],
}

impl CurrentFiles {
    /// Nothing was seen yet.
    pub(crate) fn new(host: Arc<Host>) -> Self {
        let policies = host.policies.changes();
        let of = host.clone();
        let runs = Arc::new(move |plugin: &str| running(&of, plugin));
        Self { host, policies, runs, plugins: BTreeMap::new() }
    }

    /// The next changes that others are to hear of. Nothing is lost when the future is dropped.
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

    /// Takes what has changed, and returns what others are to hear of it.
    pub(crate) async fn take(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let (mut told, mut touched) = (Vec::new(), BTreeSet::new());
        for change in changes {
            let (plugin, role) = FileRole::of(&change.path);
            if role == FileRole::Next {
                told.push(change);
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
            told.extend(self.settle(&plugin).await);
        }
        told
    }

    async fn settle_all(&mut self) -> Vec<Change> {
        let mut told = Vec::new();
        for plugin in self.plugins.keys().cloned().collect::<Vec<_>>() {
            told.extend(self.settle(&plugin).await);
        }
        told
    }

    /// Decides what others are to know of one plugin's files, and returns what of it is news.
    async fn settle(&mut self, plugin: &Arc<str>) -> Vec<Change> {
        let Some(seen) = self.plugins.get_mut(plugin) else { return vec![] };
        seen.waits = waits(&self.host, plugin).unwrap_or(seen.waits);
        let runs = (self.runs)(plugin);
        match (seen.current.clone(), &runs) {
            (Content::Is(digest), _) => seen.kept = Some(hexadecimal(&digest)),
            // What runs is what nobody may replace, once the policy says so.
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
                    // Whoever loads it keeps it first.
                    [Content::Is(digest), Content::Gone]
                } else {
                    match keep(&seen.directory, plugin, &own).await {
                        // It counts once it was seen, as it may have gone by then.
                        Ok(()) | Err(NotKept::Others) => return vec![],
                        Err(NotKept::Failed(problem)) => [Content::Withheld(problem), Content::Gone],
                    }
                }
            }
            (own, current) => [own, current],
        };
        let news = seen.tell(plugin, now);
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
            told: [Content::Gone, Content::Gone],
        }
    }

    /// The file of the current version is not there, and is to be.
    fn is_short(&self) -> bool {
        let is_there = matches!(self.own, Content::Is(_)) && self.current == Content::Gone;
        self.told[0] != self.own || (self.waits && is_there)
    }

    fn tell(&mut self, plugin: &str, now: [Content; 2]) -> Vec<Change> {
        let before = std::mem::replace(&mut self.told, now.clone());
        let parts = [FileRole::Own, FileRole::Current].into_iter().zip(now).zip(before);
        let news = parts.filter(|((_, now), before)| now != before);
        news.map(|((role, content), _)| Change { path: role.path(&self.directory, plugin), content }).collect()
    }
}

/// Why what was loaded may not run.
#[derive(Debug)]
pub(crate) enum NotKept {
    /// The files are others by now, which is seen at the next look.
    Others,
    /// It cannot be kept, and why.
    Failed(String),
}

/// Whether another `NAME.wasm` waits, as the policy says. None: there is no policy to say so.
fn waits(host: &Host, plugin: &str) -> Option<bool> {
    let Host { policies, rollback, read_only, .. } = host;
    // Where nothing is rolled back, what comes is what is wanted: `windlass dev`. A host that only reads keeps nothing.
    if !*rollback || *read_only {
        return Some(false);
    }
    Some(policies.rollout(plugin)? == RolloutStrategy::Shadow)
}

/// The digest of what runs of `plugin`, and is not about to end.
fn running(host: &Host, plugin: &str) -> Option<Digest> {
    let status = host.status.known(plugin).filter(|status| status.phase() != PluginPhase::Ending)?;
    Some(status.generation()?.digest().clone())
}

/// Has what was loaded of `NAME.wasm`, and has this digest, kept before it runs, if another one is to wait then.
pub(crate) async fn keep_first(host: &Host, plugin: &Arc<str>, file: &Path, digest: &Digest) -> Result<(), NotKept> {
    if FileRole::of(file).1 != FileRole::Own || waits(host, plugin) != Some(true) {
        return Ok(());
    }
    if running(host, plugin).is_some_and(|runs| runs != *digest) {
        // The policy has come while this was loaded: it is another version than what runs.
        return Err(NotKept::Others);
    }
    keep(file.parent().unwrap_or(Path::new("")), plugin, digest).await
}

/// Waits until what could not be kept may be loaded again: it can be kept now, or need not be, or there is another
/// file.
pub(crate) async fn until_kept(host: &Host, plugin: &Arc<str>, file: &Path, digest: &Digest) {
    let mut policies = host.policies.changes();
    while let Err(NotKept::Failed(_)) = keep_first(host, plugin, file, digest).await {
        // Ends by either.
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
                "{plugin}.wasm is kept as {plugin}.current.wasm, which runs: another {plugin}.wasm waits until it is promoted"
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
        "its policy says rollout: shadow, and {plugin}.wasm is another version than the last that ran, which is not in \
         {plugin}.current.wasm: copy the version that is to run there"
    )
}

#[cfg(test)]
mod tests;
