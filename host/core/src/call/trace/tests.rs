use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Keeps spans. Each read of its clock takes a nanosecond.
#[derive(Debug, Default)]
struct Kept {
    clock: AtomicU64,
    ids: AtomicU64,
    spans: Mutex<Vec<EndedSpan>>,
    left_out: AtomicU64,
}

impl SpanSink for Kept {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn new_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    fn api_server(&self) -> (&str, u16) {
        ("10.0.0.1", 443)
    }

    fn take(&self, span: EndedSpan) {
        self.spans.lock().expect("not poisoned").push(span);
    }

    fn left_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }
}

impl Kept {
    fn root(self: &Arc<Self>) -> OpenSpan {
        self.ids.store(1, Ordering::Relaxed);
        CallTrace::root(self.clone(), TRACE.into(), "reconcile", 0)
    }

    fn names_and_parents(&self) -> Vec<(String, u64, Option<u64>)> {
        let spans = self.spans.lock().expect("not poisoned");
        spans.iter().map(|span| (span.name.to_string(), span.id, span.parent)).collect()
    }
}

#[test]
fn spans_are_parts_of_the_span_whose_trace_began_them() {
    let kept = Arc::new(Kept::default());
    let root = kept.root();
    let run = root.trace().span("run");
    drop(run.trace().request_as(7));
    drop(run);
    root.trace().past("queue", 0, 3);
    drop(root);
    let expected = [("request", 7, Some(2)), ("run", 2, Some(1)), ("queue", 3, Some(1)), ("reconcile", 1, None)];
    assert_eq!(kept.names_and_parents(), expected.map(|(name, id, parent)| (name.to_owned(), id, parent)));
}

#[test]
fn a_span_has_its_attributes_and_never_ends_before_it_began() {
    let kept = Arc::new(Kept::default());
    let mut root = CallTrace::root(kept.clone(), TRACE.into(), "reconcile", 1_000);
    root.describe(|span| span.set("windlass.attempt", 3_u32));
    root.fail(|| "no".to_owned());
    drop(root);
    let spans = kept.spans.lock().expect("not poisoned");
    let span = spans.first().expect("one");
    assert_eq!((span.start, span.end), (1_000, 1_000), "the clock was put back");
    assert_eq!(span.attributes, [("windlass.attempt", SpanValue::Whole(3))]);
    assert_eq!(span.error.as_deref(), Some("no"));
}

#[test]
fn a_call_without_spans_computes_no_attributes() {
    for trace in [CallTrace::default(), CallTrace::not_sampled()] {
        let mut span = trace.span("run");
        span.describe(|_| unreachable!("no span is collected"));
        span.fail(|| unreachable!("no span is collected"));
        assert!(!span.is_collected() && span.traceparent().is_none() && span.trace().parent().is_none());
    }
}

#[test]
fn a_span_dropped_before_its_end_was_cut_off() {
    let kept = Arc::new(Kept::default());
    let root = kept.root();
    drop(root.trace().span("cut"));
    let mut whole = root.trace().span("whole");
    whole.ends(|span| span.set("windlass.settlement", "committed"));
    drop((whole, root));
    let spans = kept.spans.lock().expect("not poisoned");
    let errors: Vec<_> = spans.iter().map(|span| (&*span.name, span.error.as_deref())).collect();
    assert_eq!(errors, [("cut", Some(CUT_OFF)), ("whole", None), ("reconcile", None)]);
    assert_eq!(spans[0].attributes, [("error.type", "cancelled".into())]);
}

#[test]
fn the_number_of_spans_of_a_call_is_bounded() {
    let kept = Arc::new(Kept::default());
    let root = kept.root();
    for _ in 0..SPANS_PER_CALL_MAX {
        // A request inside an import. Without the limit, each of the two would have a span.
        let import = root.trace().span("live.get");
        let request = import.trace().request_as(7);
        assert!(request.trace().parent().is_some(), "what it sends still names a span of the trace");
    }
    assert_eq!(root.trace().left_out(), SPANS_PER_CALL_MAX);
    drop(root);
    let spans = u32::try_from(kept.names_and_parents().len()).expect("few");
    assert_eq!((spans, kept.left_out.load(Ordering::Relaxed)), (SPANS_PER_CALL_MAX + 1, u64::from(SPANS_PER_CALL_MAX)));
}

#[test]
fn a_span_that_is_discarded_is_not_collected() {
    let kept = Arc::new(Kept::default());
    let mut root = kept.root();
    root.discard();
    drop(root);
    assert!(kept.names_and_parents().is_empty());
}

#[test]
fn a_request_is_a_span_of_its_calls_trace() {
    let untraced = CallTrace::default();
    assert_eq!(
        untraced.traceparent(TRACE, 0xf0).as_deref(),
        Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00000000000000f0-01")
    );
    let silent = CallTrace::not_sampled().traceparent(TRACE, 0xf0);
    assert!(silent.is_some_and(|parent| parent.ends_with("-00000000000000f0-00")), "not sampled");
    assert!(untraced.traceparent(TRACE, 0).is_some_and(|parent| parent.contains("-0000000000000001-")), "0 is no span");
    for invalid in ["", &"0".repeat(32), &TRACE.to_uppercase(), &TRACE[1..]] {
        assert_eq!(untraced.traceparent(invalid, 1), None, "{invalid}");
    }
    let kept = Arc::new(Kept::default());
    let root = kept.root();
    assert_eq!(root.traceparent().as_deref(), Some("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01"));
    assert!(root.trace().silenced().traceparent(TRACE, 1).is_some_and(|parent| parent.ends_with("-00")));
    assert!(untraced.silenced().traceparent(TRACE, 1).is_some_and(|parent| parent.ends_with("-01")));
}
