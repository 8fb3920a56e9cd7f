//! Publishes rejections and pardons to other replicas. Failed attempts are repeated for as long as the host lives, and
//! do not delay other plugins' verdicts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use windlass_core::retry::{Retries, RetryPolicy};

use super::tell;
use crate::host::Host;
use crate::rejections::{RejectionVerdict, RejectionVerdicts};
use crate::supervise::caught;

/// The pauses between attempts. Nothing waits for them. Once the increasing pauses are used up, the verdict is late,
/// and that is logged.
const TELL_RETRIES: RetryPolicy =
    RetryPolicy::doubling(Duration::from_secs(1), Duration::from_mins(2)).factor(5.0).steps(5);

/// A verdict of this replica about a plugin.
pub(super) type VerdictNews = (Arc<str>, RejectionVerdict);

/// The verdicts that other replicas do not know yet, by plugin.
#[derive(Debug, Default)]
struct UntoldVerdicts(BTreeMap<Arc<str>, PendingVerdicts>);

/// The unpublished verdicts about one plugin.
#[derive(Debug)]
struct PendingVerdicts {
    verdicts: RejectionVerdicts,
    retries: Retries,
    /// The time of the next attempt.
    due: Instant,
}

/// Publishes all verdicts that it receives, until the channel ends.
pub(super) async fn tell(host: Arc<Host>, mut news: mpsc::UnboundedReceiver<VerdictNews>) {
    let mut untold = UntoldVerdicts::default();
    loop {
        tokio::select! {
            biased;
            came = news.recv() => match came {
                Some((plugin, verdict)) => untold.put(plugin, verdict),
                // Other replicas find out about unpublished failures by themselves.
                None => return,
            },
            (plugin, telling) = untold.due() => {
                let told = caught("rejected", &host.panics, host.leadership.publish(&plugin, &telling.verdicts)).await;
                // A panic was logged already.
                match told.unwrap_or_else(|| Err("the host's own task panicked".to_owned())) {
                    Ok(()) => tell::replicas_know(&host, &plugin, telling.is_late()),
                    Err(error) => {
                        let late = untold.failed(plugin.clone(), telling);
                        tell::replicas_do_not_know(&host, &plugin, &error, late);
                    }
                }
            }
        }
    }
}

impl PendingVerdicts {
    /// Whether it has failed for so long that this should be logged.
    fn is_late(&self) -> bool {
        self.retries.are_over()
    }
}

impl UntoldVerdicts {
    /// Adds a verdict that is newer than others about `plugin`, to be published with them.
    fn put(&mut self, plugin: Arc<str>, verdict: RejectionVerdict) {
        let now = Instant::now();
        let new =
            || PendingVerdicts { verdicts: RejectionVerdicts::default(), retries: TELL_RETRIES.begin(), due: now };
        let telling = self.0.entry(plugin).or_insert_with(new);
        telling.verdicts.add(verdict);
        telling.due = now;
    }

    /// The next verdicts, once they are due. Cancel-safe.
    async fn due(&mut self) -> (Arc<str>, PendingVerdicts) {
        let next = self.0.iter().min_by_key(|(_, telling)| telling.due);
        let Some((plugin, due)) = next.map(|(plugin, telling)| (plugin.clone(), telling.due)) else {
            return std::future::pending().await;
        };
        sleep_until(due).await;
        let telling = self.0.remove(&plugin).expect("it is the one that was found");
        (plugin, telling)
    }

    /// Records a failed attempt, which is repeated. Returns whether it has just become late.
    fn failed(&mut self, plugin: Arc<str>, mut telling: PendingVerdicts) -> bool {
        let was_late = telling.is_late();
        telling.due = Instant::now() + telling.retries.pause(windlass_world::random());
        let is_late = telling.is_late();
        self.0.insert(plugin, telling);
        is_late && !was_late
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::rejections::JudgedAt;

    fn pardoned(digest: &str) -> RejectionVerdict {
        RejectionVerdict::Pardoned { digest: digest.into(), at: JudgedAt::default() }
    }

    fn of(verdicts: &[&str]) -> RejectionVerdicts {
        let mut all = RejectionVerdicts::default();
        for digest in verdicts {
            all.add(pardoned(digest));
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn verdicts_about_one_plugin_are_sent_together() {
        let mut untold = UntoldVerdicts::default();
        for (plugin, digest) in [("a", "1"), ("b", "2"), ("a", "3")] {
            untold.put(plugin.into(), pardoned(digest));
        }
        let mut told = [untold.due().await, untold.due().await].map(|(plugin, it)| (plugin, it.verdicts));
        told.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(told, [("a".into(), of(&["1", "3"])), ("b".into(), of(&["2"]))]);
        assert!(untold.due().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn unsent_verdicts_are_retried_forever_without_blocking_and_logged_once() {
        let (mut untold, began) = (UntoldVerdicts::default(), Instant::now());
        untold.put("a".into(), pardoned("1"));
        let (plugin, failed) = untold.due().await;
        assert!(!untold.failed(plugin, failed));
        untold.put("b".into(), pardoned("2"));
        assert_eq!((&*untold.due().await.0, began.elapsed()), ("b", Duration::ZERO));
        let mut said = vec![];
        for attempt in 2..=100 {
            let (plugin, failed) = untold.due().await;
            if untold.failed(plugin, failed) {
                said.push((attempt, began.elapsed().as_secs()));
            }
        }
        assert_eq!(said, [(5, 151)]);
        assert_eq!(began.elapsed().as_secs(), 151 + 95 * 120, "no more often than that");
        // A newer verdict does not wait for the pause, and older ones are not lost.
        untold.put("a".into(), pardoned("3"));
        let (_, telling) = untold.due().now_or_never().expect("at once");
        assert_eq!((&telling.verdicts, telling.is_late()), (&of(&["1", "3"]), true));
    }
}
