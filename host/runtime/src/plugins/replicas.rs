//! Publishes rejections and pardons to other replicas. Failed attempts are repeated for as long as the host lives, and
//! do not delay other plugins' verdicts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use windlass_core::retry::{Retries, RetryPolicy};

use super::announce;
use crate::host::Host;
use crate::rejections::{RejectionVerdict, RejectionVerdicts};
use crate::supervise::caught;

/// The pauses between attempts. No other task waits for them. Once the increasing pauses are used up, the verdict is
/// late, and this is logged.
const PUBLISH_BACKOFF: RetryPolicy =
    RetryPolicy::doubling(Duration::from_secs(1), Duration::from_mins(2)).factor(5.0).steps(5);

/// A verdict of this replica about a plugin.
pub(super) type VerdictNews = (Arc<str>, RejectionVerdict);

/// The verdicts that other replicas do not know yet, by plugin.
#[derive(Debug, Default)]
struct UnpublishedVerdicts(BTreeMap<Arc<str>, PendingVerdicts>);

/// The unpublished verdicts about one plugin.
#[derive(Debug)]
struct PendingVerdicts {
    verdicts: RejectionVerdicts,
    retries: Retries,
    /// The time of the next attempt.
    due: Instant,
}

/// Publishes all verdicts that it receives, until the channel ends.
pub(super) async fn publish_all(host: Arc<Host>, mut news: mpsc::UnboundedReceiver<VerdictNews>) {
    let mut unpublished = UnpublishedVerdicts::default();
    loop {
        tokio::select! {
            biased;
            came = news.recv() => match came {
                Some((plugin, verdict)) => unpublished.put(plugin, verdict),
                // Other replicas find out about unpublished failures by themselves.
                None => return,
            },
            (plugin, pending) = unpublished.due() => {
                let published = caught("rejected", &host.panics, host.leadership.publish(&plugin, &pending.verdicts)).await;
                // A panic was logged already.
                match published.unwrap_or_else(|| Err("the host's own task panicked".to_owned())) {
                    Ok(()) => announce::replicas_know(&host, &plugin, pending.is_late()),
                    Err(error) => {
                        let late = unpublished.failed(plugin.clone(), pending);
                        announce::replicas_do_not_know(&host, &plugin, &error, late);
                    }
                }
            }
        }
    }
}

impl PendingVerdicts {
    /// Whether attempts have failed for so long that this should be logged.
    fn is_late(&self) -> bool {
        self.retries.are_over()
    }
}

impl UnpublishedVerdicts {
    /// Adds a verdict that is newer than the other verdicts about `plugin`. They are published together.
    fn put(&mut self, plugin: Arc<str>, verdict: RejectionVerdict) {
        let now = Instant::now();
        let new =
            || PendingVerdicts { verdicts: RejectionVerdicts::default(), retries: PUBLISH_BACKOFF.begin(), due: now };
        let pending = self.0.entry(plugin).or_insert_with(new);
        pending.verdicts.add(verdict);
        pending.due = now;
    }

    /// The next verdicts, once they are due. Cancel-safe.
    async fn due(&mut self) -> (Arc<str>, PendingVerdicts) {
        let next = self.0.iter().min_by_key(|(_, pending)| pending.due);
        let Some((plugin, due)) = next.map(|(plugin, pending)| (plugin.clone(), pending.due)) else {
            return std::future::pending().await;
        };
        sleep_until(due).await;
        let pending = self.0.remove(&plugin).expect("it is the one that was found");
        (plugin, pending)
    }

    /// Records a failed attempt, which is repeated. Returns whether the verdicts have just become late.
    fn failed(&mut self, plugin: Arc<str>, mut pending: PendingVerdicts) -> bool {
        let was_late = pending.is_late();
        pending.due = Instant::now() + pending.retries.pause(windlass_world::random());
        let is_late = pending.is_late();
        self.0.insert(plugin, pending);
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
        let mut unpublished = UnpublishedVerdicts::default();
        for (plugin, digest) in [("a", "1"), ("b", "2"), ("a", "3")] {
            unpublished.put(plugin.into(), pardoned(digest));
        }
        let mut due = [unpublished.due().await, unpublished.due().await].map(|(plugin, it)| (plugin, it.verdicts));
        due.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(due, [("a".into(), of(&["1", "3"])), ("b".into(), of(&["2"]))]);
        assert!(unpublished.due().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn unsent_verdicts_are_retried_forever_without_blocking_and_logged_once() {
        let (mut unpublished, began) = (UnpublishedVerdicts::default(), Instant::now());
        unpublished.put("a".into(), pardoned("1"));
        let (plugin, failed) = unpublished.due().await;
        assert!(!unpublished.failed(plugin, failed));
        unpublished.put("b".into(), pardoned("2"));
        assert_eq!((&*unpublished.due().await.0, began.elapsed()), ("b", Duration::ZERO));
        let mut late = vec![];
        for attempt in 2..=100 {
            let (plugin, failed) = unpublished.due().await;
            if unpublished.failed(plugin, failed) {
                late.push((attempt, began.elapsed().as_secs()));
            }
        }
        assert_eq!(late, [(5, 151)]);
        assert_eq!(began.elapsed().as_secs(), 151 + 95 * 120, "no more often than that");
        // A newer verdict does not wait for the pause, and older ones are not lost.
        unpublished.put("a".into(), pardoned("3"));
        let (_, pending) = unpublished.due().now_or_never().expect("at once");
        assert_eq!((&pending.verdicts, pending.is_late()), (&of(&["1", "3"]), true));
    }
}
