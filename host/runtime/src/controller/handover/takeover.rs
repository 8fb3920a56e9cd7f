//! A controller that is about to replace another generation's. It gets ready while the other still works, and reports
//! when it is ready. Its watches deliver events, which are discarded because the working controller handles them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use windlass_core::object::finalizer;

use super::kept::{InheritedRound, PrimaryScope};
use crate::controller::watching::{KindLoss, Watching};
use crate::controller::{Controller, RoundEnd};
use crate::observe::status::ControllerState;
use crate::phases::ControllerEnd;

/// The progress of a controller that is to replace another.
pub(in crate::controller) struct Takeover {
    /// Cancelled once the controller may begin.
    pub(in crate::controller) may_begin: CancellationToken,
    round: Mutex<TakeoverRound>,
}

/// The progress of a round. The default is a round that has reported nothing.
#[derive(Default)]
struct TakeoverRound {
    /// The primaries that the round is ready to work on.
    ready: Option<PrimaryScope>,
    inherited: Option<InheritedRound>,
    /// True from when the round is given the other generation's queue until it begins.
    is_expecting: bool,
}

impl Takeover {
    pub(in crate::controller) fn new(may_begin: CancellationToken) -> Self {
        Self { may_begin, round: Mutex::default() }
    }

    /// Marks a round as running until the guard is dropped, which notifies `changed`.
    pub(in crate::controller) fn round<'a>(&'a self, changed: &'a Notify) -> InRound<'a> {
        InRound(self, changed)
    }

    /// Records that the round is, or was, at work.
    pub(in crate::controller) fn has_begun(&self) {
        self.lock().is_expecting = false;
    }

    fn lock(&self) -> MutexGuard<'_, TakeoverRound> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a round ends, even by a panic, this resets what it has reported. If it inherited a queue and has not begun, the
/// previous round stops waiting for it.
pub(in crate::controller) struct InRound<'a>(&'a Takeover, &'a Notify);

impl Drop for InRound<'_> {
    fn drop(&mut self) {
        let round = std::mem::take(&mut *self.0.lock());
        drop(round);
        // Notified last, so that the task that it wakes sees the final state.
        self.1.notify_one();
    }
}

impl Controller {
    /// Whether the controller waits only for the swap. If no other generation is at work, it needs no swap, and begins
    /// when it can.
    pub(crate) fn is_ready(&self) -> bool {
        let Some(takeover) = &self.takeover else { return true };
        if self.stands_for_kinds() {
            // If the configuration names kinds, their controllers are yet to be made.
            return self.has_no_kinds();
        }
        !self.handover.is_at_work() || takeover.lock().ready.is_some()
    }

    /// Whether the controller has begun to work on the queue that it was given. True if it was given none.
    pub(crate) fn is_settled(&self) -> bool {
        self.takeover.as_ref().is_none_or(|takeover| !takeover.lock().is_expecting)
    }

    /// The reason why the controller is not ready, if it has reported one.
    pub(crate) fn waits_for(&self) -> Option<String> {
        if self.is_ready() {
            return None;
        }
        let (state, reason) = self.report.last();
        let name = self.name();
        Some(match (state, reason) {
            (_, Some(reason)) => format!("the controller {name} waits: {reason}"),
            _ => format!("the controller {name} waits for the first lists of what it watches"),
        })
    }

    /// Takes over the queue of the working round if the primaries are the same. Otherwise the working round ends, and
    /// [leaves its keys](crate::dispatch::left_keys). Call this before ending the working round and before letting this
    /// one begin.
    pub(crate) fn take_over(&self) {
        let Some(takeover) = &self.takeover else { return };
        let mut round = takeover.lock();
        let mut is_other = false;
        let inherited = self.handover.pass_on(|active| {
            // If this round is no longer ready, its primaries are unknown. Then the keys' writes count as unproven.
            is_other = round.ready.as_ref().is_some_and(|scope| *scope != active.scope);
            round.ready.as_ref() == Some(&active.scope)
        });
        if is_other {
            self.handover.is_replaced();
            tracing::info!(
                plugin = %self.parts.plugin.name(), controller = self.name(),
                "the controller has other primaries from now on: it starts again"
            );
        }
        if inherited.is_some() {
            self.handover.reporter.follow_from_now(&self.report);
        } else {
            self.handover.reporter.follow(&self.report);
        }
        round.is_expecting = inherited.is_some();
        round.inherited = inherited;
    }

    /// The objects that would keep the plugin's finalizer for ever if `next` replaced the working round, which
    /// maintains it: their number, and the name of one.
    pub(crate) fn strands(&self, next: Option<&Self>) -> Option<(usize, String)> {
        let active = self.handover.active_round().filter(|_| self.declared().options.finalizer)?;
        let goes_on = next.is_some_and(|next| {
            let scope = next.takeover.as_ref().and_then(|it| it.lock().ready.clone());
            next.declared().options.finalizer && scope.as_ref() == Some(&active.scope)
        });
        if goes_on {
            return None;
        }
        let finalizer = finalizer::name(self.parts.plugin.name());
        let mut carrying = active.primaries.objects().filter(|object| finalizer::has(object, &finalizer));
        let example = carrying.next()?.header.key.to_string();
        Some((1 + carrying.count(), example))
    }

    /// Waits, with filled caches, until the controller may begin. Returns the round that it takes over, if there is
    /// one, and the token that marks its own beginning.
    pub(in crate::controller) async fn await_takeover(
        &self,
        takeover: &Takeover,
        watching: &mut Watching,
        gone: &mut BoxFuture<'static, KindLoss>,
        stop: &CancellationToken,
    ) -> Result<(Option<InheritedRound>, TaskTrackerToken), RoundEnd> {
        let scope = PrimaryScope::of(&watching.primary, watching.primary_specs());
        let (fresh, watches) = (self.fresh(watching), watching.specs());
        let muted = watching.muted();
        let inherited = async {
            fresh.await;
            takeover.lock().ready = Some(scope);
            self.changed.notify_one();
            takeover.may_begin.cancelled().await;
            let inherited = takeover.lock().inherited.take();
            if !inherited.as_ref().is_some_and(|it| it.active().does_for(&watches)) {
                // This round's caches may not show yet what the running calls have written, so wait for these calls to
                // end.
                self.handover.workers.wait().await;
            }
            inherited
        };
        let loss = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(RoundEnd::Ended(ControllerEnd::Clean)),
            loss = gone => loss,
            never = muted => match never {},
            inherited = inherited => {
                let beginning = self.handover.begins(stop);
                return beginning.map(|it| (inherited, it)).ok_or(RoundEnd::Ended(ControllerEnd::Clean));
            }
        };
        if takeover.may_begin.is_cancelled() {
            self.log_loss(&loss);
        } else {
            self.report_state(ControllerState::Waiting, Some(loss.to_string()));
        }
        Err(RoundEnd::Lost(loss))
    }
}
