//! Tests the circuit breaker with random overlapping calls, against a model that keeps the whole history.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use windlass_core::clock::Moment;
use windlass_core::queue::breaker::{Breaker, BreakerChange, BreakerRound, BreakerState};

#[derive(Clone, Debug)]
enum Event {
    /// A caller wants to begin a call.
    Begin {
        key: u8,
    },
    /// One of the running calls ends.
    End {
        which: usize,
        how: How,
    },
    Pass(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Answers,
    Traps,
    /// No call was made, for example because the key turned out to be held.
    Withdraws,
}

fn event() -> impl Strategy<Value = Event> {
    let how = prop_oneof![3 => Just(How::Traps), 1 => Just(How::Answers), 1 => Just(How::Withdraws)];
    prop_oneof![
        4 => (0..8_u8).prop_map(|key| Event::Begin { key }),
        4 => (0..8_usize, how).prop_map(|(which, how)| Event::End { which, how }),
        1 => (0..30_u64).prop_map(|seconds| Event::Pass(Duration::from_secs(seconds))),
    ]
}

/// A running call, and how often the circuit had changed when it began.
struct Call {
    key: u8,
    round: BreakerRound,
    began: usize,
}

/// The model: the expected state of the breaker, derived from the whole history.
#[derive(Default)]
struct Model {
    now: Duration,
    /// Keys that trapped since the last change or answer, in calls that began since the last change.
    trapped: BTreeSet<u8>,
    /// When the pause ends, and its length. `None` if the circuit is closed.
    open: Option<(Duration, Duration)>,
    changes: usize,
}

impl Model {
    /// The expected change at the end of a call.
    fn ended(&mut self, call: &Call, how: How) -> Option<BreakerChange> {
        if call.began != self.changes || how == How::Withdraws {
            return None;
        }
        let change = match (self.open, how) {
            (None, How::Answers) => {
                self.trapped.clear();
                return None;
            }
            (None, _) => {
                self.trapped.insert(call.key);
                if self.trapped.len() < 5 {
                    return None;
                }
                BreakerChange::Opened(Duration::from_secs(10))
            }
            (Some(_), How::Answers) => BreakerChange::Closed,
            (Some((_, pause)), _) => BreakerChange::Opened((pause * 2).min(Duration::from_mins(5))),
        };
        self.changes += 1;
        self.trapped.clear();
        self.open = match change {
            BreakerChange::Opened(pause) => Some((self.now + pause, pause)),
            BreakerChange::Closed => None,
        };
        Some(change)
    }

    fn may_begin(&self, calls: &[Call]) -> bool {
        self.open.is_none_or(|(until, _)| self.now >= until && !calls.iter().any(|call| call.began == self.changes))
    }

    fn state(&self) -> BreakerState {
        match self.open {
            None => BreakerState::Closed,
            Some((until, _)) if self.now < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_breaker_behaves_as_the_model(events in prop::collection::vec(event(), 1..200)) {
        let (mut breaker, mut model, mut calls) = (Breaker::<u8>::default(), Model::default(), Vec::<Call>::new());
        for event in events {
            let now = Moment(model.now);
            match event {
                Event::Pass(time) => model.now += time,
                Event::Begin { key } => {
                    let may = model.may_begin(&calls);
                    let round = breaker.admit(now);
                    prop_assert_eq!(round.is_some(), may);
                    calls.extend(round.map(|round| Call { key, round, began: model.changes }));
                }
                Event::End { which, how } if !calls.is_empty() => {
                    let call = calls.swap_remove(which % calls.len());
                    let expected = model.ended(&call, how);
                    let trapped = how == How::Traps;
                    let change =
                        if how == How::Withdraws { None } else { breaker.ended(call.round, &call.key, trapped, now) };
                    breaker.leave(call.round);
                    prop_assert_eq!(change, expected);
                }
                Event::End { .. } => {}
            }
            prop_assert_eq!(breaker.state(Moment(model.now)), model.state());
        }
    }
}
