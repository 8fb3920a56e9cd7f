//! A controller that is to take the place of another generation's: it gets ready beside the one that is at work, and says when
//! it is. Its watches are heard and what they tell is discarded; the one at work sees to that.

use std::future::pending;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, join_all};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_core::finalizer;

use super::Controller;
use super::lasting::{Inherited, Scope};
use super::watching::{Loss, Watching};
use crate::running::End;
use crate::status::{ControllerState, ControllerStatus};

/// How far a controller is that is to take another's place.
pub(super) struct Successor {
    /// What it says of itself until it is its turn: what is shown is what is at work.
    pub(super) status: Arc<ControllerStatus>,
    /// It may begin.
    pub(super) turn: CancellationToken,
    /// Told of each change of what follows.
    changed: Arc<Notify>,
    /// The primaries that it is ready to work on.
    ready: Mutex<Option<Scope>>,
    inherited: Mutex<Option<Inherited>>,
    /// It has been given a place, and has not begun there.
    is_expecting: AtomicBool,
}

impl Successor {
    pub(super) fn new(status: Arc<ControllerStatus>, turn: CancellationToken, changed: Arc<Notify>) -> Self {
        let (ready, inherited) = (Mutex::default(), Mutex::default());
        Self { status, turn, changed, ready, inherited, is_expecting: AtomicBool::new(false) }
    }

    fn is_ready(&self, scope: Option<Scope>) {
        *locked(&self.ready) = scope;
        self.changed.notify_one();
    }

    /// It is at work, or was.
    pub(super) fn has_begun(&self) {
        self.is_expecting.store(false, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// It ends. Whoever was at work in a place that it has been given and has not begun in waits for it no longer.
    pub(super) fn ends(&self) {
        drop(locked(&self.inherited).take());
        self.is_expecting.store(false, Ordering::Relaxed);
    }

    /// Whether it has to wait for its turn, or has a place to take over.
    pub(super) fn succeeds(&self) -> bool {
        !self.turn.is_cancelled() || locked(&self.inherited).is_some()
    }
}

impl Controller {
    /// Whether nothing is left to wait for but its turn. One that nobody is at work for begins when it can, whenever that is.
    pub(crate) fn is_ready(&self) -> bool {
        let Some(successor) = &self.successor else { return true };
        !self.lasting.is_at_work() || locked(&successor.ready).is_some()
    }

    /// Whether what it was to take over is its own by now.
    pub(crate) fn is_settled(&self) -> bool {
        self.successor.as_ref().is_none_or(|successor| !successor.is_expecting.load(Ordering::Relaxed))
    }

    /// What it waits for, as far as it has said.
    pub(crate) fn waits_for(&self) -> Option<String> {
        if self.is_ready() {
            return None;
        }
        let (state, reason) = self.status().state();
        let name = &self.declared().name;
        Some(match (state, reason) {
            (_, Some(reason)) => format!("the controller {name} waits: {reason}"),
            _ => format!("the controller {name} waits for the first lists of what it watches"),
        })
    }

    /// Takes over from the round that is at work, if the primaries are the same: else that one ends, and with it its queue. To be
    /// called before the one at work is told to end, and this one that it is its turn.
    pub(crate) fn take_over(&self) {
        let Some(successor) = &self.successor else { return };
        let ready = locked(&successor.ready).clone();
        let was_at_work = self.lasting.is_at_work();
        let inherited = self.lasting.vacate(|place| ready.as_ref() == Some(&place.scope));
        if inherited.is_none() && was_at_work {
            self.lasting.is_replaced();
            tracing::info!(
                plugin = %self.plugin.name(), controller = self.declared().name,
                "its primaries are others from now on: it starts anew"
            );
        }
        if !was_at_work {
            // What it has said of itself is what is shown from now on: it may not say it again.
            let (state, reason) = successor.status.state();
            self.lasting.status.set(state, reason);
        }
        successor.is_expecting.store(inherited.is_some(), Ordering::Relaxed);
        *locked(&successor.inherited) = inherited;
    }

    /// The objects that would keep the plugin's finalizer for ever if `next` took the place of the round at work, which keeps it:
    /// how many, and one of them.
    pub(crate) fn strands(&self, next: Option<&Self>) -> Option<(usize, String)> {
        let place = self.lasting.place().filter(|_| self.declared().options.finalizer)?;
        let goes_on = next.is_some_and(|next| {
            let scope = next.successor.as_ref().and_then(|it| locked(&it.ready).clone());
            next.declared().options.finalizer && scope.as_ref() == Some(&place.scope)
        });
        if goes_on {
            return None;
        }
        let finalizer = finalizer::name(self.plugin.name());
        let mut carrying = place.primaries.objects().filter(|object| finalizer::has(object, &finalizer));
        let example = carrying.next()?.header.key.to_string();
        Some((1 + carrying.count(), example))
    }

    /// Waits, with its caches filled, for its turn. Returns what it takes over.
    pub(super) async fn await_turn(
        &self,
        successor: &Successor,
        watching: &mut Watching,
        gone: &mut BoxFuture<'static, Loss>,
        stop: &CancellationToken,
    ) -> ControlFlow<ControlFlow<End, Loss>, Option<Inherited>> {
        let scope = Scope::of(&watching.primary, watching.primary_specs());
        let (fresh, watches) = (self.fresh(watching), watching.specs());
        let muted = watching.subscriptions.iter_mut().map(
            async |(subscription, _)| {
                while subscription.next().await.is_some() {}
            },
        );
        let muted = async {
            join_all(muted).await;
            // It has ended, which is told otherwise.
            pending::<()>().await;
        };
        let inherited = async {
            fresh.await;
            successor.is_ready(Some(scope));
            successor.turn.cancelled().await;
            let inherited = locked(&successor.inherited).take();
            if !inherited.as_ref().is_some_and(|it| it.place().does_for(&watches)) {
                // What the calls that run have written and are yet to see, the caches of this round would not show.
                self.lasting.workers.wait().await;
            }
            inherited
        };
        let loss = tokio::select! {
            biased;
            () = stop.cancelled() => return ControlFlow::Break(ControlFlow::Break(End::Clean)),
            loss = gone => loss,
            () = muted => return ControlFlow::Break(ControlFlow::Break(End::Clean)),
            inherited = inherited => return ControlFlow::Continue(inherited),
        };
        successor.is_ready(None);
        successor.ends();
        if successor.turn.is_cancelled() {
            self.tell(&loss);
        } else {
            self.status().set(ControllerState::Waiting, Some(loss.to_string()));
        }
        ControlFlow::Break(ControlFlow::Continue(loss))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
