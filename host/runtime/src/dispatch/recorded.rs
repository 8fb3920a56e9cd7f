//! A plugin with some of its calls recorded (ADR 27). It is right around the plugin, so that a recording has only the
//! plugin's own actions. It lacks the host's actions for the plugin, such as keeping its finalizer or applying its
//! composition.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::call::ports::CallContext;
use windlass_record::PluginRecorder;
use windlass_wasm::{CallLimits, Called, Composed, CompositionRequest, Customized, Replay, Request};

use crate::dispatch::composite::Compose;
use crate::dispatch::reconcile::{Call, Reconcile};

/// Calls `plugin`, and records the calls that `recorder` selects.
pub(crate) struct Recorded<P> {
    pub(crate) plugin: P,
    pub(crate) recorder: PluginRecorder,
}

impl<P: Reconcile> Reconcile for Recorded<P> {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let recording = self.recorder.reconcile(&call.request, &call.context, &call.limits);
        let Some(recording) = recording else { return self.plugin.reconcile(call) };
        async move {
            let ports = recording.ports(call.ports);
            let called = self.plugin.reconcile(Call { ports: &ports, ..call }).await;
            recording.reconciled(&called);
            called
        }
        .boxed()
    }
}

impl<P: Compose> Compose for Recorded<P> {
    fn compose(
        &self,
        request: CompositionRequest,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> BoxFuture<'_, Composed> {
        let Some(recording) = self.recorder.compose(&request, &call) else {
            return self.plugin.compose(request, call, limits);
        };
        // In `compose`, time stands still anyway, and random numbers follow from the request.
        let replay = limits.replay.or(Some(Replay { now: recording.now(), seed: [0; 32] }));
        async move {
            let composed = self.plugin.compose(request, call, CallLimits { replay, ..limits }).await;
            recording.composed(&composed);
            composed
        }
        .boxed()
    }

    fn customize(&self, request: Request, call: Arc<CallContext>, limits: CallLimits) -> BoxFuture<'_, Customized> {
        self.plugin.customize(request, call, limits)
    }
}
