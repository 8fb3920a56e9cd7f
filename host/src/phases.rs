//! How the host stops (§3.9): one phase after the other, each with its limit and its line in the log.
//!
//! The manager goes through [`Phases::end`]; controllers have no limits of their own. They are told by tokens what is over,
//! and tell by guards ([`AtWork`]) what of theirs is not, so that all are in step and the limits hold for all of them
//! together. Signals are in `shutdown`, what a controller does in each phase in `running`.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use windlass_core::object::ObjectKey;
use windlass_core::queue::Queue;

use crate::running::{End, tracker};

/// How long what only has to notice may take.
const SOON: Duration = Duration::from_secs(1);
/// How long the queues may take to drain.
const DRAIN: Duration = Duration::from_secs(5);
/// How long calls that run, and their writes, may take to end after that.
const CALLS: Duration = Duration::from_secs(20);
/// After that long, whatever a tenure that is handed over has not ended is cut, and has been told.
pub(crate) const HAND_OVER: Duration = Duration::from_secs(DRAIN.as_secs() + CALLS.as_secs() + SOON.as_secs());
/// How long Kubernetes Events may take to be sent.
pub(crate) const EVENTS: Duration = Duration::from_secs(2);
/// How long leases may take to be released.
const RELEASE: Duration = Duration::from_secs(5);

/// What is over. Clones are of the same stop.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    /// The host stops: no change becomes a key any more.
    pub(crate) stop: CancellationToken,
    /// The queues have had their time: no further call begins.
    pub(crate) last_call: CancellationToken,
    /// Calls have had their time: nobody waits for them any more.
    cut: CancellationToken,
    /// All calls have ended, or are cut. What binds calls, such as policies, is followed until then.
    pub(crate) over: CancellationToken,
    feeding: TaskTracker,
    draining: TaskTracker,
    dropped: Arc<AtomicUsize>,
    /// Those of the host, where these are of one plugin or of one of its tenures.
    host: Option<Box<Phases>>,
}

/// Held by a controller at work: what it has not ended yet.
#[derive(Debug)]
pub(crate) struct AtWork {
    feeding: Vec<TaskTrackerToken>,
    draining: Vec<TaskTrackerToken>,
}

impl AtWork {
    /// No more keys come.
    pub(crate) fn fed(&mut self) {
        self.feeding.clear();
    }

    /// The queue is empty.
    pub(crate) fn drained(&mut self) {
        self.fed();
        self.draining.clear();
    }
}

/// How long a phase has taken, in milliseconds.
fn took(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Phases {
    /// They begin when `stop` is cancelled and [`Phases::end`] is called.
    pub(crate) fn of(stop: CancellationToken) -> Self {
        Self {
            stop,
            last_call: CancellationToken::new(),
            cut: CancellationToken::new(),
            over: CancellationToken::new(),
            feeding: tracker(),
            draining: tracker(),
            dropped: Arc::default(),
            host: None,
        }
    }

    /// Those of one plugin, which is stopped when `stop` is cancelled, and the host may go on.
    pub(crate) fn of_plugin(&self, stop: CancellationToken) -> Self {
        Self { stop, host: Some(Box::new(self.clone())), ..self.clone() }
    }

    /// Those of a tenure that is over when `stop` is cancelled, or all of the host.
    pub(crate) fn of_tenure(&self, stop: CancellationToken) -> Self {
        Self {
            stop,
            last_call: self.last_call.child_token(),
            cut: self.cut.child_token(),
            over: self.over.clone(),
            feeding: tracker(),
            draining: tracker(),
            dropped: self.dropped.clone(),
            host: Some(self.host.clone().unwrap_or_else(|| Box::new(self.clone()))),
        }
    }

    /// Ends a tenure in order, once it is over, with the limits of a stop; without the lease, which may be `lost` at any time,
    /// no call is begun any more. For ever: whatever it is polled beside has ended when the tenure has.
    pub(crate) async fn hand_over(&self, lost: &CancellationToken) -> Infallible {
        self.stop.cancelled().await;
        lost.run_until_cancelled(timeout(DRAIN, self.draining.wait())).await;
        self.last_call.cancel();
        sleep(CALLS).await;
        if self.host.as_ref().is_none_or(|host| !host.stop.is_cancelled()) {
            self.cut.cancel();
        }
        // A stop of the host has limits of its own.
        pending().await
    }

    /// Another controller is at work. To be called before anything of it runs.
    pub(crate) fn at_work(&self) -> AtWork {
        let all = || [Some(self), self.host.as_deref()].into_iter().flatten();
        AtWork {
            feeding: all().map(|phases| phases.feeding.token()).collect(),
            draining: all().map(|phases| phases.draining.token()).collect(),
        }
    }

    /// So many more keys were dropped, which the next start queues again.
    pub(crate) fn dropped(&self, keys: usize) {
        // What a tenure has dropped that ended before is no affair of the stop.
        if self.host.as_ref().is_none_or(|host| host.stop.is_cancelled()) {
            self.dropped.fetch_add(keys, Ordering::Relaxed);
        }
    }

    /// Drops what waits in `queue`, which takes nothing more. Returns how many keys.
    pub(crate) fn drop_keys(&self, queue: &Queue<ObjectKey>) -> usize {
        // Like a drain whose time is over: shut down, it would not count those that are held.
        let _ = queue.shut_down_with_drain().now_or_never();
        let dropped = queue.drop_ready();
        self.dropped(dropped);
        dropped
    }

    /// How many keys were dropped.
    #[cfg(test)]
    pub(crate) fn all_dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits for the calls that run, as long as the host does.
    pub(crate) async fn last_calls(&self, workers: &TaskTracker) -> End {
        self.until_cut(workers.wait()).await
    }

    /// Waits for `last`, as long as the host waits for calls.
    pub(crate) async fn until_cut(&self, last: impl Future<Output = ()>) -> End {
        match self.cut.run_until_cancelled(last).await {
            Some(()) => End::Clean,
            None => End::Cut,
        }
    }

    /// Waits for `last`, however long that takes, unless the host stops.
    pub(crate) async fn unless_host_stops(&self, last: impl Future<Output = ()>) {
        let stop = self.host.as_ref().map_or(&self.stop, |host| &host.stop);
        // The host has limits of its own, and what it leaves ends with it.
        let _ = stop.run_until_cancelled(last).await;
    }

    /// Those of one generation, which ends when `stop` is cancelled, though the tenure goes on.
    pub(crate) fn of_generation(&self, stop: CancellationToken) -> Self {
        Self { stop, ..self.clone() }
    }

    /// Stops, whoever asked for it. `controllers` completes when all controllers have ended,
    /// which run on tasks of their own, with how many were cut; `events`
    /// says whether all Kubernetes Events were sent; `release` gives the leases back, and is left out if there are none;
    /// `watches` ends them. Returns whether nothing was lost that the next start does not do again.
    pub(crate) async fn end(
        &self,
        controllers: impl Future<Output = usize>,
        events: impl Future<Output = bool>,
        release: Option<impl Future<Output = bool>>,
        watches: impl FnOnce(),
    ) -> bool {
        let began = Instant::now();
        self.intake().await;
        self.drain().await;
        let called = self.calls(controllers).await;
        let sent = Self::events(events).await;
        let released = match release {
            Some(release) => Self::release(release).await,
            None => true,
        };
        watches();
        tracing::info!(phase = "watches", "the watches have ended");
        let clean = called && sent && released;
        let dropped = self.dropped.load(Ordering::Relaxed);
        tracing::info!(clean, took_ms = took(began), dropped, "stopped");
        clean
    }

    /// No change becomes a key any more. `/readyz` has said so since `stop`.
    async fn intake(&self) {
        let began = Instant::now();
        self.stop.cancel();
        if timeout(SOON, self.feeding.wait()).await.is_err() {
            // Nothing comes of what it still adds: queues that shut down take nothing.
            tracing::warn!("a task that makes keys of changes does not end");
        }
        tracing::info!(phase = "intake", took_ms = took(began), "not ready any more, and no change is taken in");
    }

    /// What is queued, or held until its own writes are seen, runs if it can.
    async fn drain(&self) {
        let began = Instant::now();
        let in_time = timeout(DRAIN, self.draining.wait()).await.is_ok();
        self.last_call.cancel();
        if !in_time {
            // Each controller drops what it has left, and counts it.
            let _ = timeout(SOON, self.draining.wait()).await;
        }
        let (took_ms, dropped) = (took(began), self.dropped.load(Ordering::Relaxed));
        if in_time && dropped == 0 {
            tracing::info!(phase = "drain", took_ms, dropped, "the queues have drained");
        } else {
            let why = if in_time { "what cannot be called now is not waited for" } else { "the time for it is over" };
            tracing::info!(
                phase = "drain",
                took_ms,
                dropped,
                "the queues have not drained, {why}: the keys that are left are dropped, and the next start queues every one again"
            );
        }
    }

    /// Calls that run end, and what they have written settles.
    async fn calls(&self, controllers: impl Future<Output = usize>) -> bool {
        let began = Instant::now();
        let mut controllers = pin!(controllers);
        let cut = if let Ok(cut) = timeout(CALLS, &mut controllers).await {
            cut
        } else {
            self.cut.cancel();
            // Each tells what it cuts.
            timeout(SOON, controllers).await.unwrap_or(1)
        };
        self.over.cancel();
        let took_ms = took(began);
        if cut == 0 {
            tracing::info!(phase = "calls", took_ms, "every call has ended, and so have its writes");
        } else {
            tracing::error!(
                phase = "calls",
                took_ms,
                controllers = cut,
                "calls or their writes have not ended within {CALLS:?} and are cut: the lines above say of which objects"
            );
        }
        cut == 0
    }

    async fn events(sent: impl Future<Output = bool>) -> bool {
        let began = Instant::now();
        let all = timeout(EVENTS, sent).await == Ok(true);
        let took_ms = took(began);
        if all {
            tracing::info!(phase = "events", took_ms, "every Kubernetes Event has been sent");
        } else {
            tracing::warn!(phase = "events", took_ms, "some Kubernetes Events could not be sent and are lost");
        }
        all
    }

    /// Another replica need not wait until they expire.
    async fn release(released: impl Future<Output = bool>) -> bool {
        let began = Instant::now();
        let all = timeout(RELEASE, released).await == Ok(true);
        let took_ms = took(began);
        if all {
            tracing::info!(phase = "release", took_ms, "the leases are released");
        } else {
            tracing::warn!(
                phase = "release",
                took_ms,
                "some leases are not released: others take over when they expire"
            );
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    const NOTHING: Option<std::future::Ready<bool>> = None;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// A controller that needs `drain` to drain, drops three keys if that is too long, and whose last call ends after `call`.
    fn controller(phases: &Phases, drain: Duration, call: Duration) -> impl Future<Output = End> + use<> {
        let (phases, mut at_work) = (phases.clone(), phases.at_work());
        async move {
            phases.stop.cancelled().await;
            at_work.fed();
            if phases.last_call.run_until_cancelled(sleep(drain)).await.is_none() {
                phases.dropped(3);
            }
            at_work.drained();
            let workers = tracker();
            workers.spawn(sleep(call));
            phases.last_calls(&workers).await
        }
    }

    /// Stops controllers that drain and call for so long, and returns whether that was clean, when what is over was over,
    /// and when all was.
    async fn stopped(controllers: &[(Duration, Duration)]) -> (bool, usize, [Duration; 3]) {
        let phases = Phases::of(CancellationToken::new());
        let began = Instant::now();
        let controllers: Vec<_> =
            controllers.iter().map(|(drain, call)| tokio::spawn(controller(&phases, *drain, *call))).collect();
        let ended = async {
            let ends = futures::future::join_all(controllers).await;
            ends.into_iter().filter(|end| *end.as_ref().expect("no panic") == End::Cut).count()
        };
        let at = |token: &CancellationToken| {
            let token = token.clone();
            async move {
                token.cancelled().await;
                began.elapsed()
            }
        };
        let (clean, last_call, over) =
            tokio::join!(phases.end(ended, ready(true), NOTHING, || {}), at(&phases.last_call), at(&phases.over));
        (clean, phases.dropped.load(Ordering::Relaxed), [last_call, over, began.elapsed()])
    }

    #[tokio::test(start_paused = true)]
    async fn the_limits_are_those_of_the_host_and_not_of_each_controller() {
        for (what, controllers, clean, dropped, [last_call, over]) in [
            ("nothing runs", &[][..], true, 0, [0, 0]),
            ("all is soon done", &[(1, 2), (3, 4)], true, 0, [3, 7]),
            // The first has drained long before, and its call has as long as the others'.
            ("one does not drain", &[(0, 24), (9, 1)], true, 3, [5, 24]),
            ("a call hangs", &[(1, 99), (2, 1)], false, 0, [2, 22]),
            ("none drains and all hang", &[(99, 99), (99, 99), (99, 99)], false, 9, [5, 25]),
        ] {
            let times: Vec<_> = controllers.iter().map(|(drain, call)| (seconds(*drain), seconds(*call))).collect();
            let stopped = stopped(&times).await;
            let wanted = [seconds(last_call), seconds(over), seconds(over)];
            let near =
                |at: Duration, wanted: Duration| at.saturating_sub(wanted) < Duration::from_millis(20) && at >= wanted;
            assert_eq!((stopped.0, stopped.1), (clean, dropped), "{what}: {stopped:?}");
            assert!(stopped.2.iter().zip(wanted).all(|(at, wanted)| near(*at, wanted)), "{what}: {stopped:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn events_that_are_left_and_leases_that_are_kept_are_not_clean_and_hold_up_nothing_for_long() {
        for (events, release, clean, limit) in [
            (seconds(1), seconds(1), true, seconds(2)),
            (seconds(9), seconds(1), false, EVENTS + seconds(1)),
            (seconds(1), seconds(9), false, seconds(1) + RELEASE),
        ] {
            let (phases, began) = (Phases::of(CancellationToken::new()), Instant::now());
            let done = |after| async move {
                sleep(after).await;
                true
            };
            let mut watching = true;
            let ended = phases.end(ready(0), done(events), Some(done(release)), || watching = false).await;
            assert_eq!((ended, watching), (clean, false));
            assert!(began.elapsed() < limit + Duration::from_millis(20), "{:?}", began.elapsed());
        }
        let phases = Phases::of(CancellationToken::new());
        assert!(!phases.end(ready(0), ready(false), NOTHING, || {}).await, "events that were given up are lost too");
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_hangs_the_host_ends_within_the_time_that_the_chart_gives_it() {
        let (grace, spare) = (seconds(45), seconds(5));
        let (phases, began) = (Phases::of(CancellationToken::new()), Instant::now());
        // It neither hears nor ends.
        let _at_work = phases.at_work();
        assert!(!phases.end(pending(), pending(), Some(pending::<bool>()), || {}).await);
        assert!(began.elapsed() + spare < grace, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn leases_are_kept_until_the_last_call_has_ended_and_watches_until_they_are_released() {
        let phases = Phases::of(CancellationToken::new());
        let call = controller(&phases, Duration::ZERO, seconds(7));
        let order = std::sync::Mutex::new(Vec::new());
        let note = |what: &'static str| order.lock().expect("one at a time").push(what);
        let calls = async {
            let end = call.await;
            note("calls");
            usize::from(end == End::Cut)
        };
        let events = async {
            note("events");
            true
        };
        let release = async {
            note("release");
            true
        };
        assert!(phases.end(calls, events, Some(release), || note("watches")).await);
        assert_eq!(*order.lock().expect("all have ended"), ["calls", "events", "release", "watches"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenure_ends_with_the_limits_of_a_stop_and_the_host_goes_on() {
        let host = Phases::of(CancellationToken::new());
        for (drain, call, lost_after, took) in [(1, 2, 99, 3), (99, 1, 99, 6), (99, 1, 2, 3), (1, 99, 99, 21)] {
            let (ends, lost) = (host.stop.child_token(), CancellationToken::new());
            let tenure = host.of_tenure(ends.clone());
            let running = tokio::spawn(controller(&tenure, seconds(drain), seconds(call)));
            let began = Instant::now();
            ends.cancel();
            let losing = lost.clone();
            tokio::spawn(async move {
                sleep(seconds(lost_after)).await;
                losing.cancel();
            });
            let end = tokio::select! {
                end = running => end.expect("no panic"),
                never = tenure.hand_over(&lost) => match never {},
            };
            assert_eq!((end == End::Cut, began.elapsed().as_secs()), (call == 99, took), "{drain} {call} {lost_after}");
            let is_over = [&host.stop, &host.last_call, &host.cut, &host.over].map(CancellationToken::is_cancelled);
            assert_eq!(is_over, [false; 4]);
        }
        assert!(host.draining.is_empty(), "nothing of it is waited for any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_of_the_host_waits_for_what_runs_in_a_tenure() {
        let host = Phases::of(CancellationToken::new());
        let tenure = host.of_tenure(host.stop.child_token());
        let running = tokio::spawn(controller(&tenure, seconds(3), seconds(4)));
        let (ended, began) = (async { usize::from(running.await.expect("no panic") == End::Cut) }, Instant::now());
        assert!(host.end(ended, ready(true), NOTHING, || {}).await);
        assert_eq!(began.elapsed().as_secs(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_stop_a_tenure_has_the_limits_of_the_host_and_no_others() {
        let host = Phases::of(CancellationToken::new());
        let tenure = host.of_tenure(host.stop.child_token());
        // Its own queue is empty at once, and the host's last one after five seconds.
        let calling = tokio::spawn(controller(&tenure, Duration::ZERO, seconds(24)));
        let draining = tokio::spawn(controller(&host, seconds(9), seconds(1)));
        let handing_over = tokio::spawn(async move { tenure.hand_over(&CancellationToken::new()).await });
        let ended = async {
            let ends = [calling.await.expect("no panic"), draining.await.expect("no panic")];
            handing_over.abort();
            ends.iter().filter(|end| **end == End::Cut).count()
        };
        assert!(host.end(ended, ready(true), NOTHING, || {}).await);
        assert_eq!(host.dropped.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn what_an_earlier_tenure_has_dropped_is_not_the_stops() {
        let host = Phases::of(CancellationToken::new());
        let tenure = host.of_tenure(host.stop.child_token());
        tenure.dropped(3);
        assert_eq!(host.dropped.load(Ordering::Relaxed), 0);
        host.stop.cancel();
        tenure.dropped(2);
        assert_eq!(host.dropped.load(Ordering::Relaxed), 2);
    }
}
