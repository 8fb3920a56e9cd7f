//! Remembers which controllers have worked in this process. An older cache may not show yet what their calls have
//! written and seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The names of the controllers of each plugin that have been at work. They stay after a plugin is unloaded, and after
/// the configuration no longer names a controller's kind: both may come back while the caches from before still exist.
#[derive(Debug, Default)]
pub(crate) struct EarlierRounds(Mutex<BTreeMap<String, BTreeSet<String>>>);

impl EarlierRounds {
    /// Records that the controller is at work.
    pub(crate) fn note(&self, plugin: &str, controller: &str) {
        let mut plugins = self.lock();
        if !plugins.get(plugin).is_some_and(|controllers| controllers.contains(controller)) {
            plugins.entry(plugin.to_owned()).or_default().insert(controller.to_owned());
        }
    }

    /// Whether the controller is or has been at work in this process.
    pub(crate) fn has(&self, plugin: &str, controller: &str) -> bool {
        self.lock().get(plugin).is_some_and(|controllers| controllers.contains(controller))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
