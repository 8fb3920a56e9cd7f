//! Tests the election against a server that answers late, twice as late, or never. Machines have clocks of different
//! speed, and are suspended and resumed at any moment.
//!
//! The test checks that at no moment two running processes may start a write. No election can help if a process is
//! suspended between its check and its request (docs/adr/0012-leases.md).

use std::time::Duration;

use proptest::prelude::*;
use windlass_core::clock::Moment;
use windlass_core::life::lease::{
    Election, ElectionAnswer, ElectionStep, FoundLease, LeaseLoss, LeaseWish, Purpose, Timing,
};

/// The step of true time, in milliseconds.
const TICK_MILLIS: u64 = 50;

/// A random generator that repeats for the same seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) ^ (self.0 >> 17)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// A request on its way, or its response on the way back. Times are true times.
struct Request {
    step: ElectionStep,
    arrives: u64,
    answer_takes: Option<u64>,
}

struct Machine {
    election: Election,
    /// The clock's first reading, and its speed in thousandths.
    offset: u64,
    rate: u64,
    /// Whether the clock runs while the machine is suspended.
    counts_suspension: bool,
    suspended: u64,
    wakes: u64,
    crashed: bool,
    /// How much of the server's history the candidate's watch has delivered.
    watched: usize,
    /// The wait of a candidate: until when, by its own clock, and the response with the true time of its arrival.
    waiting: Option<(Moment, Option<(u64, ElectionAnswer)>)>,
    number: u64,
    wish: LeaseWish,
    /// The end of the last request that the candidate may have started in its term, in true time.
    over: u64,
    /// As `over`, for lost terms whose end no candidate waited for.
    over_of_lost: u64,
}

impl Machine {
    fn now(&self, time: u64) -> Moment {
        let counted = if self.counts_suspension { time } else { time - self.suspended };
        Moment(Duration::from_micros(self.offset * 1000 + counted * self.rate))
    }

    fn may_start(&self, time: u64) -> Option<Duration> {
        self.election.term().and_then(|term| term.may_start(self.now(time)))
    }
}

struct World {
    chance: Chance,
    time: u64,
    machines: Vec<Machine>,
    /// Every state of the lease.
    history: Vec<FoundLease>,
    under_way: Vec<(usize, u64, Request)>,
    faults: bool,
    /// The candidates that could start a write, at each moment at which this set changed.
    holders: Vec<(u64, Vec<usize>)>,
    transfers: usize,
}

impl World {
    fn new(seed: u64, machines: usize, counts_suspension: bool) -> Self {
        let mut chance = Chance(seed);
        let timing = Timing::new(Duration::from_secs(15), Duration::from_secs(10), Duration::from_secs(2));
        let timing = timing.expect("client-go's own");
        let machines = (0..machines).map(|number| Machine {
            election: Election::new(format!("candidate-{number}").into(), timing),
            offset: chance.below(1_000_000),
            rate: 930 + chance.below(141),
            counts_suspension,
            suspended: 0,
            wakes: 0,
            crashed: false,
            watched: 0,
            waiting: None,
            number: 0,
            wish: LeaseWish::Hold { after: Duration::ZERO },
            over: 0,
            over_of_lost: 0,
        });
        Self {
            machines: machines.collect(),
            chance,
            time: 0,
            history: vec![None],
            under_way: Vec::new(),
            faults: true,
            holders: vec![(0, vec![])],
            transfers: 0,
        }
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 1000 / TICK_MILLIS {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.time += TICK_MILLIS;
        self.serve();
        for machine in 0..self.machines.len() {
            self.go_on(machine);
            self.check();
        }
    }

    /// Each running candidate checks whether it may act, and at most one may.
    fn check(&mut self) {
        let time = self.time;
        let runs = |machine: &Machine| !machine.crashed && machine.wakes <= time;
        let may: Vec<_> = (0..self.machines.len())
            .filter(|&number| runs(&self.machines[number]) && self.machines[number].may_start(time).is_some())
            .collect();
        assert!(may.len() <= 1, "{may:?} may both start something at {time}");
        let Some(&holder) = may.first() else { return self.note(may) };
        for (number, machine) in self.machines.iter().enumerate() {
            let over = machine.over.max(machine.over_of_lost);
            assert!(
                number == holder || over <= time,
                "{holder} may start something at {time}, and a request of {number} may run until {over}"
            );
        }
        let machine = &mut self.machines[holder];
        let limit = machine.may_start(time).unwrap_or_default();
        let limit = u64::try_from(limit.as_micros()).expect("short") / machine.rate;
        machine.over = machine.over.max(time + limit);
        self.note(may);
    }

    fn note(&mut self, may: Vec<usize>) {
        if self.holders.last().is_none_or(|(_, last)| *last != may) {
            self.transfers += usize::from(!may.is_empty());
            self.holders.push((self.time, may));
        }
    }

    fn serve(&mut self) {
        let time = self.time;
        let (due, later): (Vec<_>, _) = self.under_way.drain(..).partition(|(_, _, request)| request.arrives <= time);
        self.under_way = later;
        for (number, id, Request { step, answer_takes, .. }) in due {
            let answer = self.carry_out(step);
            let machine = &mut self.machines[number];
            if let (Some(takes), Some((_, slot)), true) = (answer_takes, &mut machine.waiting, machine.number == id) {
                *slot = Some((time + takes, answer));
            }
        }
    }

    fn carry_out(&mut self, step: ElectionStep) -> ElectionAnswer {
        let current = self.history.last().cloned().flatten();
        let (over, record) = match step {
            ElectionStep::Write { over, record, .. } => (over, record),
            ElectionStep::Look { .. } => return ElectionAnswer::Found(current),
            ElectionStep::WaitUntil(_) => unreachable!("it is no request"),
        };
        if current.map(|(version, _)| version) != over {
            return ElectionAnswer::Conflict;
        }
        let version: std::sync::Arc<str> = self.history.len().to_string().into();
        let acquired = record.acquired.clone();
        self.history.push(Some((version.clone(), record)));
        ElectionAnswer::Written { version, acquired }
    }

    fn go_on(&mut self, number: usize) {
        let (time, faults, chance) = (self.time, self.faults, &mut self.chance);
        let machine = &mut self.machines[number];
        if machine.crashed {
            return;
        }
        if time < machine.wakes {
            machine.suspended += TICK_MILLIS;
            return;
        }
        if faults && chance.one_in(1500) {
            machine.wakes = time + chance.below(60_000);
            return;
        }
        if faults && chance.one_in(2000) {
            let free = LeaseWish::Hold { after: Duration::from_secs(chance.below(8)) };
            machine.wish = if machine.wish == LeaseWish::Yield { free } else { LeaseWish::Yield };
        }
        let now = machine.now(time);
        match machine.waiting.take() {
            Some((_, Some((arrives, answer)))) if arrives <= time => {
                machine.election.answered(answer, now, 0.5);
            }
            Some((until, _)) if until <= now => machine.election.answered(ElectionAnswer::Failed, now, 0.5),
            Some(still) => machine.waiting = Some(still),
            None => {}
        }
        if machine.waiting.is_some() {
            return;
        }
        // A watch may lag and skip states.
        if machine.watched + 1 < self.history.len() && !(faults && chance.one_in(3)) {
            let behind = (self.history.len() - 1 - machine.watched) as u64;
            let by = if faults { 1 + chance.below(behind) } else { behind };
            machine.watched += usize::try_from(by).expect("few");
            machine.election.observe(self.history[machine.watched].clone(), now);
        }
        let step = machine.election.next(now, machine.wish);
        match machine.election.take_loss() {
            // A candidate that releases the lease has waited for the requests of its term.
            Some(LeaseLoss::Released) => machine.over = 0,
            Some(_) => machine.over_of_lost = machine.over_of_lost.max(std::mem::take(&mut machine.over)),
            None => {}
        }
        let limit = match &step {
            ElectionStep::WaitUntil(_) => return,
            ElectionStep::Look { limit } => *limit,
            ElectionStep::Write { limit, purpose, .. } => {
                let over = machine.over.max(machine.over_of_lost);
                assert!(
                    *purpose != Purpose::Release || over <= time,
                    "{number} releases the lease at {time}, but its requests may run until {over}"
                );
                *limit
            }
        };
        machine.number += 1;
        machine.waiting = Some((now + limit, None));
        let slow =
            |chance: &mut Chance| if faults && chance.one_in(12) { chance.below(40_000) } else { chance.below(300) };
        let arrives = time + slow(chance);
        let answer_takes = Some(slow(chance)).filter(|_| !(faults && chance.one_in(10)));
        if !(faults && chance.one_in(10)) {
            self.under_way.push((number, machine.number, Request { step, arrives, answer_takes }));
        }
    }

    fn holder(&self) -> Option<usize> {
        (0..self.machines.len())
            .find(|&it| !self.machines[it].crashed && self.machines[it].may_start(self.time).is_some())
    }

    /// Runs until a candidate holds the lease, and returns the time in milliseconds.
    fn until_held(&mut self, by_another_than: Option<usize>) -> u64 {
        let began = self.time;
        while self.holder().is_none_or(|holder| Some(holder) == by_another_than) {
            self.tick();
            assert!(self.time < began + 120_000, "no candidate has held the lease for two minutes");
        }
        self.time - began
    }
}

fn calm(seed: u64, machines: usize) -> World {
    let mut world = World::new(seed, machines, true);
    world.faults = false;
    world.until_held(None);
    world.run(30);
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn at_most_one_may_act_at_once_and_in_the_end_one_may(seed in any::<u64>(), machines in 2..5_usize) {
        let mut world = World::new(seed, machines, true);
        world.run(400);
        world.faults = false;
        for machine in &mut world.machines {
            machine.wakes = 0;
            machine.wish = LeaseWish::Hold { after: Duration::ZERO };
        }
        world.run(60);
        prop_assert!(world.holder().is_some(), "without faults, no candidate holds the lease: {:?}", world.holders);
    }

    #[test]
    fn a_crashed_holders_lease_is_taken_within_duration_plus_retry(seed in any::<u64>()) {
        let mut world = calm(seed, 3);
        let holder = world.holder().expect("in peace");
        world.machines[holder].crashed = true;
        // The former holder's requests may still be on their way, and the slowest of the other clocks runs at 0.93 of
        // true time.
        let took = world.until_held(Some(holder));
        prop_assert!(took <= (15_000 + 2_400) * 1000 / 930 + 1_000, "{took} ms");
    }

    #[test]
    fn a_released_lease_is_taken_within_a_retry_period(seed in any::<u64>()) {
        let mut world = calm(seed, 3);
        let holder = world.holder().expect("in peace");
        world.machines[holder].wish = LeaseWish::Yield;
        let begun = world.until_held(Some(holder));
        // A pending renewal, the release, and the next holder's write: each takes less than 0.6 s.
        prop_assert!(begun <= 1_900, "{begun} ms");
    }

    #[test]
    fn without_faults_the_holder_keeps_its_lease(seed in any::<u64>()) {
        let mut world = calm(seed, 4);
        world.run(300);
        prop_assert_eq!(world.transfers, 1);
    }
}

/// Shows why the clock must be `CLOCK_BOOTTIME`.
#[test]
fn with_a_clock_that_stops_in_suspension_two_would_act() {
    let broken = (0..50).any(|seed| {
        std::panic::catch_unwind(|| {
            let mut world = calm(seed, 2);
            for machine in &mut world.machines {
                machine.counts_suspension = false;
            }
            let holder = world.holder().expect("in peace");
            world.machines[holder].wakes = world.time + 40_000;
            world.run(60);
        })
        .is_err()
    });
    assert!(broken, "the model does not see what it is made to see");
}
