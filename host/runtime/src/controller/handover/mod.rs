//! Passes a controller from one generation to the next: keeps the controller's state, and gets the next generation
//! ready.

pub(crate) mod kept;
pub(super) mod prior_keys;
pub(super) mod takeover;
