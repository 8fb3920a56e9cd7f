//! Carries out what follows from the end of a call: for its key, and for the people who look after the plugin or the
//! object.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::budget::fair::CpuPermit;
use windlass_core::call::ports::CallContext;
use windlass_core::defect::Defect;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::life::probation;
use windlass_core::object::{Object, ObjectKey};
use windlass_core::queue::ITEM_BACKOFF_MAX;
use windlass_core::queue::key_state::CallEnd;
use windlass_core::queue::outcome::{self, CallResult, Decision, Failure, Requeue, Retry};
use windlass_core::queue::trigger::Triggers;
use windlass_core::write::expectations::{EXPIRE_AFTER, HeldKey};
use windlass_core::write::settle::Hold;
use windlass_wasm::Called;

use super::middleware::slow_lane;
use super::timer::UnkeptProgress;
use super::{Dispatch, LOG, trace_id};
use crate::observe::status::KeyCallEnd;

/// The interval at which a key runs after its counted retries are used up. client-go retries a key that has failed for
/// long at the same interval.
pub(super) const GIVEN_UP_INTERVAL: Duration = ITEM_BACKOFF_MAX;

/// When a failed key runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryPace {
    /// The key runs after its backoff.
    Backoff,
    /// The key runs rarely, because its counted retries are used up.
    GivenUp,
}

/// Decides when a failed key runs again. `counted_so_far` is the number of counted failures before this one. If
/// `backs_off` is true, an event queued this call, and the retry at the end of the key's backoff is still to come.
pub(super) fn pace(retry: Retry, counted_so_far: u32, max_retries: u32, backs_off: bool) -> RetryPace {
    match retry {
        Retry::Counted if counted_so_far >= max_retries && !backs_off => RetryPace::GivenUp,
        Retry::Counted | Retry::Uncounted => RetryPace::Backoff,
    }
}

/// The first denial by the policy among the failures, of which a plugin may return any number.
fn denial(result: &CallResult) -> Option<&ApiError> {
    let CallResult::Failed(failures) = result else { return None };
    failures.iter().find_map(|failure| match failure {
        Failure::Api(error) if error.reason == ApiReason::NotGranted => Some(error),
        _ => None,
    })
}

impl Dispatch {
    /// Emits an Event on the object that says which right the plugin lacks. Nothing else on the object shows this, as
    /// the key is not retried until the policy changes.
    fn emit_denial(&self, result: &CallResult, context: &CallContext) {
        if let Some(error) = denial(result) {
            self.callee.ports.events.warn(context, "NotGranted", error.message.clone());
        }
    }

    /// Logs a call that took `elapsed`, and carries out what follows from it. Returns how it ended for its key.
    pub(super) fn end(&self, key: &ObjectKey, called: &Called, context: &CallContext, elapsed: Duration) -> CallEnd {
        if called.saved {
            // Everything stays as the last call left it, also a time at which that call asked to run again.
            tracing::debug!(target: LOG, "not called: nothing that the last call read has changed");
            return CallEnd::Saved;
        }
        self.log_call(key, called, elapsed);
        self.apply_outcome(key, called, context)
    }

    /// Carries out what follows from the outcome of a call for its key. Returns how the call ended for the key.
    pub(super) fn apply_outcome(&self, key: &ObjectKey, called: &Called, context: &CallContext) -> CallEnd {
        let result = &called.result;
        let decision = outcome::decide(result, &self.keys.primary.kind, key);
        self.emit_denial(result, context);
        // A timeout after a long wait says more about the server than about this call.
        if called.made && !result.is_wait() {
            self.judge(key, result, &decision);
        }
        match &decision {
            Decision::Leave(_) => {}
            Decision::Retry { .. } => self.keys.memory().fails(key, slow_lane::mark(context)),
            Decision::Forget
            | Decision::ForgetAndAddAfter(_)
            | Decision::ForgetAndBackOff
            | Decision::ForgetAndReport(_) => {
                self.keys.memory().ends(key);
                self.status.withheld.done(key, &context.trace_id);
            }
        }
        let error = result.failure();
        let end = match decision {
            Decision::Leave(again) => {
                self.keys.memory().keep_triggers(key, &context.triggers);
                self.keys.queue.keep_must_call(key);
                if let Some(again) = again {
                    self.keys.queue.add_after(key.clone(), again);
                }
                CallEnd::NotMade
            }
            Decision::Forget => {
                self.status.succeeded(key, None);
                self.keys.queue.forget(key);
                if denial(result).is_some() { CallEnd::Denied } else { CallEnd::Done }
            }
            Decision::ForgetAndAddAfter(_) | Decision::ForgetAndBackOff
                if Defect::RequeueAfterIsIgnored.is_seeded() =>
            {
                self.keys.queue.forget(key);
                CallEnd::RequeueAfter
            }
            Decision::ForgetAndAddAfter(delay) => {
                self.status.succeeded(key, Some(Requeue::After(delay)));
                self.keys.queue.forget(key);
                self.keys.queue.add_after(key.clone(), delay);
                CallEnd::RequeueAfter
            }
            Decision::ForgetAndBackOff => {
                self.status.succeeded(key, Some(Requeue::Backoff));
                self.keys.queue.requeue_rate_limited(key.clone());
                CallEnd::RequeueBackoff
            }
            Decision::ForgetAndReport(message) => {
                self.keys.queue.forget(key);
                self.status.failed_for_good(key);
                tracing::warn!(
                    error = message,
                    "failed for good and is not retried: the key runs again only when one of its objects changes"
                );
                self.callee.ports.events.warn(context, "ReconcileFailed", message);
                CallEnd::FailedForGood
            }
            Decision::Retry { .. } if Defect::FailureIsForgotten.is_seeded() => CallEnd::Failed,
            Decision::Retry { retry, at_least } => self.retry(key, retry, at_least, &error, context),
        };
        self.status.calls.ended(key, KeyCallEnd { end, error: &error, context });
        end
    }

    /// Records how a call about `key` ended, as input to the probation of its generation.
    fn judge(&self, key: &ObjectKey, result: &CallResult, decision: &Decision) {
        let failed_before = self.keys.memory().had_failed(key);
        let failure = probation::own_failure(result, decision, failed_before).map(|kind| (kind, result.failure()));
        let subject = (self.callee.controller.clone(), key.clone());
        let others_at_work = || self.keys.queue.processing().iter().any(|other| other != key);
        self.record.called(&subject, failure.as_ref().map(|(kind, text)| (*kind, text.as_str())), others_at_work);
    }

    fn retry(
        &self,
        key: &ObjectKey,
        retry: Retry,
        at_least: Option<Duration>,
        error: &str,
        context: &CallContext,
    ) -> CallEnd {
        let attempt = self.keys.queue.num_requeues(key);
        match pace(retry, attempt, self.max_retries, self.keys.queue.backs_off(key)) {
            RetryPace::Backoff => {
                let retry_in = self.keys.queue.add_rate_limited(key.clone(), retry, at_least);
                if retry == Retry::Uncounted {
                    self.keys.memory().setbacks.note(key.clone(), Instant::now());
                }
                self.status.failed();
                self.log_failure(error, attempt, retry_in);
                CallEnd::Failed
            }
            RetryPace::GivenUp => {
                self.keys.queue.add_after_at_least(key.clone(), GIVEN_UP_INTERVAL, at_least);
                self.status.gave_up(key, error);
                tracing::error!(error, attempt, retry_in = ?GIVEN_UP_INTERVAL, "gave up: the key is tried only rarely from now on");
                self.callee.ports.events.warn(context, "GaveUp", format!("gave up after {attempt} retries: {error}"));
                CallEnd::GaveUp
            }
        }
    }

    /// Logs a line for each call that wrote something. Other calls, by far the most, are logged at debug level.
    pub(super) fn log_call(&self, key: &ObjectKey, called: &Called, elapsed: Duration) {
        let (writes, written) = self.status.calls.written(key);
        let Called { cpu, result, .. } = called;
        if writes > 0 {
            tracing::info!(target: LOG, ?elapsed, ?cpu, ?result, writes, written, "called");
        } else {
            tracing::debug!(target: LOG, ?elapsed, ?cpu, ?result, "called");
        }
    }

    /// Logs a failed call, within a limit: an unavailable server fails the calls of hundreds of keys, and their lines
    /// would hide all other lines.
    fn log_failure(&self, error: &str, attempt: u32, retry_in: Duration) {
        let Some(unlogged) = self.status.failure_line() else {
            return tracing::debug!(target: LOG, error, attempt, ?retry_in, "the call failed; the key is tried again");
        };
        let further_failures = (unlogged > 0).then_some(unlogged);
        tracing::warn!(error, attempt, ?retry_in, further_failures, "the call failed; the key is tried again");
    }

    /// Skips the due time of the controller's timer if its call waited too long, as the manifest says.
    pub(super) fn skip_late_timer(&self) {
        let Some(due) = self.keys.primaries.timer.as_ref().and_then(|timer| timer.skip_late()) else { return };
        tracing::info!(
            plugin = %self.callee.principal.plugin, controller = %self.callee.controller, %due,
            "a due time is skipped as the manifest says: its call waited for too long"
        );
    }

    /// Whether a call is to be made about the `primary` for these `triggers`. `false` only for a timer.
    pub(super) fn timer_begins(&self, primary: Option<&Object>, triggers: &Triggers) -> bool {
        let timed = self.keys.primaries.timer.as_ref().zip(primary);
        timed.is_none_or(|(timer, object)| timer.begins(object, triggers))
    }

    /// Records how a call about the `primary` of a timer ended.
    pub(super) async fn timer_ends(&self, primary: Option<&Object>, end: CallEnd) {
        let Some(timer) = &self.keys.primaries.timer else { return };
        if let Err(error) = timer.ends(primary, end).await {
            self.warn_not_kept(&error);
        }
    }

    /// Logs that the progress of the timer could not be kept.
    pub(crate) fn warn_not_kept(&self, error: &UnkeptProgress) {
        tracing::warn!(
            plugin = %self.callee.principal.plugin, controller = %self.callee.controller, %error,
            "when the timer was due last cannot be kept for other replicas: after a failover, the plugin may be called again for it"
        );
    }

    /// Reports parked keys that no gate knew. The audit has woken them, but they are the sign of a bug.
    pub(crate) fn report_lost(&self, lost: &[ObjectKey]) {
        self.status.lost_keys(lost.len());
        tracing::warn!(
            plugin = %self.callee.principal.plugin, controller = %self.callee.controller, keys = lost.len(), example = %lost[0],
            "keys were parked although nothing would have woken them: they run now; this is a bug of windlass, please report it"
        );
    }

    /// Emits an Event on the primary, and logs, that its key has waited too long for the cache of `watch`.
    pub(crate) fn warn_of_wait(&self, waiting: &HeldKey, watch: &str, follows: &str) {
        let (key, trace_id) = (&waiting.key, trace_id());
        let note = format!(
            "for {EXPIRE_AFTER:?} the cache of {watch} has not shown what the plugin wrote for this object: {}. \
             {follows}",
            waiting.what
        );
        tracing::warn!(
            plugin = %self.callee.principal.plugin, controller = %self.callee.controller, %key, watch, waits_for = waiting.what,
            "an expectation has expired. {follows}"
        );
        let context =
            self.context(key, self.keys.primaries.get(key), &trace_id, Hold::detached(), CpuPermit::default());
        self.callee.ports.events.warn(&context, "ExpectationExpired", note);
    }
}
