//! The server's state: the objects with their history, the registry, paged lists and service addresses.

pub(crate) mod change_log;
mod service_addresses;
pub(crate) mod state;
mod store;

pub(crate) use store::{ObjectKey, Store};
