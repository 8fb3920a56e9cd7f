//! Tests the whole table of outcomes from the plugin's side: each way in which a call can end, and what happens to the
//! key.
//!
//! Each row begins with a key that has one counted failure, to show which outcomes forget it.

use windlass_core::call::ports::Events;
use windlass_core::object::ObjectRef;

use super::filled::Filled;
use super::*;

/// The backoff of a key with one earlier failure; the first backoff is a minute.
const SECOND_BACKOFF: Duration = Duration::from_mins(2);
/// Longer than any key waits.
const BEYOND_ALL_WAITS: Duration = Duration::from_hours(5);

/// The effect of a failure on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// The key's failures are forgotten, and only a change runs it again.
    Forgotten,
    /// The key's failures are forgotten, only a change runs it again, and an Event is sent.
    Reported,
    /// The key runs again after its backoff, and the failure is not counted.
    Uncounted,
    /// The key runs again after its backoff, and the failure is counted.
    Counted,
    /// The key's failures are forgotten, and it runs again after a given time.
    Again,
}

/// The delay until the key's next call, and the number of counted failures in its request. `None` if there is no next
/// call.
type Next = Option<(Duration, u32)>;

/// The expected next call, and whether the backoff starts again from its minimum.
fn expected(fate: Fate, delay: Duration) -> (Next, bool) {
    match fate {
        Fate::Forgotten | Fate::Reported => (None, true),
        Fate::Uncounted => (Some((delay, 1)), false),
        Fate::Counted => (Some((delay, 2)), false),
        Fate::Again => (Some((delay, 0)), true),
    }
}

/// The fate of a key whose call failed only for this reason, about another object in the primary's namespace. A
/// new reason does not compile here: add it to `ApiReason::ALL` too, which the test goes through.
fn fate_of(reason: ApiReason) -> Fate {
    match reason {
        ApiReason::NamespaceTerminating | ApiReason::ReadOnly | ApiReason::NotGranted => Fate::Forgotten,
        ApiReason::Conflict
        | ApiReason::TooManyRequests
        | ApiReason::Timeout
        | ApiReason::UnknownOutcome
        | ApiReason::LeaseLost
        | ApiReason::ServerError => Fate::Uncounted,
        ApiReason::NotFound
        | ApiReason::AlreadyExists
        | ApiReason::Invalid
        | ApiReason::Forbidden
        | ApiReason::NotWatched
        | ApiReason::Expired
        | ApiReason::TooLarge
        | ApiReason::Other => Fate::Counted,
    }
}

fn api(reason: ApiReason) -> Failure {
    about(reason, "other")
}

fn about(reason: ApiReason, name: &str) -> Failure {
    let object = ObjectRef { kind: ObjectKind::new("v1", "ConfigMap"), key: key(name), uid: None };
    Failure::Api(ApiError::refused(reason, "patch", "configmaps", Some(object), "no"))
}

/// As `api`, about an object in another namespace.
fn elsewhere(reason: ApiReason) -> Failure {
    let key = ObjectKey::namespaced("test", "other");
    let object = ObjectRef { kind: ObjectKind::new("v1", "ConfigMap"), key, uid: None };
    Failure::Api(ApiError::refused(reason, "create", "configmaps", Some(object), "no"))
}

/// As `api`, about a resource, a subresource or a namespace instead of an object.
fn unnamed(reason: ApiReason) -> Failure {
    Failure::Api(ApiError::refused(reason, "patch", "configmaps/status", None, "no"))
}

fn asking_for(reason: ApiReason, delay: Duration) -> Failure {
    let Failure::Api(error) = api(reason) else { unreachable!("api() makes an API failure") };
    Failure::Api(ApiError { retry_after: Some(delay), ..error })
}

fn transient() -> Failure {
    Failure::Transient("for now".into())
}

fn terminal() -> Failure {
    Failure::Terminal("for good".into())
}

/// The only primary in the caches.
const PRIMARY: &str = "a";

/// Records the Events.
struct Recorded(mpsc::UnboundedSender<Event>);

impl Events for Recorded {
    fn emit(&self, _: &CallContext, event: Event) {
        let _ = self.0.send(event);
    }
}

/// A stage whose only worker has called about the primary, which had a transient failure, and the Events that it sent.
struct Table {
    stage: Stage,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Table {
    fn new(cache: &Filled) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let ports = Ports { events: Arc::new(Recorded(sender)), ..Absent::ports() };
        let primaries = cache.primaries();
        Self { stage: Stage::with_ports(1, 1, Arc::new(SystemClock::new()), primaries, ports), events }
    }

    /// The next call, and how long it took to come.
    async fn next(&mut self) -> Option<(Duration, PlayedCall)> {
        let began = Instant::now();
        let call = tokio::time::timeout(BEYOND_ALL_WAITS, self.stage.calls.recv()).await.ok()?;
        Some((began.elapsed(), call.expect("the workers go on")))
    }

    async fn answer_next(&mut self, result: CallResult) -> (Duration, u32) {
        let (delay, call) = self.next().await.expect("a call");
        let attempt = call.request.attempt;
        call.answer.send(result).expect("the worker waits");
        (delay, attempt)
    }

    /// Brings the key to one counted failure, and then to `result`. Returns the next call, and whether the backoff
    /// starts again from its minimum.
    async fn play(&mut self, result: CallResult) -> (Next, bool) {
        self.stage.dispatch.keys.queue.add(key(PRIMARY));
        self.answer_next(CallResult::Failed(vec![transient()])).await;
        assert_eq!(self.answer_next(result).await, (Duration::from_mins(1), 1));
        let next = if let Some((delay, call)) = self.next().await {
            let attempt = call.request.attempt;
            call.answer.send(CallResult::Failed(vec![transient()])).expect("the worker waits");
            Some((delay, attempt))
        } else {
            self.stage.dispatch.keys.queue.add(key(PRIMARY));
            assert_eq!(self.answer_next(CallResult::Failed(vec![transient()])).await.1, 0, "it is forgotten");
            None
        };
        let (delay, _) = self.answer_next(CallResult::Done).await;
        (next, delay == Duration::from_mins(1))
    }

    fn take_events(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.events.try_recv().ok()).map(|event| event.reason).collect()
    }
}

/// The rows: how the call ends, what happens to the key, and after how long.
fn rows() -> Vec<(CallResult, Fate, Duration)> {
    let failed = |failures: Vec<Failure>| CallResult::Failed(failures);
    let seconds = Duration::from_secs;
    let trap = |reason| CallResult::Trapped { reason, message: "stopped".into() };
    let mut rows = vec![
        (CallResult::Done, Fate::Forgotten, Duration::ZERO),
        (CallResult::RequeueAfter(seconds(5)), Fate::Again, seconds(5)),
        (CallResult::RequeueAfter(Duration::ZERO), Fate::Again, Duration::from_millis(10)),
        // Its failure is forgotten, so this is the first backoff.
        (CallResult::RequeueBackoff, Fate::Again, Duration::from_mins(1)),
        (trap("trap"), Fate::Counted, SECOND_BACKOFF),
        (trap("deadline"), Fate::Counted, SECOND_BACKOFF),
        (trap("memory"), Fate::Counted, SECOND_BACKOFF),
        (failed(vec![]), Fate::Counted, SECOND_BACKOFF),
        (failed(vec![transient()]), Fate::Counted, SECOND_BACKOFF),
        (failed(vec![terminal()]), Fate::Reported, Duration::ZERO),
        // If the primary itself has gone, nothing is left to do. If another object has gone, that is a failure.
        (failed(vec![about(ApiReason::NotFound, PRIMARY)]), Fate::Forgotten, Duration::ZERO),
        (failed(vec![about(ApiReason::Conflict, PRIMARY)]), Fate::Uncounted, SECOND_BACKOFF),
        // The server did not find something other than an object; for example, the primary's kind may have no status.
        (failed(vec![unnamed(ApiReason::NotFound)]), Fate::Counted, SECOND_BACKOFF),
        // Another namespace may be created again. If the primary's own namespace goes, the primary goes too.
        (failed(vec![elsewhere(ApiReason::NamespaceTerminating)]), Fate::Uncounted, SECOND_BACKOFF),
        (failed(vec![unnamed(ApiReason::NamespaceTerminating)]), Fate::Uncounted, SECOND_BACKOFF),
        // The longer of the server's Retry-After and the backoff, within bounds.
        (failed(vec![asking_for(ApiReason::TooManyRequests, seconds(5))]), Fate::Uncounted, SECOND_BACKOFF),
        (failed(vec![asking_for(ApiReason::TooManyRequests, seconds(300))]), Fate::Uncounted, seconds(300)),
        (failed(vec![asking_for(ApiReason::ServerError, BEYOND_ALL_WAITS)]), Fate::Uncounted, Duration::from_mins(10)),
        (failed(vec![asking_for(ApiReason::Invalid, seconds(300))]), Fate::Counted, seconds(300)),
        (failed(vec![asking_for(ApiReason::Conflict, seconds(300)), transient()]), Fate::Counted, seconds(300)),
    ];
    rows.extend(ApiReason::ALL.map(|reason| (failed(vec![api(reason)]), fate_of(reason), SECOND_BACKOFF)));
    rows.extend(mixed());
    rows
}

/// Every pair of failures in a list, in both orders: the one with precedence decides.
fn mixed() -> Vec<(CallResult, Fate, Duration)> {
    let mut each: Vec<_> = ApiReason::ALL.map(|reason| (api(reason), fate_of(reason))).into();
    each.extend([(transient(), Fate::Counted), (terminal(), Fate::Reported)]);
    let pairs = each.iter().flat_map(|one| each.iter().map(move |other| (one, other)));
    let row = |(one, other): (&(Failure, Fate), &(Failure, Fate))| {
        (CallResult::Failed(vec![one.0.clone(), other.0.clone()]), one.1.max(other.1), SECOND_BACKOFF)
    };
    pairs.map(row).collect()
}

#[tokio::test(start_paused = true)]
async fn each_outcome_of_a_call_decides_what_happens_to_its_key() {
    let cache = Filled::with(&[PRIMARY]);
    for (result, fate, delay) in rows() {
        let mut table = Table::new(&cache);
        let what = format!("{result:?}");
        let denied = matches!(&result, CallResult::Failed(failures) if failures.contains(&api(ApiReason::NotGranted)));
        assert_eq!(table.play(result).await, expected(fate, delay), "{fate:?}: {what}");
        let expected = [(denied, "NotGranted"), (fate == Fate::Reported, "ReconcileFailed")];
        let expected: Vec<_> = expected.into_iter().filter_map(|(is_sent, reason)| is_sent.then_some(reason)).collect();
        assert_eq!(table.take_events(), expected, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_given_up_key_is_reported_and_then_runs_rarely() {
    let cache = Filled::with(&[PRIMARY]);
    for failure in [transient(), api(ApiReason::Invalid)] {
        let mut table = Table::new(&cache);
        let failed = || CallResult::Failed(vec![failure.clone()]);
        table.stage.dispatch.keys.queue.add(key(PRIMARY));
        for attempt in 0..=table.stage.dispatch.max_retries {
            assert_eq!(table.answer_next(failed()).await.1, attempt);
        }
        for _ in 0..3 {
            assert_eq!(
                table.answer_next(failed()).await,
                (Duration::from_secs(1000), table.stage.dispatch.max_retries)
            );
        }
        // The fourth call was answered just now.
        assert!(table.stage.is_quiet().await);
        assert_eq!(table.take_events(), ["GaveUp"; 4]);
    }
}

#[tokio::test(start_paused = true)]
async fn failures_that_are_not_the_plugins_fault_never_give_a_key_up() {
    let cache = Filled::with(&[PRIMARY]);
    let mut table = Table::new(&cache);
    table.stage.dispatch.keys.queue.add(key(PRIMARY));
    for _ in 0..40 {
        let (delay, attempt) = table.answer_next(CallResult::Failed(vec![api(ApiReason::Conflict)])).await;
        assert!(attempt == 0 && delay <= Duration::from_hours(1), "{attempt} after {delay:?}");
    }
    assert!(table.take_events().is_empty());
}

#[tokio::test(start_paused = true)]
async fn requeues_with_backoff_come_ever_later_and_are_no_failures() {
    let cache = Filled::with(&[PRIMARY]);
    let mut table = Table::new(&cache);
    table.stage.dispatch.keys.queue.add(key(PRIMARY));
    let rounds = 2 * table.stage.dispatch.max_retries;
    let mut delays = Vec::new();
    for _ in 0..rounds {
        let (delay, attempt) = table.answer_next(CallResult::RequeueBackoff).await;
        assert_eq!(attempt, 0);
        delays.push(delay);
    }
    assert_eq!(delays[1..4], [1, 2, 4].map(Duration::from_mins));
    assert!(delays.is_sorted(), "{delays:?}");
    let (delay, _) = table.answer_next(CallResult::RequeueAfter(Duration::from_secs(1))).await;
    assert!(delay >= delays[delays.len() - 1], "{delay:?}");
    table.answer_next(CallResult::RequeueBackoff).await;
    assert_eq!(table.answer_next(CallResult::Done).await, (Duration::from_mins(1), 0), "it begins anew");
    assert!(table.take_events().is_empty());
    let metrics = &table.stage.dispatch.status.metrics;
    assert_eq!((metrics.requeue.get(), metrics.error.get(), metrics.errors.get()), (u64::from(rounds) + 1, 0, 0));
}

/// A child's labels change while a dependency of the plugin is down.
#[tokio::test(start_paused = true)]
async fn events_during_a_backoff_neither_use_up_nor_delay_retries() {
    let cache = Filled::with(&[PRIMARY]);
    let mut table = Table::new(&cache);
    let failed = || CallResult::Failed(vec![transient()]);
    let (queue, max_retries) = (table.stage.dispatch.keys.queue.clone(), table.stage.dispatch.max_retries);
    queue.add(key(PRIMARY));
    assert_eq!(table.answer_next(failed()).await.1, 0);
    for attempt in 1..=max_retries {
        assert!(table.stage.is_quiet().await);
        let due_in = queue.look(&key(PRIMARY)).and_then(|known| known.due_in).expect("it backs off");
        for _ in 0..max_retries {
            queue.add(key(PRIMARY));
            assert_eq!(table.answer_next(failed()).await, (Duration::ZERO, attempt));
        }
        assert_eq!(table.answer_next(failed()).await, (due_in, attempt));
    }
    assert!(table.stage.is_quiet().await);
    assert_eq!(table.take_events(), ["GaveUp"], "after its last retry, and not before");
}
