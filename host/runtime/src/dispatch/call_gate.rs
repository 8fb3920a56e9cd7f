//! The gate that every call of a controller passes. It is open while the API server answers, the caches show the
//! server's current state, the plugin is not paused, and its circuit breaker admits the call. Workers wait for the gate
//! and take no key meanwhile.

#[cfg(test)]
use windlass_core::queue::breaker::BreakerState;
use windlass_core::queue::key_state::CallBlock;
use windlass_kube::CacheTrust;

use super::circuit::{Circuit, Pass};
use super::outage::Outages;
use crate::policies::Pause;

/// Whether calls of one controller may be made.
#[derive(Clone, Debug)]
pub(crate) struct CallGate {
    outages: Outages,
    /// Knows whether the server was restored and the caches do not show that yet.
    trust: CacheTrust,
    /// `None` if the plugin cannot be paused.
    pause: Option<Pause>,
    circuit: Circuit,
}

impl CallGate {
    pub(crate) fn new(outages: Outages, trust: CacheTrust, pause: Option<Pause>, circuit: Circuit) -> Self {
        Self { outages, trust, pause, circuit }
    }

    /// Whether a call may be made now.
    pub(crate) fn may_call(&self) -> bool {
        self.block().is_none()
    }

    /// Why no call may be made now.
    pub(crate) fn block(&self) -> Option<CallBlock> {
        if !self.outages.server_answers() {
            Some(CallBlock::ServerUnreachable)
        } else if !self.trust.is_given() {
            Some(CallBlock::CachesUnproven)
        } else if self.is_paused() {
            Some(CallBlock::PluginPaused)
        } else {
            (!self.circuit.is_passable()).then_some(CallBlock::BreakerOpen)
        }
    }

    /// Admits one call, if it may be made now.
    pub(crate) fn admit(&self) -> Option<Pass> {
        if self.may_call() { self.circuit.admit() } else { None }
    }

    /// Completes when calls may be made.
    pub(crate) async fn open(&self) {
        while !self.may_call() {
            if !self.outages.answering().await {
                return;
            }
            self.trust.given().await;
            if let Some(pause) = &self.pause {
                pause.becomes(false).await;
            }
            self.circuit.passable().await;
        }
    }

    /// Completes when calls may no longer be made.
    pub(crate) async fn closed(&self) {
        let paused = async {
            match &self.pause {
                Some(pause) => pause.becomes(true).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.outages.begun() => {}
            () = self.trust.lost() => {}
            () = paused => {}
            () = self.circuit.impassable() => {}
        }
    }

    /// Admits one trial call now if the circuit is open. Returns whether it was open.
    pub(crate) fn probe_now(&self) -> bool {
        self.circuit.probe_now()
    }

    /// The API server's outages, which the gate waits out.
    pub(crate) fn outages(&self) -> &Outages {
        &self.outages
    }

    /// Whether the controller's caches can be trusted.
    pub(crate) fn trust(&self) -> &CacheTrust {
        &self.trust
    }

    /// The state of the circuit breaker.
    #[cfg(test)]
    pub(crate) fn breaker(&self) -> BreakerState {
        self.circuit.state()
    }

    fn is_paused(&self) -> bool {
        self.pause.as_ref().is_some_and(Pause::is_on)
    }
}
