//! The circuit breaker of a controller at work: `core::breaker` decides, this waits, and tells people.
//!
//! [`Guarded`] stands right around what is called, so that it sees real calls only, and not what a decorator answers in a
//! plugin's place. Dispatch asks [`Circuit::admit`] with the permit in hand, and waits by [`Outages`](crate::dispatch::outage::Outages), as it
//! does while the API server is unreachable. A new generation begins with a circuit of its own, which is closed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_core::breaker::{Admission, Breaker, BreakerChange, BreakerRound, BreakerState};
use windlass_core::clock::{Clock, Moment};
use windlass_core::object::ObjectKey;
use windlass_core::outcome::CallResult;
use windlass_core::ports::{CallContext, Events, Ports};
use windlass_wasm::{CallLimits, Called, Request};

use crate::clock::SystemClock;
use crate::dispatch::Reconcile;
use crate::observe::status::ControllerStatus;

/// Whether a controller's plugin is to be called. Clones are the same circuit.
#[derive(Clone)]
pub(crate) struct Circuit(Arc<Shared>);

struct Shared {
    clock: SystemClock,
    standing: Mutex<Standing>,
    /// Is told of each change that somebody may wait for.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Standing {
    breaker: Breaker<ObjectKey>,
    /// In which round the calls were let in that have not ended: a key has one.
    admitted: HashMap<ObjectKey, BreakerRound>,
    /// Why it opened last.
    last_trap: Option<String>,
}

impl std::fmt::Debug for Circuit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Circuit").field(&self.state()).finish()
    }
}

impl Default for Circuit {
    /// A closed one.
    fn default() -> Self {
        let shared =
            Shared { clock: SystemClock::new(), standing: Mutex::default(), changed: watch::Sender::default() };
        Self(Arc::new(shared))
    }
}

/// The right to one call. When the circuit is half-open nobody else has one.
pub(crate) struct Pass {
    circuit: Circuit,
    key: ObjectKey,
    round: BreakerRound,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut standing = self.circuit.standing();
        standing.admitted.remove(&self.key);
        let makes_room = standing.breaker.leave(self.round);
        drop(standing);
        if makes_room {
            self.circuit.tell();
        }
    }
}

impl Circuit {
    /// Whether a call may begin now.
    pub(crate) fn is_passable(&self) -> bool {
        self.standing().breaker.admission(self.now()) == Admission::Now
    }

    /// Completes when a call may begin.
    pub(crate) async fn passable(&self) {
        let mut changed = self.0.changed.subscribe();
        loop {
            let admission = self.standing().breaker.admission(self.now());
            let change = changed.changed().map(drop);
            match admission {
                Admission::Now => return,
                Admission::At(moment) => {
                    tokio::select! {
                        () = self.0.clock.sleep_until(moment) => {}
                        () = change => {}
                    }
                }
                Admission::AfterProbe => change.await,
            }
        }
    }

    /// Completes when no call may begin.
    pub(crate) async fn impassable(&self) {
        let mut changed = self.0.changed.subscribe();
        while self.is_passable() {
            // The sender is this circuit's own.
            let _ = changed.changed().await;
        }
    }

    /// Lets one call about `key` begin, if it may.
    pub(crate) fn admit(&self, key: &ObjectKey) -> Option<Pass> {
        let now = self.now();
        let mut standing = self.standing();
        let was_closed = standing.breaker.state(now) == BreakerState::Closed;
        let round = standing.breaker.admit(now)?;
        standing.admitted.insert(key.clone(), round);
        drop(standing);
        if !was_closed {
            self.tell();
        }
        Some(Pass { circuit: self.clone(), key: key.clone(), round })
    }

    /// What it is.
    pub(crate) fn state(&self) -> BreakerState {
        self.standing().breaker.state(self.now())
    }

    pub(crate) fn to_json(&self) -> Value {
        let (now, standing) = (self.now(), self.standing());
        let state = standing.breaker.state(now);
        let left = standing.breaker.open_until().filter(|_| state == BreakerState::Open);
        json!({
            "state": label(state),
            "openings": standing.breaker.openings(),
            "probeInSeconds": left.map(|until| until.0.saturating_sub(now.0).as_secs()),
            "lastTrap": standing.last_trap,
        })
    }

    /// In which round the call about `key` was let in. What has become of the circuit since is not its doing.
    fn round_of(&self, key: &ObjectKey) -> BreakerRound {
        let standing = self.standing();
        standing.admitted.get(key).copied().unwrap_or_else(|| standing.breaker.round())
    }

    /// A call about `key` that began in `round` has ended, without an answer if it trapped with this message.
    fn ended(&self, round: BreakerRound, key: &ObjectKey, trap: Option<&str>) -> Option<BreakerChange> {
        let mut standing = self.standing();
        let change = standing.breaker.ended(round, key, trap.is_some(), self.now())?;
        if let (BreakerChange::Opened(_), Some(trap)) = (change, trap) {
            standing.last_trap = Some(trap.to_owned());
        }
        drop(standing);
        self.tell();
        Some(change)
    }

    fn tell(&self) {
        self.0.changed.send_replace(());
    }

    fn now(&self) -> Moment {
        self.0.clock.now()
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.0.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As `/plugins` names it.
fn label(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::HalfOpen => "half-open",
        BreakerState::Open => "open",
    }
}

/// Notes how each call ends.
pub(crate) struct Guarded {
    inner: Box<dyn Reconcile>,
    circuit: Circuit,
    status: Arc<ControllerStatus>,
    /// Not the plugin's own, which it may have used up.
    events: Arc<dyn Events>,
}

impl Guarded {
    pub(crate) fn new(
        inner: Box<dyn Reconcile>,
        circuit: Circuit,
        status: Arc<ControllerStatus>,
        events: Arc<dyn Events>,
    ) -> Self {
        Self { inner, circuit, status, events }
    }

    fn note(&self, call: &CallContext, round: BreakerRound, result: &CallResult) {
        let trap = match result {
            CallResult::Trapped { reason, message } => {
                self.status.trapped(reason);
                if result.is_wait() {
                    return;
                }
                Some(&**message)
            }
            CallResult::Done | CallResult::RequeueAfter(_) | CallResult::Failed(_) | CallResult::NotCalled { .. } => {
                None
            }
        };
        match self.circuit.ended(round, &call.primary_key, trap) {
            Some(BreakerChange::Opened(pause)) => self.opened(call, pause, trap.unwrap_or_default()),
            Some(BreakerChange::Closed) => tracing::info!("the plugin answers again: the controller's calls go on"),
            None => {}
        }
    }

    fn opened(&self, call: &CallContext, pause: Duration, trap: &str) {
        self.status.opened();
        tracing::error!(
            error = trap,
            ?pause,
            "circuit opened: one call after the other ended without an answer, about different objects. None is made for a \
             while, then one, to see; what is queued stays queued"
        );
        let note = format!(
            "the controller {} of {} is not called for {pause:?}: its calls about one object after the other ended without \
             an answer, the last one: {trap}",
            call.controller, call.principal.plugin
        );
        self.events.warn(call, "CircuitOpened", note);
    }
}

impl Reconcile for Guarded {
    fn reconcile<'a>(
        &'a self,
        request: Request,
        ports: &'a Ports,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> BoxFuture<'a, Called> {
        let round = self.circuit.round_of(&call.primary_key);
        let called = self.inner.reconcile(request, ports, call.clone(), limits);
        called.inspect(move |called| self.note(&call, round, &called.result)).boxed()
    }
}

#[cfg(test)]
pub(crate) mod played_events;
#[cfg(test)]
mod tests;
