//! Counts requests to hooks.

use std::collections::BTreeMap;

use super::counters::Counters;

/// How requests to hooks ended, by plugin, hook and result.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookTotals(pub(super) Counters);

impl HookTotals {
    /// Counts a request. `plugin` and `hook` are empty if no such hook is open.
    pub(crate) fn count(&self, plugin: &str, hook: &str, result: &'static str) {
        let labels = [("plugin", plugin), ("hook", hook), ("result", result)];
        self.0.of(labels.map(|(name, value)| (name, value.to_owned())).into()).inc();
    }

    /// The number of requests to `hook` of `plugin`, by result.
    pub(crate) fn of(&self, plugin: &str, hook: &str) -> BTreeMap<String, u64> {
        self.0.by(plugin, ("hook", hook), "result")
    }
}
