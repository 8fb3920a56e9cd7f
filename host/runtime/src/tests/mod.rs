//! Test doubles that the unit tests of several modules share.

pub(crate) mod played;
pub(crate) mod played_events;
pub(crate) mod simulated;
pub(crate) mod stage;
pub(crate) mod switch;
