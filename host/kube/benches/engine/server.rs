//! An API server that serves only Pods, as fast as possible, so that its cost does not hide the informer's. It runs as
//! a separate process, or within the client if a socket would distort a latency.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::sync::mpsc;

use crate::corpus::{self, LIST_VERSION, Pod};

/// The number of initial events in one chunk of a streaming list.
const PIECE_EVENTS: usize = 100;

pub(crate) type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

/// The server's state: the Pods and the watches.
pub(crate) struct Api {
    pods: Rendered,
    metadata: Rendered,
    /// Whether the server supports streaming lists (`sendInitialEvents`).
    streaming: bool,
    watchers: Mutex<Vec<mpsc::UnboundedSender<Bytes>>>,
}

/// Items of a list, separated by commas.
struct Rendered {
    text: Bytes,
    /// The end of each item.
    ends: Vec<usize>,
    kind: &'static str,
    api_version: &'static str,
}

impl Rendered {
    fn new(items: impl Iterator<Item = String>, kind: &'static str, api_version: &'static str) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for item in items {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&item);
            ends.push(text.len());
        }
        text.shrink_to_fit();
        Self { text: text.into(), ends, kind, api_version }
    }

    /// The items from `first` to before `end`, separated by commas.
    fn slice(&self, first: usize, end: usize) -> Bytes {
        if first == end {
            return Bytes::new();
        }
        let start = if first == 0 { 0 } else { self.ends[first - 1] + 1 };
        self.text.slice(start..self.ends[end - 1])
    }

    fn page(&self, count: usize, first: usize, limit: usize) -> Body {
        let end = count.min(first.saturating_add(limit));
        let mut start = format!(
            r#"{{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"{LIST_VERSION}""#,
            self.kind, self.api_version
        );
        if end < count {
            let _ = write!(start, r#","continue":"{end}","remainingItemCount":{}"#, count - end);
        }
        start.push_str("},\"items\":[");
        body(stream::iter([start.into(), self.slice(first, end), Bytes::from_static(b"]}\n")]))
    }

    fn initial_events(&self, first: usize, end: usize) -> Bytes {
        let mut lines = String::new();
        for number in first..end {
            let item = self.slice(number, number + 1);
            let item = str::from_utf8(&item).expect("text");
            let type_meta = if item.starts_with(r#"{"kind""#) {
                String::new()
            } else {
                format!(r#""kind":"{}","apiVersion":"{}","#, self.kind, self.api_version)
            };
            let _ = writeln!(lines, r#"{{"type":"ADDED","object":{{{type_meta}{}}}"#, &item[1..]);
        }
        lines.into()
    }

    fn bookmark(&self) -> Bytes {
        let (kind, api_version) = (self.kind, self.api_version);
        format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{LIST_VERSION}","creationTimestamp":null,"annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}
"#
        )
        .into()
    }
}

impl Api {
    pub(crate) fn new(pods: &[Pod], streaming: bool) -> Self {
        let metadata = |pod: &Pod| {
            let end = pod.json.find(r#","spec":{"volumes""#).expect("a Pod has a spec");
            format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",{}}}"#, &pod.json[1..end])
        };
        Self {
            pods: Rendered::new(pods.iter().map(|pod| pod.json.clone()), "Pod", "v1"),
            metadata: Rendered::new(pods.iter().map(metadata), "PartialObjectMetadata", "meta.k8s.io/v1"),
            streaming,
            watchers: Mutex::default(),
        }
    }

    /// Sends a line to all watches.
    pub(crate) fn emit(&self, line: &Bytes) {
        self.watchers.lock().expect("no panic").retain(|watcher| watcher.send(line.clone()).is_ok());
    }

    /// Whether there is a watch.
    pub(crate) fn is_watched(&self) -> bool {
        !self.watchers.lock().expect("no panic").is_empty()
    }

    /// Answers the requests that the informer makes. Every namespace is empty, so Pods are only found in lists of all
    /// namespaces.
    pub(crate) fn answer<B>(self: &Arc<Self>, request: &Request<B>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str| parameter(name).and_then(|value| value.parse::<usize>().ok());
        let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let only_metadata = accept.contains("as=PartialObjectMetadata");
        let path = request.uri().path();
        let count = if path == "/api/v1/pods" { self.pods.ends.len() } else { 0 };
        let is_true = |name: &str| matches!(parameter(name), Some("1" | "true"));
        let (status, body) = match path {
            "/version" => (200, text(r#"{"major":"1","minor":"36","gitVersion":"v1.36.0","platform":"linux/amd64"}"#)),
            "/api/v1" => (200, text(RESOURCES)),
            _ if !path.starts_with("/api/v1/") || !path.ends_with("/pods") => (404, text(NOT_FOUND)),
            _ if is_true("watch") && is_true("sendInitialEvents") && !self.streaming => (422, text(NO_STREAMING)),
            _ if is_true("watch") => (200, self.watch(only_metadata, is_true("sendInitialEvents").then_some(count))),
            _ => {
                let rendered = if only_metadata { &self.metadata } else { &self.pods };
                let (first, limit) = (number("continue").unwrap_or(0), number("limit").unwrap_or(usize::MAX));
                (200, rendered.page(count, first, limit))
            }
        };
        let response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
        response.body(body).expect("a response")
    }

    /// A watch that begins with `initial` objects.
    fn watch(self: &Arc<Self>, only_metadata: bool, initial: Option<usize>) -> Body {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.watchers.lock().expect("no panic").push(sender);
        let api = Arc::clone(self);
        let pieces = (0..initial.unwrap_or(0)).step_by(PIECE_EVENTS).map(Some).chain(initial.map(|_| None));
        let initial = stream::iter(pieces).map(move |piece| {
            let rendered = if only_metadata { &api.metadata } else { &api.pods };
            match piece {
                Some(first) => rendered.initial_events(first, rendered.ends.len().min(first + PIECE_EVENTS)),
                None => rendered.bookmark(),
            }
        });
        let later = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
        body(initial.chain(later))
    }
}

const RESOURCES: &str = r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[
    {"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","watch"]}]}"#;
const NOT_FOUND: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
const NO_STREAMING: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}"#;

fn body(pieces: impl futures::Stream<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece))).boxed())
}

fn text(text: &'static str) -> Body {
    body(stream::iter([Bytes::from_static(text.as_bytes())]))
}

/// Serves `count` Pods until stdin is closed. Prints one line: the port, and the average sizes of a Pod on the wire and
/// of its `managedFields`.
pub(crate) fn serve(count: usize, streaming: bool) {
    let pods = corpus::pods(count, crate::SEED);
    let mean = |size: fn(&Pod) -> usize| pods.iter().map(size).sum::<usize>() / pods.len();
    let (wire, managed_fields) = (mean(|pod| pod.json.len()), mean(|pod| pod.managed_fields));
    let api = Arc::new(Api::new(&pods, streaming));
    drop(pods);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    crate::runtime().block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        println!("{} {wire} {managed_fields}", listener.local_addr().expect("an address").port());
        std::io::stdout().flush().expect("somebody who reads");
        loop {
            let (socket, _) = listener.accept().await.expect("a connection");
            socket.set_nodelay(true).expect("a socket");
            let api = Arc::clone(&api);
            let service = service_fn(move |request| {
                let answer = api.answer(&request);
                async { Ok::<_, Infallible>(answer) }
            });
            tokio::spawn(async move {
                // The client may end its connection in any way.
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
}
