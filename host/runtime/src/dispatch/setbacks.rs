//! Keys that an outage of the API server has set back.
//!
//! While the server is unreachable, dispatch takes no key. But calls that ran when the outage began have failed,
//! perhaps several times, before it was known to be one. The delays that this earned their keys are nobody's fault and
//! end with it.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::object::ObjectKey;

/// How long an outage may have lasted before it was known to be one: as long as a request may take.
const UNNOTICED_OUTAGE_MAX: Duration = Duration::from_secs(30);

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
