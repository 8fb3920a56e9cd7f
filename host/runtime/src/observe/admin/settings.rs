//! The settings of the admin address.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Whom the admin address answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AdminAuth {
    /// Everyone who can connect.
    None,
    /// Holders of a token that the cluster knows and whose user may get the path. Always over TLS.
    Token,
}

/// Where the admin endpoint's certificate and its private key are, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
}

/// Where the admin endpoint listens, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// The address; port 0 is any.
    pub address: SocketAddr,
    /// Whom it answers.
    pub auth: AdminAuth,
    /// Its certificate. None: with [`AdminAuth::Token`] it makes one, else it speaks plain HTTP.
    pub tls: Option<TlsFiles>,
}
