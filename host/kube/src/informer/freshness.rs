//! Proves that a cache contains everything that was committed before the proof was requested (ADR 11). This is needed
//! after a failover, after a write with an unknown outcome, or if an expected event does not arrive. `core::freshness`
//! decides what to try when.
//!
//! A proof runs within the caller's future and ends with it. A caller that requests a proof while one is running waits
//! until it ends. All waiting callers then share the next proof.

mod compare;
mod probe;

use std::cmp::Ordering;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube::Client;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use windlass_core::cache::freshness::{Course, Evidence, Proof, ProofStep, Unproven};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::compact::Version;
use windlass_core::object::progress::{Advance, Observer, Progress as _, Stamp};

use crate::backoff::Backoff;
use crate::discovery::Resource;
use crate::informer::error::InformerError;
use crate::informer::feed::Feed;
use crate::informer::informers::Informers;
use crate::informer::listing;

/// The time that the cache may take to reach the version that a step has found, before the next step.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(3);
/// The interval between checks whether a requested list has been applied. Normally the cache sends a notification. The
/// checks are for a cache that no longer sends any.
const LIST_LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// Limits that proofs share, so that a takeover of a thousand caches does not overload the server.
#[derive(Debug)]
pub(crate) struct Proofs {
    probes: Semaphore,
    /// A list of everything is the most expensive step for the server and the host.
    comparisons: Semaphore,
}

impl Default for Proofs {
    fn default() -> Self {
        Self { probes: Semaphore::new(64), comparisons: Semaphore::new(1) }
    }
}

/// Wakes proofs that wait for the cache.
#[derive(Default)]
struct Wake(watch::Sender<()>);

impl Observer for Wake {
    fn advanced(&self, _: usize, _: Advance<'_>) {
        self.0.send_replace(());
    }
}

impl Informers {
    /// Completes when the cache of `spec` contains everything that was committed before this call, or is lost. While
    /// the API server does not answer, this waits without a limit; drop the future to give up. Concurrent callers share
    /// one proof.
    pub async fn prove(&self, spec: &WatchSpec) -> Proof {
        let asked = Stamp::take();
        let Some(feed) = self.feed(spec) else { return Proof::Lost };
        let mut last = feed.proven().lock().await;
        // A proof that another caller began in the meantime is just as good.
        if let Some((began, evidence)) = *last
            && began > asked
        {
            return Proof::Proven(evidence);
        }
        let began = Stamp::take();
        let proof = Prover::new(self, &feed, began).run().await;
        tracing::debug!(watch = %spec, ?proof, "the proof that the cache is fresh has ended");
        if let Proof::Proven(evidence) = proof {
            *last = Some((began, evidence));
        }
        proof
    }

    /// Makes the informer of `spec` list again soon, whatever its watch shows, but not twice in ten seconds. Observers
    /// of the cache are notified of the list. Returns false if there is no such informer.
    #[must_use]
    pub fn relist(&self, spec: &WatchSpec) -> bool {
        let feed = self.feed(spec);
        if let Some(feed) = &feed {
            feed.relist();
        }
        feed.is_some()
    }
}

/// One proof in progress.
struct Prover<'a> {
    informers: &'a Informers,
    feed: &'a Arc<Feed>,
    began: Stamp,
    wake: Arc<Wake>,
    /// The server's version to reach, and the epoch of the cache in which it is valid.
    goal: Option<(Version, u64)>,
    /// Whether a failure has been logged.
    has_warned: bool,
}

impl<'a> Prover<'a> {
    fn new(informers: &'a Informers, feed: &'a Arc<Feed>, began: Stamp) -> Self {
        let wake = Arc::<Wake>::default();
        let observer: Weak<Wake> = Arc::downgrade(&wake);
        feed.store().observe(0, observer);
        Self { informers, feed, began, wake, goal: None, has_warned: false }
    }

    async fn run(mut self) -> Proof {
        let mut course: Option<Course> = None;
        let mut backoff = Backoff::default();
        loop {
            // Before the first list, there is nothing to compare. The first list may itself be a sufficient proof.
            let resource = match self.until(|| self.feed.store().resource()).await {
                Ok(resource) => resource,
                Err(proof) => return proof,
            };
            let course = course.get_or_insert_with(|| Course::new(resource.comparable, self.feed.store().len()));
            let found = match course.step() {
                ProofStep::Relist => return self.relisted().await,
                step => self.attempt(step, &resource).await,
            };
            // The cache's progress in the meantime counts, whatever the step found.
            if let Some(proof) = self.verdict() {
                return proof;
            }
            match found {
                Ok(evidence) => return Proof::Proven(evidence),
                Err(Trouble::Found(unproven)) => course.note(unproven),
                Err(Trouble::Failed(error)) => {
                    course.note(Unproven::Failed);
                    self.log_failure(&error);
                    let pause = backoff.next(Instant::now());
                    if let Err(proof) = self.pause(pause).await {
                        return proof;
                    }
                }
            }
        }
    }

    /// Carries out one step. Ends early if the cache itself makes the step unnecessary.
    async fn attempt(&mut self, step: ProofStep, resource: &Resource) -> Result<Evidence, Trouble> {
        if resource.comparable {
            self.aim(resource).await?;
        }
        let work = async {
            match step {
                ProofStep::Probe => self.probe(resource).await,
                ProofStep::Compare | ProofStep::Relist => self.compare(resource).await,
            }
        };
        tokio::select! {
            biased;
            proof = self.ended() => match proof {
                Proof::Proven(evidence) => Ok(evidence),
                // The next check will report the loss again.
                Proof::Lost => Err(Trouble::Found(Unproven::Behind)),
            },
            found = work => found,
        }
    }

    /// Asks for the server's version, unless it is known.
    async fn aim(&mut self, resource: &Resource) -> Result<(), Trouble> {
        let store = self.feed.store();
        let epoch = store.epoch();
        if self.goal.as_ref().is_some_and(|(_, of)| *of == epoch) {
            return Ok(());
        }
        let (known, before) = (store.version(), self.feed.known_state());
        let goal = listing::newest(self.client(), self.feed.spec(), resource).await.map_err(Trouble::Failed)?;
        if let Some(before) = before {
            self.feed.compare_history(self.informers.restores(), &before, &goal);
        }
        let is_older = known.is_some_and(|known| goal.compare(&known) == Some(Ordering::Less));
        if store.epoch() != epoch {
            return Err(Trouble::Found(Unproven::Behind));
        }
        if is_older {
            return Err(Trouble::Found(Unproven::WentBack));
        }
        self.goal = Some((goal, epoch));
        Ok(())
    }

    /// Makes the cache list again, as often as necessary.
    async fn relisted(&self) -> Proof {
        loop {
            self.feed.relist();
            if let Ok(proof) = timeout(LIST_LOOK_INTERVAL, self.ended()).await {
                return proof;
            }
        }
    }

    /// The state of the proof according to the cache's current contents.
    fn verdict(&self) -> Option<Proof> {
        let store = self.feed.store();
        if store.listed() > Some(self.began) {
            return Some(Proof::Proven(Evidence::Listed));
        }
        if let Some((goal, epoch)) = &self.goal
            && is_at(store.version().as_ref(), goal)
            && store.epoch() == *epoch
        {
            return Some(Proof::Proven(Evidence::Reached));
        }
        self.feed.is_over().then_some(Proof::Lost)
    }

    async fn ended(&self) -> Proof {
        let Err(proof) = self.until(|| None::<Infallible>).await;
        proof
    }

    /// Waits until `look` returns a value for the cache, or the proof ends.
    async fn until<T>(&self, look: impl Fn() -> Option<T>) -> Result<T, Proof> {
        let mut changes = self.wake.0.subscribe();
        loop {
            if let Some(proof) = self.verdict() {
                return Err(proof);
            }
            if let Some(seen) = look() {
                return Ok(seen);
            }
            // The sender is in `self`, so this cannot fail.
            let _ = changes.changed().await;
        }
    }

    /// Waits for `pause`, or until the proof ends.
    async fn pause(&self, pause: Duration) -> Result<(), Proof> {
        tokio::select! {
            biased;
            proof = self.ended() => Err(proof),
            () = sleep(pause) => Ok(()),
        }
    }

    /// Waits for a short time until `look` is true for the cache.
    async fn catch_up(&self, look: impl Fn() -> bool) -> bool {
        let seen = self.until(|| look().then_some(()));
        timeout(CATCH_UP_TIMEOUT, seen).await.is_ok_and(|seen| seen.is_ok())
    }

    fn client(&self) -> &Client {
        self.informers.client()
    }

    fn log_failure(&mut self, error: &InformerError) {
        let watch = self.feed.spec();
        if std::mem::replace(&mut self.has_warned, true) {
            tracing::debug!(%watch, %error, "the cache is still not proven to be fresh");
        } else {
            tracing::warn!(%watch, %error, "cannot prove that the cache is fresh; the host keeps trying");
        }
    }
}

/// The reason why a step has proved nothing.
enum Trouble {
    Found(Unproven),
    /// The step failed, as with [`Unproven::Failed`].
    Failed(InformerError),
}

/// Whether a cache at `version` contains everything up to `goal`.
fn is_at(version: Option<&Version>, goal: &Version) -> bool {
    version.is_some_and(|version| matches!(version.compare(goal), Some(Ordering::Equal | Ordering::Greater)))
}
