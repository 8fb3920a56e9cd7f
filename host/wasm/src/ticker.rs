//! Moves the engine's epoch forward while guests run, so that a spinning one is interrupted soon.
//!
//! The thread sleeps for good while no call is on a thread: neither an idle host nor one whose calls all wait wakes up
//! 2,000 times a second.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// How long a guest runs before others get the thread: a neighbour's small call waits several times as long as it takes.
const TICK: Duration = Duration::from_micros(500);

/// Owns the thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    state: Arc<TickerState>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct TickerState {
    /// Polls of calls that have not ended.
    polls: AtomicUsize,
    stopped: AtomicBool,
}

impl Ticker {
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let state = Arc::new(TickerState::default());
        let thread = thread::Builder::new().name("windlass-epoch".into()).spawn({
            let state = state.clone();
            move || state.tick(&engine)
        })?;
        Ok(Self { state, thread: thread.thread().clone() })
    }

    /// Runs `call`, and ticks at least while it is polled.
    pub(crate) async fn while_polled<F: Future>(&self, call: F) -> F::Output {
        let mut call = pin!(call);
        poll_fn(|context| {
            let _poll = self.poll();
            call.as_mut().poll(context)
        })
        .await
    }

    fn poll(&self) -> Poll<'_> {
        if self.state.polls.fetch_add(1, Ordering::SeqCst) == 0 {
            self.thread.unpark();
        }
        Poll(&self.state)
    }
}

impl TickerState {
    fn tick(&self, engine: &Engine) {
        while !self.stopped.load(Ordering::SeqCst) {
            if self.polls.load(Ordering::SeqCst) == 0 {
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
        self.state.stopped.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// A call is on a thread. Also one that panics leaves it.
struct Poll<'a>(&'a TickerState);

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        self.0.polls.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn it_ticks_while_a_call_is_on_a_thread_and_not_while_it_waits() {
        let ticker = Ticker::start(Engine::default()).expect("a thread");
        let polls = || ticker.state.polls.load(Ordering::SeqCst);
        let mut seen = Vec::new();
        {
            let mut call = pin!(ticker.while_polled(async {
                seen.push(polls());
                futures::pending!();
                seen.push(polls());
            }));
            for _ in 0..2 {
                assert_eq!(polls(), 0);
                let _ = call.as_mut().now_or_never();
            }
        }
        assert_eq!((seen, polls()), (vec![1, 1], 0));
    }
}
