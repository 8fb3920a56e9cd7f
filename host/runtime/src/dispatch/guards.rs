//! Keeps a plugin from harming other plugins, over all its controllers, generations and calls: its budget of writes,
//! its budget of Kubernetes Events, and counts of its writes by object.

mod limited_events;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use windlass_core::call::ports::Events;
use windlass_core::clock::{Clock, Moment};
use windlass_core::object::ObjectRef;
use windlass_core::object::compact::Version;
use windlass_core::queue::hot_loop::LoopDetector;
use windlass_kube::{WriteBudget, WriteRate};

use crate::clock::SystemClock;
use crate::dispatch::guards::limited_events::EventBudgets;
use crate::observe::metrics::counters;

/// The number of writes of one object within a minute that make a hot loop, by default. The obvious 60 would be too
/// few: the status of a `ReplicaSet` in a large rollout changes more often than once a second (ADR 14).
const HOT_LOOP_WRITES_DEFAULT: u32 = 300;

/// The limits of a plugin over all its calls.
#[derive(Clone, Copy, Debug)]
pub struct GuardSettings {
    /// How often it may write.
    pub writes: WriteRate,
    /// The number of writes of one object within a minute that make a hot loop. 0 for no limit.
    pub hot_loop_writes: u32,
}

impl Default for GuardSettings {
    fn default() -> Self {
        Self { writes: WriteRate::default(), hot_loop_writes: HOT_LOOP_WRITES_DEFAULT }
    }
}

/// The guards of all plugins. Clones share them.
#[derive(Clone)]
pub(crate) struct Guards(Arc<GuardsInner>);

struct GuardsInner {
    settings: GuardSettings,
    clock: SystemClock,
    plugins: Mutex<BTreeMap<Arc<str>, PluginGuards>>,
}

/// The guards of one plugin.
struct PluginGuards {
    writes: WriteBudget,
    tally: LoopDetector<ObjectRef>,
    events: EventBudgets,
}

impl fmt::Debug for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guards").field(&self.0.settings).finish()
    }
}

impl Guards {
    pub(crate) fn new(settings: GuardSettings) -> Self {
        Self(Arc::new(GuardsInner { settings, clock: SystemClock::new(), plugins: Mutex::default() }))
    }

    /// The write budget of `plugin`.
    pub(crate) fn writes(&self, plugin: &Arc<str>) -> WriteBudget {
        self.with(plugin, |kept, _| kept.writes.clone())
    }

    /// `events` within its plugin's budget. Events beyond the budget are combined by reason.
    pub(crate) fn limited(&self, events: Arc<dyn Events>) -> Arc<dyn Events> {
        limited_events::limited(events, self.clone())
    }

    /// Calls `look` with the Event budgets of `plugin`.
    fn with_events<T>(&self, plugin: &Arc<str>, look: impl FnOnce(&mut EventBudgets, Moment) -> T) -> T {
        self.with(plugin, |kept, now| look(&mut kept.events, now))
    }

    /// Records that `plugin` wrote `object`. True if that makes a hot loop.
    pub(crate) fn wrote(&self, plugin: &Arc<str>, object: &ObjectRef, version: Option<&Version>) -> bool {
        self.with(plugin, |kept, now| kept.tally.wrote(object, version, now))
    }

    /// The number of writes that make a hot loop.
    pub(crate) fn hot_loop_writes(&self) -> u32 {
        self.0.settings.hot_loop_writes
    }

    /// The other plugins that write `object`.
    pub(crate) fn others(&self, plugin: &str, object: &ObjectRef) -> Vec<String> {
        let now = self.0.clock.now();
        let plugins = self.plugins();
        let others = plugins.iter().filter(|(name, kept)| &***name != plugin && kept.tally.has(object, now));
        others.map(|(name, _)| name.to_string()).collect()
    }

    /// Drops the guards of `plugin`, which has gone.
    pub(crate) fn forget(&self, plugin: &str) {
        self.plugins().remove(plugin);
    }

    fn with<T>(&self, plugin: &Arc<str>, look: impl FnOnce(&mut PluginGuards, Moment) -> T) -> T {
        let GuardSettings { writes, hot_loop_writes } = self.0.settings;
        let new = || PluginGuards {
            writes: WriteBudget::new(writes),
            tally: LoopDetector::new(hot_loop_writes),
            events: EventBudgets::default(),
        };
        look(self.plugins().entry(plugin.clone()).or_insert_with(new), self.0.clock.now())
    }

    fn plugins(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, PluginGuards>> {
        self.0.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Guards {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let labels = |plugin: &Arc<str>| vec![("plugin", plugin.to_string())];
        let plugins = self.plugins();
        let waited = plugins.iter().map(|(plugin, kept)| (labels(plugin), kept.writes.waited()));
        let help = "Writes of plugins that had to wait, because the plugin writes more often than it may";
        counters(&mut encoder, "windlass_writes_waited", help, waited)?;
        let dropped = plugins.iter().map(|(plugin, kept)| (labels(plugin), kept.events.dropped()));
        let help =
            "Kubernetes Events that were only summed up, or dropped, because their plugin emits more than it may";
        counters(&mut encoder, "windlass_events_over_budget", help, dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_core::object::{ObjectKey, ObjectKind};

    use super::*;

    pub(crate) fn guards() -> Guards {
        Guards::new(GuardSettings { writes: WriteRate::default(), hot_loop_writes: 3 })
    }

    #[tokio::test(start_paused = true)]
    async fn plugins_are_counted_by_themselves_and_know_of_each_other() {
        let (guards, [a, b]) = (guards(), [Arc::<str>::from("a"), "b".into()]);
        let object = ObjectRef {
            kind: ObjectKind::new("v1", "ConfigMap"),
            key: ObjectKey::namespaced("prod", "shop"),
            uid: None,
        };
        let found: Vec<_> = [&a, &b, &a, &b, &a, &b].map(|plugin| guards.wrote(plugin, &object, None)).into();
        assert_eq!(found, [false, false, false, false, true, true]);
        assert_eq!(guards.others("a", &object), ["b"]);
        guards.forget("b");
        assert!(guards.others("a", &object).is_empty(), "it has gone");
        assert!(!guards.wrote(&b, &object, None) && !guards.wrote(&b, &object, None), "it begins anew");
        assert_eq!(guards.others("a", &object), ["b"]);
        tokio::time::advance(Duration::from_mins(2)).await;
        assert!(guards.others("a", &object).is_empty());
    }
}
