//! Waits until the world is quiet, and notices a plugin that does not stop writing.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Round, WAIT_LOOK_INTERVAL};

/// The world counts as quiet after this time without a change.
pub(super) const QUIET_TIME: Duration = Duration::from_mins(1);
/// Changes with shorter pauses between them form one burst. A plugin that acts once a minute pauses longer than this. A
/// plugin that writes every 15 or 30 s, for example the time of its last check, does not.
const BURST_PAUSE: Duration = Duration::from_secs(40);
/// If a burst has more changes, the plugin counts as one that keeps writing.
const BURST_CHANGES_MAX: u64 = 200;
/// If a burst lasts longer, the plugin counts as one that keeps writing.
const BURST_DURATION_MAX: Duration = Duration::from_mins(5);

/// The number of changes over time, and the latest burst.
struct Bursts {
    changes: u64,
    /// The time of the last change.
    last: Duration,
    /// The time at which the burst began, and the number of changes before it.
    began: (Duration, u64),
}

impl Bursts {
    fn new(changes: u64) -> Bursts {
        Bursts { changes, last: Duration::ZERO, began: (Duration::ZERO, changes) }
    }

    fn look(&mut self, at: Duration, changes: u64) {
        if changes == self.changes {
            return;
        }
        if self.pause(at) >= BURST_PAUSE {
            self.began = (at, self.changes);
        }
        (self.changes, self.last) = (changes, at);
    }

    /// A new burst begins.
    fn begin(&mut self, at: Duration) {
        (self.last, self.began) = (at, (at, self.changes));
    }

    /// The time since the last change.
    fn pause(&self, at: Duration) -> Duration {
        at.saturating_sub(self.last)
    }

    /// A description of a burst that does not end. `None` if it may still end.
    fn endless(&self) -> Option<String> {
        let (began, before) = self.began;
        let (count, lasts) = (self.changes - before, self.last.saturating_sub(began));
        let is_endless = count > BURST_CHANGES_MAX || lasts > BURST_DURATION_MAX;
        is_endless.then(|| format!("{count} changes in {lasts:?} without an end"))
    }
}

impl Round<'_> {
    /// Waits until nothing changes any more and the last call of each object has succeeded. After `most`, a pause
    /// between two bursts is enough, because the plugin may act on a schedule. If a call has failed, this ends only
    /// after twice that time, because a fault may strike just before `most`. Records it if the changes do not end.
    pub(super) async fn settle(&mut self, most: Duration) {
        let begun = Instant::now();
        let mut bursts = Bursts::new(self.changes());
        loop {
            sleep(WAIT_LOOK_INTERVAL).await;
            let at = begun.elapsed();
            bursts.look(at, self.changes());
            // A dead process makes no entries, and the next process has not started its work, so this is no pause.
            if self.record.is_muted() {
                bursts.begin(at);
            }
            let pause = bursts.pause(at);
            if pause >= BURST_PAUSE {
                let succeeds = self.record.failing().is_empty();
                if at >= most * 2 || succeeds && (at >= most || pause >= QUIET_TIME) {
                    return;
                }
            }
            if let Some(endless) = bursts.endless() {
                if !self.may_write_on {
                    self.noisy.get_or_insert(endless);
                }
                return;
            }
        }
    }

    /// The number of changes, without Kubernetes Events and the host's leases.
    pub(super) fn changes(&self) -> u64 {
        self.server.resource_version().saturating_sub(self.record.beside())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks once a second, for ten minutes, at the number of changes that `changes` returns for that second.
    fn endless(changes: impl Fn(u64) -> u64) -> bool {
        let mut bursts = Bursts::new(changes(0));
        (1..=600).any(|second| {
            bursts.look(Duration::from_secs(second), changes(second));
            bursts.endless().is_some()
        })
    }

    #[test]
    fn a_schedule_has_an_end_each_time_and_a_hot_loop_has_none() {
        assert!(!endless(|second| second / 60 * 50), "50 changes each minute");
        assert!(!endless(|second| second / 60 * 15 + (second % 60).min(15)), "15 changes over 15 s of each minute");
        assert!(endless(|second| second / 15), "the time of its last look every 15 s");
        assert!(endless(|second| second / 30), "the same every 30 s");
        assert!(endless(|second| second), "one change each second");
        assert!(endless(|second| second / 9), "one change every nine seconds");
        assert!(endless(|second| second.min(1) * 201), "many changes at once");
        assert!(!endless(|second| second.min(200)), "a long burst that ends");
    }
}
