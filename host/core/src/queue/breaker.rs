//! A controller's circuit breaker: decides whether the plugin is called at all after several calls trapped.
//!
//! Code that traps about a single key may have a problem with that key, and the key's backoff handles it. Code that
//! traps about one key after the other has a problem with all of them, and further calls only cost. Then the circuit
//! *opens*: no calls are made for a while, and the keys stay queued. After that it is *half-open*: one call is made,
//! the probe, and its result decides. The host's `circuit` asks and waits; nothing here reads a clock.

use std::time::Duration;

use crate::clock::Moment;
use crate::retry::RetryPolicy;

/// Traps about this many different keys, without an answer in between, open a circuit.
pub const TRAPPED_KEYS_MIN: usize = 5;
/// The first pause of an open circuit. Each probe that traps doubles it.
pub const BREAKER_PAUSE_MIN: Duration = Duration::from_secs(10);
/// The longest pause.
pub const BREAKER_PAUSE_MAX: Duration = Duration::from_mins(5);

/// The state of a circuit, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    /// One trial call is under way or about to begin.
    HalfOpen,
    /// No call is made.
    Open,
}

/// When a call may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Now,
    /// A call may begin at this moment, unless the state changes before.
    At(Moment),
    /// A call may begin only after the probe has ended.
    AfterProbe,
}

/// How the end of a call changed the circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerChange {
    /// The circuit opened, for this long.
    Opened(Duration),
    /// The circuit has closed again.
    Closed,
}

/// Numbers the periods between changes of the circuit. A call belongs to the round in which it began and says nothing
/// about later rounds: calls that were under way when the circuit opened neither keep it open nor close it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakerRound(u64);

/// The circuit breaker of one generation of a controller. `K` identifies what a call is about.
#[derive(Clone, Debug)]
pub struct Breaker<K> {
    round: BreakerRound,
    circuit: BreakerPhase<K>,
    openings: u64,
}

#[derive(Clone, Debug)]
enum BreakerPhase<K> {
    Closed {
        /// The different keys that trapped since the last answer, fewer than [`TRAPPED_KEYS_MIN`].
        trapped: Vec<K>,
    },
    Open {
        until: Moment,
        pause: Duration,
        /// Whether the probe is under way or about to begin. Only set after `until`.
        probing: bool,
    },
}

impl<K> Default for Breaker<K> {
    fn default() -> Self {
        Self { round: BreakerRound::default(), circuit: BreakerPhase::Closed { trapped: Vec::new() }, openings: 0 }
    }
}

impl<K: Clone + PartialEq> Breaker<K> {
    /// The state at `now`.
    #[must_use]
    pub fn state(&self, now: Moment) -> BreakerState {
        match self.circuit {
            BreakerPhase::Closed { .. } => BreakerState::Closed,
            BreakerPhase::Open { until, .. } if now < until => BreakerState::Open,
            BreakerPhase::Open { .. } => BreakerState::HalfOpen,
        }
    }

    /// When the circuit stops being [`BreakerState::Open`].
    #[must_use]
    pub fn open_until(&self) -> Option<Moment> {
        match self.circuit {
            BreakerPhase::Closed { .. } => None,
            BreakerPhase::Open { until, .. } => Some(until),
        }
    }

    /// How many times the circuit has opened, including after probes that trapped.
    #[must_use]
    pub fn openings(&self) -> u64 {
        self.openings
    }

    /// The round of a call that begins now.
    #[must_use]
    pub fn round(&self) -> BreakerRound {
        self.round
    }

    /// When a call may begin.
    #[must_use]
    pub fn admission(&self, now: Moment) -> Admission {
        match self.circuit {
            BreakerPhase::Open { until, .. } if now < until => Admission::At(until),
            BreakerPhase::Closed { .. } | BreakerPhase::Open { probing: false, .. } => Admission::Now,
            BreakerPhase::Open { probing: true, .. } => Admission::AfterProbe,
        }
    }

    /// Admits a call if one may begin. In a half-open circuit this call is the probe, and no other call may begin until
    /// it has ended.
    pub fn admit(&mut self, now: Moment) -> Option<BreakerRound> {
        let admitted = self.admission(now) == Admission::Now;
        if let BreakerPhase::Open { probing, .. } = &mut self.circuit {
            *probing |= admitted;
        }
        admitted.then_some(self.round)
    }

    /// Ends the pause of an open circuit, so that the next call is the probe. Returns whether there was a pause.
    pub fn probe_now(&mut self, now: Moment) -> bool {
        match &mut self.circuit {
            BreakerPhase::Open { until, .. } if now < *until => {
                *until = now;
                true
            }
            BreakerPhase::Open { .. } | BreakerPhase::Closed { .. } => false,
        }
    }

    /// Records that an admitted call of `round` is over. Returns true if the call was the probe and was never made, so
    /// that the next call may be the probe.
    pub fn leave(&mut self, round: BreakerRound) -> bool {
        match &mut self.circuit {
            BreakerPhase::Open { probing, .. } if round == self.round => std::mem::take(probing),
            _ => false,
        }
    }

    /// Records that a call about `key` that began in `round` has ended. `trapped` means that it ended without an
    /// answer.
    pub fn ended(&mut self, round: BreakerRound, key: &K, trapped: bool, now: Moment) -> Option<BreakerChange> {
        if round != self.round {
            return None;
        }
        match (&mut self.circuit, trapped) {
            (BreakerPhase::Closed { trapped }, false) => {
                trapped.clear();
                None
            }
            (BreakerPhase::Closed { trapped }, true) => {
                // Several traps about one key count once.
                if !trapped.contains(key) {
                    trapped.push(key.clone());
                }
                (trapped.len() >= TRAPPED_KEYS_MIN).then(|| self.open(BREAKER_PAUSE_MIN, now))
            }
            // Only the probe was admitted in this round.
            (BreakerPhase::Open { probing: false, .. }, _) => None,
            (BreakerPhase::Open { .. }, false) => {
                self.turn(BreakerPhase::Closed { trapped: Vec::new() });
                Some(BreakerChange::Closed)
            }
            (BreakerPhase::Open { pause, .. }, true) => {
                let pause = RetryPolicy::doubling(*pause, BREAKER_PAUSE_MAX).planned(1);
                Some(self.open(pause, now))
            }
        }
    }

    fn open(&mut self, pause: Duration, now: Moment) -> BreakerChange {
        self.openings += 1;
        self.turn(BreakerPhase::Open { until: now + pause, pause, probing: false });
        BreakerChange::Opened(pause)
    }

    fn turn(&mut self, circuit: BreakerPhase<K>) {
        self.circuit = circuit;
        self.round = BreakerRound(self.round.0 + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    /// Makes one complete call.
    fn call(breaker: &mut Breaker<u32>, key: u32, trapped: bool, now: Moment) -> Option<BreakerChange> {
        let round = breaker.admit(now).expect("a call may begin");
        let change = breaker.ended(round, &key, trapped, now);
        breaker.leave(round);
        change
    }

    fn opened() -> Breaker<u32> {
        let mut breaker = Breaker::default();
        let changes: Vec<_> = (0..5).filter_map(|key| call(&mut breaker, key, true, at(0))).collect();
        assert_eq!(changes, [BreakerChange::Opened(Duration::from_secs(10))]);
        breaker
    }

    #[test]
    fn a_single_trapping_key_never_opens_the_circuit() {
        let mut breaker = Breaker::default();
        assert!((0..1000).all(|second| call(&mut breaker, 7, true, at(second)).is_none()));
        assert_eq!(breaker.state(at(1000)), BreakerState::Closed);
    }

    #[test]
    fn an_answer_between_traps_restarts_the_count() {
        let mut breaker = Breaker::default();
        for key in 0..100 {
            assert_eq!(call(&mut breaker, key, key % 5 != 4, at(0)), None, "after {key}");
        }
    }

    #[test]
    fn an_open_circuit_admits_nothing_and_then_one_probe() {
        let mut breaker = opened();
        assert_eq!((breaker.state(at(9)), breaker.admission(at(9))), (BreakerState::Open, Admission::At(at(10))));
        assert_eq!(breaker.admit(at(9)), None);
        assert_eq!((breaker.state(at(10)), breaker.admission(at(10))), (BreakerState::HalfOpen, Admission::Now));
        let probe = breaker.admit(at(10)).expect("a probe");
        assert_eq!((breaker.admission(at(10)), breaker.admit(at(10))), (Admission::AfterProbe, None));
        assert_eq!(breaker.ended(probe, &9, false, at(11)), Some(BreakerChange::Closed));
        assert_eq!(breaker.state(at(11)), BreakerState::Closed);
    }

    #[test]
    fn a_probe_that_traps_opens_it_for_twice_as_long_up_to_five_minutes() {
        let mut breaker = opened();
        let mut pauses = vec![];
        for _ in 0..7 {
            let now = breaker.open_until().expect("it is open");
            let Some(BreakerChange::Opened(pause)) = call(&mut breaker, 1, true, now) else { panic!("it opens again") };
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [20, 40, 80, 160, 300, 300, 300]);
        let now = breaker.open_until().expect("it is open");
        assert_eq!(call(&mut breaker, 1, false, now), Some(BreakerChange::Closed));
        let again: Vec<_> = (0..5).filter_map(|key| call(&mut breaker, key, true, now)).collect();
        assert_eq!(again, [BreakerChange::Opened(Duration::from_secs(10))], "what has closed begins anew");
    }

    #[test]
    fn a_pause_ended_early_is_followed_by_one_probe() {
        let mut breaker = opened();
        assert!(breaker.probe_now(at(1)) && !breaker.probe_now(at(1)), "there is nothing more to end");
        let probe = breaker.admit(at(1)).expect("a probe");
        assert_eq!((breaker.admit(at(1)), breaker.probe_now(at(1))), (None, false));
        let again = breaker.ended(probe, &9, true, at(2));
        assert_eq!(
            (again, breaker.open_until()),
            (Some(BreakerChange::Opened(Duration::from_secs(10) * 2)), Some(at(22)))
        );
        assert!(!Breaker::<u32>::default().probe_now(at(1)), "it is closed");
    }

    #[test]
    fn calls_under_way_neither_close_nor_prolong_an_open_circuit() {
        let mut breaker = Breaker::default();
        let early: Vec<_> = (0..4).map(|_| breaker.admit(at(0)).expect("closed")).collect();
        for key in 0..5 {
            call(&mut breaker, key, true, at(0));
        }
        for (key, round) in (10..).zip(early) {
            assert_eq!(breaker.ended(round, &key, key % 2 == 0, at(1)), None);
            assert!(!breaker.leave(round));
        }
        assert_eq!(breaker.open_until(), Some(at(10)));
    }

    #[test]
    fn a_probe_that_made_no_call_makes_room_for_the_next() {
        let mut breaker = opened();
        let round = breaker.admit(at(10)).expect("a probe");
        assert!(breaker.leave(round));
        assert_eq!(breaker.admission(at(10)), Admission::Now);
    }
}
