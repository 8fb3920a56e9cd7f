//! The last check before a mutation is sent: may this process still act for the plugin (ADR 12)?
//!
//! The keeper of the lease implements [`Fence`]. Every [`Principal`](crate::rights::principal::Principal) carries one,
//! and the client to the API server asks it right before it sends a request. A fence belongs to one term of the lease:
//! once closed, it never opens again. So a decision that was made before a lease was lost is not carried out after the
//! lease was won back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The reason why no mutation may be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not sent: this replica's hold on the lease {lease} has ended or cannot be renewed, and another replica may act for the plugin"
)]
pub struct LeaseLost {
    pub lease: Arc<str>,
}

/// Whether mutations may start.
pub trait Fence: fmt::Debug + Send + Sync {
    /// The time that a request which starts now may take.
    fn may_start(&self) -> Result<Duration, LeaseLost>;
}

/// A principal's optional [`Fence`]. By default there is no fence: only one process acts, or several may act without
/// harm.
#[derive(Clone, Debug, Default)]
pub struct Fenced(Option<Arc<dyn Fence>>);

impl Fenced {
    #[must_use]
    pub fn by(fence: Arc<dyn Fence>) -> Self {
        Self(Some(fence))
    }

    /// The time that a request which starts now may take, at most `limit`.
    pub fn may_start(&self, limit: Duration) -> Result<Duration, LeaseLost> {
        self.0.as_ref().map_or(Ok(limit), |fence| fence.may_start().map(|most| most.min(limit)))
    }
}
