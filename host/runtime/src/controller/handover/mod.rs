//! How the controller of one generation comes to the next: what it keeps, and how the next one gets ready.

pub(crate) mod kept;
pub(super) mod prior_keys;
pub(super) mod takeover;
