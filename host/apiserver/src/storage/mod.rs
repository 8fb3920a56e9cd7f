//! The server's state: the objects with their history, the registry and service addresses.

pub(crate) mod agenda;
pub(crate) mod change_log;
pub(crate) mod service_addresses;
mod snapshot;
pub(crate) mod state;
mod store;

pub use snapshot::Snapshot;
pub(crate) use store::{ObjectKey, Store, place};
