//! Measures the time from a watch event to the worker that gets its key: parsing, the store and its indexes, the
//! subscriber's feed, the queue, and every wake-up in between. The server runs inside the client, without sockets. The
//! time begins when a line of the watch is complete.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use tokio::sync::{mpsc, oneshot};
use tower::service_fn;
use windlass_core::cache::watch::{WatchEvent, WatchSpec};
use windlass_core::clock::{Clock, Moment};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::{ItemExponential, Priority, Queue};
use windlass_kube::{Discovery, Informers, Subscription};

use crate::cases::print;
use crate::corpus::{self, LIST_VERSION, Pod};
use crate::server::Api;

/// The time between two events, long enough that no event waits for another.
const EVENT_INTERVAL: Duration = Duration::from_micros(500);
/// The time that an event may take. It must be processed before the same Pod changes again.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);

struct WallClock(Instant);

impl Clock for WallClock {
    fn now(&self) -> Moment {
        Moment(self.0.elapsed())
    }

    fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
        futures::future::pending().boxed()
    }
}

/// When each Pod's last event was sent, in nanoseconds since `start`.
struct Sent {
    start: Instant,
    at: Vec<AtomicU64>,
    /// The index in `at` of each key.
    places: HashMap<ObjectKey, usize>,
}

impl Sent {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).expect("centuries")
    }
}

/// Changes `events` of `count` Pods one by one, and prints how long it took until a worker had the key. With `threads`,
/// another thread passes the lines to the host's runtime; otherwise one thread does everything, so that no thread has
/// to be woken.
pub(crate) fn run(count: usize, events: usize, threads: &str) {
    let pods = corpus::pods(count, crate::SEED);
    let api = Arc::new(Api::new(&pods, false));
    let key = |pod: &Pod| {
        let (namespace, name) = pod.key.split_once('/').expect("a namespaced key");
        ObjectKey::namespaced(namespace, name)
    };
    let sent = Arc::new(Sent {
        start: Instant::now(),
        at: pods.iter().map(|_| AtomicU64::new(0)).collect(),
        places: pods.iter().enumerate().map(|(place, pod)| (key(pod), place)).collect(),
    });
    let alone = threads == "one";
    let runtime = if alone { one_thread() } else { crate::runtime() };
    let _entered = runtime.enter();
    let client = in_process(&api);
    let informers = Informers::new(client.clone(), Discovery::new(client));
    let subscription = informers.subscribe(WatchSpec::all(ObjectKind::new("v1", "Pod")));
    let queue = Queue::new(Arc::new(WallClock(sent.start)), ItemExponential::default());
    let (listed, ready) = oneshot::channel();
    let (times, mut taken) = mpsc::unbounded_channel();
    runtime.spawn(feed(subscription, queue.clone()));
    runtime.spawn(work(queue, count, Arc::clone(&sent), listed, times));
    runtime.block_on(ready).expect("the worker runs");
    while !api.is_watched() {
        runtime.block_on(tokio::time::sleep(Duration::from_millis(10)));
    }

    if alone {
        runtime.block_on(send(&api, &pods, events, &sent, tokio::time::sleep));
    } else {
        let sleep = |pause| {
            std::thread::sleep(pause);
            std::future::ready(())
        };
        send(&api, &pods, events, &sent, sleep).now_or_never().expect("nothing to wait for");
    }
    let mut times: Vec<_> = (0..events)
        .map(|_| runtime.block_on(async { tokio::time::timeout(EVENT_TIMEOUT, taken.recv()).await }))
        .map(|time| time.expect("no event is lost").expect("the worker runs"))
        .collect();
    times.sort_unstable();
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank"
        )]
        let rank = (part * (events - 1) as f64) as usize;
        print(name, times[rank]);
    }
}

fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Sends changes of random Pods one after another, and records the times.
async fn send<F: Future<Output = ()>>(
    api: &Api,
    pods: &[Pod],
    events: usize,
    sent: &Sent,
    sleep: impl Fn(Duration) -> F,
) {
    let mut order: Vec<_> = (0..pods.len()).collect();
    order.shuffle(&mut SmallRng::seed_from_u64(crate::SEED));
    let mut next = Instant::now();
    for (place, version) in order.into_iter().cycle().zip(LIST_VERSION + 1..).take(events) {
        let line = modified(&pods[place], version);
        next += EVENT_INTERVAL;
        sleep(next.saturating_duration_since(Instant::now())).await;
        sent.at[place].store(sent.now(), Ordering::Release);
        api.emit(&line);
    }
}

fn modified(pod: &Pod, version: u64) -> Bytes {
    let (before, after) = pod.json.split_once(r#""resourceVersion":""#).expect("a version");
    let (_, after) = after.split_once('"').expect("a string ends");
    let before = &before[1..];
    format!(
        "{{\"type\":\"MODIFIED\",\"object\":{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",{before}\"resourceVersion\":\"{version}\"{after}}}\n"
    )
    .into()
}

fn in_process(api: &Arc<Api>) -> kube::Client {
    let api = Arc::clone(api);
    let service = service_fn(move |request| {
        let answer = api.answer::<kube::client::Body>(&request);
        async { Ok::<_, Infallible>(answer) }
    });
    kube::Client::new(service, "default")
}

/// Queues the key of each changed object, as the host's feeder does if the object is its own primary.
async fn feed(mut subscription: Subscription, queue: Queue<ObjectKey>) {
    while let Some(event) = subscription.next().await {
        match event {
            WatchEvent::Applied { new, initial, .. } => {
                let priority = if initial { Priority::BACKGROUND } else { Priority::CHANGE };
                queue.add_with(new.header.key.clone(), priority);
            }
            WatchEvent::Deleted(_) => unreachable!("nothing is deleted"),
        }
    }
}

async fn work(
    queue: Queue<ObjectKey>,
    count: usize,
    sent: Arc<Sent>,
    listed: oneshot::Sender<()>,
    times: mpsc::UnboundedSender<u64>,
) {
    for _ in 0..count {
        let key = queue.get().await.expect("a queue");
        queue.done(&key);
    }
    listed.send(()).expect("the sender waits");
    while let Some(key) = queue.get().await {
        let now = sent.now();
        let time = now - sent.at[sent.places[&key]].load(Ordering::Acquire);
        queue.done(&key);
        if times.send(time).is_err() {
            return;
        }
    }
}
