//! How the commands reach a host's admin address: HTTP/1.1 over TCP, or over TLS, with a token or without.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error as TlsFailure, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The most that a host answers: ten thousand plugins are a tenth of it.
const MOST_BYTES: u64 = 128 << 20;

/// The credentials for a host that asks for some, and those that it must have itself: kubectl's flags.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct AdminClientArgs {
    /// The token for a host with --admin-auth=token: of a service account, as `kubectl create token ACCOUNT` prints it,
    /// or the one in your kubeconfig, if it has one. It is sent over https only, or to this machine.
    #[arg(long, value_name = "TOKEN", env = "WINDLASS_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file with the token. --token wins.
    #[arg(long, value_name = "FILE", env = "WINDLASS_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file of the authorities that the host's certificate must be from. Default: the system's.
    #[arg(long, value_name = "FILE", env = "WINDLASS_CERTIFICATE_AUTHORITY")]
    certificate_authority: Option<PathBuf>,
    /// The name in the host's certificate, where it is not that of the address: behind a forwarded port, say.
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Believe any certificate, such as one that the host has made for itself. Whoever is between you and the host can
    /// then read the token.
    #[arg(long, conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: bool,
}

/// An admin address, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct AdminUrl<'a> {
    is_https: bool,
    /// Host and port.
    authority: &'a str,
    host: &'a str,
}

impl<'a> AdminUrl<'a> {
    fn of(address: &'a str) -> anyhow::Result<Self> {
        let (is_https, rest) = match address.split_once("://") {
            None | Some(("http", _)) => (false, address.strip_prefix("http://").unwrap_or(address)),
            Some(("https", rest)) => (true, rest),
            Some((other, _)) => bail!("it is asked by http:// or https://, not by {other}://"),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
        let is_port = port.parse::<u16>().is_ok();
        ensure!(!host.is_empty() && is_port, "it has no port: give it as HOST:PORT or https://HOST:PORT");
        Ok(Self { is_https, authority, host: host.trim_start_matches('[').trim_end_matches(']') })
    }

    fn is_this_machine(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().is_loopback())
    }
}

impl AdminClientArgs {
    /// The whole answer to GET `path`, head and body.
    pub(super) async fn get(&self, address: &str, path: &str) -> anyhow::Result<String> {
        let url = AdminUrl::of(address)?;
        let token = self.token()?;
        ensure!(
            token.is_none() || url.is_https || url.is_this_machine(),
            "the token would go over the network in the clear: ask by https://"
        );
        let sent = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{sent}Connection: close\r\n\r\n", url.authority);
        let stream = TcpStream::connect(url.authority).await?;
        if url.is_https {
            exchange(self.encrypted(&url, stream).await?, &request).await
        } else {
            exchange(stream, &request).await
        }
    }

    fn token(&self) -> anyhow::Result<Option<String>> {
        let (text, source) = match (&self.token, &self.token_file) {
            (Some(token), _) => (token.clone(), "--token".to_owned()),
            (None, Some(path)) => {
                let source = format!("{} (--token-file)", path.display());
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {source}"))?;
                (text, source)
            }
            (None, None) => return Ok(None),
        };
        let token = text.trim();
        let is_one = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(is_one, "{source} has no token: it is one word of ASCII, as `kubectl create token ACCOUNT` prints it");
        Ok(Some(token.to_owned()))
    }

    async fn encrypted(&self, url: &AdminUrl<'_>, stream: TcpStream) -> anyhow::Result<TlsStream<TcpStream>> {
        let name = self.tls_server_name.as_deref().unwrap_or(url.host).to_owned();
        let name = ServerName::try_from(name.clone()).with_context(|| format!("{name} can stand in no certificate"))?;
        let shaken = TlsConnector::from(Arc::new(self.config()?)).connect(name, stream).await;
        shaken.context(
            "no TLS with it. A certificate that is not from the system's authorities needs --certificate-authority, and \
             --tls-server-name if it has another name; one that the host has made for itself needs \
             --insecure-skip-tls-verify. A host without TLS is asked by http://",
        )
    }

    fn config(&self) -> anyhow::Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = if self.insecure_skip_tls_verify {
            Arc::new(Credulous(provider.clone()))
        } else if let Some(path) = &self.certificate_authority {
            WebPkiServerVerifier::builder_with_provider(Arc::new(authorities(path)?), provider.clone()).build()?
        } else {
            let verifier = Verifier::new(provider.clone());
            Arc::new(verifier.context("the system has no authorities: name some with --certificate-authority")?)
        };
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
    }
}

fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let source = || format!("{} (--certificate-authority)", path.display());
    let pem = std::fs::read(path).with_context(|| format!("cannot read {}", source()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.with_context(|| format!("{} is no PEM", source()))?;
        roots.add(certificate).with_context(|| format!("{} has a certificate of no authority", source()))?;
    }
    ensure!(!roots.is_empty(), "no certificate in {}: it takes PEM", source());
    Ok(roots)
}

/// The whole answer to `request`.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> anyhow::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(MOST_BYTES + 1).read_to_string(&mut answer).await?;
    ensure!(answer.len() as u64 <= MOST_BYTES, "it answers more than {} MiB: is it a host?", MOST_BYTES >> 20);
    Ok(answer)
}

/// Believes every certificate, as its user has asked for.
#[derive(Debug)]
struct Credulous(Arc<CryptoProvider>);

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsFailure> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsFailure> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsFailure> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use windlass_apiserver::{ApiServer, Config, Tls};
    use windlass_core::error::explained;

    use super::*;

    /// Something that speaks HTTPS with a certificate of its own, its address, and a directory with its authority in
    /// `ca.pem`.
    async fn https() -> (ApiServer, String, tempfile::TempDir) {
        let config = Config { tls: Some(Tls::default()), ..Config::default() };
        let server = ApiServer::start(config).await.expect("a server");
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("ca.pem"), server.authority().expect("it speaks TLS")).expect("written");
        let address = server.url().trim_end_matches('/').to_owned();
        (server, address, directory)
    }

    async fn refused(client: &AdminClientArgs, address: &str) -> String {
        explained(&*client.get(address, "/version").await.expect_err("it is refused"))
    }

    #[test]
    fn an_address_is_taken_apart_whatever_its_form() {
        let of = |address| AdminUrl::of(address).map(|it| (it.is_https, it.authority, it.host)).ok();
        assert_eq!(of("localhost:8080"), Some((false, "localhost:8080", "localhost")));
        assert_eq!(of("http://10.0.0.1:80/"), Some((false, "10.0.0.1:80", "10.0.0.1")));
        assert_eq!(of("https://[::1]:8443"), Some((true, "[::1]:8443", "::1")));
        for bad in ["localhost", "ftp://a:1", "https://a", ":8080", "a:b", "a:99999", ""] {
            assert!(AdminUrl::of(bad).is_err(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn a_certificate_is_believed_that_is_from_the_authority_and_no_other() {
        let (server, address, directory) = https().await;
        let certificate_authority = Some(directory.path().join("ca.pem"));
        let client = AdminClientArgs { certificate_authority, ..AdminClientArgs::default() };
        let answer = client.get(&address, "/version").await.expect("it is believed");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("gitVersion"), "{answer}");
        let renamed = AdminClientArgs { tls_server_name: Some("other.example.com".to_owned()), ..client.clone() };
        assert!(refused(&renamed, &address).await.contains("--tls-server-name"));
        let stranger = refused(&AdminClientArgs::default(), &address).await;
        assert!(stranger.contains("--certificate-authority"), "{stranger}");
        let credulous = AdminClientArgs { insecure_skip_tls_verify: true, ..AdminClientArgs::default() };
        assert!(credulous.get(&address, "/version").await.expect("anything is").contains("gitVersion"));
        let nothing = directory.path().join("nothing.pem");
        std::fs::write(&nothing, "").expect("written");
        let empty = AdminClientArgs { certificate_authority: Some(nothing), ..AdminClientArgs::default() };
        assert!(refused(&empty, &address).await.contains("nothing.pem"));
        server.shutdown().await;
    }

    #[tokio::test]
    async fn a_token_is_one_word_and_never_goes_over_the_network_in_the_clear() {
        let directory = tempfile::tempdir().expect("a directory");
        let token_file = directory.path().join("token");
        std::fs::write(&token_file, " abc.def\n").expect("written");
        let client = AdminClientArgs { token_file: Some(token_file.clone()), ..AdminClientArgs::default() };
        assert_eq!(client.token().expect("a token").as_deref(), Some("abc.def"));
        let clear = refused(&client, "192.0.2.1:8080").await;
        assert!(clear.contains("https://"), "{clear}");
        for bad in ["", "two words", "a\r\nHost: b"] {
            std::fs::write(&token_file, bad).expect("written");
            assert!(refused(&client, "127.0.0.1:1").await.contains("(--token-file) has no token"), "{bad:?}");
        }
        let missing = AdminClientArgs { token_file: Some("/missing/token".into()), ..AdminClientArgs::default() };
        assert!(refused(&missing, "127.0.0.1:1").await.contains("/missing/token"));
    }
}
