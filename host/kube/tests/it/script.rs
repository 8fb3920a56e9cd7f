//! An API server with answers scripted by a test. It is in the client, without sockets, so that the clock may be
//! paused.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, stream};
use http::{Method, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::CallContext;
use windlass_core::clock::{Clock, Moment};
use windlass_core::object::{Object, ObjectKey, ObjectKind};
use windlass_core::rights::grants::{Allowance, Grants, LiveGrants, Rule};
use windlass_core::rights::principal::{Principal, ServiceAccount};
use windlass_kube::Connection;

/// A clock that stands still, for tests that are not about time.
pub(crate) struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Moment {
        Moment::default()
    }

    fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
        pending().boxed()
    }
}

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) user_agent: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

impl Asked {
    /// The value of a query parameter, still encoded.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }
}

/// The reply to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Json(u16, Value),
    Headed(u16, &'static str, &'static str, Value),
    /// A text in one chunk.
    Text(u16, String),
    /// A stream of these chunks that stays open and sends nothing more.
    Open(Vec<String>),
    /// A stream of these chunks that is then closed.
    Closed(Vec<String>),
    /// A stream of these chunks whose connection then breaks.
    Broken(Vec<String>),
    /// A stream that repeats this chunk, with this pause.
    Slow(Duration, String),
    /// No answer, ever.
    Never,
    /// A bug in the client: a panic in the task that sent the request.
    Panic,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    lists: VecDeque<Reply>,
    watches: VecDeque<Reply>,
    others: VecDeque<Reply>,
    paths: HashMap<&'static str, VecDeque<Reply>>,
    widgets_missing: bool,
}

/// The remaining answers, and the received requests. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Script {
    state: Arc<Mutex<State>>,
}

impl Script {
    /// Replies to lists, in order; the last one is repeated.
    pub(crate) fn lists(self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.state.lock().expect("no panic").lists.extend(replies);
        self
    }

    /// Replies to watches, in order; later watches stay open and silent.
    pub(crate) fn watches(self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.state.lock().expect("no panic").watches.extend(replies);
        self
    }

    /// A server that guarantees comparable versions (KEP-5504).
    pub(crate) fn comparable(self) -> Self {
        let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0"});
        let own = Reply::Json(200, json!({"spec": {}}));
        self.answers("/version", Reply::Json(200, version))
            .answers("/apis/apiregistration.k8s.io/v1/apiservices/v1.", own)
    }

    /// The reply to every GET of this path.
    pub(crate) fn answers(self, path: &'static str, reply: Reply) -> Self {
        self.answers_in_turn(path, [reply])
    }

    /// Replies to GETs of this path, in order; the last one is repeated.
    pub(crate) fn answers_in_turn(self, path: &'static str, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.state.lock().expect("no panic").paths.insert(path, replies.into_iter().collect());
        self
    }

    /// Replies to all mutations, in order; the last one is repeated.
    pub(crate) fn mutations(self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.state.lock().expect("no panic").others.extend(replies);
        self
    }

    /// Whether `example.com/v1 Widget` is not served.
    pub(crate) fn set_widgets_missing(&self, missing: bool) {
        self.state.lock().expect("no panic").widgets_missing = missing;
    }

    pub(crate) fn client(&self) -> Client {
        let script = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let script = script.clone();
            async move {
                let reply = script.take(request).await;
                respond(reply).await
            }
        });
        Client::new(service, "default")
    }

    /// A connection that breaks each request while `is_up` is false.
    pub(crate) fn connection(&self, is_up: &Arc<AtomicBool>) -> Connection {
        let (script, is_up) = (self.clone(), is_up.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (script, is_up) = (script.clone(), is_up.clone());
            async move {
                if !is_up.load(Ordering::Relaxed) {
                    return Err(io::Error::other("the connection broke"));
                }
                let reply = script.take(request).await;
                respond(reply).await
            }
        });
        Connection::in_process(service, &Uri::from_static("http://server"))
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.lock().expect("no panic").asked.clone()
    }

    pub(crate) fn watches_asked(&self) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.parameter("watch").is_some()).collect()
    }

    pub(crate) fn mutations_asked(&self) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.method != Method::GET).collect()
    }

    async fn take(&self, request: Request<Body>) -> Reply {
        let (parts, body) = request.into_parts();
        let header = |name| parts.headers.get(name).map(|value| value.to_str().expect("text").to_owned());
        let body = body.collect().await.expect("a body").to_bytes();
        let asked = Asked {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            user_agent: header(http::header::USER_AGENT).unwrap_or_default(),
            accept: header(http::header::ACCEPT).unwrap_or_default(),
            content_type: header(http::header::CONTENT_TYPE).unwrap_or_default(),
            headers: parts.headers.clone(),
            body: String::from_utf8(body.to_vec()).expect("text"),
        };
        let mut state = self.state.lock().expect("no panic");
        state.asked.push(asked.clone());
        if asked.method != Method::GET {
            return next(&mut state.others).unwrap_or(Reply::Json(500, json!({"message": "nothing scripted"})));
        }
        if let Some(reply) = state.paths.get_mut(asked.path.as_str()).and_then(next) {
            return reply;
        }
        match asked.path.as_str() {
            "/api/v1" => Reply::Json(200, core_resources()),
            "/apis/apps/v1" => Reply::Json(200, apps_resources()),
            "/apis/authorization.k8s.io/v1" => Reply::Json(200, authorization_resources()),
            path if path.starts_with("/apis/example.com/v1") && state.widgets_missing => Reply::Json(404, json!({})),
            "/apis/example.com/v1" => Reply::Json(200, resources(&[("widgets", "Widget", true)])),
            _ if asked.parameter("watch").is_some() => state.watches.pop_front().unwrap_or(Reply::Open(Vec::new())),
            _ => next(&mut state.lists).unwrap_or(Reply::Json(500, json!({"message": "nothing scripted"}))),
        }
    }
}

fn next(replies: &mut VecDeque<Reply>) -> Option<Reply> {
    if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() }
}

type Streamed = UnsyncBoxBody<Bytes, io::Error>;

async fn respond(reply: Reply) -> Result<Response<Streamed>, io::Error> {
    let (status, header, pieces, end) = match reply {
        Reply::Json(status, json) => (status, None, vec![json.to_string()], End::Closed),
        Reply::Headed(status, name, value, json) => (status, Some((name, value)), vec![json.to_string()], End::Closed),
        Reply::Text(status, text) => (status, None, vec![text], End::Closed),
        Reply::Open(pieces) => (200, None, pieces, End::Open),
        Reply::Closed(pieces) => (200, None, pieces, End::Closed),
        Reply::Broken(pieces) => (200, None, pieces, End::Broken),
        Reply::Slow(pause, piece) => {
            let body = stream::unfold(piece, move |piece| async move {
                tokio::time::sleep(pause).await;
                Some((Ok(Frame::data(Bytes::from(piece.clone()))), piece))
            });
            return Ok(Response::new(StreamBody::new(body).boxed_unsync()));
        }
        Reply::Never => return pending().await,
        Reply::Panic => panic!("a bug in the client"),
    };
    let body = stream::unfold((pieces.into_iter(), end), |(mut pieces, end)| async move {
        match (pieces.next(), end) {
            (Some(piece), end) => Some((Ok(Frame::data(Bytes::from(piece))), (pieces, end))),
            (None, End::Open) => pending().await,
            (None, End::Closed) => None,
            (None, End::Broken) => Some((Err(io::Error::other("the connection broke")), (pieces, End::Closed))),
        }
    });
    let mut response = Response::builder().status(status);
    if let Some((name, value)) = header {
        response = response.header(name, value);
    }
    Ok(response.body(StreamBody::new(body).boxed_unsync()).expect("a response"))
}

#[derive(Clone, Copy)]
enum End {
    Open,
    Closed,
    Broken,
}

fn core_resources() -> Value {
    resources(&[
        ("pods", "Pod", true),
        ("pods/eviction", "Eviction", true),
        ("configmaps", "ConfigMap", true),
        ("serviceaccounts", "ServiceAccount", true),
        ("serviceaccounts/token", "TokenRequest", true),
        ("pods/proxy", "PodProxyOptions", true),
        ("pods/log", "Pod", true),
        ("nodes", "Node", false),
        ("namespaces", "Namespace", false),
    ])
}

/// Reviews, which can only be created.
fn authorization_resources() -> Value {
    let listed = [
        ("localsubjectaccessreviews", "LocalSubjectAccessReview", true),
        ("subjectaccessreviews", "SubjectAccessReview", false),
    ];
    resources_with(&listed, &["create"])
}

fn apps_resources() -> Value {
    resources(&[
        ("deployments", "Deployment", true),
        ("deployments/status", "Deployment", true),
        ("deployments/scale", "Scale", true),
    ])
}

fn resources(listed: &[(&str, &str, bool)]) -> Value {
    resources_with(listed, &["get", "list", "watch", "create"])
}

fn resources_with(listed: &[(&str, &str, bool)], verbs: &[&str]) -> Value {
    let listed: Vec<_> = listed
        .iter()
        .map(|(name, kind, namespaced)| json!({"name": name, "kind": kind, "namespaced": namespaced, "verbs": verbs}))
        .collect();
    json!({"kind": "APIResourceList", "resources": listed})
}

pub(crate) fn pods() -> WatchSpec {
    WatchSpec::all(ObjectKind::new("v1", "Pod"))
}

/// A Pod `prod/<name>` at a version.
pub(crate) fn pod(name: &str, uid: &str, version: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "prod", "uid": uid, "resourceVersion": version.to_string()},
    })
}

pub(crate) fn list(version: u32, items: &[Value]) -> Reply {
    Reply::Json(200, json!({"kind": "PodList", "metadata": {"resourceVersion": version.to_string()}, "items": items}))
}

/// A line of a watch.
pub(crate) fn line(event: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": event, "object": object}))
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("prod", name)
}

/// `name@version`.
pub(crate) fn brief(object: &Object) -> String {
    format!("{}@{}", object.header.key.name, object.header.version)
}

/// A call of the plugin `webapp` about the Pod `prod/shop`, with these rules.
pub(crate) fn call_with(rules: Vec<Rule>) -> CallContext {
    let principal = Principal {
        grants: LiveGrants::new(Grants::new(rules)),
        ..Principal::of_plugin("webapp", "0123456789ab", "host-1")
    };
    CallContext {
        primary: Some(object_of("shop", "u-shop")),
        trace_id: "0".repeat(32).into(),
        ..CallContext::detached(principal, "webapp", ObjectKind::new("v1", "Pod"), key("shop"))
    }
}

/// A call that may do everything.
pub(crate) fn call() -> CallContext {
    let all = || vec!["*".to_owned()];
    let rules = vec![Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() }];
    let call = call_with(Vec::new());
    call.principal.grants.replace(Grants::asked(Allowance { rules, finalizers: all(), ..Allowance::default() }));
    call
}

/// A call that may do everything that a service account may.
pub(crate) fn call_as(account: ServiceAccount) -> CallContext {
    let call = call();
    let principal = Principal {
        grants: call.principal.grants.clone(),
        impersonate: Some(account),
        ..Principal::of_plugin(
            call.principal.plugin.clone(),
            call.principal.digest.clone(),
            call.principal.replica.clone(),
        )
    };
    CallContext { principal: Arc::new(principal), ..call }
}

/// A call with a cluster-scoped primary.
pub(crate) fn cluster_call() -> CallContext {
    CallContext { primary_key: ObjectKey::cluster("shop"), ..call() }
}

pub(crate) fn object_of(name: &str, uid: &str) -> Object {
    let text = pod(name, uid, 1).to_string();
    Object::new(windlass_core::object::Header::bare(key(name), uid, "1"), text)
}
