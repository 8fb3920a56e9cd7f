//! Mutations of the API in a plugin's name (invariant 6).
//!
//! A write is planned (`plan`), sent once, and ends *committed*, *refused* or with an unknown outcome (`carry_out`). It
//! runs as a separate task: the caller may stop waiting, but a request that was sent is never cancelled, and one with
//! an unknown outcome holds the call's key until it has settled (`settling`, ADR 5).

pub(crate) mod answer;
pub(crate) mod audit;
mod body;
pub(crate) mod budget;
mod carry_out;
mod collection;
pub(crate) mod expecting;
mod metadata_guard;
mod plan;
mod preconditions;
mod refusal;
mod settling;
pub(crate) mod skip;
mod withhold;

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use kube::Client;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument as _;
use windlass_core::budget::fair::{LEAVES_THREAD_AFTER, leave_thread};
use windlass_core::call::batch::SlowStart;
use windlass_core::call::ports::{CallContext, Written};
use windlass_core::error::ApiReason;
use windlass_core::object::compact::Version;
use windlass_core::object::withheld::WithheldWrite;
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::write::Operation;

use self::carry_out::{Ended, Stage, WriteProgress};
use crate::client::api_error::RequestSubject;
use crate::discovery::Discovery;
use crate::informer::trust::CacheTrust;
use crate::offload::Offload;
use crate::reader::followed::Followed;
use crate::writer::audit::{Counts, WriteOutcome};
use crate::writer::budget::WriteBudget;
use crate::writer::expecting::Expecting;
use crate::writer::skip::Skips;

/// Called for each committed write of the plugin itself, with the object and its new `resourceVersion`, if it still
/// exists.
pub type Committed = Arc<dyn Fn(&CallContext, &ObjectRef, Option<&Version>) + Send + Sync>;

/// Called for each write that a read-only host has withheld. Returns whether this withheld write is new.
pub type OnWithheld = Arc<dyn Fn(&CallContext, &WithheldWrite) -> bool + Send + Sync>;

/// Carries out the writes of plugins. Clones share everything.
#[derive(Clone)]
pub struct Writer(Arc<WriterSettings>);

/// The content of a [`Writer`]. It is shared, because every write has a clone of its writer.
#[derive(Clone)]
pub struct WriterSettings {
    client: Client,
    discovery: Discovery,
    runtime: Handle,
    read_only: bool,
    counts: Arc<Counts>,
    /// `None` to send every write.
    skips: Option<Arc<Skips>>,
    /// Kinds whose writes are sent even if they change nothing.
    always_sent: Arc<HashSet<ObjectKind>>,
    /// `None` if no gate waits for the effects of writes.
    expecting: Option<Expecting>,
    /// `None` if the plugin may write without limit.
    budget: Option<WriteBudget>,
    /// The threads for writes with large bodies or answers. A plugin with a budget has its own share of them.
    offload: Offload,
    /// `None` if committed writes are not reported.
    committed: Option<Committed>,
    /// `None` to treat every withheld write as new.
    withheld: Option<OnWithheld>,
    /// The caches that calls are based on.
    trust: CacheTrust,
}

impl Deref for Writer {
    type Target = WriterSettings;

    fn deref(&self) -> &WriterSettings {
        &self.0
    }
}

impl Writer {
    /// A writer whose tasks run on the current tokio runtime.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn new(client: Client, discovery: Discovery) -> Self {
        Self(Arc::new(WriterSettings {
            client,
            discovery,
            runtime: Handle::current(),
            read_only: false,
            counts: Arc::default(),
            skips: None,
            always_sent: Arc::default(),
            expecting: None,
            budget: None,
            offload: Offload::new(),
            committed: None,
            withheld: None,
            trust: CacheTrust::always(),
        }))
    }

    /// A writer with changed settings.
    fn with(&self, change: impl FnOnce(&mut WriterSettings)) -> Self {
        let mut settings = (*self.0).clone();
        change(&mut settings);
        Self(Arc::new(settings))
    }

    /// If `read_only` (`--read-only`), sends only dry runs of mutations, and reports what they would have done.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        self.with(|settings| settings.read_only = read_only)
    }

    /// A writer for the calls of one controller with these watches. It does not send writes that provably change
    /// nothing.
    #[must_use]
    pub fn of_controller(&self, followed: Vec<Followed>) -> Self {
        self.with(|settings| settings.skips = Some(Arc::new(Skips::new(followed))))
    }

    /// Sends every write of these kinds, so that webhooks see it even if it changes nothing.
    #[must_use]
    pub fn always_sending(&self, kinds: impl IntoIterator<Item = ObjectKind>) -> Self {
        self.with(|settings| settings.always_sent = Arc::new(kinds.into_iter().collect()))
    }

    /// Makes the keys of a controller wait until its caches show their writes.
    #[must_use]
    pub fn expecting(&self, expecting: Expecting) -> Self {
        self.with(|settings| settings.expecting = Some(expecting))
    }

    /// Sends nothing after a restore of the server until the caches have been listed again, because the state that a
    /// call read before may not exist any more.
    #[must_use]
    pub fn trusting(&self, trust: CacheTrust) -> Self {
        self.with(|settings| settings.trust = trust)
    }

    /// Makes the plugin wait if it writes more often than `budget` allows.
    #[must_use]
    pub fn within(&self, budget: WriteBudget) -> Self {
        self.with(|settings| {
            settings.offload = budget.offload(|| settings.offload.of_another());
            settings.budget = Some(budget);
        })
    }

    /// Reports each committed write to `committed`.
    #[must_use]
    pub fn reporting_to(&self, committed: Committed) -> Self {
        self.with(|settings| settings.committed = Some(committed))
    }

    /// Reports each withheld write to `withheld`.
    #[must_use]
    pub fn withholding(&self, withheld: OnWithheld) -> Self {
        self.with(|settings| settings.withheld = Some(withheld))
    }

    /// The number of mutations of all plugins that ended with this outcome.
    #[must_use]
    pub fn count(&self, outcome: WriteOutcome) -> u64 {
        self.counts.get(outcome)
    }

    /// Carries out `operation`. A step that takes long runs on a separate thread. `None` if the caller stopped waiting
    /// for such a thread, or the host panicked there.
    ///
    /// A write that waits for the budget holds no thread meanwhile, and is planned again afterwards, because the
    /// plugin's rights and the effect of the write may have changed.
    async fn begin(
        &self,
        call: &Arc<CallContext>,
        operation: &Arc<Operation>,
        withheld: bool,
        mut asker: oneshot::Sender<Written>,
    ) -> Option<(Ended, oneshot::Sender<Written>)> {
        let mut progress = WriteProgress::of(operation, withheld);
        loop {
            let stage = if progress.offloaded {
                self.carry_out_offloaded(call, operation, progress, &mut asker).await?
            } else {
                self.carry_out(call, operation, progress).await
            };
            progress = match stage {
                Stage::Ended(ended) => return Some((ended, asker)),
                Stage::TakesLong(reached) => reached,
                Stage::Unpaid(subject, reached) => {
                    if budget::pay(self.budget.as_ref(), call, &mut asker).await.is_err() {
                        return Some((refusal::abandoned(&subject).into(), asker));
                    }
                    WriteProgress { paid: true, ..reached }
                }
            };
        }
    }

    /// As [`Self::carry_out`], on a separate thread.
    async fn carry_out_offloaded(
        &self,
        call: &Arc<CallContext>,
        operation: &Arc<Operation>,
        progress: WriteProgress,
        asker: &mut oneshot::Sender<Written>,
    ) -> Option<Stage> {
        let thread = tokio::select! {
            biased;
            () = asker.closed() => return None,
            thread = self.offload.thread() => thread,
        };
        let (writer, call, operation) = (self.clone(), call.clone(), operation.clone());
        let span = tracing::Span::current();
        let carrying_out = move || {
            let work = writer.carry_out(&call, &operation, progress).instrument(span);
            let stage = writer.runtime.block_on(work);
            drop(thread);
            stage
        };
        self.runtime.spawn_blocking(carrying_out).await.ok()
    }
}

impl Writer {
    /// Carries out `operation` in a separate task, which continues if the caller stops waiting (ADR 5), and returns the
    /// new object. The answer is `None` only for a delete that left nothing. The task starts here: a write that would
    /// change nothing completes at once, without waking another task, and its CPU time counts towards the call's.
    #[must_use]
    pub fn write(&self, call: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        let subject = RequestSubject { verb: operation.verb(), resource: String::new(), object: None };
        let (operation, withheld) = if self.read_only { operation.into_dry_run() } else { (operation, false) };
        let (writer, operation) = (self.clone(), Arc::new(operation));
        let (asker, answered) = oneshot::channel();
        let task = async move {
            let Some((ended, answer)) = writer.begin(&call, &operation, withheld, asker).await else { return };
            let Ended { written, unsettled } = ended;
            let Some((unsettled, interest)) = unsettled else {
                // The call's context is dropped first, so that the call has settled when the caller gets the answer.
                drop(call);
                // The caller may have stopped waiting.
                let _ = answer.send(written);
                return;
            };
            let _ = answer.send(written);
            Box::pin(writer.settle(&call, unsettled, interest)).await;
        };
        let mut task = Box::pin(task.in_current_span());
        let is_done = {
            let _entered = self.runtime.enter();
            task.as_mut().now_or_never().is_some()
        };
        if !is_done {
            drop(self.runtime.spawn(task));
        }
        Box::pin(async move {
            answered.await.unwrap_or_else(|_| {
                let message = "the host's task for this write ended early; its outcome is not known";
                Err(subject.refuse(ApiReason::UnknownOutcome, message))
            })
        })
    }

    /// Carries out `operations` concurrently, slowly at first and faster while they succeed. The results are in the
    /// same order. If the caller stops waiting, unsent operations are dropped, and sent ones continue.
    #[must_use]
    pub fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        let writer = self.clone();
        Box::pin(async move {
            let mut start = SlowStart::new(operations.len());
            let mut operations = operations.into_iter();
            let mut written: Vec<Written> = Vec::new();
            while let Some(round) = start.next_round() {
                let mut sent = Vec::with_capacity(round.len());
                let mut since = Instant::now();
                for operation in operations.by_ref().take(round.len()) {
                    sent.push(writer.write(call.clone(), operation));
                    if since.elapsed() >= LEAVES_THREAD_AFTER {
                        leave_thread().await;
                        since = Instant::now();
                    }
                }
                let results = join_all(sent).await;
                start.ended(&round, results.iter().filter(|result| result.is_err()).count());
                written.extend(results);
            }
            let last = written.iter().rev().find_map(|result| result.as_ref().err()).cloned();
            let unsent =
                operations.zip(std::iter::repeat(last)).filter_map(|(operation, last)| Some((operation, last?)));
            written.extend(unsent.map(|(operation, last)| Err(refusal::unsent_after(&operation, &last))));
            written
        })
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKey;
    use windlass_core::rights::principal::Principal;
    use windlass_core::write::WriteOptions;

    use super::*;

    #[tokio::test]
    async fn a_write_that_begins_is_small() {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
        });
        let client = Client::new(service, "default");
        let writer = Writer::new(client.clone(), Discovery::new(client));
        let principal = Principal::of_plugin("webapp", "0123456789ab", "host-1");
        let call = CallContext::detached(principal, "webapp", ObjectKind::new("v1", "Pod"), ObjectKey::cluster("shop"));
        let operation = Operation::Apply { object: "{}".to_owned(), options: WriteOptions::default() };
        let (asker, _answered) = oneshot::channel();
        // Together with the rest of its task, the future must be smaller than 4 KiB. From that size on, glibc copies
        // with `rep movsb`, which is slow to begin, and which callgrind counts byte by byte.
        assert!(size_of_val(&writer.begin(&Arc::new(call), &Arc::new(operation), false, asker)) <= 3_500);
    }
}
