//! The rights of a plugin, and the principal that makes a request.

pub mod egress;
pub mod fence;
pub mod grants;
pub mod principal;
pub mod verbs;
