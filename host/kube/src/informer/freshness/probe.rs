//! Probes with a second watch from the cache's version. On a new watch, the server soon reports its progress even if
//! nothing has changed. On the cache's own watch, it does so only once a minute.

use std::cmp::Ordering;
use std::time::Duration;

use tokio::time::timeout;
use windlass_core::cache::freshness::{Evidence, Unproven};
use windlass_core::cache::watch::{Projection, WatchSpec};
use windlass_core::object::compact::Version;
use windlass_core::object::progress::Progress as _;

use super::{Prover, Trouble, is_at};
use crate::discovery::Resource;
use crate::informer::error::InformerError;
use crate::informer::listing::{self, From};
use crate::informer::notice::{NextNotice, Notice};
use crate::informer::parse::ObjectParser;

/// The server sends a progress bookmark two seconds before it ends a watch.
const PROBE_WATCH_SECONDS: u64 = 3;
/// The timeout for the beginning of the answer.
const PROBE_START_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for the whole answer: the watch, and the network time.
const PROBE_TIMEOUT: Duration = Duration::from_secs(PROBE_WATCH_SECONDS + 5);
/// The maximum number of events that a probe reads. A cache that lags by more needs time, or a list.
const PROBE_EVENTS_MAX: usize = 10_000;

/// The result of a probe.
#[derive(Default)]
struct Shown {
    /// The server reported a version at or beyond the goal.
    reached: bool,
    /// The last change that was delivered.
    last: Option<Version>,
}

impl Prover<'_> {
    /// Proves freshness by a probe that reaches the goal, if the cache has applied everything that the probe delivered.
    pub(super) async fn probe(&self, resource: &Resource) -> Result<Evidence, Trouble> {
        let _permit = self.informers.proofs().probes.acquire().await;
        let store = self.feed.store();
        let (Some((goal, epoch)), Some(from)) = (&self.goal, store.version()) else {
            return Err(Trouble::Found(Unproven::Behind));
        };
        let watched = timeout(PROBE_TIMEOUT, self.watch(resource, &from, goal)).await;
        let Shown { reached, last } = watched.unwrap_or_else(|_| Ok(Shown::default()))?;
        if !reached {
            return Err(Trouble::Found(Unproven::Silent));
        }
        // The server sends changes in order, so a cache at the version of the last change has applied the earlier ones
        // as well.
        let has_all = || last.as_ref().is_none_or(|last| is_at(store.version().as_ref(), last));
        if self.catch_up(has_all).await && store.epoch() == *epoch {
            return Ok(Evidence::Probed);
        }
        Err(Trouble::Found(Unproven::Behind))
    }

    /// Watches until the goal is reached or the server ends the watch.
    async fn watch(&self, resource: &Resource, from: &Version, goal: &Version) -> Result<Shown, Trouble> {
        // Objects that the cache does not keep advance its version too.
        let spec = WatchSpec { projection: Projection::Metadata, where_clause: None, ..self.feed.spec().clone() };
        let mut parser = ObjectParser::new(&spec).map_err(|error| Trouble::Failed(error.into()))?;
        let stream = listing::watch(
            self.client(),
            &spec,
            resource,
            From::Version(from),
            PROBE_WATCH_SECONDS,
            PROBE_START_TIMEOUT,
        )
        .await;
        let mut stream = stream.map_err(trouble)?;
        let mut shown = Shown::default();
        for _ in 0..PROBE_EVENTS_MAX {
            let next = Notice::next(&mut stream, &mut parser).await.map_err(trouble)?;
            let NextNotice::Notice(notice) = next else { break };
            let version = match notice {
                Notice::Applied(object) | Notice::Deleted(object) | Notice::Excluded(object) => {
                    let version = object.header.version.clone();
                    shown.last = Some(version.clone());
                    version
                }
                Notice::Bookmark { version, .. } => version,
            };
            if version.compare(from) == Some(Ordering::Less) {
                return Err(Trouble::Found(Unproven::WentBack));
            }
            shown.reached = is_at(Some(&version), goal);
            if shown.reached {
                break;
            }
        }
        Ok(shown)
    }
}

/// The meaning of a watch's error for the cache.
fn trouble(error: InformerError) -> Trouble {
    match error.code() {
        _ if error.is_ahead() => Trouble::Found(Unproven::WentBack),
        Some(410) => Trouble::Found(Unproven::Forgotten),
        _ => Trouble::Failed(error),
    }
}
