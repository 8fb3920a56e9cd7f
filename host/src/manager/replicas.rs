//! Has other replicas know what was rolled back here, and what is tried again: of each plugin the last. What fails is tried again, and
//! keeps no other plugin's waiting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Host;
use crate::directory::Rejection;
use crate::supervise::caught;

/// The pauses between attempts. Nobody waits for it.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_mins(2)];

/// What is told here, by plugin: what was rolled back; None: it is tried again.
pub(super) type News = (Arc<str>, Option<Rejection>);

/// What other replicas do not know yet.
#[derive(Debug)]
struct Untold<T>(BTreeMap<Arc<str>, Telling<T>>);

/// The last of one plugin.
#[derive(Debug)]
struct Telling<T> {
    value: T,
    failures: usize,
    /// When it is tried.
    due: Instant,
}

/// Tells whatever comes, until nothing more does.
pub(super) async fn tell(host: Arc<Host>, mut news: mpsc::UnboundedReceiver<News>) {
    let mut untold = Untold(BTreeMap::new());
    loop {
        tokio::select! {
            biased;
            came = news.recv() => match came {
                Some((plugin, rejection)) => untold.put(plugin, rejection),
                // What has failed, others find out by themselves.
                None => return,
            },
            (plugin, telling) = untold.due() => {
                let told = host.leadership.tell_rejected(&plugin, telling.value.as_ref());
                if let Some(Err(error)) = caught("rejected", &host.panics, told).await
                    && let Err(Telling { value, .. }) = untold.failed(plugin.clone(), telling)
                {
                    let what = if value.is_some() { "was rolled back" } else { "is tried again" };
                    tracing::error!(
                        %plugin, error,
                        "other replicas could not be told which generation {what}: they find out by themselves"
                    );
                }
            }
        }
    }
}

impl<T> Untold<T> {
    /// Newer than what there is of `plugin`.
    fn put(&mut self, plugin: Arc<str>, value: T) {
        self.0.insert(plugin, Telling { value, failures: 0, due: Instant::now() });
    }

    /// The next, as soon as it is time for it. Cancel-safe.
    async fn due(&mut self) -> (Arc<str>, Telling<T>) {
        let next = self.0.iter().min_by_key(|(_, telling)| telling.due);
        let Some((plugin, due)) = next.map(|(plugin, telling)| (plugin.clone(), telling.due)) else {
            return std::future::pending().await;
        };
        sleep_until(due).await;
        let telling = self.0.remove(&plugin).expect("it is the one that was found");
        (plugin, telling)
    }

    /// It could not be told. Err: often enough.
    fn failed(&mut self, plugin: Arc<str>, mut telling: Telling<T>) -> Result<(), Telling<T>> {
        let Some(pause) = PAUSES.get(telling.failures) else { return Err(telling) };
        telling.failures += 1;
        telling.due = Instant::now() + *pause;
        self.0.insert(plugin, telling);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    async fn next(untold: &mut Untold<u8>) -> (Arc<str>, Telling<u8>) {
        untold.due().await
    }

    #[tokio::test(start_paused = true)]
    async fn of_what_other_replicas_are_to_know_only_the_last_of_each_plugin_is_told() {
        let mut untold = Untold(BTreeMap::new());
        for (plugin, value) in [("a", 1), ("b", 2), ("a", 3)] {
            untold.put(plugin.into(), value);
        }
        let mut told = [next(&mut untold).await, next(&mut untold).await].map(|(plugin, it)| (plugin, it.value));
        told.sort();
        assert_eq!(told, [("a".into(), 3), ("b".into(), 2)]);
        assert!(untold.due().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_told_is_tried_again_and_keeps_nobody_waiting() {
        let (mut untold, began) = (Untold(BTreeMap::new()), Instant::now());
        untold.put("a".into(), 1);
        let (plugin, failed) = next(&mut untold).await;
        untold.failed(plugin, failed).expect("there are more attempts");
        untold.put("b".into(), 2);
        assert_eq!((&*next(&mut untold).await.0, began.elapsed()), ("b", Duration::ZERO));
        let mut attempts = 1;
        loop {
            let (plugin, failed) = next(&mut untold).await;
            attempts += 1;
            if untold.failed(plugin, failed).is_err() {
                break;
            }
        }
        assert_eq!((attempts, began.elapsed().as_secs()), (5, 156));
        // Whatever is newer does not wait for the pause of what it replaces.
        untold.put("a".into(), 1);
        let (plugin, failed) = next(&mut untold).await;
        untold.failed(plugin, failed).expect("there are more attempts");
        untold.put("a".into(), 3);
        let (_, telling) = untold.due().now_or_never().expect("at once");
        assert_eq!((telling.value, telling.failures), (3, 0));
    }
}
