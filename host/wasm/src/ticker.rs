//! Moves the engine's epoch forward while guests run, so that a spinning one is interrupted every few milliseconds.
//!
//! The thread sleeps for good while no call runs: an idle host does not wake up 200 times a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// How long a guest runs before others get their turn.
const TICK: Duration = Duration::from_millis(5);

/// Owns the thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    running_calls: AtomicUsize,
    stopped: AtomicBool,
}

impl Ticker {
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new().name("windlass-epoch".into()).spawn({
            let shared = shared.clone();
            move || shared.tick(&engine)
        })?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Ticks at least as long as the guard lives.
    pub(crate) fn running(self: &Arc<Self>) -> Running {
        if self.shared.running_calls.fetch_add(1, Ordering::SeqCst) == 0 {
            self.thread.unpark();
        }
        Running(self.clone())
    }
}

impl Shared {
    fn tick(&self, engine: &Engine) {
        while !self.stopped.load(Ordering::SeqCst) {
            if self.running_calls.load(Ordering::SeqCst) == 0 {
                // An unpark between the check and here is not lost: park then returns at once.
                thread::park();
            } else {
                thread::sleep(TICK);
                engine.increment_epoch();
            }
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// A call is running.
#[derive(Debug)]
pub(crate) struct Running(Arc<Ticker>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.shared.running_calls.fetch_sub(1, Ordering::SeqCst);
    }
}
