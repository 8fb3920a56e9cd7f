//! The cluster as plugins see it: watches, mappings from watched objects to keys, and checks that a cache is up to
//! date.

pub mod code_predicate;
mod declared;
pub mod freshness;
pub mod index;
pub mod mapping;
pub mod overlay;
pub mod predicate;
pub mod related;
pub mod server_history;
pub mod watch;
pub mod where_clause;
