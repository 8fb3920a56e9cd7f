//! TLS for an address on which the host listens. The certificate comes from files, which are followed, or is created at
//! the start.
//!
//! An unusable pair of files never replaces a usable one: a certificate and its key are two files, which may change one
//! after the other.

mod expiry;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use windlass_files::read_whole;

use self::expiry::ExpiryProblem;
use super::HEADER_TIMEOUT;
use crate::files::Files;

/// The largest size of each file, in bytes. A chain has a few kilobytes.
const CERTIFICATE_FILE_BYTES_MAX: u64 = 1 << 20;
/// How often a certificate that expires soon, or has expired, is logged.
const EXPIRY_REMINDER_INTERVAL: Duration = Duration::from_hours(24);
/// The first byte of a TLS connection, which is the type of a handshake record.
const HANDSHAKE: u8 = 0x16;
/// The answer to a client that speaks HTTP to an HTTPS port.
const PLAIN_HTTP: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n\
    this address speaks HTTPS: use https://\n";

/// The files of a certificate and its private key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by intermediate certificates.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
}

/// The names that messages use for an address and its files.
#[derive(Clone, Copy, Debug)]
pub struct TlsNames {
    /// The address.
    pub address: &'static str,
    /// The flag that names the certificate's file.
    pub certificate: &'static str,
    /// The flag that names the key's file.
    pub key: &'static str,
}

/// Why the certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerTlsError {
    /// A file cannot be read.
    #[error("cannot read {} ({flag}): {source}", path.display())]
    Unreadable {
        /// The flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file lacks the expected certificate or key.
    #[error("no {what} in {} ({flag}): it must be PEM, {}", path.display(), takes)]
    Content {
        /// The thing that is missing.
        what: &'static str,
        /// The flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The expected beginning of the file.
        takes: &'static str,
    },
    /// The certificate and the key do not match, or TLS does not support one of them.
    #[error(
        "the certificate in {} ({}) and the private key in {} ({}) cannot be used together: {source}",
        certificate.display(), names.certificate, key.display(), names.key
    )]
    Pair {
        /// The flags that name the files.
        names: TlsNames,
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// No certificate could be created.
    #[error("cannot make a certificate for the {}: {source}; name one with {}", names.address, names.certificate)]
    Made {
        /// The address and its flags.
        names: TlsNames,
        /// The reason.
        source: rcgen::Error,
    },
    /// TLS does not accept the created certificate.
    #[error(
        "the certificate that was made for the {} cannot be used: {source}; name one with {}",
        names.address, names.certificate
    )]
    Unusable {
        /// The address and its flags.
        names: TlsNames,
        /// The reason.
        source: rustls::Error,
    },
}

/// The certificate for new connections.
pub(crate) struct ServerTls {
    /// `None` if the certificate was created for this process.
    files: Option<TlsFiles>,
    names: TlsNames,
    current: Mutex<UsablePair>,
}

/// A usable pair.
struct UsablePair {
    config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
    /// The time at which the first certificate of the chain expires, since the Unix epoch. `None` if unknown.
    expires: Option<Duration>,
}

impl ServerTls {
    /// Reads the pair from `files`.
    pub(crate) fn from_files(files: TlsFiles, names: TlsNames) -> Result<Self, ServerTlsError> {
        let pair = read(&files, names)?;
        Ok(Self { files: Some(files), names, current: Mutex::new(pair) })
    }

    /// Creates a certificate that clients cannot verify. It protects only against eavesdropping.
    pub(crate) fn self_signed(names: TlsNames) -> Result<Self, ServerTlsError> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
            .map_err(|source| ServerTlsError::Made { names, source })?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let pair =
            usable(vec![made.cert.der().clone()], key).map_err(|source| ServerTlsError::Unusable { names, source })?;
        Ok(Self { files: None, names, current: Mutex::new(pair) })
    }

    /// The source of the certificate, as one word.
    pub(crate) fn source(&self) -> &'static str {
        if self.files.is_some() { "files" } else { "self-signed" }
    }

    /// Runs forever: takes over new files, and reminds of a certificate that expires soon or has expired.
    pub(crate) async fn follow(&self) {
        let Some(files) = &self.files else { return };
        tokio::join!(self.follow_files(files), self.remind(files));
    }

    async fn follow_files(&self, files: &TlsFiles) {
        let mut certificate = Files::follow_one(&files.certificate, CERTIFICATE_FILE_BYTES_MAX);
        let mut key = Files::follow_one(&files.key, CERTIFICATE_FILE_BYTES_MAX);
        loop {
            tokio::select! {
                biased;
                _ = certificate.changes() => {}
                _ = key.changes() => {}
            }
            self.reload(files).await;
        }
    }

    /// Logs at once, and then every day.
    async fn remind(&self, files: &TlsFiles) {
        let mut reminder = tokio::time::interval(EXPIRY_REMINDER_INTERVAL);
        loop {
            reminder.tick().await;
            log_expiry(self.expires(), &files.certificate, self.names);
        }
    }

    async fn reload(&self, files: &TlsFiles) {
        let (own, names) = (files.clone(), self.names);
        let problem = match windlass_world::spawn_blocking(move || read(&own, names)).await {
            Ok(Ok(new)) => return self.take_over(new, &files.certificate),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::error!(
            error = problem,
            "a new certificate of the {} cannot be used: the previous one stays in use",
            names.address
        );
    }

    fn take_over(&self, new: UsablePair, file: &Path) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // The first look at the files finds the pair that is in use.
        if current.certificate != new.certificate {
            tracing::info!(certificate = %file.display(), "the {} has a new certificate", self.names.address);
            log_expiry(new.expires, file, self.names);
        }
        *current = new;
    }

    fn expires(&self) -> Option<Duration> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).expires
    }

    /// The encrypted connection. `None` if the client did not complete the handshake in time.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let config = self.current.lock().unwrap_or_else(PoisonError::into_inner).config.clone();
        let shaking = async {
            let mut stream = stream;
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
                stream.write_all(PLAIN_HTTP.as_bytes()).await?;
                stream.shutdown().await?;
                // Closing a connection with an unread request resets it, and would discard the answer.
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
                return Err(std::io::Error::other("it does not speak TLS"));
            }
            TlsAcceptor::from(config).accept(stream).await
        };
        match tokio::time::timeout(HEADER_TIMEOUT, shaking).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "no TLS with a client of the {}", self.names.address);
                None
            }
            Err(_) => None,
        }
    }
}

/// Logs that a certificate expires at `expires`, if that is soon or in the past.
fn log_expiry(expires: Option<Duration>, file: &Path, names: TlsNames) {
    let (certificate, address) = (file.display(), names.address);
    match expires.and_then(|expires| expiry::problem(expires, windlass_world::now())) {
        None => {}
        Some(ExpiryProblem::Soon(left)) => {
            tracing::warn!(%certificate, left, "the certificate of the {address} expires soon: renew it");
        }
        Some(ExpiryProblem::Expired(ago)) => {
            tracing::error!(%certificate, ago, "the certificate of the {address} has expired, and clients refuse it: renew it");
        }
    }
}

fn read(files: &TlsFiles, names: TlsNames) -> Result<UsablePair, ServerTlsError> {
    let (certificate, key) = (&files.certificate, &files.key);
    let chain = pem(names.certificate, certificate)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain).collect::<Result<_, _>>().unwrap_or_default();
    if chain.is_empty() {
        return Err(ServerTlsError::Content {
            what: "certificate",
            flag: names.certificate,
            path: certificate.clone(),
            takes: "beginning with -----BEGIN CERTIFICATE-----",
        });
    }
    let Ok(secret) = PrivateKeyDer::from_pem_slice(&pem(names.key, key)?) else {
        return Err(ServerTlsError::Content {
            what: "private key",
            flag: names.key,
            path: key.clone(),
            takes: "beginning with -----BEGIN PRIVATE KEY----- or the like, and not encrypted",
        });
    };
    usable(chain, secret).map_err(|source| ServerTlsError::Pair {
        names,
        certificate: certificate.clone(),
        key: key.clone(),
        source,
    })
}

fn pem(flag: &'static str, path: &Path) -> Result<Vec<u8>, ServerTlsError> {
    read_whole(path, CERTIFICATE_FILE_BYTES_MAX).map_err(|source| ServerTlsError::Unreadable {
        flag,
        path: path.to_owned(),
        source,
    })
}

fn usable(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<UsablePair, rustls::Error> {
    let (certificate, expires) = (chain[0].clone(), expiry::of_chain(&chain));
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(UsablePair { config: Arc::new(config), certificate, expires })
}

#[cfg(test)]
mod tests;
