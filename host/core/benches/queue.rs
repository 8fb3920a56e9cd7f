//! Measures the workqueue with the same figures as benchmarks of client-go's and controller-runtime's queues: `make
//! bench`. Runs each case several times and prints the median. Figures of one run can be compared, figures of different
//! machines cannot.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod wall_clock;

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::object::ObjectKey;
use windlass_core::queue::{ItemExponential, Queue};

use wall_clock::WallClock;

const ROUNDS: usize = 5;
const PRODUCERS: usize = 8;
const QUEUE_WORKERS: usize = 4;

fn queue() -> Queue<ObjectKey> {
    Queue::new(WallClock::new(), ItemExponential::default())
}

fn keys(count: usize) -> Arc<Vec<ObjectKey>> {
    let namespace: Arc<str> = "namespace".into();
    Arc::new((0..count).map(|number| ObjectKey::namespaced(namespace.clone(), format!("name-{number}"))).collect())
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut run: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS).map(|_| run()).collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

/// Some threads add all keys while other threads get and finish them.
fn through(keys: &Arc<Vec<ObjectKey>>) -> Duration {
    let queue = queue();
    timed(|| {
        std::thread::scope(|scope| {
            let share = keys.len().div_ceil(PRODUCERS);
            let producers: Vec<_> = keys
                .chunks(share)
                .map(|chunk| {
                    let queue = &queue;
                    scope.spawn(move || chunk.iter().for_each(|key| queue.add(key.clone())))
                })
                .collect();
            for _ in 0..QUEUE_WORKERS {
                let queue = &queue;
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
                    runtime.block_on(async {
                        while let Some(key) = queue.get().await {
                            queue.done(&key);
                        }
                    });
                });
            }
            for producer in producers {
                producer.join().expect("a producer");
            }
            queue.shut_down();
        });
    })
}

fn report(what: &str, operations: usize, time: Duration) {
    let seconds = time.as_secs_f64();
    let rate = operations as f64 / seconds / 1e6;
    println!("{what:<64} {rate:>8.2} M/s {:>8.0} ns each", seconds * 1e9 / operations as f64);
}

fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}

fn main() {
    for count in [1_000, 1_000_000] {
        let keys = keys(count);
        let repeat = 1_000_000 / count;
        let time = median(|| (0..repeat).map(|_| through(&keys)).sum());
        report(&format!("add+get+done, {count} distinct keys, 8 producers, 4 workers"), count * repeat, time);
    }

    let few = keys(1_000);
    let queue_of_few = queue();
    let adds = 10_000;
    let time = median(|| timed(|| (0..adds).for_each(|_| few.iter().for_each(|key| queue_of_few.add(key.clone())))));
    report("re-adding 1,000 queued keys, one thread", adds * few.len(), time);

    let many = keys(1_000_000);
    let before = resident();
    let waiting = queue();
    let delay = |number: usize| Duration::from_secs(3_600 + (number * 7_919 % 86_400) as u64);
    let time = timed(|| (0..).zip(many.iter()).for_each(|(number, key)| waiting.add_after(key.clone(), delay(number))));
    report("add-after of 1,000,000 distinct keys", many.len(), time);
    if let (Some(before), Some(after)) = (before, resident()) {
        println!("{:<64} {:>8} B", "  memory of each, the key's text not counted", (after - before) / many.len());
    }
}
