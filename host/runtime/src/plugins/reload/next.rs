//! The next versions of plugins: `NAME.next.wasm` beside `NAME.wasm`, or `NAME.wasm` beside `NAME.current.wasm`. Each
//! is loaded, and called as a shadow of the current version if both have the same watches (ADR 28). When the current
//! version changes, the comparison starts again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::call::ports::ReadingPort;
use windlass_core::error::explained;
use windlass_wasm::Plugin;

use super::load::{FILE_READ_RETRY_DELAY, settles_in};
use super::{DirectoryNews, Reload};
use crate::dispatch::shadow::NextVersion;
use crate::dispatch::shadow::ledger::ShadowLedger;
use crate::files::{Change, Content};
use crate::host::Host;
use crate::observe::status::NextView;
use crate::plugins::directory::hexadecimal;
use crate::plugins::directory::plugin_files::{FileRole, PluginFiles};
use crate::plugins::serve::EQUAL_WEIGHT;
use crate::plugins::{prepare, rollout};
use crate::rejections::Digest;
use crate::supervise::caught;

/// The pause after a failed attempt to promote a version that is due.
const PROMOTE_RETRY_DELAY: Duration = Duration::from_mins(1);

/// The next version of one plugin.
pub(super) struct NextFile {
    path: PathBuf,
    content: Content,
    attempt: NextAttempt,
    /// The standing that was last reported. `None` if none was.
    standing: Option<NextStanding>,
}

/// The last attempt to load it.
enum NextAttempt {
    None,
    Loading(Digest),
    Loaded(Arc<Plugin>),
    Failed(Digest, String),
}

/// How the next version stands relative to the current version.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NextStanding {
    /// The next version has the first digest, and is the shadow of the version with the second digest.
    Shadows(Digest, Digest),
    /// The next version waits, for this reason.
    Waits(String),
}

/// Next versions by plugin.
pub(super) type NextFiles = BTreeMap<Arc<str>, NextFile>;

/// A next version as the status shows it.
struct ShownNext {
    digest: Option<Digest>,
    version: Option<String>,
    reason: Option<String>,
    ledger: Option<Arc<ShadowLedger>>,
}

impl NextView for ShownNext {
    fn to_json(&self) -> Value {
        let state = if self.ledger.is_some() { "shadowing" } else { "waiting" };
        let mut shown = json!({
            "digest": self.digest.as_deref(), "version": self.version, "state": state, "reason": self.reason,
        });
        if let (Some(ledger), Some(fields)) = (&self.ledger, shown.as_object_mut())
            && let Value::Object(compared) = ledger.to_json()
        {
            fields.extend(compared);
        }
        shown
    }
}

impl Reload {
    /// Takes over changes of files, and returns the changes of the files that should run.
    pub(super) fn take_files(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let mut of_running = BTreeMap::new();
        for Change { path, content } in changes {
            let (plugin, role) = FileRole::of(&path);
            let files = self.files.entry(plugin.clone()).or_insert_with(PluginFiles::none);
            let before = files.clone();
            files.set(role, content);
            if files.has_idle_next() && !before.has_idle_next() {
                tracing::warn!(%plugin, "{plugin}.next.wasm is ignored: beside {plugin}.current.wasm, the next version is {plugin}.wasm");
            }
            if files.is_current_alone() && !before.is_current_alone() {
                tracing::warn!(%plugin, "{plugin}.current.wasm does not run without {plugin}.wasm: restore that file, or delete both");
            }
            let directory = path.parent().unwrap_or(Path::new(""));
            let (role, content) = files.running();
            if (role, &content) != (before.running().0, &before.running().1) {
                of_running.insert(plugin.clone(), Change { path: role.path(directory, &plugin), content });
            }
            let (role, content) = files.next();
            let path = role.path(directory, &plugin);
            if content != Content::Gone || self.next.contains_key(&plugin) {
                let new = || NextFile {
                    path: path.clone(),
                    content: Content::Gone,
                    attempt: NextAttempt::None,
                    standing: None,
                };
                let next = self.next.entry(plugin).or_insert_with(new);
                (next.path, next.content) = (path, content);
            }
        }
        self.files.retain(|_, files| *files != PluginFiles::none());
        of_running.into_values().collect()
    }

    /// Takes the result of loading the next version of `plugin`. `None` if the file had changed by then.
    pub(super) fn next_loaded(&mut self, plugin: &str, digest: Digest, result: Option<Result<Arc<Plugin>, String>>) {
        let Some(file) = self.next.get_mut(plugin) else { return };
        if matches!(&file.attempt, NextAttempt::Loading(loading) if *loading == digest) {
            file.attempt = match result {
                None => NextAttempt::None,
                Some(Ok(loaded)) => NextAttempt::Loaded(loaded),
                Some(Err(problem)) => NextAttempt::Failed(digest, problem),
            };
        }
    }

    /// Acts on the next versions, given the current state of files, plugins and policies.
    pub(super) fn act_on_next(&mut self) {
        let plugins: Vec<_> = self.next.keys().cloned().collect();
        for plugin in plugins {
            let Some(mut file) = self.next.remove(&plugin) else { continue };
            if file.content == Content::Gone {
                self.forget_next(&plugin);
                continue;
            }
            if let Some(standing) = self.standing_of(&plugin, &mut file)
                && file.standing.as_ref() != Some(&standing)
            {
                self.stand(&plugin, &file, &standing);
                file.standing = Some(standing);
            }
            self.next.insert(plugin, file);
        }
    }

    fn forget_next(&self, plugin: &Arc<str>) {
        self.host.shadows.set(plugin, None);
        if let Some(status) = self.host.status.known(plugin) {
            status.has_next(None);
        }
        tracing::info!(%plugin, "there is no next version any more");
    }

    /// The current standing of the next version. `None` while it is being loaded.
    fn standing_of(&self, plugin: &Arc<str>, file: &mut NextFile) -> Option<NextStanding> {
        let waits = |why: String| Some(NextStanding::Waits(why));
        let digest = match &file.content {
            Content::Is(digest) => hexadecimal(digest),
            Content::Unreadable(problem) => return waits(format!("cannot read it: {problem}")),
            Content::Withheld(problem) => return waits(problem.clone()),
            Content::TooLarge(most) => return waits(format!("it has more than {most} bytes")),
            Content::Gone => return None,
        };
        if let Some(list) = self.catalog.forbids(&digest) {
            return waits(format!("its digest {digest} is not allowed: add it to {}", list.display()));
        }
        let next = match &file.attempt {
            NextAttempt::Loaded(next) if *next.digest() == digest => next,
            NextAttempt::Failed(tried, problem) if *tried == digest => return waits(problem.clone()),
            NextAttempt::Loading(loading) if *loading == digest => return None,
            _ => {
                file.attempt = NextAttempt::Loading(digest.clone());
                self.load_next(plugin.clone(), file.path.clone(), digest);
                return None;
            }
        };
        let Some(handle) = self.handles.get(plugin) else {
            if !self.is_settled {
                // The plugin may be about to start.
                return None;
            }
            return waits("no version of the plugin runs: there is nothing to compare it with".to_owned());
        };
        let current = handle.runs();
        if current.digest() == next.digest() {
            return waits("it is the same as the running version".to_owned());
        }
        match cannot_be_shadowed(current, next) {
            Some(why) => waits(why),
            None => Some(NextStanding::Shadows(next.digest().clone(), current.digest().clone())),
        }
    }

    fn load_next(&self, plugin: Arc<str>, path: PathBuf, digest: Digest) {
        let (sandbox, sender, panics) = (self.sandbox.clone(), self.sender.clone(), self.host.panics.clone());
        tokio::spawn(self.phases.stop.clone().run_until_cancelled_owned(async move {
            let result = match caught("load", &panics, prepare::load_as(&sandbox, &plugin, &path)).await {
                Some(Ok(loaded)) if *loaded.digest() != digest => {
                    tokio::time::sleep(FILE_READ_RETRY_DELAY).await;
                    None
                }
                Some(Ok(loaded)) => Some(Ok(loaded)),
                Some(Err(refusal)) => {
                    tokio::time::sleep(settles_in(&path).await).await;
                    Some(Err(explained(&refusal)))
                }
                None => Some(Err(format!("{}: the host's loader panicked", path.display()))),
            };
            // The receiver ends with the host.
            let _ = sender.send(DirectoryNews::NextLoaded { plugin, digest, result });
        }));
    }

    /// Applies a changed standing, and reports it.
    fn stand(&self, plugin: &Arc<str>, file: &NextFile, standing: &NextStanding) {
        let loaded = match &file.attempt {
            NextAttempt::Loaded(next) => Some(next),
            NextAttempt::None | NextAttempt::Loading(_) | NextAttempt::Failed(..) => None,
        };
        let (version, digest) = (
            loaded.map(|next| next.manifest().version.clone()),
            match &file.content {
                Content::Is(digest) => Some(hexadecimal(digest)),
                Content::Unreadable(_) | Content::Withheld(_) | Content::TooLarge(_) | Content::Gone => None,
            },
        );
        let begun = match (standing, loaded) {
            (NextStanding::Shadows(..), Some(next)) => self.begin_shadow(file, next).ok_or_else(|| {
                // As for a current version, this was logged when the version was loaded.
                "its configuration cannot be described".to_owned()
            }),
            (NextStanding::Shadows(..), None) => return,
            (NextStanding::Waits(why), _) => Err(why.clone()),
        };
        let (ledger, reason) = match begun {
            Ok(next) => {
                let ledger = next.ledger.clone();
                tracing::info!(
                    %plugin, version, digest = next.plugin.short_digest(),
                    "the next version is called as a shadow: its writes are not sent, but compared"
                );
                self.host.shadows.set(plugin, Some(next));
                (Some(ledger), None)
            }
            Err(reason) => {
                self.host.shadows.set(plugin, None);
                tracing::warn!(%plugin, version, reason, "the next version waits to take over: it is not called as a shadow meanwhile");
                (None, Some(reason))
            }
        };
        if let Some(status) = self.host.status.known(plugin) {
            status.has_next(Some(Arc::new(ShownNext { digest, version, reason, ledger })));
        }
    }

    fn begin_shadow(&self, file: &NextFile, next: &Arc<Plugin>) -> Option<NextVersion> {
        let over = self.phases.stop.child_token();
        let configured = prepare::configure(&self.host, &self.supplies, next, &over)?.configured;
        let ledger = Arc::<ShadowLedger>::default();
        let promotion = promote_when_due(self.host.clone(), next.clone(), file.path.clone(), ledger.clone());
        let (panics, until) = (self.host.panics.clone(), over.clone());
        tokio::spawn(async move { until.run_until_cancelled(caught("promotion", &panics, promotion)).await });
        let (share, live) = (self.supplies.fair.share(EQUAL_WEIGHT), self.supplies.live.for_another());
        Some(NextVersion::new(
            next.clone(),
            configured,
            share,
            ReadingPort::new(Arc::new(live)),
            ledger,
            over.drop_guard(),
        ))
    }
}

/// Why `next` cannot be called with the caches of `current`.
fn cannot_be_shadowed(current: &Plugin, next: &Plugin) -> Option<String> {
    if current.entry() != next.entry() {
        return Some("cannot be shadowed: of the two, one reconciles and the other composes".to_owned());
    }
    let [of_current, of_next] = [current, next].map(|plugin| &plugin.manifest().controllers);
    for controller in of_next {
        let Some(same) = of_current.iter().find(|it| it.name == controller.name) else {
            return Some(format!("cannot be shadowed: the current version has no controller {}", controller.name));
        };
        for (field, agrees) in [
            ("primary", same.primary == controller.primary),
            ("owns", same.owns == controller.owns),
            ("watches", same.watches == controller.watches),
            ("options.finalizer", same.options.finalizer == controller.options.finalizer),
        ] {
            if !agrees {
                let name = &controller.name;
                return Some(format!(
                    "cannot be shadowed: it watches other objects than the current version, or watches them \
                     differently ({field} of the controller {name})"
                ));
            }
        }
    }
    let lacks = of_current.iter().find(|it| !of_next.iter().any(|next| next.name == it.name));
    lacks.map(|controller| format!("cannot be shadowed: it has no controller {}", controller.name))
}

/// Promotes `next`, whose file is `path`, when its policy says so.
async fn promote_when_due(host: Arc<Host>, next: Arc<Plugin>, path: PathBuf, ledger: Arc<ShadowLedger>) {
    let plugin = next.name().clone();
    let mut changes = host.policies.changes();
    loop {
        // A read-only host changes no files either.
        let after = host.policies.promote_after(&plugin).filter(|_| !host.read_only);
        ledger.is_promoted_after(after.map(|after| (after.calls, after.time)));
        let due = async {
            match after {
                Some(after) => ledger.agrees(after.calls, after.time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = changes.next() => continue,
            () = due => {}
        }
        let (directory, name, digest) =
            (path.parent().unwrap_or(Path::new(".")).to_owned(), plugin.clone(), next.digest().clone());
        let promoting = move || rollout::promote(&directory, &name, Some(&digest));
        let problem = match windlass_world::spawn_blocking(promoting).await {
            Ok(Ok(_)) => {
                tracing::info!(%plugin, digest = next.short_digest(), "the next version has agreed for long enough: it is promoted");
                return;
            }
            Ok(Err(error)) => explained(&error),
            Err(error) => error.to_string(),
        };
        if ledger.is_not_promoted(&problem) {
            tracing::error!(%plugin, digest = next.short_digest(), problem, "the next version is due and cannot be promoted: the current one continues");
        }
        drop(tokio::time::timeout(PROMOTE_RETRY_DELAY, changes.next()).await);
    }
}

#[cfg(test)]
mod tests;
