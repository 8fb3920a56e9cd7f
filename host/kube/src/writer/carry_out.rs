//! Carries out one write: sends its requests, and decides what follows from their results.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::call::ports::{CallContext, Written};
use windlass_core::call::read_tracker::Spoiler;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::ObjectRef;
use windlass_core::rights::principal::Role;
use windlass_core::write::Operation;
use windlass_core::write::expectations::Effect;
use windlass_core::write::gate::Interest;
use windlass_core::write::settle::{Ending, Settlement};

use super::Writer;
use super::refusal::unreadable;
use crate::client::api_error::{Fate, RequestSubject};
use crate::client::request::{self, MUTATION_LIFETIME_MAX, MutationAnswer};
use crate::offload::READ_IN_PLACE_BYTES_MAX;
use crate::target::judged;
use crate::writer::answer::{self, Answered};
use crate::writer::audit::{self, Audit, WriteOutcome};
use crate::writer::metadata_guard::{Lock, MetadataGuard};
use crate::writer::plan::{Plan, plan};
use crate::writer::settling::{Sent, Unsettled};
use crate::writer::skip::StateBefore;

/// The maximum number of names that are tried for one `generateName`.
const GENERATED_NAMES_MAX: usize = 8;
/// The maximum number of times that the host judges a write which it has itself locked to a version. The write is
/// judged again if the object has changed in the meantime.
const JUDGEMENTS_MAX: usize = 5;

/// The result of a write.
pub(super) struct Ended {
    pub(super) written: Written,
    /// The write, if its outcome is not known yet, and its interest in what the caches show.
    pub(super) unsettled: Option<(Unsettled, Option<Interest>)>,
}

impl From<ApiError> for Ended {
    fn from(error: ApiError) -> Self {
        Self { written: Err(error), unsettled: None }
    }
}

/// The progress of a write.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each answers a question of its own, in any combination")]
pub(super) struct WriteProgress {
    /// Whether the write runs on a separate thread.
    pub(super) offloaded: bool,
    /// Whether the write has left the thread on which it began. That is the guest's thread, and no request may be sent
    /// from it.
    pub(super) away: bool,
    /// Whether the write's next request is paid for.
    pub(super) paid: bool,
    /// The numbers of names and of judgements that may still be tried.
    pub(super) names: usize,
    pub(super) judgements: usize,
    /// Whether the write has become a dry run, because the host is read-only.
    pub(super) withheld: bool,
}

impl WriteProgress {
    /// The progress of an `operation` that begins.
    pub(super) fn of(operation: &Operation, withheld: bool) -> Self {
        let offloaded = operation.body_bytes() > READ_IN_PLACE_BYTES_MAX;
        Self {
            offloaded,
            away: offloaded,
            paid: false,
            names: GENERATED_NAMES_MAX,
            judgements: JUDGEMENTS_MAX,
            withheld,
        }
    }
}

/// The state in which a step of a write ends.
#[expect(clippy::large_enum_variant, reason = "nearly every write ends at once, and none is kept as this")]
pub(super) enum Stage {
    Ended(Ended),
    /// The write must be compared with a large text, which has to happen on a separate thread.
    TakesLong(WriteProgress),
    /// The write should be sent, but must wait for the budget.
    Unpaid(RequestSubject, WriteProgress),
}

impl<T: Into<Ended>> From<T> for Stage {
    fn from(ended: T) -> Self {
        Self::Ended(ended.into())
    }
}

impl Writer {
    /// Carries out `operation` from this progress on.
    pub(super) async fn carry_out(
        &self,
        call: &CallContext,
        operation: &Operation,
        mut progress: WriteProgress,
    ) -> Stage {
        let mut conflict: Option<(Lock, Ended)> = None;
        loop {
            let mut plan = match plan(&self.discovery, call, operation).await {
                Ok(plan) => Plan { withheld: progress.withheld, ..plan },
                Err(error) => return error.into(),
            };
            let candidate = self.skips.as_ref().and_then(|skips| Some((skips, skips.candidate(call, &plan)?)));
            if !progress.offloaded
                && candidate.as_ref().is_some_and(|(_, object)| object.whole_footprint() > READ_IN_PLACE_BYTES_MAX)
            {
                return Stage::TakesLong(WriteProgress { offloaded: true, away: true, ..progress });
            }
            if let Some((skips, object)) = &candidate
                && !self.always_sent.contains(&plan.resource.kind)
                && skips.is_unchanged(&plan, object)
            {
                self.audit(call, &plan).ended(WriteOutcome::Skipped, None, Duration::ZERO);
                let fields = operation.options().and_then(|options| options.fields.as_deref());
                skips.note(call, &plan, object, fields);
                return Ended { written: Ok(Some(object.text())), unsettled: None }.into();
            }
            if !progress.away {
                progress.away = true;
                tokio::task::yield_now().await;
            }
            if !progress.paid && !super::budget::try_pay(self.budget.as_ref(), call) {
                return Stage::Unpaid(plan.subject, progress);
            }
            progress.paid = true;
            let guard = MetadataGuard { client: &self.client, skips: self.skips.as_ref(), offload: &self.offload };
            let lock = match guard.judge(call, &mut plan, progress.judgements == JUDGEMENTS_MAX).await {
                Ok(lock) => lock,
                Err(error) => return self.judged(&plan, error).await.into(),
            };
            if let Some((conflict, ended)) = conflict.take()
                && conflict == lock
            {
                // The object still has the version to which the write was locked, so the conflict has another cause.
                return Stage::Ended(ended);
            }
            let is_generated = plan.generated;
            let before = match candidate {
                Some((_, object)) => StateBefore::State(object),
                None => self.skips.as_ref().map_or(StateBefore::Unknown, |skips| skips.before(call, &plan)),
            };
            // Boxed, because a write's future is moved into its task when it begins, and needs most of its size only
            // from here on.
            let ended = Box::pin(self.send(call, plan, before)).await;
            progress.paid = false;
            let (left, expected) = match &lock {
                Lock::Judged(_) => (&mut progress.judgements, ApiReason::Conflict),
                Lock::Unchanged if is_generated => (&mut progress.names, ApiReason::AlreadyExists),
                Lock::Unchanged => return ended.into(),
            };
            *left -= 1;
            let is_missed = ended.written.as_ref().is_err_and(|error| error.reason == expected);
            if *left == 0 || !is_missed {
                return ended.into();
            }
            conflict = matches!(lock, Lock::Judged(_)).then_some((lock, ended));
        }
    }

    /// Reports a committed write.
    fn report_committed(&self, call: &CallContext, plan: &Plan, answered: &Answered) {
        // A token request changes no object, and neither does a review.
        let is_idle = plan.dry_run || plan.is_unstored() || &*plan.subresource == "token";
        let is_change = !is_idle && call.principal.role == Role::Plugin;
        if let Some(committed) = self.committed.as_ref().filter(|_| is_change) {
            let object = ObjectRef { kind: plan.resource.kind.clone(), key: plan.key.clone(), uid: None };
            let version = match answered {
                Answered::Whole(object) => Some(&object.header.version),
                Answered::Other(_) | Answered::Gone { .. } => None,
            };
            committed(call, &object, version);
        }
    }

    /// The time that the server has for `plan`, if it may be sent.
    pub(super) fn may_send(&self, call: &CallContext, plan: &Plan) -> Result<Duration, ApiError> {
        self.may_start(call).map_err(|(reason, why)| {
            self.audit(call, plan).ended(WriteOutcome::NotSent, None, Duration::ZERO);
            plan.subject.refuse(reason, why)
        })
    }

    /// The time that the server has for a write of `call`, or the reason why no write may be sent.
    pub(super) fn may_start(&self, call: &CallContext) -> Result<Duration, (ApiReason, String)> {
        if !self.trust.is_given_since(call.overlay.began()) {
            let why = "not sent: the API server was restored, or may have been, so the state that this call has read may not exist any more";
            let why = why.to_owned();
            return Err((ApiReason::Conflict, why));
        }
        call.principal.fence.may_start(MUTATION_LIFETIME_MAX).map_err(|lost| (ApiReason::LeaseLost, lost.to_string()))
    }

    async fn send(&self, call: &CallContext, mut plan: Plan, before: StateBefore) -> Ended {
        call.reads.spoil(Spoiler::Write);
        if plan.withheld {
            return Box::pin(self.withhold(call, plan, before)).await;
        }
        // The interest is opened before the request is sent, because the write's event may come before its answer.
        let interest = self.expecting.as_ref().and_then(|expecting| expecting.open(call, &plan));
        let at = Instant::now();
        // Checked last, because earlier steps took time, in which the lease may have ended.
        let limit = match self.may_send(call, &plan) {
            Ok(limit) => limit,
            Err(lost) => {
                end(interest, &Effect::Nothing);
                return lost.into();
            }
        };
        let sent = Sent { at, limit };
        plan.mutation.end_within(limit);
        let result = request::mutate(&self.client, plan.mutation.take(), limit).await;
        let (code, took) = (audit::code(&result), at.elapsed());
        let audit = self.audit(call, &plan);
        match result {
            Ok(answer) => {
                audit.ended(WriteOutcome::Committed, code, took);
                warn(call, &plan.subject, &answer.warnings);
                let MutationAnswer { code, text, .. } = answer;
                let skips = self.skips.clone();
                let read = move |text: &str| {
                    let answered = answer::read(&plan, text);
                    if let (Some(skips), Ok(Answered::Whole(object))) = (skips, &answered) {
                        skips.learn(&plan, object);
                    }
                    (plan, answered)
                };
                let (plan, answered) = self.offload.read(text, read).await;
                match answered {
                    Ok(answered) => {
                        self.expect(interest, &plan, code, &answered);
                        self.report_committed(call, &plan, &answered);
                        Ended { written: Ok(committed(call, &plan, answered)), unsettled: None }
                    }
                    Err(error) if plan.dry_run || plan.is_unstored() => unreadable(&plan.subject, code, &error).into(),
                    Err(error) => {
                        let error = unreadable(&plan.subject, code, &error);
                        unknown(call, Unsettled::new(plan, before, sent, Ending::Answered), error, interest)
                    }
                }
            }
            Err(error) => {
                let (failure, fate) = plan.subject.mutation_failed(&error, plan.dry_run || plan.is_unstored());
                audit.ended(WriteOutcome::of_failure(&error, fate), code, took);
                match fate {
                    Fate::Refused => {
                        end(interest, &Effect::Nothing);
                        self.judged(&plan, failure).await.into()
                    }
                    Fate::Unknown(ending) => {
                        unknown(call, Unsettled::new(plan, before, sent, ending), failure, interest)
                    }
                }
            }
        }
    }

    /// The server's refusal of `plan`, after determining what does not exist, if anything.
    pub(super) async fn judged(&self, plan: &Plan, failure: ApiError) -> ApiError {
        Box::pin(judged(failure, &self.discovery, &plan.subject, &plan.resource, &plan.subresource)).await
    }

    /// Makes the key wait for the effect of a committed write.
    fn expect(&self, interest: Option<Interest>, plan: &Plan, code: u16, answered: &Answered) {
        if let (Some(expecting), Some(interest)) = (&self.expecting, interest) {
            let effect = expecting.effect(&interest, plan, code, answered);
            interest.ended(&effect);
        }
    }

    /// Keeps the call from ending until the write can no longer take effect. This wait is part of the call's trace,
    /// which then ends later than the call.
    pub(super) async fn settle(&self, call: &Arc<CallContext>, unsettled: Unsettled, interest: Option<Interest>) {
        let began = Instant::now();
        let plan = unsettled.plan();
        let mut span = call.trace.span("settle");
        let call = &call.within(&span);
        let (settlement, object) = unsettled.settle(&self.client, call, self.skips.as_deref()).await;
        self.audit(call, plan).settled(settlement, began.elapsed());
        span.ends(|span| {
            span.set("windlass.verb", plan.subject.verb);
            span.set("windlass.resource", plan.subject.resource.as_str());
            span.set("windlass.object.name", &*plan.key.name);
            if let Some(namespace) = &plan.key.namespace {
                span.set("k8s.namespace.name", &**namespace);
            }
            span.set("windlass.settlement", settlement.as_str());
        });
        match (settlement, &object, &self.expecting, interest) {
            (_, Some(object), Some(expecting), Some(interest)) => {
                let effect = expecting.found(&interest, plan, object);
                interest.ended(&effect);
            }
            (Settlement::NotCommitted, .., interest) => end(interest, &Effect::Nothing),
            // The possible effects must be in the caches before the key runs, so the caches have to prove that they are
            // fresh.
            (Settlement::Committed | Settlement::Superseded | Settlement::Expired, .., interest) => {
                end(interest, &Effect::Unknown);
            }
        }
        if let Some(object) = object {
            call.overlay.record(plan.resource.kind.clone(), plan.key.clone(), Some(object));
        }
    }

    pub(super) fn audit<'a>(&'a self, call: &'a CallContext, plan: &'a Plan) -> Audit<'a> {
        Audit { call, subject: &plan.subject, dry_run: plan.dry_run, counts: &self.counts }
    }
}

/// The plugin's answer to a committed write. The call's later reads see the new object.
fn committed(call: &CallContext, plan: &Plan, answered: Answered) -> Option<Arc<str>> {
    if !plan.dry_run && !plan.is_unstored() {
        answered.lay(plan, &call.overlay);
    }
    answered.into_text()
}

fn unknown(call: &CallContext, unsettled: Unsettled, error: ApiError, interest: Option<Interest>) -> Ended {
    let plan = unsettled.plan();
    call.overlay.doubt(&plan.resource.kind, plan.key.clone());
    Ended { written: Err(error), unsettled: Some((unsettled, interest)) }
}

fn end(interest: Option<Interest>, effect: &Effect) {
    if let Some(interest) = interest {
        interest.ended(effect);
    }
}

pub(super) fn warn(call: &CallContext, subject: &RequestSubject, warnings: &[String]) {
    for warning in warnings {
        tracing::warn!(
            plugin = %call.principal.plugin, verb = subject.verb, resource = subject.resource,
            object = subject.object.as_ref().map(|object| tracing::field::display(&object.key)),
            "the API server warns: {warning}"
        );
    }
}
