//! Keys that an outage of the API server has set back.
//!
//! While the server is unreachable, dispatch takes no key. But calls that ran when the outage began have failed,
//! perhaps several times, before the outage was noticed. The outage alone causes the backoff of their keys, so the
//! backoff ends with the outage.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::object::ObjectKey;

/// How long an outage may last before it is noticed: as long as a request may take.
const UNNOTICED_OUTAGE_MAX: Duration = Duration::from_secs(30);

/// The keys whose last call had an uncounted failure, and the time of it. A key is removed when it runs again.
#[derive(Debug, Default)]
pub(crate) struct Setbacks {
    at: HashMap<ObjectKey, Instant>,
}

impl Setbacks {
    /// Records that a call failed through no fault of the plugin.
    pub(crate) fn note(&mut self, key: ObjectKey, now: Instant) {
        self.at.insert(key, now);
    }

    /// Records that the key is called again.
    pub(crate) fn clear(&mut self, key: &ObjectKey) {
        self.at.remove(key);
    }

    /// Takes the keys that were set back by an outage that was noticed at `began`.
    pub(crate) fn take(&mut self, began: Instant) -> Vec<ObjectKey> {
        let ago = |at: Instant| began.saturating_duration_since(at);
        self.at.extract_if(|_, at| ago(*at) <= UNNOTICED_OUTAGE_MAX).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
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
}
