//! Tests the gate and the queue with shuttle, which tries the orders in which threads may take their locks. A thread
//! that waits forever fails the test, so a lost wake-up does too.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use shuttle::future::block_on;
use shuttle::thread::{JoinHandle, spawn, yield_now};

use super::*;
use crate::object::compact::Version;
use crate::object::progress::Progress;
use crate::object::{Header, Object};
use crate::queue::ItemExponential;
use crate::write::expectations::Shown;

const GATE_ITERATIONS: usize = 400;
const RACED_OBJECTS: u8 = 2;

fn explore(scenario: impl Fn() + Clone + Send + Sync + 'static) {
    shuttle::check_random(scenario.clone(), GATE_ITERATIONS);
    shuttle::check_pct(scenario, GATE_ITERATIONS, 3);
}

struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Moment {
        Moment(Duration::ZERO)
    }

    fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
        pending().boxed()
    }
}

/// A cache that objects are only added to, one by one.
struct Growing {
    is_comparable: bool,
    objects: Mutex<Vec<Object>>,
    observer: Mutex<Option<Weak<dyn Observer>>>,
}

impl Growing {
    fn objects(&self) -> MutexGuard<'_, Vec<Object>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn comes(&self, object: &Object) {
        yield_now();
        self.objects().push(object.clone());
        yield_now();
        let observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(observer) = observer.and_then(|observer| observer.upgrade()) {
            observer.advanced(0, Advance::Object { object, gone: false });
            observer.advanced(0, Advance::Version(&object.header.version));
        }
    }
}

impl Progress for Growing {
    fn version(&self) -> Option<Version> {
        self.objects().last().map(|object| object.header.version.clone())
    }

    fn is_comparable(&self) -> bool {
        self.is_comparable
    }

    fn epoch(&self) -> u64 {
        0
    }

    fn listed(&self) -> Option<Stamp> {
        None
    }

    fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.objects().iter().find(|object| object.header.key == *key).cloned()
    }

    fn observe(&self, _: usize, observer: Weak<dyn Observer>) {
        *self.observer.lock().unwrap_or_else(PoisonError::into_inner) = Some(observer);
    }
}

fn object(number: u8) -> Object {
    Object::new(
        Header::bare(ObjectKey::cluster(number.to_string()), &*number.to_string(), &*(number + 1).to_string()),
        "{}",
    )
}

/// One key, each of whose calls creates an object, until all objects exist. The event of each object is sent while the
/// call still runs.
struct Bench {
    queue: Queue<ObjectKey>,
    gate: Arc<Gate>,
    cache: Arc<Growing>,
    created: Mutex<u8>,
    informers: Mutex<Vec<JoinHandle<()>>>,
}

impl Bench {
    fn new(is_comparable: bool) -> Arc<Self> {
        let cache = Growing { is_comparable, objects: Mutex::default(), observer: Mutex::default() };
        let cache = Arc::new(cache);
        let queue = Queue::new(Arc::new(NoTime), ItemExponential::default());
        let caches = vec![Cache { progress: cache.clone(), is_filtered: false }];
        let gate = Gate::new(caches, queue.clone(), Arc::new(NoTime));
        Arc::new(Self { queue, gate, cache, created: Mutex::default(), informers: Mutex::default() })
    }

    fn work(self: &Arc<Self>) -> JoinHandle<()> {
        let this = self.clone();
        spawn(move || {
            while let Some(key) = block_on(this.queue.get()) {
                if this.gate.holds(&key) {
                    yield_now();
                    this.queue.park(&key);
                } else {
                    this.call(&key);
                    this.queue.done(&key);
                }
            }
        })
    }

    fn call(self: &Arc<Self>, key: &ObjectKey) {
        let created = *self.created.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(self.cache.objects().len(), usize::from(created), "it runs on a cache that lacks its own write");
        if created == RACED_OBJECTS {
            return;
        }
        let object = object(created);
        let interest = self.gate.open(key, &object.header.key, [0]).expect("there is a cache");
        *self.created.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let (cache, event) = (self.cache.clone(), object.clone());
        let informer = spawn(move || cache.comes(&event));
        self.informers.lock().unwrap_or_else(PoisonError::into_inner).push(informer);
        yield_now();
        let Header { uid, version, .. } = object.header.clone();
        interest.ended(&Effect::Left { uid, version, is_new: true, shown: vec![Shown::Yes] });
        self.queue.add(key.clone());
    }
}

#[test]
fn keys_run_only_after_their_writes_show_and_no_wake_up_is_lost() {
    for is_comparable in [true, false] {
        explore(move || {
            let bench = Bench::new(is_comparable);
            let workers = [bench.work(), bench.work()];
            bench.queue.add(ObjectKey::cluster("web"));
            while *bench.created.lock().unwrap_or_else(PoisonError::into_inner) < RACED_OBJECTS {
                yield_now();
            }
            block_on(bench.queue.shut_down_with_drain());
            for thread in workers {
                thread.join().expect("no panic");
            }
            let informers = std::mem::take(&mut *bench.informers.lock().unwrap_or_else(PoisonError::into_inner));
            for thread in informers {
                thread.join().expect("no panic");
            }
            assert!(bench.gate.is_empty() && bench.queue.metrics().parked == 0);
        });
    }
}

#[test]
fn the_watcher_wakes_for_an_earlier_due_time() {
    explore(|| {
        let bench = Bench::new(true);
        let gate = bench.gate.clone();
        let watch = spawn(move || {
            let due = block_on(gate.due());
            assert!(due.probes.contains(&0));
        });
        let key = ObjectKey::cluster("web");
        let interest = bench.gate.open(&key, &ObjectKey::cluster("a"), [0]).expect("there is a cache");
        interest.ended(&Effect::Unknown);
        watch.join().expect("no panic");
        assert_eq!(bench.gate.due().now_or_never().map_or(Poll::Pending, Poll::Ready), Poll::Pending);
    });
}
