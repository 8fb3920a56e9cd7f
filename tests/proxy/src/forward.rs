//! Handles one request: counts it, decides its faults, sends it to upstream, and responds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, RETRY_AFTER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use kube::client::Body;
use tokio::time::sleep;

use crate::body::{self, Outgoing};
use crate::connection::Connection;
use crate::fault::{Loss, Refusal};
use crate::request::{RequestInfo, Verb};
use crate::rule::{Ending, Loser, RequestPlan};
use crate::state::Shared;
use crate::watch;

/// Headers about one connection, not about the request (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Responds to a request as the rules and upstream decide. If the upstream connection breaks, so does the client's, as
/// if the client was connected to upstream directly.
pub(crate) async fn forward(
    shared: Arc<Shared>,
    connection: Connection,
    request: Request<Incoming>,
) -> Response<Outgoing> {
    let (parts, body) = request.into_parts();
    let info = Arc::new(RequestInfo::read(&parts.method, &parts.uri, &parts.headers));
    let plan = shared.admit(&info);
    // The body of a request is small. To refuse a client before it has sent the whole body, the proxy would have to
    // close the connection.
    let Ok(body) = body.collect().await else {
        return connection.reset().await;
    };
    let upstream_request = to_upstream(&parts, body.to_bytes());
    match &plan.ending {
        Some(Ending::Lose(loss, loser)) => {
            lose(&shared, &info, plan.delay, upstream_request, loser.clone()).await;
            return match loss {
                Loss::Reset => connection.reset().await,
                Loss::Silence => std::future::pending().await,
                Loss::Error => refused(&Refusal::internal_error()),
            };
        }
        Some(Ending::Refuse(refusal)) => {
            sleep(plan.delay).await;
            return refused(refusal);
        }
        Some(Ending::Reset) => {
            sleep(plan.delay).await;
            return connection.reset().await;
        }
        None => sleep(plan.delay).await,
    }
    let response = match shared.upstream.send(upstream_request).await {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(%error, request = %info, "upstream does not answer");
            return connection.reset().await;
        }
    };
    sleep(plan.response_delay).await;
    answer(&shared, connection, &info, &plan, response).await
}

/// The client's request without the parts that are meant for the proxy.
fn to_upstream(parts: &http::request::Parts, body: Bytes) -> Request<Body> {
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    without_hop_by_hop(request.headers_mut());
    for name in [AUTHORIZATION, HOST, CONTENT_LENGTH] {
        request.headers_mut().remove(name);
    }
    request
}

fn without_hop_by_hop(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Sends the request after `delay`, even if the client is gone by then, and discards the response.
async fn lose(shared: &Arc<Shared>, info: &RequestInfo, delay: Duration, request: Request<Body>, loser: Loser) {
    let upstream = shared.upstream.clone();
    // For a watch, the head counts as the response.
    let to_the_end = info.verb != Verb::Watch;
    // This runs in a separate task, because a client that gives up cancels this function, but must not cancel the
    // write.
    let exchange = tokio::spawn(async move {
        sleep(delay).await;
        let answered = match upstream.send(request).await {
            Ok(response) if to_the_end => response.into_body().collect().await.map(drop),
            other => other.map(drop),
        };
        answered.inspect(|()| loser.has_lost())
    });
    if let Ok(Err(error)) = exchange.await {
        tracing::debug!(%error, request = %info, "upstream gave no answer that could be lost");
    }
}

async fn answer(
    shared: &Arc<Shared>,
    connection: Connection,
    info: &Arc<RequestInfo>,
    plan: &RequestPlan,
    response: Response<Body>,
) -> Response<Outgoing> {
    let (mut head, body) = response.into_parts();
    without_hop_by_hop(&mut head.headers);
    let is_stream = info.verb == Verb::Watch && head.status == StatusCode::OK;
    let mut body = if is_stream {
        let content_type = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        watch::relay(
            Arc::clone(shared),
            connection,
            Arc::clone(info),
            body,
            content_type.starts_with(b"application/json"),
        )
    } else if let Some(garbage) = plan.garbage {
        let Ok(text) = body.collect().await else {
            return connection.reset().await;
        };
        for name in [CONTENT_LENGTH, CONTENT_ENCODING] {
            head.headers.remove(name);
        }
        body::whole(garbage.of(&text.to_bytes()))
    } else {
        body.map_err(Into::into).boxed_unsync()
    };
    for (bytes, every) in &plan.slow {
        body = body::slow(body, *bytes, *every);
    }
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}

fn refused(refusal: &Refusal) -> Response<Outgoing> {
    let mut response = Response::new(body::whole(refusal.status().to_string()));
    *response.status_mut() = refusal.code();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = refusal.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_connection_headers_are_not_forwarded() {
        let request = Request::post("http://proxy:1/api/v1/pods?dryRun=All")
            .header("host", "proxy:1")
            .header("authorization", "Bearer secret")
            .header("content-length", "2")
            .header("transfer-encoding", "chunked")
            .header("connection", "keep-alive")
            .header("user-agent", "test/1")
            .header("accept", "application/json")
            .header("impersonate-user", "alice");
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        let sent = to_upstream(&parts, Bytes::from_static(b"{}"));
        let mut names: Vec<_> = sent.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "impersonate-user", "user-agent"]);
        assert_eq!((sent.method(), sent.uri().query()), (&http::Method::POST, Some("dryRun=All")));
    }
}
