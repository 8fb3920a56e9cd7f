//! Records with the circuit breaker how each call of the plugin ended, and reports when it opens.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::call::ports::{CallContext, Events};
use windlass_core::queue::breaker::{BreakerChange, BreakerRound};
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::Called;

use crate::dispatch::circuit::Circuit;
use crate::dispatch::reconcile::{Call, Reconcile};
use crate::observe::status::ControllerStatus;

/// The middleware right around the plugin, so that it sees only real calls, and not the answers of other middleware.
pub(crate) struct BreakerRecord {
    inner: Box<dyn Reconcile>,
    circuit: Circuit,
    status: Arc<ControllerStatus>,
    /// The Events of the host, because the plugin may have used up its budget of Events.
    events: Arc<dyn Events>,
}

impl BreakerRecord {
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
            CallResult::Done
            | CallResult::RequeueAfter(_)
            | CallResult::RequeueBackoff
            | CallResult::Failed(_)
            | CallResult::NotCalled { .. } => None,
        };
        match self.circuit.ended(round, &call.primary_key, trap) {
            Some(BreakerChange::Opened(pause)) => self.opened(call, pause, trap.unwrap_or_default()),
            Some(BreakerChange::Closed) => tracing::info!("the plugin answers again: the controller's calls resume"),
            None => {}
        }
    }

    fn opened(&self, call: &CallContext, pause: Duration, trap: &str) {
        self.status.opened();
        tracing::error!(
            error = trap,
            ?pause,
            "circuit opened: several calls in a row, about different objects, ended without an answer. No call is made \
             for a while, and then one as a trial; queued keys stay queued"
        );
        let note = format!(
            "the controller {} of {} is not called for {pause:?}: several calls in a row, about different objects, \
             ended without an answer, the last one: {trap}",
            call.controller, call.principal.plugin
        );
        self.events.warn(call, "CircuitOpened", note);
    }
}

impl Reconcile for BreakerRecord {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let (context, round) = (call.context.clone(), call.round);
        let called = self.inner.reconcile(call);
        called
            .inspect(move |called| {
                if called.made {
                    self.note(&context, round, &called.result);
                }
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests;
