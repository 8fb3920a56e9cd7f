//! Lets an instance serve more than one call if the operator's policy says so. Each call goes by the policy of that
//! moment.

use futures::future::BoxFuture;
use windlass_wasm::{CallLimits, Called};

use crate::dispatch::reconcile::{Call, Reconcile};
use crate::policies::InstancesOf;

/// Makes calls in the instances that the policy asks for.
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
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let limits = CallLimits { instances: self.instances.now(), ..call.limits };
        self.inner.reconcile(Call { limits, ..call })
    }
}
