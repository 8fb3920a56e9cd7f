//! The last check before a mutation is sent: may this process still act for the plugin (ADR 12)?
//!
//! Whoever knows the lease implements [`Fence`]; every [`Principal`](crate::rights::principal::Principal) carries one, and the
//! edge asks it when nothing but the sending is left to do. One fence is for one term: once closed, it never opens
//! again, so that what was decided before a lease was lost is not carried out after it was won back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why nothing may be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not sent: this replica's hold on the lease {lease} has ended or cannot be renewed, and another may act for the plugin"
)]
pub struct LeaseLost {
    pub lease: Arc<str>,
}

/// Whether mutations may start.
pub trait Fence: fmt::Debug + Send + Sync {
    /// How long a request that starts now may take.
    fn may_start(&self) -> Result<Duration, LeaseLost>;
}

/// The check between a principal and the cluster. By default there is none: only one process acts, or it does not
/// matter.
#[derive(Clone, Debug, Default)]
pub struct Fenced(Option<Arc<dyn Fence>>);

impl Fenced {
    #[must_use]
    pub fn by(fence: Arc<dyn Fence>) -> Self {
        Self(Some(fence))
    }

    /// How long a request that starts now may take, if it would otherwise be given `limit`.
    pub fn may_start(&self, limit: Duration) -> Result<Duration, LeaseLost> {
        self.0.as_ref().map_or(Ok(limit), |fence| fence.may_start().map(|most| most.min(limit)))
    }
}
