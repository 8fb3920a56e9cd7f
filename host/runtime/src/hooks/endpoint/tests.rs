//! Answers of the address of hooks, to authentic senders and to strangers.

use futures::StreamExt as _;
use http_body_util::StreamBody;
use hyper::body::Frame;

use super::super::signature::tests::{SECRET, headers};
use super::super::target::DeliveryFailure;
use super::super::tests::{NotingTarget, open_hooks};
use super::super::{DeliveryTarget, ServedHooks};
use super::*;

const PATH: &str = "/hooks/shop/pushed";
const BODY: &str = r#"{"name":"prod/shop"}"#;

/// A receiver whose hook `shop/pushed` is open and served by `target`.
async fn receiver(target: Arc<dyn DeliveryTarget>) -> (HookReceiver, ServedHooks) {
    let hooks = open_hooks().await;
    let served = hooks.serve(&"shop".into(), vec![target]);
    (HookReceiver { hooks, turn: Mutex::new(()) }, served)
}

/// A delivery that was signed this long ago.
fn signed(path: &str, id: &str, body: &str, ago: Duration) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::from(body.to_owned()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.parse().expect("a path");
    *request.headers_mut() = headers(id, windlass_world::now().saturating_sub(ago), body.as_bytes(), SECRET);
    request
}

fn delivery(id: &str) -> Request<Full<Bytes>> {
    signed(PATH, id, BODY, Duration::ZERO)
}

/// The answer to a request on a connection of its own.
async fn answered<B: Body<Data = Bytes>>(receiver: &HookReceiver, request: Request<B>) -> Response<Full<Bytes>> {
    let place = Connections::new(1).place().await;
    receiver.answer(request, &place).await
}

/// All that a client sees of an answer.
async fn seen(response: Response<Full<Bytes>>) -> (StatusCode, HeaderMap, String) {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("in memory").to_bytes();
    (parts.status, parts.headers, String::from_utf8(body.to_vec()).expect("text"))
}

#[tokio::test(start_paused = true)]
async fn an_authentic_sender_learns_what_became_of_its_delivery() {
    for (answer, status, word, waits) in [
        (Ok(2), StatusCode::ACCEPTED, r#"{"queued":2}"#, None),
        (Err(DeliveryFailure::NotReady), StatusCode::SERVICE_UNAVAILABLE, "send it again", Some("5")),
        (Err(DeliveryFailure::Mapper), StatusCode::INTERNAL_SERVER_ERROR, "mapper", None),
    ] {
        let (receiver, _served) = receiver(NotingTarget::answering(answer)).await;
        let (code, headers, body) = seen(answered(&receiver, delivery("a")).await).await;
        assert_eq!((code, headers.get(RETRY_AFTER).map(|it| it.to_str().expect("ASCII"))), (status, waits), "{body}");
        assert!(body.contains(word), "{body}");
    }
    let (receiver, _served) = receiver(NotingTarget::answering(Ok(1))).await;
    assert_eq!(answered(&receiver, signed(PATH, "a", "a=b", Duration::ZERO)).await.status(), StatusCode::BAD_REQUEST);
    let repeated = [answered(&receiver, delivery("b")).await, answered(&receiver, delivery("b")).await];
    assert_eq!(repeated.map(|answer| answer.status()), [StatusCode::ACCEPTED; 2]);
}

#[tokio::test(start_paused = true)]
async fn all_that_is_not_authentic_gets_one_answer() {
    let target = NotingTarget::answering(Ok(1));
    let (receiver, _served) = receiver(target.clone()).await;
    let paths = ["/", "/hooks", "/hooks/", "/hooks/shop", "/hooks/shop/", "/hooks/shop/merged", "/hooks/bank/pushed"];
    let more = ["/hooks/shop/pushed/", "/hooks//shop/pushed", "/hooks/shop/pushe%64", "/healthz", "/plugins"];
    let mut requests: Vec<_> =
        paths.into_iter().chain(more).map(|path| signed(path, "a", BODY, Duration::ZERO)).collect();
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let mut request = delivery("a");
        *request.method_mut() = method;
        requests.push(request);
    }
    for header in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut request = delivery("a");
        request.headers_mut().remove(header);
        requests.push(request);
    }
    let mut tampered = delivery("a");
    *tampered.body_mut() = Full::from(r#"{"name":"prod/bank"}"#);
    let large = " ".repeat(HOOK_BODY_BYTES_MAX + 1);
    requests.extend([
        tampered,
        signed(PATH, "a", BODY, Duration::from_mins(6)),
        signed(PATH, "a", &large, Duration::ZERO),
        signed("/hooks/bank/pushed", "a", &large, Duration::ZERO),
    ]);
    let first = seen(answered(&receiver, requests.remove(0)).await).await;
    assert_eq!((first.0, first.2.as_str()), (StatusCode::NOT_FOUND, "{\"error\":\"not found\"}\n"));
    for request in requests {
        let shown = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
        assert_eq!(seen(answered(&receiver, request).await).await, first, "{shown}");
    }
    assert_eq!(target.count(), 0);
    assert_eq!(answered(&receiver, delivery("a")).await.status(), StatusCode::ACCEPTED);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_given_up_for_every_path() {
    let (receiver, _served) = receiver(NotingTarget::answering(Ok(1))).await;
    for path in [PATH, "/hooks/bank/pushed"] {
        let first = futures::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"{")))]);
        let body = StreamBody::new(first.chain(futures::stream::pending()));
        let (parts, _) = signed(path, "a", BODY, Duration::ZERO).into_parts();
        let began = tokio::time::Instant::now();
        let answer = answered(&receiver, Request::from_parts(parts, body)).await;
        assert_eq!((answer.status(), began.elapsed().as_secs()), (StatusCode::NOT_FOUND, HOOK_BODY_TIMEOUT.as_secs()));
    }
}

/// A part of a body.
struct BodyPart {
    _kept: Arc<()>,
}

impl AsRef<[u8]> for BodyPart {
    fn as_ref(&self) -> &[u8] {
        b" "
    }
}

/// A body of this many bytes, of which each comes by itself. `kept` is cloned for each that is held.
fn in_bytes(bytes: usize, kept: &Arc<()>) -> impl Body<Data = Bytes, Error = Infallible> {
    let kept = kept.clone();
    StreamBody::new(futures::stream::iter(0..bytes).map(move |_| {
        assert!(Arc::strong_count(&kept) <= 2, "the byte before is still held");
        Ok(Frame::data(Bytes::from_owner(BodyPart { _kept: kept.clone() })))
    }))
}

#[tokio::test]
async fn a_body_in_small_parts_takes_one_bounded_buffer() {
    let kept = Arc::new(());
    let body = received(in_bytes(HOOK_BODY_BYTES_MAX, &kept)).await.expect("it is not too large");
    assert_eq!((body.len(), body.capacity()), (HOOK_BODY_BYTES_MAX, HOOK_BODY_BYTES_MAX));
    assert_eq!(received(in_bytes(HOOK_BODY_BYTES_MAX + 1, &kept)).await, None);
    let at_once = Full::from(vec![b' '; HOOK_BODY_BYTES_MAX + 1]);
    assert_eq!(received(at_once).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_body_does_not_arrive_is_closed_first() {
    let (receiver, _served) = receiver(NotingTarget::answering(Ok(1))).await;
    let places = Connections::new(2);
    let (asked, stalled) = (places.place().await, places.place().await);
    assert_eq!(receiver.answer(delivery("a"), &asked).await.status(), StatusCode::ACCEPTED);
    let body = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let (parts, _) = delivery("b").into_parts();
    let stalls = async { tokio::join!(receiver.answer(Request::from_parts(parts, body), &stalled), places.place()) };
    tokio::select! {
        biased;
        _ = stalls => panic!("the body has not arrived"),
        () = asked.closed() => panic!("the connection whose request has arrived was closed"),
        () = stalled.closed() => {}
    }
}

#[test]
fn a_wait_is_rounded_up_to_seconds() {
    let after =
        |wait| response(&DeliveryResult::Limited(wait)).headers()[RETRY_AFTER].to_str().expect("ASCII").to_owned();
    assert_eq!([100, 1_000, 1_001].map(|millis| after(Duration::from_millis(millis))), ["1", "1", "2"]);
}
