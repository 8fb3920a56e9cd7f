//! A controller that is to take the place of another generation's: it gets ready beside the one that is at work, and
//! says when it is. Its watches are heard and what they tell is discarded; the one at work sees to that.

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

/// How far a controller is that is to take another's place.
pub(in crate::controller) struct Takeover {
    /// It may begin.
    pub(in crate::controller) may_begin: CancellationToken,
    round: Mutex<TakeoverRound>,
}

/// How far a round is. A place is given for what it has said of itself: none, unless it has said something.
#[derive(Default)]
struct TakeoverRound {
    /// The primaries that it is ready to work on.
    ready: Option<PrimaryScope>,
    inherited: Option<InheritedRound>,
    /// It has been given a place, and has not begun there.
    is_expecting: bool,
}

impl Takeover {
    pub(in crate::controller) fn new(may_begin: CancellationToken) -> Self {
        Self { may_begin, round: Mutex::default() }
    }

    /// A round begins, and goes on until this is dropped, of which `changed` is told.
    pub(in crate::controller) fn round<'a>(&'a self, changed: &'a Notify) -> InRound<'a> {
        InRound(self, changed)
    }

    /// It is at work, or was.
    pub(in crate::controller) fn has_begun(&self) {
        self.lock().is_expecting = false;
    }

    fn lock(&self) -> MutexGuard<'_, TakeoverRound> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// However a round ends, also by a panic: nothing is left of what it has said of itself, and whoever was at work in a
/// place that it has been given and has not begun in waits for it no longer.
pub(in crate::controller) struct InRound<'a>(&'a Takeover, &'a Notify);

impl Drop for InRound<'_> {
    fn drop(&mut self) {
        let round = std::mem::take(&mut *self.0.lock());
        drop(round);
        // Last: whoever looks now sees all of it.
        self.1.notify_one();
    }
}

impl Controller {
    /// Whether nothing is left to wait for but the swap. One that nobody is at work for begins when it can, whenever
    /// that is.
    pub(crate) fn is_ready(&self) -> bool {
        let Some(takeover) = &self.takeover else { return true };
        !self.handover.is_at_work() || takeover.lock().ready.is_some()
    }

    /// Whether what it was to take over is its own by now.
    pub(crate) fn is_settled(&self) -> bool {
        self.takeover.as_ref().is_none_or(|takeover| !takeover.lock().is_expecting)
    }

    /// The thing that it waits for, as far as it has said.
    pub(crate) fn waits_for(&self) -> Option<String> {
        if self.is_ready() {
            return None;
        }
        let (state, reason) = self.report.last();
        let name = &self.declared().name;
        Some(match (state, reason) {
            (_, Some(reason)) => format!("the controller {name} waits: {reason}"),
            _ => format!("the controller {name} waits for the first lists of what it watches"),
        })
    }

    /// Takes over from the round that is at work, if the primaries are the same: else that one ends, and with it its
    /// queue. To be called before the one at work is told to end, and this one that it may begin.
    pub(crate) fn take_over(&self) {
        let Some(takeover) = &self.takeover else { return };
        let mut round = takeover.lock();
        let mut is_other = false;
        let inherited = self.handover.pass_on(|active| {
            // Of one that is not ready any more it is not known: what keys were to see is doubted then.
            is_other = round.ready.as_ref().is_some_and(|scope| *scope != active.scope);
            round.ready.as_ref() == Some(&active.scope)
        });
        if is_other {
            self.handover.is_replaced();
            tracing::info!(
                plugin = %self.parts.plugin.name(), controller = self.declared().name,
                "its primaries are others from now on: it starts anew"
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

    /// The objects that would keep the plugin's finalizer for ever if `next` took the place of the round at work, which
    /// keeps it: how many, and one of them.
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

    /// Waits, with its caches filled, until it may begin. Returns what it takes over, and what tells that it begins.
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
                // What the calls that run have written and are yet to see, the caches of this round would not show.
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
            self.tell(&loss);
        } else {
            self.say(ControllerState::Waiting, Some(loss.to_string()));
        }
        Err(RoundEnd::Lost(loss))
    }
}
