//! The circuit breaker of a controller at work: `core::breaker` decides when it opens and closes; this module waits,
//! and shows its state as JSON.
//!
//! Dispatch reaches it only through the [call gate](super::call_gate), which admits each call; `middleware::breaker`
//! records how the call ended. A new generation begins with its own circuit, which is closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_core::clock::{Clock, Moment};
use windlass_core::object::ObjectKey;
use windlass_core::queue::breaker::{Admission, Breaker, BreakerChange, BreakerRound, BreakerState};

use crate::clock::SystemClock;

/// Whether a controller's plugin may be called. Clones share the circuit.
#[derive(Clone)]
pub(crate) struct Circuit(Arc<CircuitInner>);

struct CircuitInner {
    clock: SystemClock,
    standing: Mutex<CircuitState>,
    /// Notified of each change that a task may wait for.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct CircuitState {
    breaker: Breaker<ObjectKey>,
    /// Why it last opened.
    last_trap: Option<String>,
}

impl std::fmt::Debug for Circuit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Circuit").field(&self.state()).finish()
    }
}

impl Default for Circuit {
    /// A closed circuit.
    fn default() -> Self {
        let shared =
            CircuitInner { clock: SystemClock::new(), standing: Mutex::default(), changed: watch::Sender::default() };
        Self(Arc::new(shared))
    }
}

/// The right to one call. While the circuit is half-open, there is only one.
pub(crate) struct Pass {
    circuit: Circuit,
    round: BreakerRound,
}

impl Pass {
    /// The round of the breaker that the call was admitted in.
    pub(crate) fn round(&self) -> BreakerRound {
        self.round
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut standing = self.circuit.standing();
        let makes_room = standing.breaker.leave(self.round);
        drop(standing);
        if makes_room {
            self.circuit.notify();
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
                        biased;
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
            // This cannot fail: `self` holds the sender.
            let _ = changed.changed().await;
        }
    }

    /// Admits one call, if it may begin.
    pub(crate) fn admit(&self) -> Option<Pass> {
        let now = self.now();
        let mut standing = self.standing();
        let was_closed = standing.breaker.state(now) == BreakerState::Closed;
        let round = standing.breaker.admit(now)?;
        drop(standing);
        if !was_closed {
            self.notify();
        }
        Some(Pass { circuit: self.clone(), round })
    }

    /// Admits one trial call now if the circuit is open. Returns whether it was open.
    pub(crate) fn probe_now(&self) -> bool {
        let was_open = self.standing().breaker.probe_now(self.now());
        if was_open {
            self.notify();
        }
        was_open
    }

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

    /// Records that a call about `key` that began in `round` has ended. `trap` is the message if the call trapped, and
    /// so gave no answer.
    pub(super) fn ended(&self, round: BreakerRound, key: &ObjectKey, trap: Option<&str>) -> Option<BreakerChange> {
        let mut standing = self.standing();
        let change = standing.breaker.ended(round, key, trap.is_some(), self.now())?;
        if let (BreakerChange::Opened(_), Some(trap)) = (change, trap) {
            standing.last_trap = Some(trap.to_owned());
        }
        drop(standing);
        self.notify();
        Some(change)
    }

    fn notify(&self) {
        self.0.changed.send_replace(());
    }

    fn now(&self) -> Moment {
        self.0.clock.now()
    }

    fn standing(&self) -> MutexGuard<'_, CircuitState> {
        self.0.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state as `/plugins` names it.
fn label(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::HalfOpen => "half-open",
        BreakerState::Open => "open",
    }
}
