use std::collections::VecDeque;
use std::future::pending;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use windlass_core::call::trace::SPANS_PER_CALL_MAX;

use super::encode::ATTRIBUTE_BYTES_MAX;
use super::export::{ExportError, PartialRefusal};
use super::*;

/// A collector that gives the answers of a script, and then accepts everything.
struct Scripted {
    answers: Mutex<VecDeque<Result<PartialRefusal, ExportError>>>,
    /// True if it never answers.
    is_silent: bool,
    requests: UnboundedSender<Value>,
}

impl Collect for Scripted {
    async fn export(&self, request: Bytes) -> Result<PartialRefusal, ExportError> {
        self.requests.send(serde_json::from_slice(&request).expect("JSON")).expect("the test listens");
        if self.is_silent {
            pending::<()>().await;
        }
        let answer = self.answers.lock().expect("not poisoned").pop_front();
        answer.unwrap_or_else(|| Ok(PartialRefusal::default()))
    }
}

fn later() -> Result<PartialRefusal, ExportError> {
    Err(ExportError::Later { why: "is away".to_owned(), after: None })
}

/// A tracer that samples this share of calls, and the requests that its collector receives.
pub(crate) fn collected(sampling: f64) -> (Tracer, UnboundedReceiver<Value>) {
    tracer(sampling, false, [])
}

fn start(
    is_silent: bool,
    answers: impl IntoIterator<Item = Result<PartialRefusal, ExportError>>,
) -> (Tracer, UnboundedReceiver<Value>) {
    tracer(1.0, is_silent, answers)
}

fn tracer(
    sampling: f64,
    is_silent: bool,
    answers: impl IntoIterator<Item = Result<PartialRefusal, ExportError>>,
) -> (Tracer, UnboundedReceiver<Value>) {
    let (requests, received) = unbounded_channel();
    let flags = TraceFlags { endpoint: Some("http://c".to_owned()), sampling: Some(sampling) };
    let settings = TraceSettings::read(&flags, |_| None).expect("settings").expect("a collector");
    let collector = Scripted { answers: Mutex::new(answers.into_iter().collect()), is_silent, requests };
    let panics = Panics::default();
    (Tracer::exporting_to(collector, &settings, "https://[fd00::1]:6443", "host-1", &panics), received)
}

fn end_spans(tracer: &Tracer, count: usize) {
    for id in 0..count {
        drop(tracer.root(&trace_text(id as u128 + 1), tracer.now()));
    }
}

fn spans(request: &Value) -> usize {
    request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().map_or(0, Vec::len)
}

fn totals(tracer: &Tracer) -> (u64, u64) {
    (tracer.totals().exported.load(Ordering::Relaxed), tracer.totals().dropped.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn spans_are_exported_in_batches_and_the_last_ones_at_shutdown() {
    let (tracer, mut received) = start(false, []);
    end_spans(&tracer, 512 + 1);
    assert_eq!(spans(&received.recv().await.expect("a batch")), 512, "a full batch is sent at once");
    assert_eq!(spans(&received.recv().await.expect("a batch")), 1);
    end_spans(&tracer, 2);
    tracer.end().await;
    assert_eq!(received.recv().await.as_ref().map(spans), Some(2));
    assert_eq!(totals(&tracer), (512 + 3, 0));
}

#[tokio::test(start_paused = true)]
async fn spans_that_a_busy_collector_turns_away_are_sent_again() {
    let (tracer, mut received) = start(false, [later(), later()]);
    end_spans(&tracer, 3);
    for _ in 0..3 {
        assert_eq!(received.recv().await.as_ref().map(spans), Some(3));
    }
    tracer.end().await;
    assert_eq!(totals(&tracer), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn spans_that_a_collector_refuses_are_counted_and_not_sent_again() {
    let partly = PartialRefusal { spans: 2, why: "too old".to_owned() };
    let (tracer, mut received) = start(false, [Err(ExportError::Refused("no".to_owned())), Ok(partly)]);
    for count in [1, 3] {
        end_spans(&tracer, count);
        assert_eq!(received.recv().await.as_ref().map(spans), Some(count));
    }
    tracer.end().await;
    assert_eq!(totals(&tracer), (1, 3));
    assert!(received.recv().await.is_none(), "each was sent once");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_dropped_after_its_retry_pause_and_blocks_no_later_one() {
    let asked = ExportError::Later { why: "is busy".to_owned(), after: Some(Duration::from_hours(1)) };
    let (tracer, mut received) = start(false, [Err(asked)]);
    end_spans(&tracer, 1);
    assert_eq!(received.recv().await.as_ref().map(spans), Some(1));
    let began = tokio::time::Instant::now();
    end_spans(&tracer, 2);
    assert_eq!(received.recv().await.as_ref().map(spans), Some(2), "the first batch does not block the others");
    assert!(began.elapsed() >= Duration::from_mins(5), "{:?}", began.elapsed());
    tracer.end().await;
    assert_eq!(totals(&tracer), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn texts_of_a_span_are_bounded_and_escaped_before_it_is_queued() {
    let (tracer, mut received) = start(false, []);
    let mut root = tracer.root(&trace_text(1), tracer.now());
    root.describe(|span| span.set("windlass.object.name", "ü".repeat(1 << 20)));
    root.fail(|| "x".repeat(1 << 20));
    root.describe(|span| span.set("windlass.key", "prod/\u{202e}shop\u{1b}[2J"));
    drop(root);
    let request = received.recv().await.expect("a batch");
    let span = &request["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    let texts = [&span["status"]["message"], &span["attributes"][0]["value"]["stringValue"]];
    assert_eq!(texts.map(|text| text.as_str().map(str::len)), [Some(ATTRIBUTE_BYTES_MAX); 2]);
    assert_eq!(span["attributes"][1]["value"]["stringValue"], "prod/\\u{202e}shop\\u{1b}[2J");
}

#[tokio::test(start_paused = true)]
async fn spans_that_a_call_has_too_many_of_are_counted_as_dropped() {
    let (tracer, mut received) = start(false, []);
    let root = tracer.root(&trace_text(1), tracer.now());
    for _ in 0..SPANS_PER_CALL_MAX + 5 {
        root.trace().span("live.get").ends(|_| {});
    }
    drop(root);
    for _ in 0..2 {
        received.recv().await.expect("a batch");
    }
    tracer.end().await;
    assert_eq!(totals(&tracer), (u64::from(SPANS_PER_CALL_MAX) + 1, 5));
}

#[tokio::test(start_paused = true)]
async fn spans_waiting_for_a_silent_collector_are_bounded_and_counted() {
    let (tracer, mut received) = start(true, []);
    end_spans(&tracer, 1);
    received.recv().await.expect("the collector is asked, and does not answer");
    end_spans(&tracer, 8_192 + 10);
    assert_eq!(totals(&tracer), (0, 10));
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_long_for_a_collector() {
    let (tracer, _heard) = start(true, []);
    end_spans(&tracer, 5);
    let began = tokio::time::Instant::now();
    tracer.end().await;
    assert!(began.elapsed() < LAST_EXPORT_TIMEOUT + Duration::from_millis(100), "{:?}", began.elapsed());
    assert_eq!(totals(&tracer), (0, 5), "lost spans are counted");
    tracer.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_away_at_the_stop_is_asked_once_more() {
    let (tracer, mut received) = start(false, std::iter::repeat_n(later(), 9));
    end_spans(&tracer, 1);
    received.recv().await.expect("the first attempt");
    tracer.end().await;
    assert_eq!(received.recv().await.as_ref().map(spans), Some(1));
    assert_eq!(totals(&tracer), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_span_has_the_time_of_day() {
    let (tracer, mut received) = start(false, []);
    let day = u64::try_from(windlass_world::now().as_nanos()).expect("before 2554");
    end_spans(&tracer, 1);
    let request = received.recv().await.expect("a batch");
    let span = &request["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    let start: u64 = span["startTimeUnixNano"].as_str().and_then(|text| text.parse().ok()).expect("a number");
    assert!(start.abs_diff(day) < 60_000_000_000, "{start} is not near {day}");
}

#[test]
fn a_span_names_the_api_server_as_host_and_port() {
    for (url, host, port) in [
        ("https://[fd00::1]:6443", "fd00::1", 6443),
        ("https://kubernetes.default.svc", "kubernetes.default.svc", 443),
        ("http://127.0.0.1:8001/", "127.0.0.1", 8001),
    ] {
        assert_eq!(address_of(url), (host.to_owned(), port));
    }
}
