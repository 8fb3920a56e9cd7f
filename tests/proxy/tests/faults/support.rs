//! A server, a proxy in front of it, and clients of both.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_proxy::Proxy;

/// The time limit, on a busy machine, of events that should come at once.
const PROXY_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const AGENT: &str = "faults/1 (test)";

pub(crate) struct Setup {
    pub(crate) server: ApiServer,
    pub(crate) proxy: Proxy,
    /// Through the proxy.
    pub(crate) client: Client,
    /// Directly to the server.
    pub(crate) direct: Client,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }
}

impl Setup {
    pub(crate) async fn start(seed: u64) -> Self {
        let config = windlass_apiserver::Config {
            stand_ins: windlass_apiserver::StandIns::NONE,
            ..windlass_apiserver::Config::default()
        };
        let server = ApiServer::start(config).await.expect("a loopback port is free");
        let proxy = Proxy::start(config_of(&server.url()), seed).await.expect("a loopback port is free");
        let (client, direct) = (client(&proxy.url()), client(&server.url()));
        Self { server, proxy, client, direct }
    }

    /// Creates a `ConfigMap` through the proxy.
    pub(crate) async fn create(&self, name: &str) -> Result<Answer, kube::Error> {
        create(&self.client, name).await
    }

    /// Creates `ConfigMap`s directly on the server.
    pub(crate) async fn create_directly(&self, names: &[&str]) {
        for name in names {
            let answer = create(&self.direct, name).await.expect("the server answers");
            assert_eq!(answer.code, StatusCode::CREATED, "{answer:?}");
        }
    }

    /// GET through the proxy.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer, kube::Error> {
        send(&self.client, Method::GET, path, None).await
    }

    /// Watches `ConfigMap`s through the proxy, those that exist first.
    pub(crate) async fn watch(&self) -> Lines {
        watch(&self.client).await
    }

    /// The number of requests with `verb` for `ConfigMap`s by the tests' clients that the server received.
    pub(crate) fn served(&self, verb: &str) -> u64 {
        let requests = self.server.requests().into_iter();
        requests.filter(|it| it.verb == verb && it.resource == "configmaps").map(|it| it.count).sum()
    }
}

pub(crate) fn config_of(url: &str) -> Config {
    Config::new(url.parse().expect("a URL"))
}

pub(crate) fn client(url: &str) -> Client {
    let mut config = config_of(url);
    // The tests look at the proxy's responses, not at kube's view of them.
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

pub(crate) async fn create(client: &Client, name: &str) -> Result<Answer, kube::Error> {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}});
    send(client, Method::POST, CONFIG_MAPS, Some(&body)).await
}

pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Answer, kube::Error> {
    soon(async {
        let response = client.send(request(method, path, body)).await?;
        let (head, body) = response.into_parts();
        let text = body.collect().await?.to_bytes();
        let text = String::from_utf8(text.into()).expect("UTF-8");
        Ok(Answer { code: head.status, headers: head.headers, text })
    })
    .await
}

fn request(method: Method, path: &str, body: Option<&Value>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header("user-agent", AGENT);
    let request = request.header("content-type", "application/json");
    request.body(Body::from(body.map(Value::to_string).unwrap_or_default().into_bytes())).expect("a request")
}

pub(crate) async fn watch(client: &Client) -> Lines {
    let path = format!("{CONFIG_MAPS}?watch=true");
    let response = soon(client.send(request(Method::GET, &path, None))).await.expect("the watch begins");
    assert_eq!(response.status(), StatusCode::OK);
    Lines { body: response.into_body(), buffer: BytesMut::new() }
}

/// The name of the object in an event's line.
pub(crate) fn name_in(line: &str) -> String {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    event["object"]["metadata"]["name"].as_str().expect("a name").to_owned()
}

/// The lines of a watch.
pub(crate) struct Lines {
    body: Body,
    buffer: BytesMut,
}

impl Lines {
    /// The next line without its end, or the rest of an unfinished last line. `None`: the body ended properly.
    pub(crate) async fn next(&mut self) -> Option<Result<String, kube::Error>> {
        soon(self.read()).await.map(|line| line.map(|line| String::from_utf8(line.into()).expect("UTF-8")))
    }

    /// The names in the next `count` lines.
    pub(crate) async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            let line = self.next().await.expect("the watch goes on").expect("nothing breaks");
            names.push(name_in(&line));
        }
        names
    }

    async fn read(&mut self) -> Option<Result<Bytes, kube::Error>> {
        loop {
            if let Some(at) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(at).freeze();
                self.buffer.advance(1);
                return Some(Ok(line));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Some(Err(error)),
                None if self.buffer.is_empty() => return None,
                None => return Some(Ok(self.buffer.split().freeze())),
            }
        }
    }
}

/// The result of `work`; fails the test if it takes too long.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PROXY_TIMEOUT, work).await.expect("this does not take long")
}
