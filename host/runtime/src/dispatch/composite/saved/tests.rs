use std::sync::Mutex;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_core::call::compose::Composition;
use windlass_core::call::ports::{Event, EventType};
use windlass_core::queue::outcome::{CallResult, Failure};
use windlass_wasm::{Customized, Request};

use super::*;
use crate::observe::metrics::HostMetrics;
use crate::observe::status::Status;
use crate::tests::played;

/// The behaviour of a composer in its next call.
#[derive(Clone, Debug, Default)]
struct Behaviour {
    answer: Composition,
    fails: bool,
    reads_clock: bool,
}

/// A composer that gives the answers of the test, and counts its calls.
#[derive(Default)]
struct Composer {
    behaviour: Mutex<Behaviour>,
    made: Mutex<usize>,
}

impl Compose for Composer {
    fn compose(&self, _: CompositionRequest, call: Arc<CallContext>, _: CallLimits) -> BoxFuture<'_, Composed> {
        *self.made.lock().expect("no panic") += 1;
        let Behaviour { answer, fails, reads_clock } = self.behaviour.lock().expect("no panic").clone();
        if reads_clock {
            call.reads.spoil(Spoiler::Clock);
        }
        let failed = CallResult::Failed(vec![Failure::Terminal("no answer".to_owned())]);
        let answer = if fails { Err(failed) } else { Ok(answer) };
        ready(Composed { answer, cpu: Duration::ZERO, left: Duration::ZERO, held: None }).boxed()
    }

    fn customize(&self, _: Request, _: Arc<CallContext>, _: CallLimits) -> BoxFuture<'_, Customized> {
        unreachable!("no watch is customized")
    }
}

struct Bench {
    composer: Composer,
    saver: CompositionSaver,
    request: CompositionRequest,
    call: Arc<CallContext>,
}

fn answer() -> Composition {
    Composition { children: vec![r#"{"kind":"Child"}"#.to_owned()], ..Composition::default() }
}

fn parent(replicas: u32, version: &str) -> Arc<str> {
    json!({"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}).to_string().into()
}

impl Bench {
    fn new(audits: bool) -> Self {
        let (request, call) = played::call(None);
        let request = CompositionRequest {
            request,
            parent: parent(1, "1"),
            children: vec!["a".into()],
            related: vec!["b".into()],
            config: call.config.clone(),
        };
        let metrics = HostMetrics::new().controller("a", "a");
        let saver = CompositionSaver {
            calls: SavedCalls::audited_by(move || audits),
            call_part: Some(PointerTree::new(["/spec"]).expect("a pointer")),
            record: CallRecord::new(),
            status: Status::new(CancellationToken::new()).plugin("a").controller("a", 1, metrics),
        };
        let composer = Composer::default();
        composer.behaviour.lock().expect("no panic").answer = answer();
        Self { composer, saver, request, call }
    }

    /// Asks for a composition. Returns whether the composer was called, and the answer.
    async fn ask(&self, must_be_made: bool) -> (bool, Option<Composition>) {
        let limits = CallLimits { deadline: Some(Duration::from_secs(1)), ..CallLimits::default() };
        let before = *self.composer.made.lock().expect("no panic");
        let composed = self.saver.compose(&self.composer, self.request.clone(), &self.call, limits, must_be_made).await;
        (*self.composer.made.lock().expect("no panic") > before, composed.answer.ok())
    }

    async fn is_called(&self) -> bool {
        let (is_called, got) = self.ask(false).await;
        assert_eq!(got, Some(answer()));
        is_called
    }

    fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.composer.behaviour.lock().expect("no panic"));
    }
}

#[tokio::test]
async fn an_equal_request_has_the_last_answer_without_a_call() {
    let mut bench = Bench::new(false);
    assert!(bench.is_called().await);
    assert!(!bench.is_called().await && !bench.is_called().await);
    // Only the version has changed, which the composer does not get, and the trace is another one.
    bench.request.parent = parent(1, "2");
    bench.request.request.trace_id = "another".into();
    assert!(!bench.is_called().await);
    assert_eq!(bench.saver.status.metrics.saved.get(), 3);
}

#[tokio::test]
async fn whatever_changes_in_the_request_is_asked_about() {
    let changes: [fn(&mut CompositionRequest); 7] = [
        |request| request.parent = parent(2, "1"),
        |request| request.children.clear(),
        |request| request.children = vec!["other".into()],
        |request| request.children.push(request.related.pop().expect("one")),
        |request| request.related.clear(),
        |request| request.request.uid = Some("another".into()),
        |request| request.config = "{}  ".into(),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut bench = Bench::new(false);
        assert!(bench.is_called().await);
        change(&mut bench.request);
        assert!(bench.is_called().await && !bench.is_called().await, "{at}");
    }
}

#[tokio::test]
async fn a_call_that_is_a_retry_a_deletion_or_required_is_made() {
    let mut bench = Bench::new(false);
    assert!(bench.is_called().await);
    assert_eq!(bench.ask(true).await, (true, Some(answer())));
    assert!(!bench.is_called().await, "the required call is kept");
    bench.request.request.attempt = 1;
    assert!(bench.is_called().await && bench.is_called().await);
    bench.request.request.attempt = 0;
    assert!(bench.is_called().await && !bench.is_called().await, "a call that is made forgets the last one");
    bench.request.request.deleting = true;
    assert!(bench.is_called().await && bench.is_called().await);
    bench.request.request.deleting = false;
    assert!(bench.is_called().await && !bench.is_called().await);
    bench.saver.forget(&bench.call);
    assert!(bench.is_called().await, "the parent has gone");
}

#[tokio::test]
async fn an_answer_that_may_differ_or_has_effects_is_not_kept() {
    let event = || Event::of_primary(EventType::Normal, "Reason", "Action", "a note".to_owned());
    let behaviours: [Behaviour; 4] = [
        Behaviour { reads_clock: true, answer: answer(), ..Behaviour::default() },
        Behaviour { fails: true, ..Behaviour::default() },
        Behaviour { answer: Composition { events: vec![event()], ..answer() }, ..Behaviour::default() },
        Behaviour { answer: Composition { requeue: Some(Requeue::Backoff), ..answer() }, ..Behaviour::default() },
    ];
    for behaviour in behaviours {
        let bench = Bench::new(false);
        bench.behave(|now| *now = behaviour.clone());
        assert!(bench.ask(false).await.0 && bench.ask(false).await.0, "{behaviour:?}");
    }
}

#[tokio::test]
async fn an_audit_that_gets_another_answer_ends_the_saving() {
    let bench = Bench::new(true);
    assert!(bench.is_called().await && bench.is_called().await, "each is audited");
    bench.behave(|now| now.fails = true);
    assert!(bench.ask(false).await.0, "a failure proves nothing");
    bench.behave(|now| now.fails = false);
    assert!(bench.is_called().await);
    assert!(bench.saver.record.may_keep());
    bench.behave(|now| now.answer.children.clear());
    assert_eq!(bench.ask(false).await, (true, Some(Composition::default())));
    assert!(!bench.saver.record.may_keep());
    assert_eq!(bench.saver.status.metrics.mispredicted.get(), 1);
}

#[tokio::test]
async fn kept_answers_count_with_their_texts() {
    let bench = Bench::new(false);
    bench.behave(|now| now.answer.children = vec!["x".repeat(10_000)]);
    bench.ask(false).await;
    assert!((10_000..12_000).contains(&bench.saver.calls.bytes()), "{} B", bench.saver.calls.bytes());
}
