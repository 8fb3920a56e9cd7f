//! Watches that lag: a plugin's writes come late to its caches, so that keys are held.

use std::ops::RangeInclusive;
use std::time::Duration;

use windlass_proxy::{Fault, Match, Proxy, RuleHandle};

/// The resources of children. If their watches lag, a key is held that is edited twice.
pub(crate) const CHILDREN: &[&str] = &["deployments.apps", "services.", "pods."];
/// Those of primaries. If their watches lag, a key is held whose status was written.
const PRIMARIES: &[&str] = &["webapps.apps.kubedojo.io", "podsets.examples.windlass.dev"];

/// The spells in which watches lag.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    rules: Vec<RuleHandle>,
    turns: usize,
    late_events: u64,
}

impl Lag {
    /// The resources of children and of primaries, by turns.
    pub(crate) fn by_turns(&mut self) -> &'static [&'static str] {
        self.turns += 1;
        if self.turns.is_multiple_of(2) { PRIMARIES } else { CHILDREN }
    }

    /// Watches of `resources` lag, and no others.
    pub(crate) fn begin(&mut self, resources: &[&str], by: &RangeInclusive<Duration>, way: &Proxy) {
        self.end();
        let lagging = |resource: &&str| way.add(Fault::DelayEvents(by.clone()).on(Match::watches(resource)));
        self.rules = resources.iter().map(lagging).collect();
    }

    /// No watch lags any more, once what is late has come.
    pub(crate) fn end(&mut self) {
        self.late_events += self.rules.drain(..).map(|rule| rule.fired()).sum::<u64>();
    }

    /// How many events came late, of those whose lag is over.
    pub(crate) fn late_events(&self) -> u64 {
        self.late_events
    }
}
