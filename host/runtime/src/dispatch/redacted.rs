//! Removes the secrets of a plugin's configuration from its failures, because the layers around it log them, show them
//! on the status page, and put them into Events.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::call::ports::CallContext;
use windlass_wasm::{CallLimits, Called, Composed, CompositionRequest, Customized, Request};

use crate::dispatch::composite::Compose;
use crate::dispatch::reconcile::{Call, Reconcile};

/// Calls `plugin`, and redacts its failures. Recordings are made further inside, as they have their own rules of
/// redaction.
pub(crate) struct Redacted<P> {
    pub(crate) plugin: P,
}

impl<P: Reconcile> Reconcile for Redacted<P> {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let config = call.context.config.clone();
        let called = self.plugin.reconcile(call);
        async move {
            let called = called.await;
            Called { result: config.redact_result(called.result), ..called }
        }
        .boxed()
    }
}

impl<P: Compose> Compose for Redacted<P> {
    fn compose(
        &self,
        request: CompositionRequest,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> BoxFuture<'_, Composed> {
        let config = call.config.clone();
        let composed = self.plugin.compose(request, call, limits);
        async move {
            let composed = composed.await;
            Composed { answer: composed.answer.map_err(|failed| config.redact_result(failed)), ..composed }
        }
        .boxed()
    }

    fn customize(&self, request: Request, call: Arc<CallContext>, limits: CallLimits) -> BoxFuture<'_, Customized> {
        let config = call.config.clone();
        let customized = self.plugin.customize(request, call, limits);
        async move {
            let customized = customized.await;
            Customized { answer: customized.answer.map_err(|failed| config.redact_result(failed)), ..customized }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_core::call::ports::Absent;
    use windlass_core::queue::breaker::BreakerRound;
    use windlass_core::queue::outcome::{CallResult, Failure};
    use windlass_core::secret::confidential::Confidential;

    use super::*;
    use crate::tests::played::call;

    /// A plugin whose failure contains its configuration.
    struct Indiscreet;

    impl Reconcile for Indiscreet {
        fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
            let failure = Failure::Transient(format!("cannot log in with {}", &*call.context.config));
            async move { Called::made(CallResult::Failed(vec![failure]), Duration::ZERO) }.boxed()
        }
    }

    #[tokio::test]
    async fn a_failure_is_shown_without_the_secrets_of_the_configuration() {
        let (request, context) = call(None);
        let config = Confidential::holding(r#"{"password":"hunter22"}"#, [Confidential::from("hunter22")]);
        let context = Arc::new(CallContext { config, ..(*context).clone() });
        let (ports, limits, round) = (Absent::ports(), CallLimits::default(), BreakerRound::default());
        let redacted = Redacted { plugin: Indiscreet };
        let called =
            redacted.reconcile(Call { request, ports: &ports, context, limits, round, must_be_made: true }).await;
        assert_eq!(called.result.failure(), r#"cannot log in with {"password":"<redacted>"}"#);
    }
}
