//! HTTPS: the kubeconfig's authority, users from client certificates, and both versions of HTTP.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use windlass_apiserver::{ApiServer, Authorization, Config, ServerCertificate, StartError, Tls};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "users");
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

/// A client's certificate and key.
fn certificate(authority: &Issuer, name: &str, group: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, group);
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    (certificate.der().clone(), PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("PEM"))
}

/// The authority that a client trusts: the one in the kubeconfig.
fn trusted(server: &ApiServer) -> RootCertStore {
    let pem = server.authority().expect("it speaks TLS");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")).expect("an authority");
    roots
}

async fn connect(
    server: &ApiServer,
    protocol: &str,
    client: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> TlsStream<TcpStream> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("TLS");
    let builder = builder.with_root_certificates(trusted(server));
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).expect("a certificate"),
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(server.address()).await.expect("it listens");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake")
}

async fn whoami(server: &ApiServer, client: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>) -> Value {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(connect(server, "http/1.1", client).await)).await.expect("HTTP");
    tokio::spawn(connection);
    let request = Request::post(REVIEWS).header("host", "localhost").header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from_static(b"{}"))).expect("a request");
    let answer = sender.send_request(request).await.expect("an answer");
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

#[tokio::test]
async fn a_client_certificate_names_user_and_groups() {
    let users = authority();
    let tls = Tls { client_authority: Some(users.pem()), ..Tls::default() };
    let config = Config { authorization: Authorization::Rbac, tls: Some(tls), ..Config::default() };
    let server = ApiServer::start(config).await.expect("it starts");
    assert!(server.url().starts_with("https://"), "{}", server.url());
    assert!(server.kubeconfig().contains("certificate-authority-data: "), "{}", server.kubeconfig());

    let review = whoami(&server, Some(certificate(&users, "jane", "team"))).await;
    let info = &review["status"]["userInfo"];
    assert_eq!(info["username"], "jane", "{review}");
    assert_eq!(info["groups"], json!(["team", "system:authenticated"]));
    let credential = info["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().expect("a mark");
    assert!(credential.starts_with("X509SHA256="), "{credential}");

    let nobody = whoami(&server, None).await;
    assert_eq!(nobody["code"], 403, "{nobody}");
    assert!(nobody["message"].as_str().expect("a message").contains("system:anonymous"), "{nobody}");
    server.shutdown().await;
}

#[tokio::test]
async fn the_kubeconfig_has_the_administrators_certificate() {
    let config = Config { authorization: Authorization::Rbac, tls: Some(Tls::default()), ..Config::default() };
    let server = ApiServer::start(config).await.expect("it starts");
    let kubeconfig = server.kubeconfig();
    let pem = |name: &str| {
        let (_, rest) = kubeconfig.split_once(&format!("{name}: ")).expect("it is in the kubeconfig");
        BASE64_STANDARD.decode(rest.split([',', ' ', '\n']).next().expect("a value")).expect("Base64")
    };
    let certificate = CertificateDer::from_pem_slice(&pem("client-certificate-data")).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(&pem("client-key-data")).expect("PEM");
    let review = whoami(&server, Some((certificate, key))).await;
    assert_eq!(review["status"]["userInfo"]["username"], "windlass", "{review}");
    assert_eq!(review["status"]["userInfo"]["groups"], json!(["system:masters", "system:authenticated"]));
    server.shutdown().await;
}

#[tokio::test]
async fn http_2_is_used_if_a_client_requests_it() {
    let server = ApiServer::start(Config { tls: Some(Tls::default()), ..Config::default() }).await.expect("it starts");
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(connect(&server, "h2", None).await)).await.expect("HTTP/2");
    tokio::spawn(connection);
    let ask = |host: &str| {
        Request::get(format!("https://{host}/api/v1/namespaces")).body(Full::new(Bytes::new())).expect("a request")
    };
    let answer = sender.send_request(ask("localhost")).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    // Another host name is refused in HTTP/2 as well.
    let answer = sender.send_request(ask("example.com")).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_silent_client_does_not_delay_others() {
    let server = ApiServer::start(Config { tls: Some(Tls::default()), ..Config::default() }).await.expect("it starts");
    let _silent = TcpStream::connect(server.address()).await.expect("it listens");
    assert_eq!(whoami(&server, None).await["status"]["userInfo"]["username"], "windlass");
}

#[tokio::test]
async fn an_authority_without_certificates_is_refused_at_the_start() {
    let tls = Tls { client_authority: Some(String::new()), ..Tls::default() };
    let error = ApiServer::start(Config { tls: Some(tls), ..Config::default() }).await.expect_err("it names nobody");
    assert!(error.to_string().contains("the authority of client certificates"), "{error}");
}

#[tokio::test]
async fn an_invalid_key_is_refused_at_the_start() {
    let certificate = ServerCertificate::Given { chain: String::new(), key: "x".to_owned(), authority: String::new() };
    let tls = Tls { certificate, client_authority: None };
    let error = ApiServer::start(Config { tls: Some(tls), ..Config::default() }).await.expect_err("there is no key");
    assert!(matches!(error, StartError::Tls(_)), "{error}");
}
