//! Mutations of the API in a plugin's name (invariant 6).
//!
//! A write is planned (`write_plan`), sent once, and ends *committed*, *refused* or with an unknown outcome. It runs as
//! a task of its own: whoever waits for it may stop waiting, but a request that was sent is never cut off, and one whose
//! outcome is unknown holds the call's key until it has settled (§3.4, `settling`).

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use kube::Client;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tracing::Instrument as _;
use windlass_core::batch::SlowStart;
use windlass_core::compact::Version;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::expectations::Effect;
use windlass_core::gate::Interest;
use windlass_core::object::ObjectRef;
use windlass_core::ports::{CallContext, Writes, Written};
use windlass_core::principal::Role;
use windlass_core::settle::Settlement;
use windlass_core::write::Operation;

use crate::audit::{self, Audit, Counts, WriteOutcome};
use crate::discovery::Discovery;
use crate::expecting::Expecting;
use crate::keeping::{Keeping, Lock};
use crate::parse::ParseError;
use crate::request::{self, Answer};
use crate::settling::Unsettled;
use crate::skip::{Followed, Skips};
use crate::status::{Fate, Subject};
use crate::write_answer::{self, Answered};
use crate::write_budget::{self, Paid, WriteBudget};
use crate::write_plan::{Plan, STILL_POSSIBLE, plan};

/// A body beyond this takes its time to be read, checked and compared, up to tens of milliseconds: not on the threads that also
/// renew leases and follow watches.
const LARGE: usize = 64 << 10;
/// Such writes of one plugin at a time; each has a thread.
const LARGE_AT_ONCE: usize = 2;
/// How many names are tried for one `generateName`.
const GENERATED_NAMES: usize = 8;
/// How often a write that the host itself has locked to a version is judged anew, because the object has changed meanwhile.
const JUDGEMENTS: usize = 5;

/// Is told of each write of a plugin's own that the server has carried out: which object, and which version of it is there now,
/// if one is.
pub type Committed = Arc<dyn Fn(&CallContext, &ObjectRef, Option<&Version>) + Send + Sync>;

/// Carries out the writes of plugins. Clones share everything.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    discovery: Discovery,
    runtime: Handle,
    read_only: bool,
    counts: Arc<Counts>,
    /// None: every write is sent.
    skips: Option<Arc<Skips>>,
    /// None: nobody waits for what a write has done.
    expecting: Option<Expecting>,
    /// None: a plugin may write as often as it likes.
    budget: Option<WriteBudget>,
    /// For writes with large bodies, of one plugin or of one that has no budget.
    large: Arc<Semaphore>,
    /// None: nobody wants to know.
    committed: Option<Committed>,
}

/// How a write ended for now.
struct Ended {
    written: Written,
    /// What became of it is not known yet, nor what is to be seen of it.
    unsettled: Option<(Unsettled, Option<Interest>)>,
}

impl From<ApiError> for Ended {
    fn from(error: ApiError) -> Self {
        Self { written: Err(error), unsettled: None }
    }
}

impl Writer {
    /// A writer whose tasks run on the tokio runtime that this is called on.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(client: Client, discovery: Discovery) -> Self {
        Self {
            client,
            discovery,
            runtime: Handle::current(),
            read_only: false,
            counts: Arc::default(),
            skips: None,
            expecting: None,
            budget: None,
            large: Arc::new(Semaphore::new(LARGE_AT_ONCE)),
            committed: None,
        }
    }

    /// The same, which refuses every mutation if `read_only` (`--read-only`).
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// The same for the calls of one controller, whose watches these are: what provably changes nothing is not sent.
    #[must_use]
    pub fn of_controller(&self, followed: Vec<Followed>) -> Self {
        Self { skips: Some(Arc::new(Skips::new(followed))), ..self.clone() }
    }

    /// The same, which has the keys of a controller wait until its caches show what they have written.
    #[must_use]
    pub fn expecting(&self, expecting: Expecting) -> Self {
        Self { expecting: Some(expecting), ..self.clone() }
    }

    /// The same, whose plugin waits when it writes more often than `budget` allows.
    #[must_use]
    pub fn within(&self, budget: WriteBudget) -> Self {
        let large = budget.large(|| Semaphore::new(LARGE_AT_ONCE));
        Self { budget: Some(budget), large, ..self.clone() }
    }

    /// The same, which tells `committed` of each write.
    #[must_use]
    pub fn telling(&self, committed: Committed) -> Self {
        Self { committed: Some(committed), ..self.clone() }
    }

    /// How many mutations ended in this way, of all plugins together.
    #[must_use]
    pub fn count(&self, outcome: WriteOutcome) -> u64 {
        self.counts.get(outcome)
    }

    /// Carries `operation` out where that keeps nobody waiting. None: the host has panicked over it.
    async fn begin(
        &self,
        call: &Arc<CallContext>,
        operation: Operation,
        mut asker: oneshot::Sender<Written>,
    ) -> Option<(Ended, oneshot::Sender<Written>)> {
        if operation.body_bytes() <= LARGE {
            let ended = self.carry_out(call, &operation, &mut asker).await;
            return Some((ended, asker));
        }
        let turn = tokio::select! {
            biased;
            () = asker.closed() => return None,
            turn = self.large.clone().acquire_owned() => turn.ok()?,
        };
        let (writer, call, span) = (self.clone(), call.clone(), tracing::Span::current());
        let carrying_out = move || {
            let work = async {
                let ended = writer.carry_out(&call, &operation, &mut asker).await;
                (ended, asker)
            };
            let done = writer.runtime.block_on(work.instrument(span));
            drop(turn);
            done
        };
        self.runtime.spawn_blocking(carrying_out).await.ok()
    }

    async fn carry_out(
        &self,
        call: &CallContext,
        operation: &Operation,
        asker: &mut oneshot::Sender<Written>,
    ) -> Ended {
        if self.read_only {
            return read_only(operation).into();
        }
        let (mut names, mut judgements) = (GENERATED_NAMES, JUDGEMENTS);
        let mut paid = false;
        loop {
            let mut plan = match plan(&self.discovery, call, operation).await {
                Ok(plan) => plan,
                Err(error) => return error.into(),
            };
            if let Some(object) = self.skips.as_ref().and_then(|skips| skips.unchanged(call, &plan)) {
                self.audit(call, &plan).ended(WriteOutcome::Skipped, None, Duration::ZERO);
                return Ended { written: Ok(Some(object.text())), unsettled: None };
            }
            if !std::mem::replace(&mut paid, true) {
                match write_budget::pay(self.budget.as_ref(), call, asker).await {
                    Paid::AtOnce => {}
                    // What it may do, and what would change, is no longer sure.
                    Paid::Late => continue,
                    Paid::Abandoned => return abandoned(&plan.subject).into(),
                }
            }
            let keeping = Keeping { client: &self.client, skips: self.skips.as_ref() };
            let lock = match keeping.judge(call, &mut plan).await {
                Ok(lock) => lock,
                Err(error) => return error.into(),
            };
            let is_generated = plan.generated;
            let ended = self.send(call, plan).await;
            paid = false;
            let (left, missed) = match lock {
                Lock::Judged => (&mut judgements, ApiReason::Conflict),
                Lock::Unchanged if is_generated => (&mut names, ApiReason::AlreadyExists),
                Lock::Unchanged => return ended,
            };
            *left -= 1;
            let is_missed = ended.written.as_ref().is_err_and(|error| error.reason == missed);
            if *left == 0 || !is_missed {
                return ended;
            }
        }
    }

    /// Tells of what the server has carried out.
    fn tell(&self, call: &CallContext, plan: &Plan, answered: &Answered) {
        // A token that was asked for changes no object.
        let is_change = !plan.dry_run && &*plan.subresource != "token" && call.principal.role == Role::Plugin;
        if let Some(committed) = self.committed.as_ref().filter(|_| is_change) {
            let object = ObjectRef { kind: plan.resource.kind.clone(), key: plan.key.clone(), uid: None };
            let version = match answered {
                Answered::Whole(object) => Some(&object.header.version),
                Answered::Other(_) | Answered::Gone { .. } => None,
            };
            committed(call, &object, version);
        }
    }

    async fn send(&self, call: &CallContext, mut plan: Plan) -> Ended {
        // Before it is sent: its event may come before its answer.
        let interest = self.expecting.as_ref().and_then(|expecting| expecting.open(call, &plan));
        let sent = Instant::now();
        // The last question: whatever was asked before took time, in which the lease may have ended.
        let limit = match call.principal.fence.may_start(STILL_POSSIBLE) {
            Ok(limit) => limit,
            Err(lost) => {
                end(interest, &Effect::Nothing);
                self.audit(call, &plan).ended(WriteOutcome::NotSent, None, Duration::ZERO);
                return plan.subject.refuse(ApiReason::LeaseLost, lost.to_string()).into();
            }
        };
        plan.mutation.end_within(limit);
        let result = request::mutate(&self.client, plan.mutation.clone(), limit).await;
        let (code, took) = (audit::code(&result), sent.elapsed());
        let audit = self.audit(call, &plan);
        match result {
            Ok(answer) => {
                audit.ended(WriteOutcome::Committed, code, took);
                warn(call, &plan.subject, &answer);
                match write_answer::read(&plan, &answer.text) {
                    Ok(answered) => {
                        self.expect(interest, &plan, &answer, &answered);
                        self.tell(call, &plan, &answered);
                        Ended { written: Ok(self.committed(call, &plan, answered)), unsettled: None }
                    }
                    Err(error) if plan.dry_run => unreadable(&plan.subject, &answer, &error).into(),
                    Err(error) => {
                        let error = unreadable(&plan.subject, &answer, &error);
                        unknown(call, plan, error, sent, interest)
                    }
                }
            }
            Err(error) => {
                let (failure, fate) = plan.subject.mutation_failed(&error, plan.dry_run);
                audit.ended(WriteOutcome::of_failure(&error, fate), code, took);
                match fate {
                    Fate::Refused => {
                        end(interest, &Effect::Nothing);
                        failure.into()
                    }
                    Fate::Unknown => unknown(call, plan, failure, sent, interest),
                }
            }
        }
    }

    /// Has the key wait for what the server has carried out.
    fn expect(&self, interest: Option<Interest>, plan: &Plan, answer: &Answer, answered: &Answered) {
        if let (Some(expecting), Some(interest)) = (&self.expecting, interest) {
            let effect = expecting.effect(&interest, plan, answer.code, answered);
            interest.ended(&effect);
        }
    }

    /// What the plugin gets for what the server carried out. The call's later reads see it.
    fn committed(&self, call: &CallContext, plan: &Plan, answered: Answered) -> Option<Arc<str>> {
        if let (Some(skips), Answered::Whole(object)) = (&self.skips, &answered) {
            skips.learn(call, plan, object);
        }
        if !plan.dry_run {
            answered.lay(plan, &call.overlay);
        }
        answered.into_text()
    }

    /// Keeps the call from ending until the write can no longer be carried out.
    async fn settle(&self, call: &CallContext, unsettled: Unsettled, interest: Option<Interest>) {
        let began = Instant::now();
        let (settlement, object) = unsettled.settle(&self.client, call).await;
        let plan = unsettled.plan();
        self.audit(call, plan).settled(settlement, began.elapsed());
        match (settlement, &object, &self.expecting, interest) {
            (Settlement::Committed, Some(object), Some(expecting), Some(interest)) => {
                let effect = expecting.found(&interest, plan, object);
                interest.ended(&effect);
            }
            (Settlement::NotCommitted, .., interest) => end(interest, &Effect::Nothing),
            // What it may have done is to be in the caches before the key runs: they have to prove that they are fresh.
            (Settlement::Committed | Settlement::Expired, .., interest) => end(interest, &Effect::Unknown),
        }
        if let (Settlement::Committed, Some(object)) = (settlement, object) {
            call.overlay.record(plan.resource.kind.clone(), plan.key.clone(), Some(object));
        }
    }

    fn audit<'a>(&'a self, call: &'a CallContext, plan: &'a Plan) -> Audit<'a> {
        Audit { call, subject: &plan.subject, dry_run: plan.dry_run, counts: &self.counts }
    }
}

impl Writes for Writer {
    fn write(&self, call: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        let subject = Subject { verb: operation.verb(), resource: String::new(), object: None };
        let writer = self.clone();
        let (asker, answered) = oneshot::channel();
        let task = async move {
            let Some((ended, answer)) = writer.begin(&call, operation, asker).await else { return };
            let Ended { written, unsettled } = ended;
            // Whoever asked may have stopped waiting.
            let _ = answer.send(written);
            if let Some((unsettled, interest)) = unsettled {
                writer.settle(&call, unsettled, interest).await;
            }
        };
        drop(self.runtime.spawn(task.in_current_span()));
        Box::pin(async move {
            answered.await.unwrap_or_else(|_| {
                let message = "the host's task for this write ended early; its outcome is not known";
                Err(subject.refuse(ApiReason::UnknownOutcome, message))
            })
        })
    }

    /// Whoever stops waiting for it stops what has not been sent; what has been goes on.
    fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        let writer = self.clone();
        Box::pin(async move {
            let mut start = SlowStart::new(operations.len());
            let mut operations = operations.into_iter();
            let mut written: Vec<Written> = Vec::new();
            while let Some(round) = start.next_round() {
                let sent = operations.by_ref().take(round.len()).map(|operation| writer.write(call.clone(), operation));
                let results = join_all(sent).await;
                start.ended(&round, results.iter().filter(|result| result.is_err()).count());
                written.extend(results);
            }
            let last = written.iter().rev().find_map(|result| result.as_ref().err()).cloned();
            let unsent =
                operations.zip(std::iter::repeat(last)).filter_map(|(operation, last)| Some((operation, last?)));
            written.extend(unsent.map(|(operation, last)| Err(unsent_after(&operation, &last))));
            written
        })
    }
}

/// Why `operation` of a batch was not sent: for the reason that `last`, which was, failed for. Unless that reason tells
/// something of an object, or of what became of a request: of this one nothing is known, but that it was not sent. Who takes
/// an object that is not found for deleted must not take this one for it.
fn unsent_after(operation: &Operation, last: &ApiError) -> ApiError {
    let reason = match last.reason {
        ApiReason::NotFound | ApiReason::AlreadyExists | ApiReason::Expired | ApiReason::UnknownOutcome => {
            ApiReason::ServerError
        }
        reason => reason,
    };
    // A conflict may be one with another incarnation, as its code tells.
    let (code, status_reason) = if reason == last.reason && reason != ApiReason::Conflict {
        (last.code, last.status_reason.clone())
    } else {
        (reason.code(), reason.as_str().to_owned())
    };
    let message = format!("not sent: every operation of the three rounds before it failed, the last of them: {last}");
    let object = match operation {
        Operation::Patch { target, .. } | Operation::Delete { target, .. } => Some(target.clone()),
        Operation::Create { .. } | Operation::Update { .. } | Operation::Apply { .. } => None,
    };
    let (verb, resource) = (operation.verb(), String::new());
    ApiError { code, reason, status_reason, message, retry_after: last.retry_after, verb, resource, object }
}

fn unknown(call: &CallContext, plan: Plan, error: ApiError, sent: Instant, interest: Option<Interest>) -> Ended {
    call.overlay.doubt(&plan.resource.kind, plan.key.clone());
    Ended { written: Err(error), unsettled: Some((Unsettled::new(plan, sent), interest)) }
}

fn end(interest: Option<Interest>, effect: &Effect) {
    if let Some(interest) = interest {
        interest.ended(effect);
    }
}

fn abandoned(subject: &Subject) -> ApiError {
    let message = "not sent: the call ended while the write waited, as the plugin writes more often than it may";
    subject.refuse(ApiReason::TooManyRequests, message)
}

fn read_only(operation: &Operation) -> ApiError {
    let subject = Subject { verb: operation.verb(), resource: String::new(), object: None };
    subject.refuse(ApiReason::ReadOnly, "the host runs with --read-only: nothing is changed, and nothing was sent")
}

fn unreadable(subject: &Subject, answer: &Answer, error: &ParseError) -> ApiError {
    let message = format!("the API server carried it out (HTTP {}), but its answer is {error}", answer.code);
    subject.refuse(ApiReason::UnknownOutcome, message)
}

fn warn(call: &CallContext, subject: &Subject, answer: &Answer) {
    for warning in &answer.warnings {
        tracing::warn!(
            plugin = %call.principal.plugin, verb = subject.verb, resource = subject.resource,
            object = subject.object.as_ref().map(|object| tracing::field::display(&object.key)),
            "the API server warns: {warning}"
        );
    }
}
