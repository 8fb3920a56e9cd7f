//! A secured endpoint over real connections.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::listening::tls::TlsFiles;
use crate::observe::admin::authorization::tests::ScriptedReviews;
use crate::observe::admin::{Admin, listen};
use crate::observe::metrics::HostMetrics;
use crate::observe::status::Status;

struct Secured {
    address: SocketAddr,
    connector: TlsConnector,
    stop: CancellationToken,
}

/// An endpoint that runs until it is dropped, with a certificate that its connector trusts.
async fn secured() -> Secured {
    let directory = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let files = TlsFiles { certificate: directory.path().join("tls.crt"), key: directory.path().join("tls.key") };
    std::fs::write(&files.certificate, made.cert.pem()).expect("written");
    std::fs::write(&files.key, made.signing_key.serialize_pem()).expect("written");
    let address = "127.0.0.1:0".parse().expect("an address");
    let settings = AdminSettings { address, auth: AdminAuth::Token, tls: Some(files) };
    let security = Arc::new(AdminSecurity::of(&settings, ScriptedReviews::default()).expect("a pair"));
    let listener = listen(address).await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let admin = Admin { status: Status::new(CancellationToken::new()), metrics: HostMetrics::new() };
    let stop = CancellationToken::new();
    let until = stop.clone();
    tokio::spawn(async move { admin.serve(&listener, &security, &until).await });
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a certificate");
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("some version");
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Secured { address, connector: TlsConnector::from(Arc::new(config)), stop }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, more: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    answer
}

impl Secured {
    async fn asked(&self, path: &str, more: &str) -> String {
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let name = ServerName::try_from("localhost").expect("a name");
        exchange(self.connector.connect(name, stream).await.expect("TLS"), path, more).await
    }
}

#[tokio::test]
async fn a_secured_endpoint_answers_over_tls_whom_the_cluster_lets() {
    let secured = secured().await;
    assert!(secured.asked("/healthz", "").await.starts_with("HTTP/1.1 200"));
    assert!(secured.asked("/readyz", "").await.contains("being loaded"));
    let unknown = secured.asked("/metrics", "").await;
    assert!(unknown.starts_with("HTTP/1.1 401") && unknown.contains("www-authenticate: Bearer"), "{unknown}");
    let known = secured.asked("/metrics", "Authorization: Bearer reader\r\n").await;
    assert!(known.starts_with("HTTP/1.1 200") && known.ends_with("# EOF\n"), "{known}");
    let narrow = secured.asked("/plugins", "Authorization: Bearer reader\r\n").await;
    assert!(narrow.starts_with("HTTP/1.1 403") && narrow.contains("reader may not get /plugins"), "{narrow}");
    // A foreign web page gets no answer, and its browser is not made to ask for a password.
    let page = secured.asked("/plugins", "Origin: https://example.com\r\n").await;
    assert!(page.starts_with("HTTP/1.1 403") && !page.contains("www-authenticate"), "{page}");
}

#[tokio::test]
async fn a_plain_http_client_is_asked_to_use_https() {
    let secured = secured().await;
    let stream = TcpStream::connect(secured.address).await.expect("it listens");
    let answer = exchange(stream, "/healthz", "").await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https://"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_shakes_hands_is_sent_away() {
    let secured = secured().await;
    for beginning in [&b""[..], b"\x16\x03\x01"] {
        let mut stream = TcpStream::connect(secured.address).await.expect("it listens");
        stream.write_all(beginning).await.expect("sent");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.expect("closed, after a time that this clock skips");
    }
}

#[tokio::test]
async fn a_token_is_asked_for_over_tls_only() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let security = |auth| AdminSecurity::of(&AdminSettings { address, auth, tls: None }, ScriptedReviews::default());
    assert!(security(AdminAuth::Token).expect("it makes a certificate").tls.is_some());
    assert!(security(AdminAuth::None).expect("it needs none").tls.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_lasts_no_longer_than_the_yes_to_its_token() {
    let security = |auth| {
        let settings = AdminSettings { address: "127.0.0.1:0".parse().expect("an address"), auth, tls: None };
        AdminSecurity::of(&settings, ScriptedReviews::default()).expect("no files are needed")
    };
    let (now, longest) = (Instant::now(), Instant::now() + 4 * YES_FOR);
    assert_eq!(security(AdminAuth::Token).until(longest), now + YES_FOR);
    assert_eq!(security(AdminAuth::Token).until(now), now);
    assert_eq!(security(AdminAuth::None).until(longest), longest);
}
