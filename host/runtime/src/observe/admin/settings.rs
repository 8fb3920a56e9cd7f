//! The settings of the admin address.

use std::net::SocketAddr;

use crate::listening::tls::TlsFiles;

/// The clients that the admin endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AdminAuth {
    /// All clients that can connect.
    None,
    /// Clients with a token that the cluster knows, whose user may get the path. Requires TLS.
    Token,
}

/// The settings of the admin endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// The listening address; port 0 selects any free port.
    pub address: SocketAddr,
    /// The clients that the endpoint answers.
    pub auth: AdminAuth,
    /// The certificate of the endpoint. `None` for a self-signed one with [`AdminAuth::Token`], and for plain HTTP
    /// otherwise.
    pub tls: Option<TlsFiles>,
}
