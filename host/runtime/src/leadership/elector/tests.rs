//! Electors on an API server that has one lease. It lives in the client, without sockets, so that the clock can be
//! paused.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;
use windlass_core::life::lease::Timing;
use windlass_core::life::sharing::{Offer, rank};
use windlass_core::rights::principal::{Principal, Role};

use super::*;
use crate::clock::SystemClock;

const LEASE_DURATION: Duration = Duration::from_secs(15);
const STABILITY: Duration = Duration::from_mins(1);
/// Allowance for the time of renewals and requests.
const RENEWAL_SLACK: Duration = Duration::from_secs(5);

/// An API server with one lease.
struct Api {
    state: Mutex<State>,
    /// The lease as a watch delivers it.
    watched: watch::Sender<FoundLease>,
}

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    /// The number of releases that will fail.
    refusals: u32,
}

impl Api {
    fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), watched: watch::Sender::new(None) })
    }

    fn refuse_releases(&self, count: u32) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).refusals = count;
    }

    fn refusals_left(&self) -> u32 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).refusals
    }

    /// The current spec of the lease.
    fn spec(&self) -> Value {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.lease.as_ref().map_or(Value::Null, |lease| lease["spec"].clone())
    }

    fn client(self: &Arc<Self>) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let (code, answer) = api.answer(&parts.method, serde_json::from_slice(&body).unwrap_or_default());
                let response = Response::builder().status(code).header("content-type", "application/json");
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                    response.body(Body::from(answer.to_string().into_bytes()))?,
                )
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, mut body: Value) -> (u16, Value) {
        let refused = |code: u16| {
            (code, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no"}))
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        if *method == Method::GET {
            return state.lease.clone().map_or_else(|| refused(404), |lease| (200, lease));
        }
        if body["spec"]["holderIdentity"] == "" && state.refusals > 0 {
            state.refusals -= 1;
            return refused(500);
        }
        if state.lease.as_ref().map_or(Value::Null, version) != version(&body) {
            return refused(409);
        }
        state.version += 1;
        body["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.lease = Some(body.clone());
        self.watched.send_replace(Leases::watched(&body.to_string()));
        (200, body)
    }
}

/// A running elector, and what it publishes.
struct Candidate {
    standing: watch::Receiver<LeaseStanding>,
    _running: AbortOnDropHandle<()>,
}

/// An elector for `lease` in the name of `me`, not running yet.
fn elector(
    api: &Arc<Api>,
    lease: &str,
    me: &str,
    members: &watch::Sender<Membership>,
    clock: &Arc<SystemClock>,
) -> Elector {
    let (lease, me): (Arc<str>, Arc<str>) = (lease.into(), me.into());
    let period = Duration::from_secs(2);
    let timing = Timing::new(LEASE_DURATION, Duration::from_secs(10), period).expect("client-go's own");
    let role = Principal::of_host(Role::Lease, me.clone());
    Elector {
        part: Some(Part::new(lease.clone(), me.clone(), STABILITY, period)),
        lease,
        kind: LeaseKind::Plugins,
        election: Election::new(me.clone(), timing),
        me,
        leases: Leases::new(api.client(), role, "default", "main").expect("names that can be sent"),
        clock: clock.clone(),
        pulse: beating(clock),
        sightings: api.watched.subscribe(),
        members: members.subscribe(),
        offer: watch::channel(None).1,
        standing: watch::Sender::default(),
        figures: Arc::default(),
        stop: CancellationToken::new(),
        current: None,
        letting_go: None,
        logged: String::new(),
        lines: Repeats::a_minute(FAILURES_A_MINUTE),
    }
}

/// The pulse of a host whose threads are running.
fn beating(clock: &Arc<SystemClock>) -> Arc<Pulse> {
    let (pulse, clock) = (Arc::new(Pulse::new(clock.now())), clock.clone());
    let beats = pulse.clone();
    tokio::spawn(async move { beats.beat(&*clock).await });
    pulse
}

impl Candidate {
    fn start(mut elector: Elector) -> Self {
        let standing = elector.standing.subscribe();
        let running = AbortOnDropHandle::new(tokio::spawn(async move { elector.run().await }));
        Self { standing, _running: running }
    }

    /// The next term of the candidate.
    async fn term(&mut self) -> PluginTerm {
        let standing = self.standing.wait_for(|standing| standing.term.is_some()).await.expect("it runs");
        standing.term.clone().expect("it has been waited for")
    }
}

/// Replicas that do not publish which plugins they can serve.
fn silent(names: &[&str], clock: &SystemClock) -> Membership {
    let live = names.iter().map(|name| (Arc::from(*name), None)).collect();
    Membership { live, since: clock.now() }
}

/// The name of a lease that ranks `b` before `a`.
fn meant_for_b() -> String {
    let both = ["a", "b"].map(Arc::from);
    let lease = (0..1000).map(|number| format!("lease-{number}")).find(|lease| rank(lease, "b", &both) == 0);
    lease.expect("half of them")
}

/// A hand-over: `a` has a lease that is meant for `b`, and has begun to hand it over.
struct HandingOver {
    term: PluginTerm,
    a: Candidate,
    b: Candidate,
    began: Instant,
}

impl HandingOver {
    async fn start(api: &Arc<Api>) -> Self {
        let lease = meant_for_b();
        let clock = Arc::new(SystemClock::new());
        let members = watch::Sender::new(silent(&["a"], &clock));
        let mut a = Candidate::start(elector(api, &lease, "a", &members, &clock));
        let term = a.term().await;
        let b = Candidate::start(elector(api, &lease, "b", &members, &clock));
        members.send_replace(silent(&["a", "b"], &clock));
        term.ends.cancelled().await;
        Self { term, a, b, began: Instant::now() }
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_end_loses_its_lease_to_the_target_at_its_expiry() {
    let mut over = HandingOver::start(&Api::new()).await;
    over.term.fence.may_start(LEASE_DURATION).expect("running work may end in order");
    timeout(HAND_OVER_TIMEOUT + RENEWAL_SLACK, over.term.lost.cancelled()).await.expect("it is given up");
    let given_up = over.began.elapsed();
    assert!(given_up >= HAND_OVER_TIMEOUT, "{given_up:?}");
    over.term.fence.may_start(LEASE_DURATION).expect_err("nothing more may start");
    assert!(over.b.standing.borrow().term.is_none(), "the server may still carry out requests");
    let lost = (LeaseStatus::Lost, Some(Arc::from("a")));
    let standing = |candidate: &Candidate| {
        let standing = candidate.standing.borrow();
        (standing.status, standing.holder.clone())
    };
    assert_eq!(standing(&over.a), lost, "its name is still in the lease, but it may not act");

    let taken = timeout(LEASE_DURATION + RENEWAL_SLACK, over.b.term()).await.expect("the target takes over");
    taken.fence.may_start(LEASE_DURATION).expect("it is its own");
    let quiet = over.began.elapsed().saturating_sub(given_up);
    assert!(quiet + Duration::from_millis(2_400) >= LEASE_DURATION, "at most one renewal's pause less: {quiet:?}");
    let mut a = over.a.standing.clone();
    a.wait_for(|standing| standing.status == LeaseStatus::NotHeld).await.expect("it learns of the new holder");
    assert_eq!(standing(&over.b).0, LeaseStatus::Held);
    drop(over.term);
    timeout(STABILITY * 5, over.a.term()).await.expect_err("the lease names the other replica");
}

#[tokio::test(start_paused = true)]
async fn the_acquire_time_stays_the_same_over_renewals() {
    let (api, clock) = (Api::new(), Arc::new(SystemClock::new()));
    let members = watch::Sender::new(silent(&["a"], &clock));
    let mut a = Candidate::start(elector(&api, "lease", "a", &members, &clock));
    let _term = a.term().await;
    let (won, mut watched) = (api.spec(), api.watched.subscribe());
    watched.mark_unchanged();
    for _ in 0..3 {
        watched.changed().await.expect("it is renewed");
    }
    let renewed = api.spec();
    assert!(won["acquireTime"].is_string() && won["renewTime"] != renewed["renewTime"], "{won}, {renewed}");
    assert_eq!(
        (&renewed["acquireTime"], &renewed["leaseTransitions"]),
        (&won["acquireTime"], &won["leaseTransitions"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_tried_again_until_the_target_has_the_lease() {
    let api = Api::new();
    api.refuse_releases(3);
    let HandingOver { term, mut a, mut b, .. } = HandingOver::start(&api).await;
    drop(term);
    timeout(LEASE_DURATION, b.term()).await.expect("the target takes over");
    assert_eq!(api.refusals_left(), 0);
    timeout(STABILITY * 5, a.term()).await.expect_err("it has gone");
}

#[tokio::test(start_paused = true)]
async fn a_stop_just_before_the_wait_for_a_renewal_ends_the_wait_at_once() {
    let (api, clock) = (Api::new(), Arc::new(SystemClock::new()));
    let members = watch::Sender::new(silent(&["a"], &clock));
    let mut a = elector(&api, "lease", "a", &members, &clock);
    let mut standing = a.standing.subscribe();
    let term = tokio::select! {
        () = a.run() => panic!("it does not stop"),
        won = standing.wait_for(|standing| standing.term.is_some()) => won.expect("it runs").term.clone(),
    };
    let now = clock.now();
    let (wish, _) = a.wish(now, false);
    let ElectionStep::WaitUntil(renewal) = a.election.next(now, wish) else { panic!("the lease was just written") };
    a.stop.cancel();
    assert_eq!(a.wait(renewal, false).now_or_never(), Some(()), "else the lease would be held until then");
    a.wish(now, true);
    assert_eq!(
        a.wait(renewal, true).now_or_never(),
        None,
        "a stop that is already known does not end the wait for running work"
    );
    drop(term);
    assert_eq!(a.wait(renewal, true).now_or_never(), Some(()), "the end of the work ends the wait");
}

/// The replicas `a` and `b`, the plugins that each can serve, all of which depend on `lease`.
fn offering(lease: &str, a: &[&str], b: &[&str], clock: &SystemClock) -> Membership {
    let offer = |plugins: &[&str]| {
        let plugins = plugins.iter().map(|plugin| (Arc::from(*plugin), Arc::from("digest")));
        Some(Arc::new(Offer::of(plugins, |_| Some(lease.to_owned()))))
    };
    Membership { live: [("a".into(), offer(a)), ("b".into(), offer(b))].into(), since: clock.now() }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_handed_over_only_when_the_target_can_serve_all_its_plugins() {
    let (api, clock, lease) = (Api::new(), Arc::new(SystemClock::new()), meant_for_b());
    let members = watch::Sender::new(offering(&lease, &["x", "y"], &["x"], &clock));
    let mut a = Candidate::start(elector(&api, &lease, "a", &members, &clock));
    let term = a.term().await;
    let mut b = Candidate::start(elector(&api, &lease, "b", &members, &clock));
    timeout(STABILITY * 5, term.ends.cancelled()).await.expect_err("the other would not run y");
    members.send_replace(offering(&lease, &["x", "y"], &["x", "y"], &clock));
    timeout(STABILITY + RENEWAL_SLACK, term.ends.cancelled()).await.expect("it is meant for the other");
    drop(term);
    timeout(RENEWAL_SLACK, b.term()).await.expect("it takes over");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_loses_a_plugin_gives_up_the_lease_to_one_that_has_it() {
    for sticky in [false, true] {
        let (api, clock, lease) = (Api::new(), Arc::new(SystemClock::new()), meant_for_b());
        let members = watch::Sender::new(offering(&lease, &["x", "y"], &["x", "y"], &clock));
        let candidate = |me: &str| {
            let elector = elector(&api, &lease, me, &members, &clock);
            let part = elector
                .part
                .as_ref()
                .map(|_| Part::new(lease.as_str().into(), me.into(), STABILITY, Duration::from_secs(2)));
            Elector { part: part.map(|part| if sticky { part.sticky() } else { part }), ..elector }
        };
        let mut b = Candidate::start(candidate("b"));
        let term = b.term().await;
        let mut a = Candidate::start(candidate("a"));
        timeout(STABILITY * 5, term.ends.cancelled()).await.expect_err("the lease is with its preferred replica");
        members.send_replace(offering(&lease, &["x", "y"], &["x"], &clock));
        timeout(STABILITY + RENEWAL_SLACK, term.ends.cancelled()).await.expect("the other can serve more");
        drop(term);
        timeout(RENEWAL_SLACK, a.term()).await.expect("it takes over");
        timeout(STABILITY * 5, b.term()).await.expect_err("and keeps it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_whose_threads_stand_still_leaves_its_lease_to_another() {
    let (api, lease, clock) = (Api::new(), meant_for_b(), Arc::new(SystemClock::new()));
    let members = watch::Sender::new(silent(&["a", "b"], &clock));
    let still = Arc::new(Pulse::new(clock.now()));
    let mut b = Candidate::start(Elector { pulse: still, ..elector(&api, &lease, "b", &members, &clock) });
    let term = b.term().await;
    let mut a = Candidate::start(elector(&api, &lease, "a", &members, &clock));
    timeout(Duration::from_secs(50), a.term()).await.expect_err("it may go on yet");
    timeout(Duration::from_mins(1), a.term()).await.expect("it is taken over when it has run out");
    term.fence.may_start(LEASE_DURATION).expect_err("nothing more may start");
}
