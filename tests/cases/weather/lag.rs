//! Watches that lag: a plugin's writes reach its caches late, so keys are held.

use std::ops::RangeInclusive;
use std::time::Duration;

use windlass_proxy::{Fault, Match, Proxy, RuleHandle};

/// The resources of children. While their watches lag, a key that is edited twice is held.
pub(crate) const CHILDREN: &[&str] = &["deployments.apps", "services.", "pods."];
/// The resources of primaries. While their watches lag, a key whose status was written is held.
const PRIMARIES: &[&str] = &["webapps.apps.kubedojo.io", "podsets.examples.windlass.dev"];

/// The spells in which watches lag.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    rules: Vec<RuleHandle>,
    turns: usize,
    late_events: u64,
}

impl Lag {
    /// The resources whose watches lag next: the children's and the primaries' in turn.
    pub(crate) fn by_turns(&mut self) -> &'static [&'static str] {
        self.turns += 1;
        if self.turns.is_multiple_of(2) { PRIMARIES } else { CHILDREN }
    }

    /// Makes the watches of `resources` lag, and ends the lag of all others.
    pub(crate) fn begin(&mut self, resources: &[&str], by: &RangeInclusive<Duration>, way: &Proxy) {
        self.end();
        let lagging = |resource: &&str| way.add(Fault::DelayEvents(by.clone()).on(Match::watches(resource)));
        self.rules = resources.iter().map(lagging).collect();
    }

    /// Ends the lag, once the delayed events have arrived.
    pub(crate) fn end(&mut self) {
        self.late_events += self.rules.drain(..).map(|rule| rule.fired()).sum::<u64>();
    }

    /// The number of delayed events in the spells that are over.
    pub(crate) fn late_events(&self) -> u64 {
        self.late_events
    }
}
