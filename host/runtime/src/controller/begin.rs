//! How a round begins: in place of another generation, or by itself.

use std::convert::Infallible;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use windlass_core::queue::trigger::TriggerReason;

use super::handover::kept::{ActiveRound, InheritedRound};
use super::handover::takeover::Takeover;
use super::muted::MutedChanges;
use super::watching::{KindLoss, Watching};
use super::{Controller, RoundEnd};
use crate::controller::running::Running;
use crate::phases::{ControllerEnd, Phases};

/// A round that has started everything except its workers.
pub(super) struct StartedRound {
    pub(super) running: Running,
    pub(super) active: Arc<ActiveRound>,
    /// See [`Handover::begins`](super::Handover::begins).
    pub(super) beginning: TaskTrackerToken,
    /// Why the round does not watch all configured kinds. `None` if it does.
    pub(super) left_out: Option<String>,
    /// Completes when the round could watch more of the configured kinds.
    pub(super) gained: BoxFuture<'static, KindLoss>,
}

impl Controller {
    /// Starts in place of another generation, with its queue if that was passed on. A round that never begins keeps no
    /// keys: the unseen writes of the running calls still belong to the other generation.
    pub(super) async fn begin_in_place(
        &self,
        takeover: &Takeover,
        mut watching: Watching,
        gone: &mut BoxFuture<'static, KindLoss>,
        phases: &Phases,
    ) -> Result<StartedRound, RoundEnd> {
        let (inherited, beginning) = match self.await_takeover(takeover, &mut watching, gone, &phases.stop).await {
            Ok(taken) => taken,
            Err(end) => {
                // A generation at work, or one whose queue was passed on, has handled the changes itself.
                if !self.handover.is_at_work() && self.is_settled() {
                    self.leave_muted(&mut watching);
                }
                return Err(end);
            }
        };
        // If the previous generation has passed on its queue, it has handled the changes that happened while this one
        // got ready.
        let (left_out, gained) = (watching.left_out.reason(), self.gained(&watching));
        let muted = if inherited.is_none() { self.take_muted(&mut watching) } else { None };
        let MutedChanges { gone, waiting, keys } = muted.unwrap_or_default();
        self.handover.left.add(&watching.primary, keys.into_iter().map(|key| (key, None)));
        let (running, active) = self.start(watching, waiting, inherited.as_ref().map(InheritedRound::active), phases);
        // Map changes by the plugin's code before every primary is queued, so that no change is missed in between.
        running.dispatch.has_caches();
        // The caches already show what has happened so far; later changes arrive as events.
        running.dispatch.keys.take_over(gone);
        running.dispatch.queue_left(TriggerReason::Swap);
        if let Some(inherited) = inherited {
            running
                .dispatch
                .keys
                .doubt_missing(inherited.active().primaries_missing_from(&running.dispatch.keys.primaries));
            inherited.has_begun();
        }
        Ok(StartedRound { running, active, beginning, left_out, gained })
    }

    /// Starts without another generation's queue, once the first lists are in and all calls of other generations and
    /// terms have ended.
    pub(super) async fn begin(
        &self,
        mut watching: Watching,
        gone: &mut BoxFuture<'static, KindLoss>,
        phases: &Phases,
    ) -> Result<StartedRound, RoundEnd> {
        let stop = &phases.stop;
        // Waits for calls of an earlier term or another generation.
        let others = &self.handover.workers;
        let calls = "for running calls of an earlier term or generation";
        let waited = tokio::select! {
            biased;
            waited = stop.run_until_cancelled(self.shown(calls, others.wait().map(Ok::<_, Infallible>))) => waited,
            never = async { watching.muted().await } => match never {},
        };
        let Some(beginning) = waited.and_then(|_| self.handover.begins(stop)) else {
            if self.is_superseded(stop) {
                self.leave_muted(&mut watching);
                return Err(RoundEnd::Ended(ControllerEnd::Clean));
            }
            return Err(RoundEnd::Ended(phases.until_cut(others.wait()).await));
        };
        let fresh = self.showing_waits(&watching, self.fresh(&watching));
        // Keys can wait until every first list has arrived. Events cannot, as they would pile up.
        let (left_out, gained) = (watching.left_out.reason(), self.gained(&watching));
        let muted = self.take_muted(&mut watching);
        let was_muted = muted.is_some();
        let MutedChanges { gone: deleted, waiting, keys } = muted.unwrap_or_default();
        self.handover.left.add(&watching.primary, keys.into_iter().map(|key| (key, None)));
        let (running, active) = self.start(watching, waiting, None, phases);
        let loss = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            loss = gone => Some(loss),
            () = fresh => {
                running.dispatch.has_caches();
                running.dispatch.keys.begin(was_muted.then_some(deleted));
                running.dispatch.queue_left(TriggerReason::Start);
                return Ok(StartedRound { running, active, beginning, left_out, gained });
            }
        };
        // Add these before the round leaves its own keys: its feeders may have seen newer primaries go.
        let deleted = deleted.into_iter().map(|(key, uid)| (key, Some(uid)));
        self.handover.left.add(&active.keys.primary, deleted);
        let end = if let Some(loss) = loss {
            self.lose(running, loss, phases).await
        } else {
            running.abandon().await;
            RoundEnd::Ended(ControllerEnd::Clean)
        };
        self.rests(&active);
        Err(end)
    }

    /// Leaves the changes that were discarded to the next round, because this one does not begin.
    fn leave_muted(&self, watching: &mut Watching) {
        // Takes all events that are already there. Tokio's cooperative budget would stop after some of them.
        let _ = tokio::task::unconstrained(watching.muted()).now_or_never();
        let muted = self.take_muted(watching).unwrap_or_default();
        let routes: Vec<_> = watching.subscriptions.iter().map(|(_, route)| route).collect();
        let keys = muted.into_keys(&routes, &watching.primaries);
        self.handover.left.add(&watching.primary, keys);
    }

    /// The changes to remember of the discarded events. `None` if none were discarded.
    fn take_muted(&self, watching: &mut Watching) -> Option<MutedChanges> {
        let muted = watching.take_muted();
        let forgotten = muted.as_ref().map(|muted| muted.gone.forgotten()).unwrap_or_default();
        if forgotten > 0 {
            let (plugin, controller) = (self.parts.plugin.name(), self.name());
            tracing::warn!(
                %plugin, controller, forgotten,
                "too many primaries were deleted while the controller could not work: this generation is not called about the first of them"
            );
        }
        muted
    }

    /// Whether another generation has replaced this one: `stop` is cancelled, but the term goes on.
    fn is_superseded(&self, stop: &CancellationToken) -> bool {
        stop.is_cancelled() && !self.term.ends.is_cancelled()
    }
}
