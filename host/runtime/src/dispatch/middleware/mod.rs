//! What the host keeps for a plugin around each of its calls, one decorator of [`Reconcile`](super::Reconcile) a file.

pub(crate) mod finalize;
pub(crate) mod pause;
pub(crate) mod reuse;
pub(crate) mod slow_lane;
