//! Advances the engine's epoch while guests run, so that a guest that does not wait is interrupted soon.
//!
//! The ticker ticks fast only while every thread runs a call, because otherwise no call waits for a thread. It sleeps
//! when no call has run on a thread for a while, so that an idle host does not wake up.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// How long a guest runs before another guest gets the thread. A small call of another plugin may therefore wait
/// several times as long as it runs.
const BUSY_TICK: Duration = Duration::from_micros(500);

/// The interval while a thread is free. The first guest on the last thread may keep it for this long.
const EASY_TICK: Duration = Duration::from_millis(2);

/// The number of wake-ups without a running call before the ticker sleeps until it is woken. Waking the ticker costs a
/// call more than these wake-ups.
const IDLE_WAKES_MAX: u32 = 4;

/// Owns the ticking thread, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    state: Arc<TickerState>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct TickerState {
    /// The number of threads for guests.
    threads: usize,
    /// The number of polls of calls that are in progress.
    polls: AtomicUsize,
    /// Whether the ticker sleeps until it is woken.
    rests: AtomicBool,
    stopped: AtomicBool,
}

impl Ticker {
    /// Ticks for `engine`, whose guests have `threads` threads.
    pub(crate) fn start(engine: Engine, threads: usize) -> std::io::Result<Self> {
        let state = Arc::new(TickerState { threads, ..TickerState::default() });
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
        self.state.polls.fetch_add(1, Ordering::SeqCst);
        if self.state.rests.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Poll(&self.state)
    }
}

impl TickerState {
    fn tick(&self, engine: &Engine) {
        let mut idle = 0;
        while !self.stopped.load(Ordering::SeqCst) {
            let polls = self.polls.load(Ordering::SeqCst);
            idle = if polls == 0 { idle + 1 } else { 0 };
            if idle > IDLE_WAKES_MAX {
                self.rest();
                idle = 0;
            } else {
                thread::sleep(if polls < self.threads { EASY_TICK } else { BUSY_TICK });
                engine.increment_epoch();
            }
        }
    }

    /// Sleeps until a call begins on a thread. By the time that this returns, the call may have left the thread again.
    fn rest(&self) {
        self.rests.store(true, Ordering::SeqCst);
        // No wake-up is lost: a poll that began before `rests` was set is seen here, and a poll that sees `rests`
        // unparks this thread, which works even before it parks.
        if self.polls.load(Ordering::SeqCst) == 0 {
            thread::park();
        }
        self.rests.store(false, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// A call on a thread. If it panics, it leaves the thread too.
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
    fn the_ticker_runs_while_a_call_is_on_a_thread_and_not_while_it_waits() {
        let ticker = Ticker::start(Engine::default(), 1).expect("a thread");
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
