//! One POST over HTTPS, on a connection of its own.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::PostError;
use super::address::WebhookPlace;

/// The error of an authority without certificates.
const NO_CERTIFICATE: &str = "unable to load root certificates: unable to parse bytes as PEM block";

/// The longest answer that is read: a conversion has all objects of a list in it.
const MOST: usize = 256 * 1024 * 1024;

/// The body of the answer.
pub(super) async fn post(place: &WebhookPlace, path: &str, authority: &[u8], body: String) -> Result<Bytes, PostError> {
    let stream = connect(place, authority).await?;
    let lost = |error: hyper::Error| PostError::Lost(root(&error));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let request = Request::post(path)
        .header(HOST, &place.server_name)
        .header(USER_AGENT, "kube-apiserver-admission")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .body(Body::from(body))
        .map_err(|error| PostError::Lost(error.to_string()))?;
    let mut exchange = pin!(async {
        let answer = sender.send_request(request).await.map_err(lost)?;
        let code = answer.status();
        let body = to_bytes(Body::new(answer.into_body()), MOST).await;
        body.map(|body| (code, body)).map_err(|error| PostError::Lost(error.to_string()))
    });
    let (code, body) = tokio::select! {
        biased;
        done = &mut exchange => done?,
        // It ends before the answer is read where the webhook closes it.
        _ = connection => exchange.await?,
    };
    if code.is_success() { Ok(body) } else { Err(PostError::Refused(refusal(code, &body))) }
}

async fn connect(place: &WebhookPlace, authority: &[u8]) -> Result<TlsStream<TcpStream>, PostError> {
    let config = client_config(authority).map_err(|error| PostError::Lost(error.to_string()))?;
    let name = ServerName::try_from(place.server_name.clone()).map_err(|error| PostError::Lost(error.to_string()))?;
    let (host, port) = (place.host.as_str(), place.port);
    // The only name that comes here is `localhost`, which is nobody else's to resolve.
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::from((address, port))],
        Err(_) => vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()],
    };
    let stream = TcpStream::connect(&addresses[..]).await.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            _ => error.to_string(),
        };
        PostError::Lost(format!("dial tcp {host}:{port}: connect: {why}"))
    })?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    stream.map_err(|error| PostError::Lost(handshake_error(&error)))
}

fn client_config(authority: &[u8]) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority).flatten() {
        roots.add(certificate)?;
    }
    if roots.is_empty() && !authority.is_empty() {
        return Err(rustls::Error::General(NO_CERTIFICATE.to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The error of a handshake, in Go's words where it is the usual one.
fn handshake_error(error: &std::io::Error) -> String {
    let found = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match found {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
        }
        Some(other) => format!("tls: {other}"),
        None => error.to_string(),
    }
}

/// The innermost reason.
fn root(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => root(source),
        None => error.to_string(),
    }
}

/// An answer that is an error, as client-go puts it.
fn refusal(code: StatusCode, body: &[u8]) -> String {
    let status: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    if let (Some("Status"), Some(message)) = (status["kind"].as_str(), status["message"].as_str()) {
        return message.to_owned();
    }
    match code.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        code if code >= 500 => {
            let shown = String::from_utf8_lossy(body);
            format!("an error on the server ({:?}) has prevented the request from succeeding", shown.trim())
        }
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}
