//! Tests against registries that lie. The network is in memory, so that time is simulated and addresses are free.

mod artefacts;
mod login;
mod pushes;
mod redirects;
mod slow;

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
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio_rustls::TlsAcceptor;
use windlass_core::call::http::HttpError;
use windlass_egress::connect::Resolve;
use windlass_egress::tls::Trust;

use crate::artefact::{CONFIG_TYPE, LAYER_TYPE, MANIFEST_TYPE, StatedContent, written};
use crate::{
    ComponentNames, Dial, DialedStream, Documents, Network, OciError, OciReference, PlainHttp, PublishedPlugin,
    Registry, RegistryOptions,
};

/// A registry on this machine, so without TLS.
const LOCAL: &str = "127.0.0.1:5000";
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0 and so on";
/// The size of the pipe to a server.
const PIPE_BYTES: usize = 64 << 10;

/// The end of a reply, after its bytes.
#[derive(Clone, Copy)]
enum Then {
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
struct Reply {
    bytes: Vec<u8>,
    then: Then,
}

impl Reply {
    fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: Then::Close }
    }

    /// A reply with this status line, these lines of headers, and a body of the stated length.
    fn new(status: &str, headers: &str, body: &[u8]) -> Self {
        Self::open(status, &format!("{headers}Content-Length: {}\r\n", body.len()), body)
    }

    /// A reply without a stated length. The body ends with the connection.
    fn open(status: &str, headers: &str, body: &[u8]) -> Self {
        Self::raw([format!("HTTP/1.1 {status}\r\n{headers}\r\n").as_bytes(), body].concat())
    }

    fn ok(media_type: &str, body: &[u8]) -> Self {
        Self::new("200 OK", &format!("Content-Type: {media_type}\r\n"), body)
    }

    fn redirect(location: &str) -> Self {
        Self::new("307 Temporary Redirect", &format!("Location: {location}\r\n"), b"")
    }

    fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }
}

/// A request that a server has received.
#[derive(Clone, Debug)]
struct SeenRequest {
    /// The server's address.
    server: SocketAddr,
    /// Method and path.
    line: String,
    head: String,
}

type Replies = HashMap<String, Vec<Reply>>;

/// The network of a test: servers by address, and names. All servers have the same replies.
#[derive(Clone, Default)]
struct World {
    /// The replies to each method and path, in order. The last one stays.
    replies: Arc<Mutex<Replies>>,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    tls: Option<TlsAcceptor>,
}

impl World {
    /// A registry that has an honest plugin `shop:1`.
    fn honest() -> Self {
        let world = Self::default();
        let (manifest, config) = plugin();
        world.reply("GET /v2/shop/manifests/1", Reply::ok(MANIFEST_TYPE, &manifest));
        world.reply(&blob_path(&config), Reply::ok("application/octet-stream", &config));
        world.reply(&blob_path(COMPONENT), Reply::ok("application/octet-stream", COMPONENT));
        world
    }

    /// The same registry with another manifest.
    fn with_manifest(manifest: &Value) -> Self {
        let world = Self::honest();
        world.reply("GET /v2/shop/manifests/1", Reply::ok(MANIFEST_TYPE, manifest.to_string().as_bytes()));
        world
    }

    /// Sets the only reply to a request.
    fn reply(&self, line: &str, reply: Reply) {
        self.replies_to(line, vec![reply]);
    }

    fn replies_to(&self, line: &str, replies: Vec<Reply>) {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).insert(line.to_owned(), replies);
    }

    /// The honest registry with another reply for the component.
    fn with_component(reply: Reply) -> Self {
        let world = Self::honest();
        world.reply(&blob_path(COMPONENT), reply);
        world
    }

    fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn answer(&self, line: &str) -> Reply {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        match replies.get_mut(line) {
            Some(list) if list.len() > 1 => list.remove(0),
            Some(list) => list[0].clone(),
            None => Reply::new("404 Not Found", "", b"{}"),
        }
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

impl Dial for World {
    fn dial(
        &self,
        addresses: Vec<SocketAddr>,
        _limit: Duration,
    ) -> BoxFuture<'static, Result<Box<dyn DialedStream>, HttpError>> {
        let (client, server) = duplex(PIPE_BYTES);
        let (world, address) = (self.clone(), addresses[0]);
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
        async move { Ok(Box::new(client) as Box<dyn DialedStream>) }.boxed()
    }
}

/// Every name of a test has an address that says what it is.
struct Names;

impl Resolve for Names {
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

/// The manifest and the configuration of the plugin `shop`.
fn plugin() -> (Vec<u8>, Vec<u8>) {
    let documents = Documents { manifest: json!({"name": "shop", "version": "1.0.0"}), ..Documents::default() };
    written(&StatedContent::of(COMPONENT), &ComponentNames::default(), &documents)
}

/// The manifest of the plugin, for a test to change.
fn manifest() -> Value {
    serde_json::from_slice(&plugin().0).expect("it is JSON")
}

fn blob_path(content: &[u8]) -> String {
    format!("GET /v2/shop/blobs/{}", StatedContent::of(content).digest)
}

/// A client in a test's world, and the folder to which it pulls.
struct Client {
    world: World,
    registry: Registry,
    folder: TempDir,
}

impl Client {
    /// A client of a registry on this machine.
    fn of(world: &World) -> Self {
        Self::with(world, RegistryOptions { plain_http: PlainHttp::OnThisMachine, ..RegistryOptions::default() })
    }

    fn with(world: &World, options: RegistryOptions) -> Self {
        Self::trusting(world, options, Trust::of_platform("--ca-file"))
    }

    /// A client by TLS, whose servers have certificates for `names`.
    fn with_tls(mut world: World, options: RegistryOptions, names: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("ca.pem");
        let (authority, tls) = certificates(names);
        std::fs::write(&path, authority).expect("written");
        world.tls = Some(tls);
        Self::trusting(&world, options, Trust::named(&path, "--ca-file").expect("it is PEM"))
    }

    fn trusting(world: &World, options: RegistryOptions, trust: Trust) -> Self {
        let network = Network { resolver: Arc::new(Names), dial: Arc::new(world.clone()), trust: Arc::new(trust) };
        let folder = tempfile::tempdir().expect("a directory");
        Self { world: world.clone(), registry: Registry::new(network, options), folder }
    }

    async fn pull(&self, reference: &str) -> Result<PublishedPlugin, OciError> {
        let reference: OciReference = reference.parse()?;
        let plugin = self.registry.look_up(&reference).await?;
        self.registry.pull(&reference, &plugin, &self.folder.path().join("shop.wasm"), None).await?;
        Ok(plugin)
    }

    /// Pulls the plugin, which must fail. Returns the error's reason.
    async fn refusal(&self, reference: &str) -> &'static str {
        match self.pull(reference).await {
            Ok(_) => "pulled",
            Err(error) => {
                assert_eq!(self.files(), Vec::<String>::new(), "a file is left behind after: {error}");
                error.reason()
            }
        }
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("it is there");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

/// The reason why `shop:1` is not pulled from the local registry of `world`.
async fn refusal(world: &World) -> &'static str {
    Client::of(world).refusal(&format!("oci://{LOCAL}/shop:1")).await
}

/// An authority as PEM, and a server's side of TLS with a certificate from it for `names`.
fn certificates(names: &[&str]) -> (String, TlsAcceptor) {
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

#[tokio::test(start_paused = true)]
async fn an_honest_plugin_is_pulled_byte_for_byte() {
    let client = Client::of(&World::honest());
    let plugin = client.pull(&format!("oci://{LOCAL}/shop:1")).await.expect("it is honest");
    let bytes = std::fs::read(client.folder.path().join("shop.wasm")).expect("it is there");
    assert_eq!((bytes.as_slice(), client.files().len()), (COMPONENT, 1));
    assert_eq!(*plugin.manifest.digest(), StatedContent::of(&self::plugin().0).digest);
    assert_eq!(plugin.documents.expect("it has some").manifest["version"], "1.0.0");
    assert!(client.world.seen().iter().all(|request| !request.head.contains("authorization")));
}

#[test]
fn a_test_changes_the_manifest_that_is_read() {
    let manifest = manifest();
    assert_eq!(manifest["layers"][0]["mediaType"], LAYER_TYPE);
    assert_eq!(manifest["config"]["mediaType"], CONFIG_TYPE);
}
