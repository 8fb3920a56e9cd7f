//! A small HTTP client: it sends a request, and reads the whole answer.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::time::timeout;

/// The longest time that an answer may take.
const DIFFERENTIAL_ANSWER_TIMEOUT: Duration = Duration::from_secs(40);

/// The headers that are compared.
const HEADERS: [&str; 6] = ["allow", "content-encoding", "content-type", "location", "retry-after", "warning"];

/// A request in which all variables are replaced.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: String,
    /// The path and the query, escaped.
    pub path: String,
    /// The headers, by name.
    pub headers: Vec<(String, String)>,
    /// The body; empty for a request without a body.
    pub body: Vec<u8>,
}

/// A client of one server.
#[derive(Clone)]
pub struct Client {
    base: String,
    http: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Client {
    /// A client of the server at `base`, with its certificates if it speaks TLS.
    #[must_use]
    pub fn new(base: &str, tls: rustls::ClientConfig) -> Client {
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let http = HttpClient::builder(TokioExecutor::new()).build(connector);
        Client { base: base.trim_end_matches('/').to_owned(), http }
    }

    /// Sends the request. The answer is a JSON value: `{"code": …, "headers": {…}, "body": …}`. A JSON body is parsed;
    /// a body of several JSON lines becomes a list.
    pub async fn send(&self, call: &Call) -> anyhow::Result<Value> {
        let what = format!("{} {}", call.method, call.path);
        timeout(DIFFERENTIAL_ANSWER_TIMEOUT, self.answer(call))
            .await
            .with_context(|| format!("{what}: no answer in {DIFFERENTIAL_ANSWER_TIMEOUT:?}"))?
            .context(what)
    }

    async fn answer(&self, call: &Call) -> anyhow::Result<Value> {
        let mut request = Request::builder()
            .method(Method::from_bytes(call.method.as_bytes())?)
            .uri(format!("{}{}", self.base, call.path));
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(call.body.clone())))?;
        let answer = self.http.request(request).await?;
        let (head, body) = answer.into_parts();
        let mut headers = json!({});
        for name in HEADERS {
            let values: Vec<&str> =
                head.headers.get_all(name).iter().map(http::HeaderValue::to_str).collect::<Result<_, _>>()?;
            if !values.is_empty() {
                headers[name] = json!(values);
            }
        }
        let body = body.collect().await?.to_bytes();
        let is_yaml = head.headers.get("content-type").is_some_and(|media| media == "application/yaml");
        let body = if is_yaml { serde_saphyr::from_slice(&body)? } else { without_timed_bookmarks(parsed(&body)) };
        Ok(json!({ "code": head.status.as_u16(), "headers": headers, "body": body }))
    }

    /// Sends the request until `wanted` accepts the answer, and returns it. If that takes too long, it returns the last
    /// answer, with a note.
    pub async fn send_until(&self, call: &Call, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let mut last = Value::Null;
        for pause in [5, 20].into_iter().chain(std::iter::repeat_n(50, 200)) {
            last = self.send(call).await?;
            if wanted(&last) {
                return Ok(last);
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        last["waited"] = json!("in vain");
        Ok(last)
    }
}

/// Removes bookmarks that the server sends because some time has passed. The bookmark at the end of the initial events
/// stays.
fn without_timed_bookmarks(body: Value) -> Value {
    let is_timed = |event: &Value| {
        event["type"] == "BOOKMARK" && !event["object"].to_string().contains("k8s.io/initial-events-end")
    };
    match body {
        Value::Array(mut events) => {
            events.retain(|event| !is_timed(event));
            if events.len() == 1 { events.remove(0) } else { json!(events) }
        }
        body if is_timed(&body) => Value::Null,
        body => body,
    }
}

fn parsed(body: &[u8]) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    if let Ok(value) = serde_json::from_slice(body) {
        return value;
    }
    let text = String::from_utf8_lossy(body).into_owned();
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    lines.map_or_else(|_| json!(text), |lines| json!(lines))
}
