//! The rights of a plugin, and in whose name a request is made.

pub mod egress;
pub mod fence;
pub mod grants;
pub mod principal;
