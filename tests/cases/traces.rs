//! Compares a call's spans, as a collector receives them, with the API server's audit log and the host's log.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;

use crate::admin::{get, watched_at};
use crate::webapp::plugin_directory;

/// A collector that keeps the spans it receives. It stops when dropped.
struct SpanCollector {
    address: SocketAddr,
    got: Arc<Mutex<Got>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Got {
    spans: Vec<Value>,
    /// The lines before the first body.
    head: String,
    resource: Value,
}

impl SpanCollector {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, got) = (listener.local_addr()?, Arc::<Mutex<Got>>::default());
        let kept = got.clone();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (head, body) = request(&mut stream).await.expect("a request");
                let mut body: Value = serde_json::from_slice(&body).expect("JSON");
                let mut resource = body["resourceSpans"][0].take();
                let spans = resource["scopeSpans"][0]["spans"].as_array().cloned().expect("spans");
                {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.head = head;
                    kept.resource = resource["resource"].take();
                    kept.spans.extend(spans);
                }
                let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
                stream.write_all(answer).await.expect("the host listens");
            }
        });
        Ok(Self { address, got, serving })
    }

    fn spans(&self) -> Vec<Value> {
        self.got.lock().unwrap_or_else(PoisonError::into_inner).spans.clone()
    }
}

impl Drop for SpanCollector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The head and the body of one request. The head is in lower case.
pub(crate) async fn request(stream: &mut TcpStream) -> anyhow::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = stream.read(&mut buffer).await?;
        anyhow::ensure!(read > 0, "it ended before its body did");
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
        if bytes.len() >= head.len() + 4 + length {
            return Ok((head.clone(), bytes[head.len() + 4..].to_vec()));
        }
    }
}

/// A proxy to an API server. It records the bytes that are sent.
struct TappedWire {
    kubeconfig: tempfile::TempDir,
    /// The bytes of each connection.
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl TappedWire {
    async fn to(server: &Server) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(server.kubeconfig())?;
        let url = text.split("http://").nth(1).context("a plain URL")?;
        let end = url.find(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != ':');
        let to: SocketAddr = url[..end.unwrap_or(url.len())].parse()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let kubeconfig = tempfile::tempdir()?;
        let here = listener.local_addr()?.to_string();
        std::fs::write(kubeconfig.path().join("kubeconfig"), text.replace(&to.to_string(), &here))?;
        let sent = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let heard = sent.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(to).await else { return };
                let ((from, mut back), (mut answers, mut on)) = (client.into_split(), server.into_split());
                let heard = heard.clone();
                tokio::spawn(async move { listened(from, &mut on, &heard).await });
                tokio::spawn(async move { tokio::io::copy(&mut answers, &mut back).await });
            }
        });
        Ok(Self { kubeconfig, sent })
    }

    fn kubeconfig(&self) -> std::path::PathBuf {
        self.kubeconfig.path().join("kubeconfig")
    }

    /// All values of `traceparent` that were sent.
    fn traceparents(&self) -> BTreeSet<String> {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = sent.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect::<Vec<_>>();
        let lines = texts.iter().flat_map(|text| text.lines());
        lines.filter_map(|line| line.strip_prefix("traceparent: ")).map(|it| it.trim().to_owned()).collect()
    }
}

async fn listened(
    mut from: impl AsyncRead + Unpin,
    on: &mut (impl AsyncWriteExt + Unpin),
    heard: &Mutex<Vec<Vec<u8>>>,
) -> std::io::Result<()> {
    let own = {
        let mut all = heard.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Vec::new());
        all.len() - 1
    };
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return on.shutdown().await;
        }
        heard.lock().unwrap_or_else(PoisonError::into_inner)[own].extend_from_slice(&buffer[..read]);
        on.write_all(&buffer[..read]).await?;
    }
}

/// The value of a span's attribute.
fn attribute<'a>(span: &'a Value, name: &str) -> &'a str {
    let all = span["attributes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let value = all.iter().find(|it| it["key"] == name).map_or(&Value::Null, |it| &it["value"]);
    value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap_or_default()
}

/// The spans below `parent`, each with its path: `reconcile/run/writes.apply/patch deployments.apps`.
fn tree<'a>(spans: &'a [Value], parent: &Value, path: &str) -> Vec<(String, &'a Value)> {
    let children =
        spans.iter().filter(|span| span["parentSpanId"] == parent["spanId"] && span["traceId"] == parent["traceId"]);
    let below = |span: &'a Value| {
        let path = format!("{path}/{}", span["name"].as_str().unwrap_or_default());
        let mut all = tree(spans, span, &path);
        all.push((path, span));
        all
    };
    children.flat_map(below).collect()
}

async fn traced(
    server: &Server,
    kubeconfig: &Path,
    plugins: &Path,
    more: &[&str],
) -> anyhow::Result<(Host, SocketAddr)> {
    let mut arguments = vec!["--leases=none", "--log-format=json", "--log-level=windlass::audit=debug,info"];
    arguments.extend(more);
    watched_at(kubeconfig, server.objects().namespace(), plugins, &arguments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_one_trace_from_its_event_to_the_api_servers_answer() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let (plugins, collector, wire) =
        (plugin_directory()?, SpanCollector::start().await?, TappedWire::to(&server).await?);
    let endpoint = format!("http://{}", collector.address);
    let (host, admin) = traced(&server, &wire.kubeconfig(), plugins.path(), &["--otlp-endpoint", &endpoint]).await?;
    host.says("controller started").await?;
    Story::new(server.objects()).whole().await?;
    let creates = |spans: &[Value]| -> Option<(Value, Vec<String>)> {
        let mut roots = spans.iter().filter(|span| span.get("parentSpanId").is_none());
        roots.find_map(|root| {
            let below = tree(spans, root, "reconcile");
            let paths: Vec<_> = below.iter().map(|(path, _)| path.clone()).collect();
            let wrote = |what: &str| paths.iter().any(|path| path.ends_with(what));
            let is_it = wrote("patch deployments.apps") && wrote("patch services") && wrote("queue") && wrote("permit");
            is_it.then(|| (root.clone(), paths))
        })
    };
    let (root, paths) = until("the collector has the call that created both children", || async {
        let spans = collector.spans();
        creates(&spans).with_context(|| format!("{spans:?}"))
    })
    .await?;
    assert!(paths.iter().any(|path| path.starts_with("reconcile/run/writes.apply/patch ")), "{paths:?}");
    let namespace = server.objects().namespace();
    for (name, value) in [
        ("windlass.plugin", "webapp"),
        ("windlass.controller", "webapp"),
        ("windlass.key", &format!("{namespace}/shop")),
        ("k8s.namespace.name", namespace),
        ("windlass.outcome", "done"),
    ] {
        assert_eq!(attribute(&root, name), value, "{name} of {root}");
    }
    let spans = collector.spans();
    let below = tree(&spans, &root, "reconcile");
    let (_, patch) = below.iter().find(|(path, _)| path.ends_with("patch deployments.apps")).context("a patch")?;
    for (name, value) in
        [("http.request.method", "PATCH"), ("server.address", "127.0.0.1"), ("windlass.object.name", "shop")]
    {
        assert_eq!(attribute(patch, name), value, "{name} of {patch}");
    }
    assert!(attribute(patch, "http.response.status_code").starts_with("20"), "{patch}");
    // Both the request to the API server and the audit log name this span of this trace.
    let trace = root["traceId"].as_str().context("an id")?;
    let parent = format!("00-{trace}-{}-01", patch["spanId"].as_str().context("an id")?);
    assert!(wire.traceparents().contains(&parent), "{parent} not in {:?}", wire.traceparents());
    assert!(
        host.log().lines().any(|line| line.contains("windlass::audit") && line.contains(trace)),
        "no audit of {trace}"
    );
    // The times must nest: no part begins before its call, and the event came before the worker.
    let time = |span: &Value, field: &str| span[field].as_str().and_then(|text| text.parse::<u64>().ok());
    for (path, span) in &below {
        assert!(time(span, "startTimeUnixNano") >= time(&root, "startTimeUnixNano"), "{path}");
        assert!(time(span, "endTimeUnixNano") >= time(span, "startTimeUnixNano"), "{path}");
    }
    let metrics = get(admin, "/metrics").await?.1;
    let dropped = metrics.lines().find(|line| line.starts_with("windlass_spans_dropped_total"));
    assert!(dropped.is_some_and(|line| line.ends_with(" 0")), "{dropped:?}");
    assert!(host.terminate().await?.success());
    let got = collector.got.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(got.head.starts_with("post /v1/traces http/1.1") && got.head.contains("application/json"), "{}", got.head);
    assert!(got.resource.to_string().contains(r#""service.name""#), "{}", got.resource);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_collector_is_logged_once_and_costs_nothing_else() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    // Nothing listens on this port.
    let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let endpoint = format!("http://{address}");
    let (host, admin) = traced(&server, server.kubeconfig(), plugins.path(), &["--otlp-endpoint", &endpoint]).await?;
    Story::new(server.objects()).whole().await?;
    let said = host.says("the collector accepts no spans").await?;
    assert!(said.contains(&address.to_string()) && said.contains("cannot be reached"), "{said}");
    let ready = get(admin, "/readyz").await?;
    assert_eq!(ready.0, 200, "{}", ready.1);
    let mut host = host;
    host.signal("TERM").await?;
    assert!(host.ends().await?.success(), "a clean stop");
    assert_eq!(host.log().matches("the collector accepts no spans").count(), 1, "{}", host.log());
    assert!(host.log().contains("\"clean\":true"), "{}", host.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsampled_call_has_no_span_and_an_unsampled_traceparent() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let (plugins, collector, wire) =
        (plugin_directory()?, SpanCollector::start().await?, TappedWire::to(&server).await?);
    let endpoint = format!("http://{}", collector.address);
    let more = ["--otlp-endpoint", &endpoint, "--trace-sampling", "0"];
    let (host, _) = traced(&server, &wire.kubeconfig(), plugins.path(), &more).await?;
    Story::new(server.objects()).create().await?;
    assert!(host.terminate().await?.success());
    let parents = wire.traceparents();
    assert!(!parents.is_empty() && parents.iter().all(|parent| parent.ends_with("-00")), "{parents:?}");
    assert!(collector.spans().is_empty());
    Ok(())
}

/// Flags, environment variables, and words of the error.
type WrongSetting<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], [&'a str; 2]);

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_setting_of_traces_ends_the_host_with_its_place() -> anyhow::Result<()> {
    let plugins = tempfile::tempdir()?;
    let directory = plugins.path().to_str().context("UTF-8")?;
    let cases: [WrongSetting<'_>; 3] = [
        (&["--otlp-endpoint", "collector:4318"], &[], ["--otlp-endpoint", "http://collector.example:4318"]),
        (
            &[],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://c")],
            ["OTEL_EXPORTER_OTLP_ENDPOINT", "not the URL of a collector"],
        ),
        (
            &["--otlp-endpoint", "http://c"],
            &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            ["OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"],
        ),
    ];
    for (flags, variables, words) in cases {
        let arguments: Vec<_> = ["run", "--plugins", directory].iter().chain(flags).copied().collect();
        let mut host = Host::start_with(&arguments, variables, None)?;
        assert_eq!(host.ends().await?.code(), Some(2), "{}", host.log());
        for word in words {
            assert!(host.log().contains(word), "{word:?} is not in: {}", host.log());
        }
    }
    Ok(())
}
