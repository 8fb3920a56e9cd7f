//! Which replica runs a plugin, and which version of it: leases, probation and feature gates.

pub mod features;
pub mod instances;
pub mod lease;
pub mod plugin_state;
pub mod probation;
pub mod sharing;
