//! Calls that only wait do not delay other plugins.

use windlass_core::call::http::HttpRequest;
use windlass_core::call::ports::port_fn;
use windlass_core::write::Operation;

use super::*;

/// A plugin that waits for its request's answer until its deadline of 30 s.
struct Waits {
    for_writes: bool,
    began: Arc<AtomicUsize>,
}

impl Reconcile for Waits {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let Call { ports, context: call, .. } = call;
        let cpu_permit = call.cpu_permit.clone();
        self.began.fetch_add(1, Ordering::Relaxed);
        let wish = if self.for_writes {
            ports.ask(call, Vec::<Operation>::new()).map(drop).boxed()
        } else {
            let url = "http://192.0.2.1/".to_owned();
            let request = HttpRequest { method: "GET".into(), url, headers: vec![], body: None, timeout: None };
            ports.ask(call, request).map(drop).boxed()
        };
        async move {
            let _ = tokio::time::timeout(Duration::from_secs(30), cpu_permit.without(wish)).await;
            Called::made(CallResult::Done, Duration::ZERO)
        }
        .boxed()
    }
}

/// A stage beside `plugins` other plugins, each with 64 workers whose calls only wait, and the number of these calls
/// that have begun.
fn beside_calls_that_wait(permits: u32, plugins: usize) -> (Stage, Vec<Switch>, Arc<AtomicUsize>) {
    let mut switches = Vec::new();
    let began = Arc::new(AtomicUsize::new(0));
    // A server that never answers, and a budget that never refills.
    let silence = port_fn(|_, _| std::future::pending().boxed());
    let silent = Ports { outside: silence, ..Absent::ports() };
    let neighbour = Stage::with_clock(1, permits, Arc::new(SystemClock::new()));
    for plugin in 0..plugins {
        let stage = Stage::with_ports(0, 1, Arc::new(SystemClock::new()), Stores::default(), silent.clone());
        switches.push(stage.switch);
        let mut dispatch = Arc::into_inner(stage.dispatch).expect("it has no worker yet");
        dispatch.callee.plugin = Box::new(Waits { for_writes: plugin % 2 == 0, began: began.clone() });
        dispatch.permits.share = neighbour.fair.share(NonZeroU32::MIN);
        let dispatch = Arc::new(dispatch);
        for number in 0..200 {
            dispatch.keys.queue.add(key(&format!("waits-{number}")));
        }
        for _ in 0..64 {
            let dispatch = dispatch.clone();
            tokio::spawn(async move { dispatch.work().await });
        }
    }
    (neighbour, switches, began)
}

#[tokio::test(start_paused = true)]
async fn calls_waiting_for_writes_or_servers_do_not_delay_a_neighbour() {
    for permits in [1, 2, 4] {
        for plugins in [1, 3] {
            let (mut neighbour, _switches, began) = beside_calls_that_wait(permits, plugins);
            assert!(neighbour.is_quiet().await);
            let waiting = began.load(Ordering::Relaxed);
            assert!(waiting >= 32, "{waiting} calls wait, with {permits} permits");
            // This also holds long after the first deadlines, when other calls are waiting.
            for number in 0..200 {
                let queued = Instant::now();
                let name = format!("a{number}");
                neighbour.dispatch.keys.queue.add(key(&name));
                neighbour.answer(&name, CallResult::Done).await;
                assert_eq!(queued.elapsed(), Duration::ZERO, "call {number} beside {plugins}, with {permits} permits");
                tokio::time::sleep(Duration::from_millis(700)).await;
            }
            assert!(began.load(Ordering::Relaxed) > 2 * waiting, "the others go on");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cut_while_it_waits_frees_its_place() {
    let (_neighbour, _switches, began) = beside_calls_that_wait(1, 1);
    for round in 1..6 {
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert!(began.load(Ordering::Relaxed) >= 32 * round, "{began:?} in round {round}");
    }
}
