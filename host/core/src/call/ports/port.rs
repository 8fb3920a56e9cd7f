//! The asynchronous port: the only way from a call to anything that takes time, and so to anything that changes the
//! world.
//!
//! A layer around the port, for example one that counts asks, is a function from a port to a port. [`port_fn`] makes a
//! port from a closure.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use super::{Answer, Ask, CallContext, TypedAsk};
use crate::error::ApiReason;

/// Answers the questions of calls.
pub trait Port: Send + Sync {
    /// Carries out `ask` for `call`, and answers with the [`Answer`] of the same name.
    ///
    /// Mutations run as tasks of their own: dropping the future abandons the answer, never a request that was sent (ADR
    /// 5).
    fn ask(&self, call: Arc<CallContext>, ask: Ask) -> BoxFuture<'static, Answer>;
}

/// Sends `question` to `port` and returns its answer.
pub fn ask<Q: TypedAsk>(
    port: &dyn Port,
    call: Arc<CallContext>,
    question: Q,
) -> impl Future<Output = Q::Answer> + Send + use<Q> {
    port.ask(call, question.into()).map(Q::answer)
}

/// A port that answers by calling `answer`.
pub fn port_fn<F>(answer: F) -> Arc<dyn Port>
where
    F: Fn(Arc<CallContext>, Ask) -> BoxFuture<'static, Answer> + Send + Sync + 'static,
{
    Arc::new(PortFn(answer))
}

struct PortFn<F>(F);

impl<F: Fn(Arc<CallContext>, Ask) -> BoxFuture<'static, Answer> + Send + Sync> Port for PortFn<F> {
    fn ask(&self, call: Arc<CallContext>, ask: Ask) -> BoxFuture<'static, Answer> {
        (self.0)(call, ask)
    }
}

/// A port that passes on reads of the API server and refuses everything else.
#[derive(Clone)]
pub struct ReadingPort(Arc<dyn Port>);

impl ReadingPort {
    /// Lets reads through to `port`.
    #[must_use]
    pub fn new(port: Arc<dyn Port>) -> Self {
        Self(port)
    }
}

impl Port for ReadingPort {
    fn ask(&self, call: Arc<CallContext>, ask: Ask) -> BoxFuture<'static, Answer> {
        if ask.is_read() {
            self.0.ask(call, ask)
        } else {
            ready(ask.refused(ApiReason::ReadOnly, "this call may only read: the request was not sent")).boxed()
        }
    }
}
