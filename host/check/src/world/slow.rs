//! Faults that take hours: outages that end, and jumps of the clock.

use std::time::Duration;

use tokio::time::sleep;
use windlass_apiserver::Reactors;

use super::clock::HostClock;
use super::strikes::FaultRules;
use super::{END_QUIET_TIMEOUT, Round, STEP_QUIET_TIMEOUT};
use crate::fault::{Fault, SetClock};
use crate::trace::Happening;

/// The slow faults of one run, each with its index in the run's list of faults.
pub(super) struct SlowFaults {
    clock: HostClock,
    sets: Vec<(usize, SetClock)>,
    outages: Vec<Outage>,
}

/// A rule that ends after some time.
struct Outage {
    fault: usize,
    rule: String,
    lasts: Duration,
}

impl SlowFaults {
    /// Picks the slow faults from `faults`. `rules` has the rules of all faults.
    pub(super) fn of(faults: &[Fault], rules: &FaultRules, clock: HostClock) -> SlowFaults {
        let sets = faults.iter().enumerate().filter_map(|(place, fault)| Some((place, fault.clock?)));
        let outages = rules.names().filter_map(|(fault, rule)| {
            let lasts = Duration::from_secs(faults.get(fault)?.lasts_seconds?);
            Some(Outage { fault, rule: rule.to_owned(), lasts })
        });
        SlowFaults { clock, sets: sets.collect(), outages: outages.collect() }
    }

    /// The host's time of day, since 1970.
    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// The outages that have begun.
    fn begun(&self, reactors: &Reactors) -> Vec<&Outage> {
        let counts = reactors.counts();
        let has_begun = |rule: &str| counts.iter().any(|count| count.name == rule && count.struck > 0);
        self.outages.iter().filter(|outage| has_begun(&outage.rule)).collect()
    }
}

impl Round<'_> {
    /// Lets the slow faults occur that are due when the world is quiet after this step.
    pub(super) async fn endure(&mut self, step: usize) {
        self.outlast().await;
        for (fault, set) in self.slow.sets.iter().filter(|(_, set)| set.after_step == step) {
            self.slow.clock.set(set.by);
            self.record.note(Happening::Stranger(set.description()));
            self.rules.has_struck(*fault);
        }
    }

    /// If an outage has begun, waits for its end and for the plugin's reaction. Returns whether one had begun.
    pub(super) async fn outlast(&mut self) -> bool {
        let reactors = self.server.reactors();
        let begun = self.slow.begun(&reactors);
        let Some(lasts) = begun.iter().map(|outage| outage.lasts).max() else { return false };
        for outage in begun {
            self.rules.has_struck(outage.fault);
        }
        sleep(lasts).await;
        for Outage { rule, .. } in self.slow.outages.drain(..) {
            // This also cancels outages that have not begun.
            let _ = reactors.remove(&rule);
        }
        self.record.note(Happening::Stranger("the outage is over".to_owned()));
        // Settling is not enough here: it waits for failed calls, but not for CRDs or for calls that the plugin
        // requested for later.
        sleep(END_QUIET_TIMEOUT).await;
        self.settle(STEP_QUIET_TIMEOUT).await;
        true
    }
}
