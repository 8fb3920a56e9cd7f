//! The budgets that calls and caches share, memory and CPU time, and how much of them each plugin gets.

pub(crate) mod accounts;
pub mod fair;
pub mod shared_budget;
