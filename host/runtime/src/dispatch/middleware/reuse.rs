//! Instances that serve more than one call, where the operator's policy says so: each call asks what holds now.

use std::sync::Arc;

use futures::future::BoxFuture;
use windlass_core::ports::{CallContext, Ports};
use windlass_wasm::{CallLimits, Called, Request};

use crate::dispatch::Reconcile;
use crate::policies::InstancesOf;

/// Calls in the instances that the policy wants.
pub(crate) struct Reusable {
    inner: Box<dyn Reconcile>,
    instances: InstancesOf,
}

impl Reusable {
    pub(crate) fn new(inner: Box<dyn Reconcile>, instances: InstancesOf) -> Self {
        Self { inner, instances }
    }
}

impl Reconcile for Reusable {
    fn reconcile<'a>(
        &'a self,
        request: Request,
        ports: &'a Ports,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> BoxFuture<'a, Called> {
        self.inner.reconcile(request, ports, call, CallLimits { instances: self.instances.now(), ..limits })
    }
}
