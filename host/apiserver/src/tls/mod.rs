//! Optional HTTPS. The server's certificate is given or created by the server, and client certificates name users.
//! `server/listen` makes the handshake; all other code is the same as without TLS.

mod certificates;
mod handshake;

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use certificates::Signed;
pub(crate) use handshake::shake_hands;

/// The TLS configuration of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The certificate that the server presents.
    pub certificate: ServerCertificate,
    /// Certificates (PEM) of the authority that signs client certificates: the common name is the user, the
    /// organizations are the groups. If `None`, only the administrator's certificate in the kubeconfig names a user.
    pub client_authority: Option<String>,
}

/// The certificate that the server presents.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum ServerCertificate {
    /// A new certificate for localhost and the loopback addresses. Its authority is created for it and then discarded.
    #[default]
    SelfMade,
    /// The given certificate. All texts are PEM.
    Given {
        /// The certificate, followed by its intermediates.
        chain: String,
        /// Its private key.
        key: String,
        /// The authority, for the kubeconfig.
        authority: String,
    },
}

/// Omits the key, because a configuration may be logged.
impl std::fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerCertificate::SelfMade => f.write_str("SelfMade"),
            ServerCertificate::Given { chain, .. } => {
                f.debug_struct("Given").field("chain", chain).finish_non_exhaustive()
            }
        }
    }
}

/// The reason why the server cannot use TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A text is not PEM, or not PEM of the expected type.
    #[error("the {what} of the TLS configuration is not valid PEM")]
    Pem {
        /// The name of the invalid text.
        what: &'static str,
        /// The reason.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The server could not create its own certificate.
    #[error("cannot create a TLS certificate")]
    Make(#[from] rcgen::Error),
    /// The certificate and the key do not match, or cannot be used.
    #[error("the certificate and key of the TLS configuration cannot be used")]
    Certificate(#[from] rustls::Error),
    /// The authority of client certificates is not usable.
    #[error("the authority of client certificates cannot be used")]
    ClientAuthority(#[from] VerifierBuilderError),
}

/// The state that the TLS listener needs.
pub(crate) struct Prepared {
    pub(crate) acceptor: TlsAcceptor,
    /// The authority (PEM) that clients must trust.
    pub(crate) authority: String,
    /// The administrator's certificate and its key (PEM), for the kubeconfig.
    pub(crate) administrator: (String, String),
}

impl Tls {
    pub(crate) fn prepare(&self) -> Result<Prepared, TlsError> {
        let server = match &self.certificate {
            ServerCertificate::SelfMade => certificates::of_server()?,
            ServerCertificate::Given { chain, key, authority } => {
                Signed { certificate: chain.clone(), key: key.clone(), authority: authority.clone() }
            }
        };
        let chain = certificates_of("chain", &server.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes())
            .map_err(|source| TlsError::Pem { what: "private key", source })?;
        let administrator = certificates::of_administrator()?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let mut roots = RootCertStore::empty();
        for authority in [Some(&administrator.authority), self.client_authority.as_ref()].into_iter().flatten() {
            let certificates = certificates_of("client authority", authority)?;
            if certificates.is_empty() {
                return Err(VerifierBuilderError::NoRootAnchors.into());
            }
            for certificate in certificates {
                roots.add(certificate)?;
            }
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        // A client without a certificate may still have a token, or be anonymous.
        let builder = builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?);
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Prepared {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            authority: server.authority,
            administrator: (administrator.certificate, administrator.key),
        })
    }
}

fn certificates_of(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    found.map_err(|source| TlsError::Pem { what, source })
}
