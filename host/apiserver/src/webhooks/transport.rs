//! One request over HTTPS, on a new connection.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{Method, Request};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::WebhookPlace;
use super::trust::BundleVerifier;
use super::{HttpAnswer, PostError};

/// The longest response that is read: a conversion returns all objects of a list.
const WEBHOOK_ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The response, whatever its status code.
pub(super) async fn send(
    place: &WebhookPlace,
    method: &Method,
    path: &str,
    authority: &[u8],
    body: String,
) -> Result<HttpAnswer, PostError> {
    let stream = connect(place, authority).await?;
    let lost = |error: hyper::Error| PostError::Lost(root(&error));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, &place.server_name)
        .header(USER_AGENT, "kube-apiserver-admission")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .body(Body::from(body))
        .map_err(|error| PostError::Lost(error.to_string()))?;
    let mut exchange = pin!(async {
        let answer = sender.send_request(request).await.map_err(lost)?;
        let code = answer.status();
        let location = answer.headers().get(LOCATION).and_then(|place| place.to_str().ok()).map(str::to_owned);
        let body = to_bytes(Body::new(answer.into_body()), WEBHOOK_ANSWER_BYTES_MAX).await;
        body.map(|body| HttpAnswer { code, location, body }).map_err(|error| PostError::Lost(error.to_string()))
    });
    tokio::select! {
        biased;
        done = &mut exchange => done,
        // The connection task ends before the response is read if the webhook closes the connection.
        _ = connection => exchange.await,
    }
}

async fn connect(place: &WebhookPlace, authority: &[u8]) -> Result<TlsStream<TcpStream>, PostError> {
    let config = client_config(authority).map_err(|error| PostError::Lost(error.to_string()))?;
    let name = ServerName::try_from(place.server_name.clone()).map_err(|error| PostError::Lost(error.to_string()))?;
    let (host, port) = (place.host.as_str(), place.port);
    // The only host name that reaches this code is `localhost`, which must not be looked up by DNS.
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

fn client_config(authority: &[u8]) -> Result<ClientConfig, Box<dyn Error>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = BundleVerifier::of(authority, Arc::clone(&provider))?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// The error of a handshake, with Go's text if it is about the certificate.
fn handshake_error(error: &std::io::Error) -> String {
    let found = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match found {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(why))) => {
            format!("tls: failed to verify certificate: {}", why.0)
        }
        Some(other) => format!("tls: {other}"),
        None => error.to_string(),
    }
}

/// The root cause.
fn root(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => root(source),
        None => error.to_string(),
    }
}
