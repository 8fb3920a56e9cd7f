//! Sees to it that plugins whose policies say `rollout: shadow` have a file of the version that runs, `NAME.current.wasm`
//! (ADR 28). The first is a copy of `NAME.wasm`, made here before anybody else hears of that file. One that goes is not made
//! anew of another `NAME.wasm`, which nobody has promoted.

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
use crate::policies::Changes;

/// The pause before a file is copied again that could not be.
const TRY_AGAIN: Duration = Duration::from_mins(1);

/// The plugins' files, as they were seen, and as others are told of them.
pub(crate) struct CurrentFiles {
    host: Arc<Host>,
    policies: Changes,
    plugins: BTreeMap<Arc<str>, SeenPlugin>,
}

/// The files of one plugin.
struct SeenPlugin {
    directory: PathBuf,
    own: Content,
    current: Content,
    /// The last version that was in `NAME.current.wasm`, as far as this process knows.
    kept: Option<[u8; 32]>,
    /// Both as others were told of them.
    told: [Content; 2],
}

impl CurrentFiles {
    /// Nothing was seen yet.
    pub(crate) fn new(host: Arc<Host>) -> Self {
        let policies = host.policies.changes();
        Self { host, policies, plugins: BTreeMap::new() }
    }

    /// The next changes that others are to hear of. Nothing is lost when the future is dropped.
    pub(crate) async fn changes(&mut self, files: &mut Files) -> Vec<Change> {
        loop {
            let is_short = self.plugins.values().any(SeenPlugin::is_short);
            let changes = tokio::select! {
                biased;
                changes = files.changes() => return self.take(changes).await,
                () = self.policies.next() => self.settle_all().await,
                () = tokio::time::sleep(TRY_AGAIN), if is_short => self.settle_all().await,
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
        let Host { policies, rollback, read_only, .. } = &*self.host;
        // Where nothing is rolled back, what comes is what is wanted: `windlass dev`. A host that only reads keeps nothing.
        let waits = *rollback && !read_only && policies.rollout(plugin) == RolloutStrategy::Shadow;
        match seen.current {
            Content::Is(digest) => seen.kept = Some(digest),
            // `NAME.wasm` runs then, and is what nobody may replace once its policy says so.
            Content::Gone if !waits => {
                seen.kept = if let Content::Is(own) = seen.own { Some(own) } else { None };
            }
            _ => {}
        }
        let now = match (&seen.own, &seen.current) {
            (Content::Is(own), Content::Gone) if waits => {
                let own = *own;
                match seen.kept.filter(|kept| *kept != own) {
                    Some(_) => [seen.own.clone(), Content::Withheld(gone(plugin))],
                    None => match keep(&seen.directory, plugin, own).await {
                        Ok(()) => {
                            (seen.kept, seen.current) = (Some(own), Content::Is(own));
                            [Content::Is(own), Content::Is(own)]
                        }
                        // What it is by now is seen at the next look, and so is a version that somebody else has kept.
                        Err(RolloutError::OtherDigest { .. } | RolloutError::NoNext(_) | RolloutError::IsThere(_)) => {
                            return vec![];
                        }
                        Err(error) => [Content::Withheld(not_kept(plugin, &error)), Content::Gone],
                    },
                }
            }
            _ => [seen.own.clone(), seen.current.clone()],
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
            told: [Content::Gone, Content::Gone],
        }
    }

    /// The file of the current version could not be made.
    fn is_short(&self) -> bool {
        self.told[0] != self.own
    }

    fn tell(&mut self, plugin: &str, now: [Content; 2]) -> Vec<Change> {
        let before = std::mem::replace(&mut self.told, now.clone());
        let parts = [FileRole::Own, FileRole::Current].into_iter().zip(now).zip(before);
        let news = parts.filter(|((_, now), before)| now != before);
        news.map(|((role, content), _)| Change { path: role.path(&self.directory, plugin), content }).collect()
    }
}

async fn keep(directory: &Path, plugin: &Arc<str>, own: [u8; 32]) -> Result<(), RolloutError> {
    let (of, name, digest) = (directory.to_owned(), plugin.clone(), hexadecimal(&own));
    let keeping = move || keep_as_current(&of, &name, &digest);
    let kept = windlass_world::spawn_blocking(keeping).await.unwrap_or_else(|error| {
        let (path, source) = (FileRole::Current.path(directory, plugin), std::io::Error::other(error));
        Err(RolloutError::Io { path, source })
    });
    if kept.is_ok() {
        tracing::info!(
            %plugin, digest = &*hexadecimal(&own),
            "{plugin}.wasm is kept as {plugin}.current.wasm, which runs: another {plugin}.wasm waits until it is promoted"
        );
    }
    kept
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
