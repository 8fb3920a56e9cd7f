//! Lets the next version of a plugin, if there is one, be called on the same key after this version.
//!
//! Only the instance is inside this middleware, so it sees what the plugin itself asks for, and nothing that the host
//! does around a call.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::budget::fair::CpuPermit;
use windlass_core::cache::overlay::Overlay;
use windlass_core::call::call_lines::CallLines;
use windlass_core::call::ports::{CallContext, listened};
use windlass_core::write::settle::Hold;
use windlass_wasm::{CallLimits, Called, Replay};

use crate::dispatch::reconcile::{Call, Reconcile};
use crate::dispatch::shadow::ledger::ShadowLedger;
use crate::dispatch::shadow::{Backlog, NextOf, NotedCall, OpenNotes};

/// Records the calls for the shadow.
pub(crate) struct Shadowed {
    inner: Box<dyn Reconcile>,
    next: NextOf,
    backlog: Arc<Backlog>,
}

impl Shadowed {
    pub(crate) fn new(inner: Box<dyn Reconcile>, next: NextOf, backlog: Arc<Backlog>) -> Self {
        Self { inner, next, backlog }
    }

    async fn noted(&self, call: Call<'_>, ledger: Arc<ShadowLedger>) -> Called {
        let notes = OpenNotes::new(call.ports.reads.clone());
        let ports = listened(call.ports, notes.clone());
        let (request, context) = (call.request.clone(), call.context.clone());
        let limits = CallLimits { replay: Some(now()), ..call.limits.clone() };
        let called = self.inner.reconcile(Call { ports: &ports, ..call }).await;
        if called.made && !called.result.is_wait() {
            let offered = notes
                .take()
                .map(|noted| NotedCall::new(ledger.clone(), request, unheld(&context), limits, noted, called.clone()))
                .is_some_and(|noted| self.backlog.offer(noted));
            if !offered {
                ledger.passed_over("too much is waiting, or the call asked for too much");
            }
        }
        called
    }
}

impl Reconcile for Shadowed {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let ledger = self.next.borrow().as_ref().map(|next| next.ledger.clone());
        match ledger {
            Some(ledger) => self.noted(call, ledger).boxed(),
            None => self.inner.reconcile(call),
        }
    }
}

/// The time and the random numbers of both calls. The shadow's clock shows when this version's call began, because the
/// shadow may be called much later.
fn now() -> Replay {
    let mut seed = [0; 32];
    windlass_world::fill(&mut seed);
    Replay { now: windlass_world::now(), seed }
}

/// `call` as its shadow uses it: the key does not wait for the shadow.
fn unheld(call: &CallContext) -> CallContext {
    CallContext {
        hold: Hold::detached(),
        overlay: Overlay::default(),
        lines: CallLines::default(),
        cpu_permit: CpuPermit::default(),
        trace: call.trace.silenced(),
        ..call.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadows_lines_are_no_lines_of_the_call_that_it_follows() {
        let (_, call) = crate::tests::played::call(None);
        unheld(&call).lines.add("INFO", "in the shadow");
        assert_eq!(call.lines.take(), []);
    }
}
