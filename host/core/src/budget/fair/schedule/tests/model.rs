//! Random interleavings of a schedule, compared with a simple model of its waiters and holders.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// One step of a random interleaving. The numbers select a plugin or call among those that exist.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(usize),
    Cancel(usize),
    /// A call that holds its CPU permit begins to wait.
    Pause(usize),
    /// A waiting call wants its CPU permit again.
    GoOn(usize),
    /// Ends a call, running or waiting.
    Finish(usize, Option<u64>),
    Unused(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..PLUGINS).prop_map(Step::Begin),
        1 => any::<usize>().prop_map(Step::Cancel),
        3 => any::<usize>().prop_map(Step::Pause),
        3 => any::<usize>().prop_map(Step::GoOn),
        4 => (any::<usize>(), proptest::option::of(0..200_u64)).prop_map(|(which, cpu)| Step::Finish(which, cpu)),
        1 => any::<usize>().prop_map(Step::Unused),
    ]
}

const PLUGINS: usize = 4;
const CALL_SLOTS: u32 = 8;

/// The schedule under test and the model.
struct Model {
    schedule: Schedule<u64>,
    permits: usize,
    ids: Vec<AccountId>,
    /// The plugins of waiters in order of arrival: waiters that begin a call, and waiters that go on.
    beginning: Vec<VecDeque<(WaitTicket, u64)>>,
    going_on: Vec<VecDeque<(WaitTicket, u64)>>,
    /// The plugins of running calls, and of waiting calls.
    running: Vec<usize>,
    paused: Vec<usize>,
    waiters: u64,
    /// The plugins in the order of their grants.
    grants: Vec<usize>,
}

impl Model {
    fn new(permits: u32) -> Self {
        let mut schedule = Schedule::new(permits, CALL_SLOTS, CpuOrder::LeastUsed);
        let ids = (0..PLUGINS).map(|_| schedule.join(ONE)).collect();
        let waiting = vec![VecDeque::new(); PLUGINS];
        Self {
            schedule,
            permits: permits as usize,
            ids,
            beginning: waiting.clone(),
            going_on: waiting,
            running: vec![],
            paused: vec![],
            waiters: 0,
            grants: vec![],
        }
    }

    /// Removes one of the plugins.
    fn pick(all: &mut Vec<usize>, which: usize) -> Option<usize> {
        (!all.is_empty()).then(|| all.remove(which % all.len()))
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Begin(plugin) => {
                let ticket = self.schedule.begin(self.ids[plugin], self.waiters);
                self.beginning[plugin].push_back((ticket, self.waiters));
                self.waiters += 1;
            }
            Step::Cancel(which) => self.cancel(which),
            Step::Pause(which) => {
                if let Some(plugin) = Self::pick(&mut self.running, which) {
                    self.schedule.pause(self.ids[plugin]);
                    self.paused.push(plugin);
                }
            }
            Step::GoOn(which) => {
                if let Some(plugin) = Self::pick(&mut self.paused, which) {
                    let ticket = self.schedule.go_on(self.ids[plugin], self.waiters);
                    self.going_on[plugin].push_back((ticket, self.waiters));
                    self.waiters += 1;
                }
            }
            Step::Finish(which, cpu) => {
                let cpu = cpu.map(milliseconds);
                if let Some(plugin) = Self::pick(&mut self.running, which) {
                    finish(&mut self.schedule, self.ids[plugin], cpu);
                } else if let Some(plugin) = Self::pick(&mut self.paused, which) {
                    self.schedule.end(self.ids[plugin], cpu, Duration::ZERO);
                }
            }
            Step::Unused(which) => {
                if let Some(plugin) = Self::pick(&mut self.running, which) {
                    self.schedule.pause(self.ids[plugin]);
                    self.schedule.end_unused(self.ids[plugin]);
                }
            }
        }
        self.grant();
    }

    /// A waiter gives up. If it waited to go on, its call ends.
    fn cancel(&mut self, which: usize) {
        let lengths = |waiting: &[VecDeque<(WaitTicket, u64)>]| {
            (0..PLUGINS).flat_map(|plugin| (0..waiting[plugin].len()).map(move |at| (plugin, at))).collect::<Vec<_>>()
        };
        let (begin, go_on) = (lengths(&self.beginning), lengths(&self.going_on));
        let chosen = which % (begin.len() + go_on.len()).max(1);
        if let Some(&(plugin, at)) = begin.get(chosen) {
            let (ticket, waiter) = self.beginning[plugin].remove(at).expect("it is there");
            assert_eq!(self.schedule.cancel(self.ids[plugin], ticket), Some(waiter));
        } else if let Some(&(plugin, at)) = go_on.get(chosen - begin.len()) {
            let (ticket, waiter) = self.going_on[plugin].remove(at).expect("it is there");
            assert_eq!(self.schedule.cancel(self.ids[plugin], ticket), Some(waiter));
            self.schedule.end(self.ids[plugin], None, Duration::ZERO);
        }
    }

    fn grant(&mut self) {
        while let Some((id, waiter)) = self.schedule.grant() {
            let plugin = self.ids.iter().position(|it| *it == id).expect("one of ours");
            let first = self.going_on[plugin].pop_front().or_else(|| self.beginning[plugin].pop_front());
            let (_, first) = first.expect("a granted CPU permit has a waiter");
            assert_eq!(waiter, first, "within a plugin, calls that go on come first");
            self.running.push(plugin);
            self.grants.push(plugin);
        }
        let of = |all: &[usize], plugin: usize| all.iter().filter(|it| **it == plugin).count();
        let going_on: usize = self.going_on.iter().map(VecDeque::len).sum();
        let call_slots = self.running.len() + self.paused.len() + going_on;
        assert!(self.running.len() <= self.permits && call_slots <= CALL_SLOTS as usize, "more than there is");
        for plugin in 0..PLUGINS {
            let permits = of(&self.running, plugin);
            assert!(
                permits <= 1 || 4 * permits <= 3 * self.permits,
                "{permits} CPU permits of {} for one",
                self.permits
            );
            if permits > 0 || self.running.len() == self.permits {
                continue;
            }
            assert!(self.going_on[plugin].is_empty(), "a CPU permit is free, but a plugin without one waits to go on");
            let has_place = of(&self.paused, plugin) > 0;
            let is_full = call_slots == CALL_SLOTS as usize;
            assert!(
                has_place || is_full || self.beginning[plugin].is_empty(),
                "a plugin without any call waits to begin one"
            );
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_granted_twice_and_no_waiter_is_lost(
        permits in 1..5_u32, steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut model = Model::new(permits);
        for step in steps {
            model.take(step);
        }
        while !(model.running.is_empty() && model.paused.is_empty()) {
            model.take(Step::Finish(0, Some(1)));
        }
        let waiting = model.beginning.iter().chain(&model.going_on);
        prop_assert!(waiting.into_iter().all(VecDeque::is_empty), "a waiter waits forever");
    }

    /// The bound holds whatever the other plugins did before and however many calls they queue, as long as they left a
    /// call slot free. Three or more plugins may leave no call slot free.
    #[test]
    fn a_single_key_waits_for_at_most_one_call_of_each_other_plugin(
        permits in 1..5_u32,
        steps in proptest::collection::vec(step(), 1..200),
        costs in proptest::collection::vec(0..200_u64, 64),
    ) {
        let mut model = Model::new(permits);
        // The last plugin was idle until now.
        for step in steps.into_iter().filter(|step| !matches!(step, Step::Begin(plugin) if *plugin == PLUGINS - 1)) {
            model.take(step);
        }
        for _ in 0..1_000 {
            model.take(Step::Begin(0));
        }
        prop_assume!(model.schedule.free.call_slots > 0);
        model.grants.clear();
        model.take(Step::Begin(PLUGINS - 1));
        for cost in costs {
            if model.grants.contains(&(PLUGINS - 1)) {
                break;
            }
            model.take(Step::Finish(0, Some(cost)));
        }
        let before = model.grants.iter().position(|plugin| *plugin == PLUGINS - 1);
        prop_assert!(before.is_some_and(|before| before < PLUGINS), "{:?}", model.grants);
    }
}
