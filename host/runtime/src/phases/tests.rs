//! Tests of the phases, with fake controllers.

use std::future::ready;

use tokio::time::Instant;

use super::*;

const NOTHING: Option<std::future::Ready<bool>> = None;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A controller that takes `drain` to drain its queue, drops three keys if that is too long, and whose last call ends
/// after `call`.
fn controller(phases: &Phases, drain: Duration, call: Duration) -> impl Future<Output = ControllerEnd> + use<> {
    let (phases, mut at_work) = (phases.clone(), phases.at_work());
    async move {
        phases.stop.cancelled().await;
        at_work.fed();
        if phases.last_call.run_until_cancelled(sleep(drain)).await.is_none() {
            phases.dropping().add(3);
        }
        at_work.drained();
        let workers = tracker();
        workers.spawn(sleep(call));
        phases.until_cut(workers.wait()).await
    }
}

/// Stops controllers with these drain and call times. Returns whether that was clean, the number of dropped keys, and
/// when the queues were drained, the calls had ended, and the host had stopped.
async fn stopped(controllers: &[(Duration, Duration)]) -> (bool, usize, [Duration; 3]) {
    let phases = Phases::of(CancellationToken::new());
    let began = Instant::now();
    let controllers: Vec<_> =
        controllers.iter().map(|(drain, call)| tokio::spawn(controller(&phases, *drain, *call))).collect();
    let ended = async {
        let ends = futures::future::join_all(controllers).await;
        ends.into_iter().filter(|end| *end.as_ref().expect("no panic") == ControllerEnd::Cut).count()
    };
    let at = |token: &CancellationToken| {
        let token = token.clone();
        async move {
            token.cancelled().await;
            began.elapsed()
        }
    };
    let (clean, last_call, over) =
        tokio::join!(phases.end(ended, ready(true), NOTHING, ready(())), at(&phases.last_call), at(&phases.over));
    (clean, phases.all_dropped(), [last_call, over, began.elapsed()])
}

#[tokio::test(start_paused = true)]
async fn the_limits_are_those_of_the_host_and_not_of_each_controller() {
    for (what, controllers, clean, dropped, [last_call, over]) in [
        ("nothing runs", &[][..], true, 0, [0, 0]),
        ("all is soon done", &[(1, 2), (3, 4)], true, 0, [3, 7]),
        // The first controller has drained long before, but its call has as much time as the calls of the others.
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
async fn unsent_events_and_unreleased_leases_make_a_stop_unclean_but_not_long() {
    for (events, release, clean, limit) in [
        (seconds(1), seconds(1), true, seconds(2)),
        (seconds(9), seconds(1), false, seconds(2) + seconds(1)),
        (seconds(1), seconds(9), false, seconds(1) + seconds(5)),
    ] {
        let (phases, began) = (Phases::of(CancellationToken::new()), Instant::now());
        let done = |after| async move {
            sleep(after).await;
            true
        };
        let mut watching = true;
        let ended = phases.end(ready(0), done(events), Some(done(release)), async { watching = false }).await;
        assert_eq!((ended, watching), (clean, false));
        assert!(began.elapsed() < limit + Duration::from_millis(20), "{:?}", began.elapsed());
    }
    let phases = Phases::of(CancellationToken::new());
    assert!(!phases.end(ready(0), ready(false), NOTHING, ready(())).await, "abandoned events are lost too");
}

#[tokio::test(start_paused = true)]
async fn the_host_ends_within_the_charts_grace_period_whatever_hangs() {
    let (grace, spare) = (seconds(45), seconds(5));
    let (phases, began) = (Phases::of(CancellationToken::new()), Instant::now());
    // This controller ignores the stop and does not end.
    let _at_work = phases.at_work();
    assert!(!phases.end(pending(), pending(), Some(pending::<bool>()), ready(())).await);
    assert!(began.elapsed() + spare < grace, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn leases_outlast_the_last_call_and_watches_outlast_the_leases() {
    let phases = Phases::of(CancellationToken::new());
    let call = controller(&phases, Duration::ZERO, seconds(7));
    let order = std::sync::Mutex::new(Vec::new());
    let note = |what: &'static str| order.lock().expect("one at a time").push(what);
    let calls = async {
        let end = call.await;
        note("calls");
        usize::from(end == ControllerEnd::Cut)
    };
    let events = async {
        note("events");
        true
    };
    let release = async {
        note("release");
        true
    };
    assert!(phases.end(calls, events, Some(release), async { note("watches") }).await);
    assert_eq!(*order.lock().expect("all have ended"), ["calls", "events", "release", "watches"]);
}

#[tokio::test(start_paused = true)]
async fn a_term_ends_within_the_limits_of_a_stop_and_the_host_continues() {
    let host = Phases::of(CancellationToken::new());
    for (drain, call, lost_after, took) in [(1, 2, 99, 3), (99, 1, 99, 6), (99, 1, 2, 3), (1, 99, 99, 21)] {
        let (ends, lost) = (host.stop.child_token(), CancellationToken::new());
        let term = host.of_term(ends.clone());
        let running = tokio::spawn(controller(&term, seconds(drain), seconds(call)));
        let began = Instant::now();
        ends.cancel();
        let losing = lost.clone();
        tokio::spawn(async move {
            sleep(seconds(lost_after)).await;
            losing.cancel();
        });
        let end = tokio::select! {
            end = running => end.expect("no panic"),
            never = term.hand_over(&lost) => match never {},
        };
        assert_eq!(
            (end == ControllerEnd::Cut, began.elapsed().as_secs()),
            (call == 99, took),
            "{drain} {call} {lost_after}"
        );
        let is_over = [&host.stop, &host.last_call, &host.cut, &host.over].map(CancellationToken::is_cancelled);
        assert_eq!(is_over, [false; 4]);
    }
    assert!(host.draining.is_empty(), "the host waits for nothing of the term");
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_the_host_waits_for_calls_of_a_term() {
    let host = Phases::of(CancellationToken::new());
    let term = host.of_term(host.stop.child_token());
    let running = tokio::spawn(controller(&term, seconds(3), seconds(4)));
    let (ended, began) =
        (async { usize::from(running.await.expect("no panic") == ControllerEnd::Cut) }, Instant::now());
    assert!(host.end(ended, ready(true), NOTHING, ready(())).await);
    assert_eq!(began.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn in_a_stop_a_term_has_the_limits_of_the_host_and_no_others() {
    let host = Phases::of(CancellationToken::new());
    let term = host.of_term(host.stop.child_token());
    // The term's own queue is empty at once. The host gives up its last queue after five seconds.
    let calling = tokio::spawn(controller(&term, Duration::ZERO, seconds(24)));
    let draining = tokio::spawn(controller(&host, seconds(9), seconds(1)));
    let handing_over = tokio::spawn(async move { term.hand_over(&CancellationToken::new()).await });
    let ended = async {
        let ends = [calling.await.expect("no panic"), draining.await.expect("no panic")];
        handing_over.abort();
        ends.iter().filter(|end| **end == ControllerEnd::Cut).count()
    };
    assert!(host.end(ended, ready(true), NOTHING, ready(())).await);
    assert_eq!(host.all_dropped(), 3);
}

#[test]
fn keys_dropped_by_an_earlier_term_do_not_count_towards_the_stop() {
    let host = Phases::of(CancellationToken::new());
    let term = host.of_term(host.stop.child_token());
    let (ended, ending) = (term.dropping(), term.dropping());
    ended.add(3);
    ending.add(2);
    drop(ended);
    assert_eq!(host.all_dropped(), 2);
    host.stop.cancel();
    drop(ending);
    term.dropping().add(1);
    assert_eq!(host.all_dropped(), 3, "the next start queues these again, and nothing does sooner");
}
