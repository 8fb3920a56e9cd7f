//! HTTP client for a host's admin address: HTTP/1.1 over TCP or TLS, with or without a token.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONNECTION, HOST};
use http::request::Builder;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error as TlsFailure, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use windlass_files::{read_argument, read_argument_text};

/// The largest answer, in bytes. Ten thousand plugins take a tenth of it.
const ADMIN_ANSWER_BYTES_MAX: usize = 128 << 20;
/// The largest file of a token, in bytes.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;
/// The largest file of certificates, in bytes.
pub(crate) const CA_FILE_BYTES_MAX: u64 = 16 << 20;

/// The credentials for the host, and how to verify the host. The flags are kubectl's.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AdminClientArgs {
    /// The token for a host with --admin-auth=token: of a service account, as `kubectl create token ACCOUNT` prints it,
    /// or the one in your kubeconfig, if it has one. It is sent over https only, or to this machine.
    #[arg(long, value_name = "TOKEN", env = "WINDLASS_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file with the token. --token wins.
    #[arg(long, value_name = "FILE", env = "WINDLASS_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file of the authorities for the host's certificate. Default: the system's.
    #[arg(long, value_name = "FILE", env = "WINDLASS_CERTIFICATE_AUTHORITY")]
    certificate_authority: Option<PathBuf>,
    /// The name in the host's certificate if it differs from the address, for example behind a forwarded port.
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Accept any certificate, such as one that the host has made for itself. An attacker between you and the host can
    /// then read the token.
    #[arg(long, conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: bool,
}

/// A parsed admin address.
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
            Some((other, _)) => bail!("use http:// or https://, not {other}://"),
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
    /// Sends a request without a body, and returns the whole answer.
    pub(crate) async fn ask(&self, address: &str, method: Method, path: &str) -> anyhow::Result<Response<String>> {
        let url = AdminUrl::of(address)?;
        let token = self.token()?;
        ensure!(
            token.is_none() || url.is_https || url.is_this_machine(),
            "the token would cross the network unencrypted: use https://"
        );
        let request = request(&url, path, token.as_deref()).method(method).body(Empty::new())?;
        let stream = TcpStream::connect(url.authority).await?;
        if url.is_https {
            exchange(self.encrypted(&url, stream).await?, request).await
        } else {
            exchange(stream, request).await
        }
    }

    fn token(&self) -> anyhow::Result<Option<String>> {
        let (text, source) = match (&self.token, &self.token_file) {
            (Some(token), _) => (token.clone(), "--token".to_owned()),
            (None, Some(path)) => {
                let source = format!("{} (--token-file)", path.display());
                let text =
                    read_argument_text(path, TOKEN_FILE_BYTES_MAX).with_context(|| format!("cannot read {source}"))?;
                (text, source)
            }
            (None, None) => return Ok(None),
        };
        let token = text.trim();
        let is_one = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(
            is_one,
            "{source} has no token: a token is one word of ASCII, as `kubectl create token ACCOUNT` prints it"
        );
        Ok(Some(token.to_owned()))
    }

    async fn encrypted(&self, url: &AdminUrl<'_>, stream: TcpStream) -> anyhow::Result<TlsStream<TcpStream>> {
        let name = self.tls_server_name.as_deref().unwrap_or(url.host).to_owned();
        let name = ServerName::try_from(name.clone())
            .with_context(|| format!("{name} is not a name that a certificate can have"))?;
        let shaken = TlsConnector::from(Arc::new(self.config()?)).connect(name, stream).await;
        shaken.map_err(|error| {
            let advice = advice(&error.to_string());
            anyhow::Error::new(error).context(advice)
        })
    }

    fn config(&self) -> anyhow::Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = if self.insecure_skip_tls_verify {
            Arc::new(Credulous(provider.clone()))
        } else if let Some(path) = &self.certificate_authority {
            WebPkiServerVerifier::builder_with_provider(Arc::new(authorities(path)?), provider.clone()).build()?
        } else {
            let verifier = Verifier::new(provider.clone());
            Arc::new(verifier.context(
                "the system has no certificate authorities: name a file of them with --certificate-authority",
            )?)
        };
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
    }
}

/// Advice for a TLS connection that failed with `error`.
fn advice(error: &str) -> &'static str {
    if error.contains("CaUsedAsEndEntity") {
        return "the TLS handshake failed. The host presents the certificate of an authority, as `openssl req -x509` makes it, \
                and not that of a server: make one with basicConstraints=critical,CA:FALSE";
    }
    "the TLS handshake failed. A certificate that is not from the system's authorities needs --certificate-authority, and \
     --tls-server-name if it has another name; one that the host has made for itself needs --insecure-skip-tls-verify. \
     For a host without TLS, use http://"
}

fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let source = || format!("{} (--certificate-authority)", path.display());
    let pem = read_argument(path, CA_FILE_BYTES_MAX).with_context(|| format!("cannot read {}", source()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.with_context(|| format!("{} is not PEM", source()))?;
        roots
            .add(certificate)
            .with_context(|| format!("{} has a certificate that is not of an authority", source()))?;
    }
    ensure!(!roots.is_empty(), "no certificate in {}: it must be PEM", source());
    Ok(roots)
}

fn request(url: &AdminUrl<'_>, path: &str, token: Option<&str>) -> Builder {
    // A host that is queried by a name answers only if no web page can have made the request, because an attacker may
    // own the name. This header proves that no web page made the request, because a page cannot send it.
    let request = Request::get(path).header(HOST, url.authority).header("sec-fetch-site", "none");
    let request = request.header(CONNECTION, "close");
    token.into_iter().fold(request, |request, token| request.header(AUTHORIZATION, format!("Bearer {token}")))
}

/// The whole answer to `request`.
async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>) -> anyhow::Result<Response<String>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // This task ends with the answer. If it fails, reading the answer fails too.
    tokio::spawn(connection);
    let no_http = "it does not answer in HTTP: for a host with TLS, use https://";
    let (head, body) = sender.send_request(request).await.context(no_http)?.into_parts();
    let body = Limited::new(body, ADMIN_ANSWER_BYTES_MAX).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return anyhow::anyhow!("its answer has more than {} MiB: is it a host?", ADMIN_ANSWER_BYTES_MAX >> 20);
        }
        anyhow::anyhow!(error).context("its answer is cut off")
    })?;
    let body = String::from_utf8(body.to_bytes().into()).context("its answer is not text: is it a host?")?;
    Ok(Response::from_parts(head, body))
}

/// Accepts every certificate, at the user's request.
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use windlass_apiserver::{ApiServer, Config, Tls};
    use windlass_core::error::explained;

    use super::*;

    /// A server with a self-made certificate, its address, and a directory with its authority in `ca.pem`.
    async fn https() -> (ApiServer, String, tempfile::TempDir) {
        let config = Config { tls: Some(Tls::default()), ..Config::default() };
        let server = ApiServer::start(config).await.expect("a server");
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("ca.pem"), server.authority().expect("it speaks TLS")).expect("written");
        let address = server.url().trim_end_matches('/').to_owned();
        (server, address, directory)
    }

    async fn refused(client: &AdminClientArgs, address: &str) -> String {
        explained(&*client.ask(address, Method::GET, "/version").await.expect_err("it is refused"))
    }

    #[test]
    fn an_address_is_parsed_in_each_of_its_forms() {
        let of = |address| AdminUrl::of(address).map(|it| (it.is_https, it.authority, it.host)).ok();
        assert_eq!(of("localhost:8080"), Some((false, "localhost:8080", "localhost")));
        assert_eq!(of("http://10.0.0.1:80/"), Some((false, "10.0.0.1:80", "10.0.0.1")));
        assert_eq!(of("https://[::1]:8443"), Some((true, "[::1]:8443", "::1")));
        for bad in ["localhost", "ftp://a:1", "https://a", ":8080", "a:b", "a:99999", ""] {
            assert!(AdminUrl::of(bad).is_err(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn only_certificates_of_the_authority_are_accepted() {
        let (server, address, directory) = https().await;
        let certificate_authority = Some(directory.path().join("ca.pem"));
        let client = AdminClientArgs { certificate_authority, ..AdminClientArgs::default() };
        let answer = client.ask(&address, Method::GET, "/version").await.expect("it is believed");
        assert!(answer.status() == 200 && answer.body().contains("gitVersion"), "{answer:?}");
        let renamed = AdminClientArgs { tls_server_name: Some("other.example.com".to_owned()), ..client.clone() };
        assert!(refused(&renamed, &address).await.contains("--tls-server-name"));
        let stranger = refused(&AdminClientArgs::default(), &address).await;
        assert!(stranger.contains("--certificate-authority"), "{stranger}");
        let credulous = AdminClientArgs { insecure_skip_tls_verify: true, ..AdminClientArgs::default() };
        assert!(
            credulous.ask(&address, Method::GET, "/version").await.expect("anything is").body().contains("gitVersion")
        );
        // This host presents the certificate of the authority itself.
        let pem = server.authority().expect("it speaks TLS");
        let authority = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
        let roots = Arc::new(authorities(&directory.path().join("ca.pem")).expect("it is one"));
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::new(ring::default_provider())).build();
        let name = ServerName::try_from("localhost").expect("a name");
        let shown =
            verifier.expect("there is an authority").verify_server_cert(&authority, &[], &name, &[], UnixTime::now());
        assert!(advice(&shown.expect_err("it is none of a server").to_string()).contains("CA:FALSE"));
        let nothing = directory.path().join("nothing.pem");
        std::fs::write(&nothing, "").expect("written");
        let empty = AdminClientArgs { certificate_authority: Some(nothing), ..AdminClientArgs::default() };
        assert!(refused(&empty, &address).await.contains("nothing.pem"));
        server.shutdown().await;
    }

    /// Sends a request to a server on this machine whose answer is `answer`. Returns the result, and the request.
    async fn answered(answer: &'static str) -> (anyhow::Result<Response<String>>, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let answering = async {
            let (mut stream, _) = listener.accept().await.expect("it is asked");
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut asked).await.expect("a request");
            }
            stream.write_all(answer.as_bytes()).await.expect("it reads");
            String::from_utf8(asked).expect("text")
        };
        let client = AdminClientArgs { token: Some("abc".to_owned()), ..AdminClientArgs::default() };
        tokio::join!(client.ask(&address, Method::GET, "/plugins"), answering)
    }

    #[tokio::test]
    async fn an_answer_is_read_as_a_proxy_may_pass_it_on() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
        for said in [chunked, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.0 200 OK\r\n\r\n{}"] {
            let (answer, asked) = answered(said).await;
            assert_eq!(answer.expect("an answer").body(), "{}", "{said}");
            assert!(asked.starts_with("GET /plugins HTTP/1.1\r\n"), "{asked}");
            for header in ["host: 127.0.0.1:", "authorization: Bearer abc\r\n", "sec-fetch-site: none\r\n"] {
                assert!(asked.contains(header), "{header} in {asked}");
            }
        }
    }

    #[tokio::test]
    async fn a_truncated_answer_is_refused_and_an_answer_without_http_says_so() {
        let why = async |said| explained(&*answered(said).await.0.expect_err("it is of no use"));
        let half = why("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}").await;
        assert!(half.contains("is cut off"), "{half}");
        for other in ["SSH-2.0-OpenSSH_9.9\r\n\r\n", "\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\u{46}", ""] {
            let why = why(other).await;
            assert!(why.contains("does not answer in HTTP"), "{why}");
        }
    }

    #[tokio::test]
    async fn a_token_is_one_word_and_is_never_sent_in_the_clear() {
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
