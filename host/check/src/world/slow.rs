//! Faults that take hours: outages, which end, and a clock that is set.

use std::time::Duration;

use tokio::time::sleep;
use windlass_apiserver::Reactors;

use super::clock::HostClock;
use super::{AFTER_STEP, AT_END, Round};
use crate::fault::{Fault, SetClock};
use crate::trace::Happening;

/// Those of one run.
pub(super) struct SlowFaults {
    clock: HostClock,
    sets: Vec<SetClock>,
    /// The rules of outages, each with how long it lasts.
    outages: Vec<(String, Duration)>,
}

impl SlowFaults {
    /// Of these `faults`, whose rules have the names that `named` gives them by their place.
    pub(super) fn of(faults: &[Fault], clock: HostClock, named: impl Fn(usize, &str) -> String) -> SlowFaults {
        let rules = faults.iter().flat_map(|fault| fault.rules.iter().map(move |rule| (rule, fault.lasts_seconds)));
        let outages = rules
            .enumerate()
            .filter_map(|(place, (rule, lasts))| Some((named(place, &rule.name), Duration::from_secs(lasts?))));
        SlowFaults { clock, sets: faults.iter().filter_map(|fault| fault.clock).collect(), outages: outages.collect() }
    }

    /// How long the outages last that have begun. Their rules end with that. None: none has.
    fn begun(&self, reactors: &Reactors) -> Option<Duration> {
        let counts = reactors.counts();
        let has_acted = |rule: &str| counts.iter().any(|count| count.name == rule && count.acted > 0);
        self.outages.iter().filter(|(rule, _)| has_acted(rule)).map(|(_, lasts)| *lasts).max()
    }
}

impl Round<'_> {
    /// Has happen what of them is due when all is quiet after this step.
    pub(super) async fn endure(&mut self, step: usize) {
        self.outlast().await;
        for set in self.slow.sets.iter().filter(|set| set.after_step == step) {
            self.slow.clock.set(set.by);
            self.record.note(Happening::Stranger(set.told()));
        }
    }

    /// Waits for the end of an outage that has begun, and for what the plugin then does. Answers whether there was one.
    pub(super) async fn outlast(&mut self) -> bool {
        let reactors = self.server.reactors();
        let Some(lasts) = self.slow.begun(&reactors) else { return false };
        sleep(lasts).await;
        for (rule, _) in self.slow.outages.drain(..) {
            // An outage that has not begun is over, too.
            let _ = reactors.remove(&rule);
        }
        self.record.note(Happening::Stranger("the outage is over".to_owned()));
        // Not all that waits is a call that has failed: so do definitions, and plugins that ask to be called again.
        sleep(AT_END).await;
        self.settle(AFTER_STEP).await;
        true
    }
}
