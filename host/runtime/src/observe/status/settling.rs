//! The keys of one controller that wait until one of their writes has settled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::object::ObjectKey;

use super::locked;

/// The most keys that wait without a worker. Each further key keeps its worker waiting.
const SETTLING_KEYS_MAX: usize = 1000;
/// The most keys that are listed, longest wait first.
const LISTED_SETTLING_KEYS_MAX: usize = 10;
/// How often the number of waiting keys is logged.
const SETTLING_REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// The keys whose call has ended, but whose write may still be carried out. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettlingKeys(Arc<Mutex<Keys>>);

#[derive(Debug, Default)]
struct Keys {
    since: HashMap<ObjectKey, Instant>,
    logged_at: Option<Instant>,
}

/// A key that waits until this is dropped.
#[derive(Debug)]
pub(crate) struct SettlingKey {
    keys: SettlingKeys,
    key: ObjectKey,
}

impl Drop for SettlingKey {
    fn drop(&mut self) {
        locked(&self.keys.0).since.remove(&self.key);
    }
}

impl SettlingKeys {
    /// Makes `key` wait from now on. `None` if too many keys wait.
    pub(crate) fn begin(&self, key: ObjectKey) -> Option<SettlingKey> {
        let mut keys = locked(&self.0);
        if keys.since.len() >= SETTLING_KEYS_MAX {
            return None;
        }
        keys.since.insert(key.clone(), Instant::now());
        Some(SettlingKey { keys: self.clone(), key })
    }

    /// The number of waiting keys, if it is time to log it.
    pub(crate) fn count_to_log(&self) -> Option<usize> {
        let mut keys = locked(&self.0);
        let is_time = keys.logged_at.is_none_or(|at| at.elapsed() >= SETTLING_REPORT_INTERVAL);
        is_time.then(|| {
            keys.logged_at = Some(Instant::now());
            keys.since.len()
        })
    }

    /// How long `key` has waited. `None` if it does not wait.
    pub(super) fn since(&self, key: &ObjectKey) -> Option<Duration> {
        locked(&self.0).since.get(key).map(Instant::elapsed)
    }

    /// How long each key has waited.
    pub(super) fn all(&self) -> HashMap<ObjectKey, Duration> {
        locked(&self.0).since.iter().map(|(key, since)| (key.clone(), since.elapsed())).collect()
    }

    /// How many keys wait.
    pub(crate) fn count(&self) -> usize {
        locked(&self.0).since.len()
    }

    /// For `/plugins`.
    pub(crate) fn to_json(&self) -> Vec<Value> {
        let mut waiting: Vec<_> = locked(&self.0).since.iter().map(|(key, since)| (*since, key.clone())).collect();
        waiting.sort_unstable();
        let shown = waiting.into_iter().take(LISTED_SETTLING_KEYS_MAX);
        shown.map(|(since, key)| json!({"key": key.to_string(), "waitsSeconds": since.elapsed().as_secs()})).collect()
    }
}
