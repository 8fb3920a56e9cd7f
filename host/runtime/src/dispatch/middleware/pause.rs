//! Paused objects: while a primary carries the annotation `windlass.dev/paused`, no call is made about it.
//!
//! The host does nothing at all: it adds and removes no finalizer either, so that a deletion waits too. A call that
//! runs when the annotation appears runs to its end. The removal of the annotation passes every predicate, and so do
//! the changes made meanwhile.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use windlass_core::call::ports::{CallContext, Event, EventType, Ports};
use windlass_core::object::ObjectKey;
use windlass_core::object::pause;
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::Called;

use crate::dispatch::reconcile::{Call, Reconcile};

/// Does not call the plugin about paused objects.
pub(crate) struct Pausable {
    inner: Box<dyn Reconcile>,
    /// The paused objects that have been reported.
    paused: Mutex<HashSet<ObjectKey>>,
}

impl Pausable {
    pub(crate) fn new(inner: Box<dyn Reconcile>) -> Self {
        Self { inner, paused: Mutex::default() }
    }

    /// Remembers whether the primary of `call` is paused now. Returns whether that has changed.
    fn is_news(&self, call: &CallContext, paused: bool) -> bool {
        let mut known = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        if paused { known.insert(call.primary_key.clone()) } else { known.remove(&call.primary_key) }
    }
}

impl Reconcile for Pausable {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let context = &call.context;
        let is_paused = context.primary.as_ref().is_some_and(pause::is_paused);
        match (is_paused, self.is_news(context, is_paused)) {
            (true, true) => announce(call.ports, context),
            (false, true) => tracing::info!("no longer paused"),
            (_, false) => {}
        }
        if is_paused {
            return ready(Called::not_made(CallResult::NotCalled { again: None })).boxed();
        }
        self.inner.reconcile(call)
    }
}

/// Logs the pause, and emits an Event on the object that explains why it does not change.
fn announce(ports: &Ports, call: &CallContext) {
    tracing::info!("paused: no call is made until the annotation {} is gone", pause::ANNOTATION);
    let note = format!(
        "{} does nothing about this object, and does not let it go if it has the plugin's finalizer, until the annotation {} is gone",
        call.principal.plugin,
        pause::ANNOTATION
    );
    ports.events.emit_for_host(call, Event::of_primary(EventType::Normal, "Paused", "Reconcile", note));
}

#[cfg(test)]
mod tests {
    use windlass_wasm::CallLimits;

    use windlass_core::call::ports::Absent;

    use super::*;
    use crate::tests::played::{Plugin, call, object};

    #[tokio::test]
    async fn a_paused_object_is_not_reconciled_until_it_is_resumed() {
        let plugin = Plugin::answering(CallResult::Done);
        let pausable = Pausable::new(plugin.boxed());
        let paused = object("1", r#"{"annotations":{"windlass.dev/paused":"true"}}"#, false);
        let deleting = object("2", r#"{"annotations":{"windlass.dev/paused":"true"}}"#, true);
        let resumed = object("3", "{}", false);
        for (primary, calls) in [(Some(&paused), 0), (Some(&deleting), 0), (Some(&resumed), 1), (None, 2)] {
            let (request, context) = call(primary.cloned());
            let called = pausable
                .reconcile(Call {
                    request,
                    ports: &Absent::ports(),
                    context,
                    limits: CallLimits::default(),
                    round: windlass_core::queue::breaker::BreakerRound::default(),
                    must_be_made: true,
                })
                .await;
            let made = if calls == 0 { CallResult::NotCalled { again: None } } else { CallResult::Done };
            assert_eq!((called.result, plugin.requests().len()), (made, calls));
        }
    }

    #[tokio::test]
    async fn a_pause_is_reported_once() {
        let pausable = Pausable::new(Plugin::answering(CallResult::Done).boxed());
        let paused = object("1", r#"{"annotations":{"windlass.dev/paused":"true"}}"#, false);
        let (_, call) = call(Some(paused));
        let news: Vec<_> = [true, true, false, false, true].map(|paused| pausable.is_news(&call, paused)).into();
        assert_eq!(news, [true, false, true, false, true]);
    }
}
