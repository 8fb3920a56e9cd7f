//! The ports of a replayed call. Each port answers from the recording, and notes the imports that it gets, as recording
//! does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{pending, ready};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;
use tokio::sync::Notify;
use windlass_core::call::ports::{
    Asked, CallContext, Event, Events, ListPage, ListQuery, MetricChange, Metrics, Port, Ports, Reads, Surroundings,
    Written, port_fn,
};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::ObjectRef;

use super::answers::{Answers, Stuck};
use crate::capture::microseconds;
use crate::document::{RecordedImport, RecordedSurroundings};
use crate::{decode, encode};

/// How far a clock advances for each reading after the recorded ones are used up.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// The state of a replayed call.
pub(super) struct ReplayedWorld {
    state: Mutex<ReplayState>,
    /// Notified when the call cannot continue.
    stuck: Notify,
}

struct ReplayState {
    answers: Answers,
    asked: Vec<RecordedImport>,
    stuck: Option<Stuck>,
    now: Readings,
    monotonic: Readings,
    answered: VecDeque<Vec<u32>>,
    random: StdRng,
    cpu: Duration,
}

/// The recorded readings of a clock.
struct Readings {
    left: VecDeque<u64>,
    last: Duration,
}

impl Readings {
    fn of(recorded: &[u64]) -> Self {
        Self { left: recorded.iter().copied().collect(), last: Duration::ZERO }
    }

    fn next(&mut self, really: Duration) -> Duration {
        self.last = match self.left.pop_front() {
            Some(reading) => Duration::from_nanos(reading),
            None if self.last.is_zero() => really,
            None => self.last + CLOCK_STEP,
        };
        self.last
    }
}

impl ReplayedWorld {
    pub(super) fn new(answers: Answers, surroundings: &RecordedSurroundings) -> Arc<Self> {
        let state = ReplayState {
            answers,
            asked: Vec::new(),
            stuck: None,
            now: Readings::of(&surroundings.now),
            monotonic: Readings::of(&surroundings.monotonic),
            answered: surroundings.answered.iter().cloned().collect(),
            random: StdRng::from_seed(seed(surroundings)),
            cpu: Duration::ZERO,
        };
        Arc::new(Self { state: Mutex::new(state), stuck: Notify::new() })
    }

    pub(super) fn ports(self: &Arc<Self>) -> Ports {
        Ports {
            reads: self.clone(),
            outside: self.outside(),
            events: self.clone(),
            metrics: self.clone(),
            surroundings: Some(self.clone()),
        }
    }

    fn outside(self: &Arc<Self>) -> Arc<dyn Port> {
        let world = self.clone();
        port_fn(move |_, ask| match world.asked(Asked::Ask(&ask), |recorded| decode::answer(&ask, recorded)) {
            Ok(answer) => ready(answer).boxed(),
            // The import was recorded without an answer. The call is stuck only if it waits for the answer; with
            // `wasi:http`, it may go on without one.
            Err(Some(stuck)) => {
                let world = world.clone();
                async move {
                    world.stick(stuck);
                    pending().await
                }
                .boxed()
            }
            Err(None) => pending().boxed(),
        })
    }

    /// Records that the call cannot continue, because of `stuck`.
    fn stick(&self, stuck: Stuck) {
        let mut state = self.state();
        if state.stuck.is_none() {
            state.stuck = Some(stuck);
            self.stuck.notify_one();
        }
    }

    /// Waits until the call cannot continue.
    pub(super) async fn stuck(&self) {
        self.stuck.notified().await;
    }

    /// Takes the imports so far, and the reason why the call cannot continue.
    pub(super) fn take(&self) -> (Vec<RecordedImport>, Option<Stuck>) {
        let mut state = self.state();
        (std::mem::take(&mut state.asked), state.stuck.take())
    }

    fn state(&self) -> MutexGuard<'_, ReplayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorded answer, decoded by `decode`. Without an answer, this ends the call and returns `None`.
    fn answer<T>(&self, asked: Asked<'_>, decode: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        self.asked(asked, decode).map_err(|stuck| stuck.into_iter().for_each(|stuck| self.stick(stuck))).ok()
    }

    /// The recorded answer, decoded by `decode`. The error is the reason why the call is stuck if it waits for the
    /// answer, or `None` if the call is already stuck. An import that was not recorded makes the call stuck at once.
    fn asked<T>(&self, asked: Asked<'_>, decode: impl FnOnce(&Value) -> Option<T>) -> Result<T, Option<Stuck>> {
        let (import, args) = encode::asked(asked);
        let mut state = self.state();
        if state.stuck.is_some() {
            return Err(None);
        }
        let cpu_us = microseconds(state.cpu);
        let answer = state.answers.answer(import, &args);
        let asked = RecordedImport { import: import.to_owned(), args, answer: answer.as_ref().ok().cloned(), cpu_us };
        state.asked.push(asked.clone());
        drop(state);
        let unread = || Stuck::NotRecorded(asked);
        match answer {
            Ok(recorded) => decode(&recorded).ok_or_else(|| Some(unread())),
            Err(stuck @ Stuck::NotAnswered(_)) => Err(Some(stuck)),
            Err(stuck @ Stuck::NotRecorded(_)) => {
                self.stick(stuck);
                Err(None)
            }
        }
    }
}

/// The recorded seed, or a fixed one if the seed was not recorded.
fn seed(surroundings: &RecordedSurroundings) -> [u8; 32] {
    let mut seed = [0x5e; 32];
    let digits = surroundings.seed.as_deref().unwrap_or_default().as_bytes();
    for (byte, digits) in seed.iter_mut().zip(digits.chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).ok();
        *byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or_default();
    }
    seed
}

/// The answer to a read in a call that has ended. The guest runs on until the host can stop it. Until then, its
/// actions are ignored.
fn ended() -> ApiError {
    ApiError::refused(ApiReason::ServerError, "get", "", None, "the replay has ended")
}

impl Surroundings for ReplayedWorld {
    fn now(&self, really: Duration) -> Duration {
        self.state().now.next(really)
    }

    fn monotonic(&self, really: Duration) -> Duration {
        self.state().monotonic.next(really)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.state().random.fill_bytes(bytes);
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn recorded_answers(&self) -> Option<Vec<u32>> {
        self.state().answered.pop_front()
    }

    fn answered(&self, _: &[u32]) {}

    fn enters(&self, cpu: Duration) {
        self.state().cpu = cpu;
    }
}

impl Reads for ReplayedWorld {
    fn get(&self, _: &CallContext, target: &ObjectRef, fields: Option<&[String]>) -> Written {
        self.answer(Asked::Get { target, fields }, decode::object).unwrap_or_else(|| Err(ended()))
    }

    fn list(&self, _: &CallContext, query: &ListQuery) -> Result<ListPage, ApiError> {
        self.answer(Asked::List(query), decode::page).unwrap_or_else(|| Err(ended()))
    }
}

impl Events for ReplayedWorld {
    fn emit(&self, _: &CallContext, event: Event) {
        self.answer(Asked::Event(&event), |_| Some(()));
    }
}

impl Metrics for ReplayedWorld {
    fn record(&self, _: &CallContext, change: MetricChange, name: &str, value: f64, labels: &[(String, String)]) {
        self.answer(Asked::Metric { change, name, value, labels }, |_| Some(()));
    }
}
