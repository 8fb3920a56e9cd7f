//! The settings of the address of hooks.

use std::net::SocketAddr;

use crate::listening::tls::TlsFiles;

/// Where the host receives deliveries to hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSettings {
    /// The listening address; port 0 selects any free port.
    pub address: SocketAddr,
    /// The certificate. `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
}
