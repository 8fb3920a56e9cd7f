//! The cluster as plugins see it: watches, the objects that they map to keys, and how a cache stays true to the server.

pub mod freshness;
pub mod index;
pub mod mapping;
pub mod overlay;
pub mod predicate;
pub mod related;
pub mod server_history;
pub mod watch;
