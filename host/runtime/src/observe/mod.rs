//! The operator's view: the status of plugins and controllers, metrics, and the admin endpoint that serves both.

pub(crate) mod admin;
pub(crate) mod metrics;
pub(crate) mod status;
