//! Webhooks for scripts: HTTPS servers in this process, which both API servers call.
//!
//! Each hook has a different kind of certificate. `$hook_NAME` is its host and port, and `$ca_NAME` its certificate as
//! a `caBundle`. `$ca_issuer` is the authority that signed the certificates that are not self-signed, and
//! `$ca_namesake` is a different authority with the same name.
//!
//! A hook answers an `AdmissionReview` with the annotation `seen`, which contains the method and the path of the
//! request. It converts an object by setting its version. `/go/CODE/REST` answers with CODE and the `Location` `/REST`;
//! `/far/CODE/REST` does the same with a whole URL; `/bare/CODE` sends no `Location`; and `/round` redirects to itself.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::script::Variables;

/// Starts them.
#[derive(Debug)]
pub struct Hooks;

impl Hooks {
    /// Starts all webhooks, which run until the runtime ends, and returns their variables.
    pub async fn start() -> anyhow::Result<Variables> {
        let issuer = CertifiedIssuer::self_signed(authority("webhooks"), KeyPair::generate()?)?;
        let namesake = CertifiedIssuer::self_signed(authority("webhooks"), KeyPair::generate()?)?;
        let mut variables = Variables::new();
        for (name, authority) in [("ca_issuer", &issuer), ("ca_namesake", &namesake)] {
            variables.insert(name.to_owned(), STANDARD.encode(authority.pem()));
        }
        let here = || named(&["localhost", "127.0.0.1"]);
        let mut client_only = here()?;
        client_only.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let mut server_too = here()?;
        server_too.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let mut expired = here()?;
        (expired.not_before, expired.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
        let mut own_authority = authority("own");
        own_authority.subject_alt_names = here()?.subject_alt_names;
        for (name, params, is_self_signed) in [
            ("plain", here()?, false),
            ("alone", here()?, true),
            ("authority", own_authority, true),
            ("client", client_only, false),
            ("both", server_too, false),
            ("expired", expired, false),
            ("elsewhere", named(&["example.com", "10.0.0.1"])?, false),
            ("nameless", named(&[])?, false),
        ] {
            let key = KeyPair::generate()?;
            let certificate =
                if is_self_signed { params.self_signed(&key)? } else { params.signed_by(&key, &issuer)? };
            variables.insert(format!("ca_{name}"), STANDARD.encode(certificate.pem()));
            variables.insert(format!("hook_{name}"), serve(&certificate, &key).await?);
        }
        Ok(variables)
    }
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn named(names: &[&str]) -> anyhow::Result<CertificateParams> {
    Ok(CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?)
}

/// Starts a webhook, and returns its host and port.
async fn serve(certificate: &Certificate, key: &KeyPair) -> anyhow::Result<String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for a webhook")?;
    let place = listener.local_addr()?.to_string();
    let own = place.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, own) = (acceptor.clone(), own.clone());
            tokio::spawn(async move {
                // A client that does not trust this server closes the connection.
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let answer = service_fn(move |request| answer(own.clone(), request));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    Ok(place)
}

async fn answer(own: String, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let seen = format!("{} {}", head.method, head.uri);
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let (word, code) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let rest = parts.next().unwrap_or_default();
    let location = match word {
        "go" => Some(format!("/{rest}")),
        "far" => Some(format!("https://{own}/{rest}")),
        "round" => Some(path.clone()),
        "bare" => Some(String::new()),
        _ => None,
    };
    let mut response = Response::builder();
    if let Some(location) = location {
        response = response.status(code.parse().unwrap_or(StatusCode::TEMPORARY_REDIRECT));
        if !location.is_empty() {
            response = response.header("location", location);
        }
        return Ok(response.body(Full::default()).unwrap_or_default());
    }
    Ok(Response::new(Full::new(Bytes::from(reviewed(&review, &seen).to_string()))))
}

fn reviewed(review: &Value, seen: &str) -> Value {
    let request = &review["request"];
    if review["kind"] == "ConversionReview" || seen.contains("/convert") {
        let convert = |object: &Value| {
            let mut object = object.clone();
            object["apiVersion"] = request["desiredAPIVersion"].clone();
            object
        };
        let objects: Vec<Value> = request["objects"].as_array().into_iter().flatten().map(convert).collect();
        let response = json!({ "uid": request["uid"], "result": { "status": "Success" }, "convertedObjects": objects });
        return json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response });
    }
    let annotations = &request["object"]["metadata"]["annotations"];
    let at = if annotations.is_object() { "/metadata/annotations/seen" } else { "/metadata/annotations" };
    let value = if annotations.is_object() { json!(seen) } else { json!({ "seen": seen }) };
    let patch = json!([{ "op": "add", "path": at, "value": value }]).to_string();
    let response = json!({
        "uid": request["uid"],
        "allowed": true,
        "patchType": "JSONPatch",
        "patch": STANDARD.encode(patch),
    });
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}
