//! The authorities that HTTPS connections trust: the platform's, and those that the operator adds.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use windlass_core::call::http::{HttpError, HttpReason};
use windlass_core::rights::egress::UrlHost;
use windlass_files::read_whole;

use crate::failed;

/// Why a file of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read, or is not a file of certificates.
    #[error("cannot read certificates from {} ({name}): {reason}", path.display())]
    Unreadable {
        /// The flag or variable that names the file.
        name: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The file has no certificate.
    #[error("no certificate in {} ({name}): it must be PEM, beginning with -----BEGIN CERTIFICATE-----", path.display())]
    Empty {
        /// The flag or variable that names the file.
        name: &'static str,
        /// The file.
        path: PathBuf,
    },
}

/// The maximum size of a file of authorities. A distribution's file has a few hundred KiB.
const CA_FILE_BYTES_MAX: u64 = 16 << 20;

/// The trusted authorities: the platform's, which are read when they are first needed, and the operator's.
#[derive(Debug)]
pub struct Trust {
    /// The flag or variable that adds authorities.
    name: &'static str,
    added: Vec<CertificateDer<'static>>,
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Default for Trust {
    fn default() -> Self {
        Self::of_platform("--http-ca")
    }
}

impl Trust {
    /// Trusts the platform's authorities and those in the PEM file `added`, which `--http-ca` names.
    pub fn with(added: Option<&Path>) -> Result<Self, TrustError> {
        added.map_or_else(|| Ok(Self::default()), |path| Self::named(path, "--http-ca"))
    }

    /// Trusts the platform's authorities alone. The flag or variable `name` would add some.
    #[must_use]
    pub fn of_platform(name: &'static str) -> Self {
        Self { name, added: vec![], config: OnceLock::new() }
    }

    /// As [`Self::with`], with the file at `path`, which the flag or variable `name` names.
    pub fn named(path: &Path, name: &'static str) -> Result<Self, TrustError> {
        let unreadable = |reason: String| TrustError::Unreadable { name, path: path.to_owned(), reason };
        let pem = read_whole(path, CA_FILE_BYTES_MAX).map_err(|error| unreadable(error.to_string()))?;
        let added: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|error| unreadable(error.to_string()))?;
        if added.is_empty() {
            return Err(TrustError::Empty { name, path: path.to_owned() });
        }
        Ok(Self { name, added, config: OnceLock::new() })
    }

    /// The TLS configuration of connections.
    pub fn config(&self) -> Result<Arc<ClientConfig>, HttpError> {
        let made = self.config.get_or_init(|| config(&self.added).map(Arc::new).map_err(|error| error.to_string()));
        made.clone().map_err(|error| {
            failed(HttpReason::Tls, format!("the host trusts no authority ({error}): add some with {}", self.name))
        })
    }
}

fn config(added: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(added.iter().cloned(), provider.clone())?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed session would tie the requests of plugins together.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Begins TLS on `stream`. The peer must prove that it is `host`.
pub async fn handshake<S>(config: Arc<ClientConfig>, host: &UrlHost, stream: S) -> Result<TlsStream<S>, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let tls = |message: String| failed(HttpReason::Tls, message);
    let name = match host {
        UrlHost::Address(address) => ServerName::IpAddress((*address).into()),
        UrlHost::Name(name) => ServerName::try_from(name.clone()).map_err(|error| tls(error.to_string()))?,
    };
    let shaken = TlsConnector::from(config).connect(name, stream).await;
    shaken.map_err(|error| tls(format!("no TLS with {host}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused_at_the_start() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("ca.pem");
        assert!(matches!(Trust::with(Some(&path)), Err(TrustError::Unreadable { .. })));
        std::fs::write(&path, "no certificate\n").expect("written");
        let error = Trust::with(Some(&path)).expect_err("nothing in it").to_string();
        assert!(error.contains("ca.pem") && error.contains("--http-ca"), "{error}");
        assert!(Trust::with(None).is_ok());
    }
}
