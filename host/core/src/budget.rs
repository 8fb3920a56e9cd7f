//! The memory and CPU time that calls and caches share, and how much each plugin gets.

pub(crate) mod accounts;
pub mod fair;
pub mod shared_budget;
