//! Registries in memory that lie, for the tests of `windlass-oci` and `windlass-store`. The network is in memory too,
//! so that time can be simulated and addresses are free.

#![expect(
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "for tests"
)]

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio_rustls::TlsAcceptor;
use windlass_egress::connect::Resolve;

/// A registry on this machine, so without TLS.
pub const LOCAL: &str = "127.0.0.1:5000";
/// The bytes of an honest component.
pub const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0 and so on";
/// The media type of a manifest.
pub const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
const LAYER_TYPE: &str = "application/wasm";
/// The size of the pipe to a server.
const PIPE_BYTES: usize = 64 << 10;

/// The end of a reply, after its bytes.
#[derive(Clone, Copy)]
pub enum Then {
    Close,
    /// Sends nothing more, and keeps the connection.
    Hang,
    /// Sends a kilobyte of zeros, again and again.
    Endless,
    /// Sends one byte per interval, for ever.
    Drip(Duration),
}

/// A server's reply to a request.
#[derive(Clone)]
pub struct Reply {
    pub bytes: Vec<u8>,
    pub then: Then,
}

impl Reply {
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: Then::Close }
    }

    /// A reply with this status line, these lines of headers, and a body of the stated length.
    pub fn new(status: &str, headers: &str, body: &[u8]) -> Self {
        Self::open(status, &format!("{headers}Content-Length: {}\r\n", body.len()), body)
    }

    /// A reply without a stated length. The body ends with the connection.
    pub fn open(status: &str, headers: &str, body: &[u8]) -> Self {
        Self::raw([format!("HTTP/1.1 {status}\r\n{headers}\r\n").as_bytes(), body].concat())
    }

    pub fn ok(media_type: &str, body: &[u8]) -> Self {
        Self::new("200 OK", &format!("Content-Type: {media_type}\r\n"), body)
    }

    pub fn redirect(location: &str) -> Self {
        Self::new("307 Temporary Redirect", &format!("Location: {location}\r\n"), b"")
    }

    pub fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }
}

/// A request that a server has received.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// The server's address.
    pub server: SocketAddr,
    /// Method and path.
    pub line: String,
    pub head: String,
}

type Replies = HashMap<String, Vec<Reply>>;

/// The network of a test: servers by address, and names. All servers have the same replies.
#[derive(Clone, Default)]
pub struct LyingServers {
    /// The replies to each method and path, in order. The last one stays.
    replies: Arc<Mutex<Replies>>,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    pub tls: Option<TlsAcceptor>,
}

impl LyingServers {
    /// A registry that has an honest plugin `shop:1`.
    pub fn honest() -> Self {
        let world = Self::default();
        world.has(COMPONENT);
        world
    }

    /// Adds an honest plugin with this component, as `shop:1` and by its digest. Returns the digest.
    pub fn has(&self, component: &[u8]) -> String {
        let (manifest, config) = plugin_of(component);
        let digest = digest_of(&manifest);
        for version in ["1", &digest] {
            self.reply(&format!("GET /v2/shop/manifests/{version}"), Reply::ok(MANIFEST_TYPE, &manifest));
        }
        for blob in [&*config, component] {
            self.reply(&blob_path(blob), Reply::ok("application/octet-stream", blob));
        }
        digest
    }

    /// The same registry with another manifest.
    pub fn with_manifest(manifest: &Value) -> Self {
        let world = Self::honest();
        world.reply("GET /v2/shop/manifests/1", Reply::ok(MANIFEST_TYPE, manifest.to_string().as_bytes()));
        world
    }

    /// Sets the only reply to a request.
    pub fn reply(&self, line: &str, reply: Reply) {
        self.replies_to(line, vec![reply]);
    }

    pub fn replies_to(&self, line: &str, replies: Vec<Reply>) {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).insert(line.to_owned(), replies);
    }

    /// The honest registry with another reply for the component.
    pub fn with_component(reply: Reply) -> Self {
        let world = Self::honest();
        world.reply(&blob_path(COMPONENT), reply);
        world
    }

    pub fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn answer(&self, line: &str) -> Reply {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        match replies.get_mut(line) {
            Some(list) if list.len() > 1 => list.remove(0),
            Some(list) => list[0].clone(),
            None => Reply::new("404 Not Found", "", b"{}"),
        }
    }

    /// A connection to the server at `address`.
    pub fn connect(&self, address: SocketAddr) -> DuplexStream {
        let (client, server) = duplex(PIPE_BYTES);
        let world = self.clone();
        tokio::spawn(async move {
            match world.tls.clone() {
                None => world.serve(server, address).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(server).await {
                        world.serve(stream, address).await;
                    }
                }
            }
        });
        client
    }

    async fn serve(self, mut stream: impl AsyncRead + AsyncWrite + Unpin, server: SocketAddr) {
        let mut request = Vec::new();
        while !is_whole(&request) {
            match stream.read_buf(&mut request).await {
                Ok(read) if read > 0 => {}
                _ => return,
            }
        }
        let text = String::from_utf8_lossy(&request);
        let head = text.split("\r\n\r\n").next().unwrap_or_default().to_owned();
        let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
        let reply = self.answer(&line);
        let seen = SeenRequest { server, line, head: head.to_ascii_lowercase() };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        let _ = stream.write_all(&reply.bytes).await;
        match reply.then {
            Then::Close => {
                let _ = stream.shutdown().await;
            }
            Then::Hang => pending().await,
            Then::Endless => while stream.write_all(&[0; 1 << 10]).await.is_ok() {},
            Then::Drip(interval) => {
                while stream.write_all(b"\0").await.is_ok() && stream.flush().await.is_ok() {
                    tokio::time::sleep(interval).await;
                }
            }
        }
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
    request.len() >= head.len() + 4 + length
}

/// Every name of a test has an address that says what it is.
#[derive(Clone, Copy, Debug)]
pub struct TestNames;

impl Resolve for TestNames {
    fn resolve(&self, name: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let address = match name.as_str() {
            "registry.example.com" => "93.184.216.10",
            "elsewhere.example.com" => "93.184.216.20",
            "private.example.com" => "10.0.0.8",
            "localhost" => "127.0.0.1",
            _ => return async { Err(io::Error::other("no such name")) }.boxed(),
        };
        let address = address.parse().expect("an address");
        async move { Ok(vec![SocketAddr::new(address, port)]) }.boxed()
    }
}

/// The SHA-256 of `bytes`, as registries write it.
pub fn digest_of(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes).iter().flat_map(|byte| [byte >> 4, byte & 15]).collect::<Vec<_>>();
    let digits = digits.into_iter().filter_map(|digit| char::from_digit(u32::from(digit), 16));
    format!("sha256:{}", digits.collect::<String>())
}

/// The manifest and the configuration of the plugin `shop` with this component.
pub fn plugin_of(component: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let described = |media_type: &str, bytes: &[u8]| json!({"mediaType": media_type, "digest": digest_of(bytes), "size": bytes.len()});
    let config = json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [digest_of(component)],
        "component": {"exports": [], "imports": []},
        "dev.windlass.documents": {"manifest": {"name": "shop", "version": "1.0.0"}},
    });
    let config = config.to_string().into_bytes();
    let mut layer = described(LAYER_TYPE, component);
    layer["annotations"] = json!({"org.opencontainers.image.title": "shop.wasm"});
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": described(CONFIG_TYPE, &config),
        "layers": [layer],
        "annotations": {"org.opencontainers.image.title": "shop", "org.opencontainers.image.version": "1.0.0"},
    });
    (manifest.to_string().into_bytes(), config)
}

/// The manifest of the honest plugin, for a test to change.
pub fn manifest() -> Value {
    serde_json::from_slice(&plugin_of(COMPONENT).0).expect("it is JSON")
}

/// The request for a content of the repository `shop`.
pub fn blob_path(content: &[u8]) -> String {
    format!("GET /v2/shop/blobs/{}", digest_of(content))
}

/// An authority as PEM, and a server's side of TLS with a certificate from it for `names`.
pub fn certificates(names: &[&str]) -> (String, TlsAcceptor) {
    let mut parameters = CertificateParams::new(vec![]).expect("no names");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("signed");
    let key = KeyPair::generate().expect("a key");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).expect("names").signed_by(&key, &authority).expect("signed");
    let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .expect("they belong together");
    (authority.pem(), TlsAcceptor::from(Arc::new(config)))
}
