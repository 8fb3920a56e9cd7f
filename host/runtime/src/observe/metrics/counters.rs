//! Counters of plugins, which are removed with their plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::MetricLabels;

/// A family of counters with the label `plugin`. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    family: Family<MetricLabels, Counter>,
    /// The labels of each plugin, because the family itself cannot be queried.
    of_plugins: Arc<Mutex<BTreeMap<String, BTreeSet<MetricLabels>>>>,
}

impl Counters {
    /// The counter with these labels, shown from now on.
    pub(super) fn of(&self, labels: MetricLabels) -> Counter {
        let counter = self.family.get_or_create_owned(&labels);
        if let Some((_, plugin)) = labels.iter().find(|(name, _)| *name == "plugin") {
            let mut of_plugins = self.of_plugins();
            if let Some(known) = of_plugins.get_mut(plugin) {
                known.insert(labels);
            } else {
                of_plugins.insert(plugin.clone(), BTreeSet::from([labels]));
            }
        }
        counter
    }

    /// The sum of the counters of `plugin` with this label.
    pub(super) fn sum(&self, plugin: &str, (name, value): (&str, &str)) -> u64 {
        let of_plugins = self.of_plugins();
        let own = of_plugins.get(plugin).into_iter().flatten();
        let meant = own.filter(|labels| labels.iter().any(|(label, it)| *label == name && it == value));
        meant.filter_map(|labels| Some(self.family.get(labels)?.get())).sum()
    }

    /// The counters of `plugin` with this label, added up by the values of the label `by`.
    pub(super) fn by(&self, plugin: &str, (name, value): (&str, &str), by: &str) -> BTreeMap<String, u64> {
        let of_plugins = self.of_plugins();
        let own = of_plugins.get(plugin).into_iter().flatten();
        let meant = own.filter(|labels| labels.iter().any(|(label, it)| *label == name && it == value));
        let mut sums = BTreeMap::new();
        for labels in meant {
            let key = labels.iter().find(|(label, _)| *label == by).map(|(_, value)| value.clone());
            if let (Some(key), Some(counter)) = (key, self.family.get(labels)) {
                *sums.entry(key).or_default() += counter.get();
            }
        }
        sums
    }

    /// The values of the label `name` in the counters of `plugin`.
    pub(super) fn values(&self, plugin: &str, name: &str) -> BTreeSet<String> {
        let of_plugins = self.of_plugins();
        let labels = of_plugins.get(plugin).into_iter().flatten().flatten();
        labels.filter(|(label, _)| *label == name).map(|(_, value)| value.clone()).collect()
    }

    /// Removes the counters of `plugin` with this label.
    pub(super) fn forget_those(&self, plugin: &str, (name, value): (&str, &str)) {
        let mut of_plugins = self.of_plugins();
        let Some(own) = of_plugins.get_mut(plugin) else { return };
        own.retain(|labels| {
            let is_meant = labels.iter().any(|(label, it)| *label == name && it == value);
            if is_meant {
                self.family.remove(labels);
            }
            !is_meant
        });
    }

    /// Removes all counters of `plugin`.
    pub(super) fn forget(&self, plugin: &str) {
        for labels in self.of_plugins().remove(plugin).unwrap_or_default() {
            self.family.remove(&labels);
        }
    }

    /// The family, for registration.
    pub(super) fn family(&self) -> Family<MetricLabels, Counter> {
        self.family.clone()
    }

    fn of_plugins(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<MetricLabels>>> {
        self.of_plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
