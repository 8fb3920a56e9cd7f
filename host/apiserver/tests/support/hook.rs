//! An HTTPS webhook server in the test's process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

/// A webhook server. The path of a request decides its response. Records the requests.
pub(crate) struct Hook {
    pub(crate) address: SocketAddr,
    authority: String,
    /// The certificate that the server presents.
    certificate: String,
    asked: Arc<Mutex<Vec<Value>>>,
    /// Receives one message for each request at `/gate`, whose response waits for a permit of `gate`.
    pub(crate) arrivals: mpsc::UnboundedReceiver<()>,
    pub(crate) gate: Arc<Semaphore>,
}

#[derive(Clone)]
struct Desk {
    asked: Arc<Mutex<Vec<Value>>>,
    arrived: mpsc::UnboundedSender<()>,
    gate: Arc<Semaphore>,
}

impl Hook {
    pub(crate) async fn start() -> Hook {
        let (acceptor, authority, certificate) = certified();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let desk = Desk { asked: Arc::default(), arrived, gate: Arc::new(Semaphore::new(0)) };
        let (asked, gate) = (Arc::clone(&desk.asked), Arc::clone(&desk.gate));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, desk) = (acceptor.clone(), desk.clone());
                tokio::spawn(async move {
                    // A client that does not trust this server disconnects.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = service_fn(move |request| answer(desk.clone(), request));
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Hook { address, authority, certificate, asked, arrivals, gate }
    }

    pub(crate) fn client(&self, path: &str) -> Value {
        json!({ "url": format!("https://{}/{path}", self.address), "caBundle": BASE64_STANDARD.encode(&self.authority) })
    }

    /// A client configuration as envtest writes it: the certificate itself in place of its authority, and the path as
    /// given.
    pub(crate) fn client_as_of_envtest(&self, path: &str) -> Value {
        let bundle = BASE64_STANDARD.encode(&self.certificate);
        json!({ "url": format!("https://{}{path}", self.address), "caBundle": bundle })
    }

    /// A configuration `name` with one webhook, at `path` for `resource`.
    pub(crate) fn configuration(&self, name: &str, path: &str, resource: &str) -> Value {
        let group = if resource.starts_with("deployments") { "apps" } else { "" };
        json!({
            "metadata": { "name": name },
            "webhooks": [{
                "name": format!("{name}.example.com"),
                "clientConfig": self.client(path),
                "rules": [{ "operations": ["*"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource] }],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        })
    }

    /// The `request` fields of all reviews so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Creates a certificate for names of this machine and of a service. Returns an acceptor, the authority and the
/// certificate.
fn certified() -> (TlsAcceptor, String, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "webhooks");
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let names = ["localhost", "127.0.0.1", "hook.default.svc"].map(str::to_owned);
    let certificate = CertificateParams::new(names).expect("names").signed_by(&key, &issuer).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("TLS");
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("PEM");
    let config = builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key);
    (TlsAcceptor::from(Arc::new(config.expect("a certificate and its key"))), issuer.pem(), certificate.pem())
}

async fn answer(desk: Desk, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let mut review: Value = serde_json::from_slice(&body).expect("a review");
    let question = review["request"].take();
    desk.asked.lock().unwrap_or_else(PoisonError::into_inner).push(question.clone());
    if path == "/gate" {
        desk.arrived.send(()).expect("the test listens");
        desk.gate.acquire().await.expect("it stays open").forget();
    }
    if let Some(place) = path.strip_prefix("/moved") {
        let moved = Response::builder().status(307).header("location", place).body(Full::default());
        return Ok(moved.expect("a response"));
    }
    if path == "/convert" {
        let answer = converted(&question);
        return Ok(Response::new(Full::new(Bytes::from(answer.to_string()))));
    }
    let labelling = json!([{ "op": "add", "path": "/metadata/labels", "value": { "by": "webhook" } }]);
    let mut response = match path.as_str() {
        "/label" => json!({ "patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(labelling.to_string()) }),
        "/deny" => {
            json!({ "allowed": false, "status": { "code": 403, "reason": "Forbidden", "message": "not today" } })
        }
        "/warn" => json!({ "warnings": ["beware"] }),
        "/broken" => {
            let broken = Response::builder().status(500).body(Full::new(Bytes::from_static(b"oh no")));
            return Ok(broken.expect("a response"));
        }
        _ => json!({}),
    };
    if response.get("allowed").is_none() {
        response["allowed"] = json!(true);
    }
    response["uid"] = question["uid"].clone();
    let answer = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response });
    Ok(Response::new(Full::new(Bytes::from(answer.to_string()))))
}

/// The response to a `ConversionReview` of Things: `v1` has host and port, `v2` an address that combines them.
fn converted(question: &Value) -> Value {
    let desired = question["desiredAPIVersion"].as_str().expect("a version");
    let convert = |object: &Value| {
        let (mut made, spec) = (object.clone(), &object["spec"]);
        made["apiVersion"] = json!(desired);
        made["spec"] = if desired.ends_with("/v2") {
            json!({ "address": format!("{}:{}", spec["host"].as_str().unwrap_or_default(), spec["port"]) })
        } else {
            let (host, port) = spec["address"].as_str().and_then(|text| text.split_once(':')).expect("an address");
            json!({ "host": host, "port": port.parse::<u16>().expect("a port") })
        };
        made
    };
    let objects: Vec<Value> = question["objects"].as_array().expect("objects").iter().map(convert).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": { "uid": question["uid"], "result": { "status": "Success" }, "convertedObjects": objects },
    })
}
