//! The connection to the API server: its address, its transport, and whether the server answers.

pub(crate) mod api_error;
mod connect;
pub(crate) mod failure;
pub(crate) mod headers;
pub(crate) mod observer;
mod person;
pub(crate) mod reachability;
pub(crate) mod request;
pub(crate) mod restores;
pub(crate) mod review;
mod transport;

pub use self::connect::{ConnectError, ConnectOptions, Connection, ServerVersion, check, connect};
pub use self::headers::{HeaderError, of_user};
