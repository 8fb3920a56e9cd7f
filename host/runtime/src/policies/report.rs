//! Shows policies to the operator, in the log and in each plugin's status.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use windlass_wasm::Plugin;

use super::read::{Taken, UnusablePolicy};
use super::{Policies, SUFFIX, Standing};
use crate::observe::status::{PluginPhase, PluginStatus, Status};
use windlass_policy::asks::in_one_line;

impl Policies {
    /// Keeps `status` up to date about which plugins wait for a policy or are paused, for ever.
    pub(crate) async fn show(&self, status: &Status) {
        let mut pauses = self.pauses.subscribe();
        loop {
            pauses.mark_unchanged();
            for plugin in status.plugins() {
                self.show_now(&plugin);
            }
            if pauses.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Shows in the `plugin`'s status whether it waits for a policy or is paused.
    pub(crate) fn show_now(&self, plugin: &PluginStatus) {
        plugin.follows_policy(|| {
            let is_there = self.plugins().contains_key(&*plugin.name);
            is_there.then(|| self.phase_of(&plugin.name))
        });
    }

    /// The phase that the policies give the `plugin` now, and why.
    fn phase_of(&self, plugin: &str) -> (PluginPhase, Option<String>) {
        match self.standing(plugin) {
            Standing::Waiting(why) => {
                let none = || "no policy grants it anything: `windlass grant` writes one for review".to_owned();
                (PluginPhase::WaitingForPolicy, Some(why.unwrap_or_else(none)))
            }
            Standing::Granted(_) if self.pauses.borrow().get(plugin) == Some(&true) => {
                (PluginPhase::Paused, Some("by its policy".to_owned()))
            }
            Standing::Granted(_) => (PluginPhase::Started, None),
        }
    }

    /// Logs one line about the rights that a plugin asks for, and how the operator grants them.
    pub(super) fn log_standing(&self, plugin: &Plugin) {
        let Standing::Waiting(broken) = self.standing(plugin.name()) else { return };
        let file = self.settings.directory.join(format!("{}{SUFFIX}", plugin.name()));
        let (file, path) = (file.display(), plugin.path().display());
        let asks = in_one_line(plugin.manifest());
        match broken {
            None => tracing::warn!(
                plugin = %plugin.name(), asks,
                "the plugin waits: no policy grants it anything. To write one for review: windlass grant {path} \
                 --output {file}"
            ),
            Some(error) => tracing::error!(
                plugin = %plugin.name(), asks, error, "the plugin waits: its policy cannot be used"
            ),
        }
    }

    /// Warns of `policies` without a plugin: their files may be misnamed.
    pub(super) fn log_orphans(&self, policies: impl IntoIterator<Item = String>) {
        for plugin in self.orphans(policies) {
            let (file, why) = (format!("{plugin}{SUFFIX}"), self.why_orphaned(&plugin));
            tracing::warn!(file, "{why}");
        }
    }

    /// Why no plugin uses the policy of `plugin`.
    pub(super) fn why_orphaned(&self, plugin: &str) -> String {
        match self.refusals().get(plugin) {
            Some(why) => format!("the policy's plugin is there, but its file is not loaded: {why}"),
            None => format!("a policy for a plugin that does not exist: {plugin}.wasm"),
        }
    }

    /// The policies without a plugin, among `policies`. Empty until all plugins are known.
    pub(super) fn orphans(&self, policies: impl IntoIterator<Item = String>) -> Vec<String> {
        let plugins = self.plugins();
        let knows_all = self.knows_all.load(Ordering::Relaxed);
        policies.into_iter().filter(|plugin| knows_all && !plugins.contains_key(plugin)).collect()
    }
}

/// Logs the outcome of reading `plugin`'s policy.
pub(super) fn log_taken(plugin: &str, file: &Path, taken: &Taken) {
    let file = file.display();
    match taken {
        Taken::InForce(rules) => tracing::info!(plugin, %file, rules, "policy in force"),
        Taken::Gone => tracing::warn!(plugin, %file, "the policy is gone, so the plugin loses all that it granted"),
        Taken::Kept(UnusablePolicy { error, .. }) => {
            tracing::error!(plugin, error, "the policy cannot be used: the former one stays in force");
        }
        Taken::Broken(UnusablePolicy { error, .. }) => {
            tracing::error!(plugin, error, "the policy cannot be used: the plugin waits");
        }
    }
}

/// Logs which plugins are paused `now` and were not `before`, and the reverse.
pub(super) fn log_pauses(before: &BTreeMap<String, bool>, now: &BTreeMap<String, bool>) {
    let of = |pauses: &BTreeMap<String, bool>, plugin: &str| pauses.get(plugin).copied().unwrap_or_default();
    for plugin in before.keys().chain(now.keys().filter(|plugin| !before.contains_key(*plugin))) {
        match (of(before, plugin), of(now, plugin)) {
            (false, true) => tracing::warn!(plugin, "paused by its policy: it is not called until the pause is lifted"),
            (true, false) => tracing::info!(plugin, "no longer paused: it continues where it was"),
            _ => {}
        }
    }
}
