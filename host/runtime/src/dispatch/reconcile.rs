//! The trait through which a worker calls a plugin. Each middleware around a plugin implements it too.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::call::ports::{CallContext, Ports};
use windlass_core::queue::breaker::BreakerRound;
use windlass_wasm::{CallLimits, Called, Plugin, Request};

use crate::dispatch::spans::{self, RUN};

/// One call about a key.
pub(crate) struct Call<'a> {
    pub(crate) request: Request,
    pub(crate) ports: &'a Ports,
    pub(crate) context: Arc<CallContext>,
    pub(crate) limits: CallLimits,
    /// The circuit breaker's round in which the call was admitted. The call does not count towards a later round.
    pub(crate) round: BreakerRound,
    /// Whether the call is made even if nothing that the last call about its key read has changed.
    pub(crate) must_be_made: bool,
}

/// A plugin as a worker sees it: an instance, a middleware around one, or a test double.
pub(crate) trait Reconcile: Send + Sync {
    /// Makes one call.
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called>;
}

impl Reconcile for Arc<Plugin> {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let Call { request, ports, context, limits, .. } = call;
        async move {
            let mut span = context.trace.span(RUN);
            let called = Plugin::reconcile(self, request, ports, context.within(&span), limits).await;
            spans::ran(&mut span, called.cpu, Some(&called.result), &context.config);
            called
        }
        .boxed()
    }
}
