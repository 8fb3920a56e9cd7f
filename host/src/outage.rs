//! What becomes of keys that an outage of the API server's has set back (§3.1).
//!
//! While the server is unreachable, dispatch takes no key. But calls that ran when the outage began have failed, perhaps
//! several times, before it was known to be one; the delays that this earned their keys are nobody's fault and end with it.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use windlass_core::object::ObjectKey;
use windlass_kube::Outage;

/// How long an outage may have lasted before it was known to be one: as long as a request may take.
const UNNOTICED: Duration = Duration::from_secs(30);

/// The keys whose last call failed in a way that does not count, and when. It holds no key that does not wait for its
/// backoff, or runs again because of it.
#[derive(Debug, Default)]
pub(crate) struct Setbacks {
    at: HashMap<ObjectKey, Instant>,
}

impl Setbacks {
    /// A call failed, and not by the plugin's fault.
    pub(crate) fn note(&mut self, key: ObjectKey, now: Instant) {
        self.at.insert(key, now);
    }

    /// The key is called again.
    pub(crate) fn clear(&mut self, key: &ObjectKey) {
        self.at.remove(key);
    }

    /// Takes out the keys that were set back by an outage that is known since `began`.
    pub(crate) fn take(&mut self, began: Instant) -> Vec<ObjectKey> {
        let ago = |at: Instant| began.saturating_duration_since(at);
        self.at.extract_if(|_, at| ago(*at) <= UNNOTICED).map(|(key, _)| key).collect()
    }
}

/// Tells `ended` of each outage that ends, with the moment that it began. Returns when nothing can change any more.
pub(crate) async fn follow(mut outages: watch::Receiver<Outage>, ended: impl Fn(Instant)) {
    let mut last = *outages.borrow_and_update();
    while outages.changed().await.is_ok() {
        let now = *outages.borrow_and_update();
        if now.since.is_none() {
            // One that began and ended between two looks began just now.
            ended(last.since.unwrap_or_else(Instant::now));
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures::FutureExt;
    use windlass_kube::Reachability;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("prod", name)
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_failed_in_an_outage_or_shortly_before_are_taken_once() {
        let mut setbacks = Setbacks::default();
        let start = Instant::now();
        setbacks.note(key("long-before"), start);
        setbacks.note(key("before"), start + Duration::from_secs(50));
        setbacks.note(key("called-again"), start + Duration::from_secs(50));
        setbacks.clear(&key("called-again"));
        let began = start + Duration::from_mins(1);
        setbacks.note(key("during"), began + Duration::from_mins(5));
        let mut taken = setbacks.take(began);
        taken.sort();
        assert_eq!(taken, [key("before"), key("during")]);
        assert!(setbacks.take(began).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn each_end_of_an_outage_is_told_with_its_beginning() {
        let reachability = Reachability::always();
        let told = RefCell::new(Vec::new());
        let mut following = Box::pin(follow(reachability.watch(), |began| told.borrow_mut().push(began)));
        let mut look = || assert!(following.as_mut().now_or_never().is_none());
        look();
        let began = Instant::now();
        reachability.begin_outage();
        look();
        assert!(told.borrow().is_empty());
        tokio::time::advance(Duration::from_mins(1)).await;
        reachability.end_outage();
        look();
        assert_eq!(*told.borrow(), [began]);
        // Too short to be seen while it lasts.
        reachability.begin_outage();
        reachability.end_outage();
        look();
        assert_eq!(*told.borrow(), [began, began + Duration::from_mins(1)]);
    }
}
