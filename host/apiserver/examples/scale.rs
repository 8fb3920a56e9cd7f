//! Measures the server with many objects: creates per second, the time of a list in each form, memory and start time.
//! Also checks that every watcher sees every event in order.
//!
//! ```text
//! cargo run --release -p windlass-apiserver --features tls --example scale -- 100000 200
//! cargo run --release -p windlass-apiserver --features tls --example scale -- 20000 0 KUBECONFIG PID
//! ```
//!
//! The first command measures the embedded server, in a separate process. The second measures a real server, by its
//! kubeconfig and process ID. The numbers are the counts of objects and of watchers. Eight connections create
//! `ConfigMaps`, each connection one after the other. Each watcher reads all events and checks their bytes: no object
//! of a connection may be missing, repeated, or out of order.

use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use windlass_apiserver::{ApiServer, Config};

const CREATORS: usize = 8;
/// How often each list is read.
const LISTS: usize = 5;
/// The media types that clients ask for: kubectl and this host, typed clients in Go, and clients that need only
/// metadata.
const FORMS: [(&str, &str); 3] = [
    ("JSON", "application/json"),
    ("protobuf", "application/vnd.kubernetes.protobuf"),
    ("PartialObjectMetadata", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
];
const PATH: &str = "/api/v1/namespaces/default/configmaps";

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["server"] => serve().await,
        [objects, watchers] => {
            let (mut child, url, start) = embedded()?;
            println!("start: {:.1} ms from spawning the process to its ready line", start * 1000.0);
            let server = Server { host: url.trim_start_matches("http://").to_owned(), tls: None };
            let result = measure(Arc::new(server), objects.parse()?, watchers.parse()?, child.id()).await;
            child.kill()?;
            child.wait()?;
            result
        }
        [objects, watchers, kubeconfig, pid] => {
            measure(Arc::new(Server::of(kubeconfig)?), objects.parse()?, watchers.parse()?, pid.parse()?).await
        }
        _ => Err("say how many objects and watchers, and for a real server its kubeconfig and process".into()),
    }
}

/// Runs the embedded server in the child process.
async fn serve() -> Result<(), Failure> {
    let server = ApiServer::start(Config { watch_history: 1 << 20, ..Config::default() }).await?;
    println!("{}", server.url());
    // Runs until the parent process has ended.
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    server.shutdown().await;
    Ok(())
}

/// Starts the embedded server in a separate process. Returns the process, its URL, and the seconds that the start took.
fn embedded() -> Result<(Child, String, f64), Failure> {
    let begin = Instant::now();
    let mut child =
        Command::new(std::env::current_exe()?).arg("server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    let url = BufReader::new(output).lines().next().ok_or("the server did not start")??;
    Ok((child, url, begin.elapsed().as_secs_f64()))
}

/// The server that is measured.
struct Server {
    host: String,
    tls: Option<TlsConnector>,
}

impl Server {
    /// The server of a kubeconfig that has a client certificate.
    fn of(kubeconfig: &str) -> Result<Server, Failure> {
        let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(kubeconfig)?)?;
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let pem = |owner: &Value, key: &str| -> Result<Vec<u8>, Failure> {
            match (owner[format!("{key}-data")].as_str(), owner[key].as_str()) {
                (Some(data), _) => Ok(BASE64.decode(data)?),
                (None, Some(path)) => Ok(std::fs::read(path)?),
                (None, None) => Err(format!("the kubeconfig has no {key}").into()),
            }
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem(cluster, "certificate-authority")?)?)?;
        let certificate = CertificateDer::from_pem_slice(&pem(user, "client-certificate")?)?;
        let key = PrivateKeyDer::from_pem_slice(&pem(user, "client-key")?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)?;
        let url = cluster["server"].as_str().ok_or("the kubeconfig has no server")?;
        Ok(Server { host: url.trim_start_matches("https://").to_owned(), tls: Some(Arc::new(config).into()) })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let stream = TcpStream::connect(&self.host).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else {
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            return Ok(sender);
        };
        let name = self.host.split(':').next().unwrap_or_default().to_owned();
        let stream = tls.connect(ServerName::try_from(name)?, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, method: &str, path: &str, body: String) -> Result<Request<Full<Bytes>>, Failure> {
        let request = Request::builder().method(method).uri(path).header("host", &self.host);
        Ok(request.header("content-type", "application/json").body(Full::new(body.into()))?)
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
async fn measure(server: Arc<Server>, objects: usize, watchers: usize, pid: u32) -> Result<(), Failure> {
    let before = proportional_memory(pid)?;
    let (version, cpu_before) = (current_version(&server).await?, processor_seconds(pid)?);
    let expected = Arc::new(Expected { objects, stream: Mutex::default() });
    let mut watching = JoinSet::new();
    for _ in 0..watchers {
        watching.spawn(watch(Arc::clone(&server), version.clone(), Arc::clone(&expected)));
    }
    let begin = Instant::now();
    let mut creating = JoinSet::new();
    for creator in 0..CREATORS {
        let count = objects / CREATORS + usize::from(creator < objects % CREATORS);
        creating.spawn(create(Arc::clone(&server), creator, count));
    }
    while let Some(done) = creating.join_next().await {
        done??;
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("creates: {objects} in {seconds:.2} s, {:.0} a second", objects as f64 / seconds);
    while let Some(done) = watching.join_next().await {
        done??;
    }
    if watchers > 0 {
        let seconds = begin.elapsed().as_secs_f64();
        let bytes = expected.stream.lock().map_err(|_| "a watcher has panicked")?.checked * watchers / (1 << 20);
        println!("watchers: {watchers} saw all {objects} events in order, {seconds:.2} s after the first create");
        println!("          {bytes} MiB, {:.0} events a second", (objects * watchers) as f64 / seconds);
    }
    for (form, accept) in FORMS {
        println!("list as {form}: {}", list(&server, accept).await?);
    }
    println!("server: {:.2} s of the processors", processor_seconds(pid)? - cpu_before);
    println!("memory: {before} MiB before, {} MiB after (PSS of the server's process)", proportional_memory(pid)?);
    Ok(())
}

async fn current_version(server: &Server) -> Result<String, Failure> {
    let request = server.request("GET", &format!("{PATH}?limit=1"), String::new())?;
    let answer = server.connect().await?.send_request(request).await?;
    let list: Value = serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?;
    Ok(list["metadata"]["resourceVersion"].as_str().ok_or("a list without a version")?.to_owned())
}

/// Reads the list of all objects several times. Reports the shortest time, because other processes share the
/// processors.
async fn list(server: &Server, accept: &str) -> Result<String, Failure> {
    let (mut best, mut length) = (f64::INFINITY, 0);
    let mut sender = server.connect().await?;
    for _ in 0..LISTS {
        let mut request = server.request("GET", PATH, String::new())?;
        request.headers_mut().insert("accept", accept.parse()?);
        sender.ready().await?;
        let begin = Instant::now();
        let answer = sender.send_request(request).await?;
        let code = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        if code != StatusCode::OK {
            return Err(format!("{code}: {}", String::from_utf8_lossy(&body)).into());
        }
        best = best.min(begin.elapsed().as_secs_f64());
        length = body.len();
    }
    Ok(format!("{:.0} ms, {} KiB", best * 1000.0, length / 1024))
}

/// The object that connection `creator` creates as its `number`th.
fn object(creator: usize, number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": format!("scale-{creator}-{number}"), "labels": { "app": "scale" } },
        "data": { "number": number.to_string(), "text": "x".repeat(200) },
    })
}

async fn create(server: Arc<Server>, creator: usize, count: usize) -> Result<(), Failure> {
    let mut sender = server.connect().await?;
    for number in 0..count {
        let body = object(creator, number).to_string();
        let answer = sender.send_request(server.request("POST", PATH, body)?).await?;
        let code = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        if code != StatusCode::CREATED {
            return Err(format!("{code}: {}", String::from_utf8_lossy(&body)).into());
        }
    }
    Ok(())
}

/// The expected stream of all watchers. They begin at the same version and select the same objects, so all get the same
/// bytes. The first watcher to get an event parses and checks it; the others compare bytes, which costs a hundredth.
struct Expected {
    objects: usize,
    stream: Mutex<CheckedStream>,
}

#[derive(Default)]
struct CheckedStream {
    bytes: Vec<u8>,
    /// How many of the bytes belong to complete, checked events.
    checked: usize,
    /// The number of the next object of each connection.
    next: [usize; CREATORS],
    seen: usize,
    last_version: u64,
}

impl Expected {
    /// Checks the `data` that a watcher got at offset `place` of its stream. True once the watcher has all events.
    fn check(&self, place: usize, data: &[u8]) -> Result<bool, Failure> {
        let mut stream = self.stream.lock().map_err(|_| "another watcher has panicked")?;
        let (known, new) = data.split_at(data.len().min(stream.bytes.len() - place));
        let expected = &stream.bytes[place..place + known.len()];
        if known != expected {
            let (known, expected) = (String::from_utf8_lossy(known), String::from_utf8_lossy(expected));
            return Err(
                format!("at byte {place}, this watcher got\n{known}\nbut another watcher got\n{expected}").into()
            );
        }
        stream.bytes.extend_from_slice(new);
        stream.check_events()?;
        Ok(stream.seen == self.objects && place + data.len() == stream.bytes.len())
    }
}

impl CheckedStream {
    fn check_events(&mut self) -> Result<(), Failure> {
        let (mut begin, bytes) = (self.checked, std::mem::take(&mut self.bytes));
        while let Some(length) = bytes[begin..].iter().position(|byte| *byte == b'\n') {
            let line = &bytes[begin..begin + length];
            self.check_event(line).map_err(|why| format!("{why}: {}", String::from_utf8_lossy(line)))?;
            begin += length + 1;
        }
        (self.checked, self.bytes) = (begin, bytes);
        Ok(())
    }

    /// Checks that an event adds the next object of its connection, with the content that was sent, at a higher
    /// version.
    fn check_event(&mut self, line: &[u8]) -> Result<(), Failure> {
        let event: Value = serde_json::from_slice(line)?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).ok_or("an odd event");
        let creator: usize = text("/object/metadata/name")?.split('-').nth(1).ok_or("an odd name")?.parse()?;
        let next = self.next.get_mut(creator).ok_or("an odd name")?;
        let (sent, version) = (object(creator, *next), text("/object/metadata/resourceVersion")?.parse()?);
        let is_sent = ["/metadata/name", "/metadata/labels", "/data"]
            .iter()
            .all(|member| event["object"].pointer(member) == sent.pointer(member));
        if text("/type")? != "ADDED" || !is_sent || version <= self.last_version {
            return Err(format!("this is not object {next} of connection {creator}, or its version is too low").into());
        }
        *next += 1;
        self.seen += 1;
        self.last_version = version;
        Ok(())
    }
}

/// Watches until all events have come, and checks them.
async fn watch(server: Arc<Server>, version: String, expected: Arc<Expected>) -> Result<(), Failure> {
    let path = format!("{PATH}?watch=true&labelSelector=app%3Dscale&resourceVersion={version}&timeoutSeconds=3600");
    let answer = server.connect().await?.send_request(server.request("GET", &path, String::new())?).await?;
    let (mut body, mut place) = (answer.into_body(), 0);
    loop {
        let frame = body.frame().await.ok_or("the watch ended")??;
        let Ok(data) = frame.into_data() else { continue };
        if expected.check(place, &data)? {
            return Ok(());
        }
        place += data.len();
    }
}

/// The memory of a process in MiB (PSS): each shared page is divided among the processes that share it.
fn proportional_memory(pid: u32) -> Result<u64, Failure> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).ok_or("no Pss")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib / 1024)
}

/// The processor time of a process in seconds, in user and in kernel mode.
fn processor_seconds(pid: u32) -> Result<f64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The fields come after the program's name in parentheses. Times are in hundredths of a second on every Linux.
    let (_, fields) = stat.rsplit_once(')').ok_or("an odd stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    Ok(f64::from(ticks.sum::<Result<u32, _>>()?) / 100.0)
}
