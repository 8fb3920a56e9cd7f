//! Passes a controller from one generation to the next: what is kept, and how the next one gets ready.

pub(crate) mod kept;
pub(super) mod prior_keys;
pub(super) mod takeover;
