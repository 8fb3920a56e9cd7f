//! Measures the time from a user's change to its reconcile. A watch without the proxy shows when the primary's status
//! reports the generation of the change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use kube::Api;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use tokio::task::AbortHandle;
use windlass_tests::objects::Objects;

const KINDS: [&str; 2] = ["WebApp", "PodSet"];

/// How long the server lets a watch run.
const WATCH_SECONDS: u32 = 290;

type Name = (&'static str, String);

/// The changes of users, and when each was reconciled.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    /// The last generation that a status has reported.
    observed: BTreeMap<Name, i64>,
    /// Changes that are not reconciled yet: their generation and start time.
    asked: BTreeMap<Name, Vec<(i64, Instant)>>,
    /// The durations of the reconciled changes.
    took: Vec<Duration>,
}

/// Watches until dropped.
pub(crate) struct Watching(Vec<AbortHandle>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl Watched {
    pub(crate) fn start(objects: &Objects) -> anyhow::Result<(Arc<Self>, Watching)> {
        let watched = Arc::<Self>::default();
        let mut watching = Watching(Vec::new());
        for kind in KINDS {
            let (api, watched) = (objects.api(kind)?, Arc::clone(&watched));
            watching.0.push(tokio::spawn(async move { watched.follow(kind, api).await }).abort_handle());
        }
        Ok((watched, watching))
    }

    /// Lists and watches until dropped. After an error it starts again, because only the newest state counts.
    async fn follow(&self, kind: &'static str, api: Api<DynamicObject>) {
        let mut pace = tokio::time::interval(Duration::from_millis(100));
        loop {
            pace.tick().await;
            let Ok(list) = api.list(&ListParams::default()).await else { continue };
            list.items.iter().for_each(|object| self.lock().note(kind, object));
            let version = list.metadata.resource_version.unwrap_or_default();
            let Ok(events) = api.watch(&WatchParams::default().timeout(WATCH_SECONDS), &version).await else {
                continue;
            };
            let mut events = Box::pin(events);
            while let Ok(Some(event)) = events.try_next().await {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => self.lock().note(kind, &object),
                    WatchEvent::Deleted(_) => {}
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => break,
                }
            }
        }
    }

    /// Records that a user has made this generation.
    pub(crate) fn asked(&self, kind: &'static str, name: &str, generation: i64, at: Instant) {
        let mut record = self.lock();
        let name = (kind, name.to_owned());
        record.asked.entry(name.clone()).or_default().push((generation, at));
        record.settle(&name);
    }

    /// Whether a primary's status shows that this generation was reconciled.
    pub(crate) fn has_observed(&self, kind: &'static str, name: &str, generation: i64) -> bool {
        self.lock().observed.get(&(kind, name.to_owned())).is_some_and(|observed| *observed >= generation)
    }

    /// Forgets a deleted primary.
    pub(crate) fn forget(&self, kind: &'static str, name: &str) {
        let mut record = self.lock();
        let name = (kind, name.to_owned());
        record.observed.remove(&name);
        record.asked.remove(&name);
    }

    /// Forgets all changes, because the restored server has lost the last ones.
    pub(crate) fn forget_all(&self) {
        let mut record = self.lock();
        record.observed.clear();
        record.asked.clear();
    }

    /// The number of reconciled changes.
    pub(crate) fn reconciled(&self) -> usize {
        self.lock().took.len()
    }

    /// The durations of changes since the last call, shortest first, and the number of changes not reconciled yet.
    pub(crate) fn take(&self) -> (Vec<Duration>, usize) {
        let mut record = self.lock();
        let mut took = std::mem::take(&mut record.took);
        took.sort_unstable();
        (took, record.asked.values().map(Vec::len).sum())
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn note(&mut self, kind: &'static str, object: &DynamicObject) {
        let name = (kind, object.metadata.name.clone().unwrap_or_default());
        let observed = object.data["status"]["observedGeneration"].as_i64().unwrap_or_default();
        self.observed.insert(name.clone(), observed);
        self.settle(&name);
    }

    fn settle(&mut self, name: &Name) {
        let observed = self.observed.get(name).copied().unwrap_or_default();
        let asked = self.asked.entry(name.clone()).or_default();
        self.took.extend(asked.extract_if(.., |(generation, _)| *generation <= observed).map(|(_, at)| at.elapsed()));
    }
}

/// The smallest value that this percentage of the values does not exceed.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied().unwrap_or_default()
}

#[test]
fn a_percentile_is_a_value_that_was_measured() {
    let seconds: Vec<_> = (1..=200).map(Duration::from_secs).collect();
    assert_eq!([50, 99, 100].map(|percent| percentile(&seconds, percent).as_secs()), [100, 198, 200]);
    assert_eq!(percentile(&[], 99), Duration::ZERO);
}
