//! Which plugin gets the next permit: a value that is told what happens and says who is next.
//!
//! Start-time fair queueing over CPU time. Each plugin has an account of the CPU that its calls used, divided by its
//! weight; a free permit goes to the plugin that waits with the least on its account. A call that runs is reckoned by
//! what such calls used lately, so that a plugin with many of them does not look as if they were free.
//!
//! The *horizon* is where all who wait have got to: no waiting account is behind it, and it never goes back. A plugin that
//! begins to wait is brought up to it. So one that was idle cannot save up a claim, and one that comes is behind nobody:
//! with no debt of its own it gets the next permit, but for others that came up to the horizon before it, one grant each.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

/// What a plugin's first call is reckoned at, in nanoseconds, before anything is known of it.
const FIRST_ESTIMATE: u64 = 1_000_000;
/// One part in this many of an estimate is the last call's.
const SMOOTHING: u64 = 4;

/// One plugin's account.
struct Account<W> {
    weight: u64,
    /// The CPU that its calls used, in nanoseconds over the weight. It only grows.
    used: u64,
    /// What a call of it uses, going by the last ones, in nanoseconds.
    estimate: u64,
    /// How many permits it has.
    held: u64,
    /// In the order of their tickets.
    waiting: VecDeque<(Ticket, W)>,
}

impl<W> Account<W> {
    /// What it has used, and what its calls that run will have: who has less goes first.
    fn reckoned(&self) -> u64 {
        self.used.saturating_add(self.held.saturating_mul(self.estimate) / self.weight)
    }

    fn charge(&mut self, cpu: Option<Duration>) {
        if let Some(cpu) = cpu {
            let cpu = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
            self.used = self.used.saturating_add(cpu / self.weight);
            self.estimate = self.estimate - self.estimate / SMOOTHING + cpu / SMOOTHING;
        } else {
            self.used = self.used.saturating_add(self.estimate / self.weight);
        }
    }
}

/// An account's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id(usize);

/// A waiter's number: whoever came first has the smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

/// By what the next one is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Who has used least.
    LeastUsed,
    /// Who has waited longest.
    FirstCome,
}

/// The permits, the accounts, and who waits: `W` is how a waiter is reached.
pub(super) struct Schedule<W> {
    order: Order,
    /// Permits that nobody has. While somebody waits there are none, once [`Schedule::grant`] has returned None.
    free: u32,
    accounts: Vec<Option<Account<W>>>,
    horizon: u64,
    tickets: u64,
}

impl<W> Schedule<W> {
    pub(super) fn new(permits: u32, order: Order) -> Self {
        Self { order, free: permits.max(1), accounts: Vec::new(), horizon: 0, tickets: 0 }
    }

    /// Opens an account.
    pub(super) fn join(&mut self, weight: NonZeroU32) -> Id {
        let account = Account {
            weight: weight.get().into(),
            used: self.horizon,
            estimate: FIRST_ESTIMATE,
            held: 0,
            waiting: VecDeque::new(),
        };
        let slot = self.accounts.iter().position(Option::is_none).unwrap_or_else(|| {
            self.accounts.push(None);
            self.accounts.len() - 1
        });
        self.accounts[slot] = Some(account);
        Id(slot)
    }

    /// Closes an account that holds no permit and has no waiter.
    pub(super) fn leave(&mut self, id: Id) {
        self.accounts[id.0] = None;
    }

    /// Queues a waiter for a permit.
    pub(super) fn wait(&mut self, id: Id, waiter: W) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let horizon = self.horizon;
        let account = self.account(id);
        if account.waiting.is_empty() {
            account.used = account.used.max(horizon);
        }
        account.waiting.push_back((ticket, waiter));
        ticket
    }

    /// Forgets a waiter and returns it, if it has not been granted a permit already.
    pub(super) fn cancel(&mut self, id: Id, ticket: Ticket) -> Option<W> {
        let waiting = &mut self.account(id).waiting;
        let place = waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()?;
        waiting.remove(place).map(|(_, waiter)| waiter)
    }

    /// Gives a free permit to whoever is next. None: no permit is free, or nobody waits.
    pub(super) fn grant(&mut self) -> Option<(Id, W)> {
        if self.free == 0 {
            return None;
        }
        let waiting = || {
            let accounts = self.accounts.iter().enumerate();
            accounts.filter_map(|(slot, account)| {
                let account = account.as_ref()?;
                Some((Id(slot), account, account.waiting.front()?.0))
            })
        };
        let least_used = waiting().map(|(_, account, _)| account.used).min()?;
        let reckoned = |account: &Account<W>| match self.order {
            Order::LeastUsed => account.reckoned(),
            Order::FirstCome => 0,
        };
        let (next, ..) = waiting().min_by_key(|(_, account, first)| (reckoned(account), *first))?;
        self.horizon = self.horizon.max(least_used);
        self.free -= 1;
        let account = self.account(next);
        account.held += 1;
        account.waiting.pop_front().map(|(_, waiter)| (next, waiter))
    }

    /// Takes a permit back and charges what its call used; None: what such calls use.
    pub(super) fn give_back(&mut self, id: Id, cpu: Option<Duration>) {
        let account = self.account(id);
        account.held -= 1;
        account.charge(cpu);
        self.free += 1;
    }

    /// Takes a permit back that was never used.
    pub(super) fn give_back_unused(&mut self, id: Id) {
        self.account(id).held -= 1;
        self.free += 1;
    }

    fn account(&mut self, id: Id) -> &mut Account<W> {
        self.accounts[id.0].as_mut().expect("whoever has the number has not left")
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use proptest::prelude::*;

    use super::*;

    const ONE: NonZeroU32 = NonZeroU32::MIN;

    fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Keeps every plugin hungry for `time` on as many processors as there are permits; returns what each used, in
    /// milliseconds. `calls` says each plugin's weight and what a call of it costs.
    fn feast(permits: u32, calls: &[(u32, u64)], time: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(permits, Order::LeastUsed);
        let ids: Vec<_> =
            calls.iter().map(|(weight, _)| schedule.join(NonZeroU32::new(*weight).expect("not zero"))).collect();
        let mut used = vec![0; calls.len()];
        let mut running = BinaryHeap::new();
        for (plugin, id) in ids.iter().enumerate() {
            for _ in 0..=permits {
                schedule.wait(*id, plugin);
            }
        }
        let mut now = 0;
        while now < time {
            while let Some((id, plugin)) = schedule.grant() {
                schedule.wait(id, plugin);
                running.push(Reverse((now + calls[plugin].1, plugin)));
            }
            let Reverse((end, plugin)) = running.pop().expect("somebody is always hungry");
            now = end;
            used[plugin] += calls[plugin].1;
            schedule.give_back(ids[plugin], Some(milliseconds(calls[plugin].1)));
        }
        used
    }

    #[test]
    fn first_come_is_first_served_whatever_each_has_used() {
        let mut schedule = Schedule::new(1, Order::FirstCome);
        let (busy, idle) = (schedule.join(ONE), schedule.join(ONE));
        for turn in 0..4 {
            schedule.wait(busy, turn);
        }
        schedule.wait(idle, 4);
        for turn in 0..5 {
            let (id, served) = schedule.grant().expect("somebody waits");
            assert_eq!(served, turn);
            assert!(schedule.grant().is_none(), "there is one permit");
            schedule.give_back(id, Some(milliseconds(1_000)));
        }
    }

    #[test]
    fn hungry_plugins_use_as_much_cpu_though_the_calls_of_one_are_a_hundred_times_dearer() {
        for permits in [1, 4, 16] {
            let used = feast(permits, &[(1, 1), (1, 100), (1, 7)], 100_000);
            let fair = used.iter().sum::<u64>() / 3;
            assert!(used.iter().all(|it| it.abs_diff(fair) < fair / 20), "{permits} permits: {used:?}");
        }
    }

    #[test]
    fn a_plugin_of_twice_the_weight_uses_twice_the_cpu() {
        let used = feast(4, &[(2, 5), (1, 50)], 100_000);
        assert!(used[0].abs_diff(2 * used[1]) < used[0] / 20, "{used:?}");
    }

    #[test]
    fn one_that_was_idle_has_saved_nothing_up() {
        let mut schedule = Schedule::new(1, Order::LeastUsed);
        let [busy, idle] = [schedule.join(ONE), schedule.join(ONE)];
        for _ in 0..1_000 {
            schedule.wait(busy, ());
            assert_eq!(schedule.grant(), Some((busy, ())));
            schedule.give_back(busy, Some(milliseconds(10)));
        }
        for _ in 0..100 {
            schedule.wait(busy, ());
            schedule.wait(idle, ());
        }
        let granted: Vec<_> = (0..100)
            .filter_map(|_| {
                let (id, ()) = schedule.grant()?;
                schedule.give_back(id, Some(milliseconds(10)));
                Some(id)
            })
            .collect();
        let of_the_idle = granted.iter().filter(|id| **id == idle).count();
        assert!((45..=55).contains(&of_the_idle), "{of_the_idle} of 100");
    }

    #[test]
    fn a_plugin_pays_for_its_calls_while_they_run() {
        let mut schedule = Schedule::new(4, Order::LeastUsed);
        let [many, other] = [schedule.join(ONE), schedule.join(ONE)];
        for _ in 0..4 {
            schedule.wait(many, ());
            schedule.wait(other, ());
        }
        let granted: Vec<_> = std::iter::from_fn(|| schedule.grant()).map(|(id, ())| id).collect();
        assert_eq!(granted, [many, other, many, other]);
    }

    #[test]
    fn a_permit_that_comes_back_without_a_figure_costs_what_such_calls_cost() {
        let mut schedule = Schedule::new(1, Order::LeastUsed);
        let [silent, honest] = [schedule.join(ONE), schedule.join(ONE)];
        for _ in 0..3 {
            schedule.wait(silent, ());
            schedule.wait(honest, ());
        }
        assert_eq!(schedule.grant(), Some((silent, ())));
        schedule.give_back(silent, None);
        assert_eq!(schedule.grant(), Some((honest, ())));
        schedule.give_back(honest, Some(Duration::ZERO));
        assert_eq!(schedule.grant(), Some((honest, ())), "what was free is not charged");
    }

    /// One step of a random interleaving. The numbers choose among what there is.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Wait(usize),
        Cancel(usize),
        Finish(usize, Option<u64>),
        Unused(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..PLUGINS).prop_map(Step::Wait),
            1 => any::<usize>().prop_map(Step::Cancel),
            4 => (any::<usize>(), proptest::option::of(0..200_u64)).prop_map(|(which, cpu)| Step::Finish(which, cpu)),
            1 => any::<usize>().prop_map(Step::Unused),
        ]
    }

    const PLUGINS: usize = 4;

    /// A schedule and the simplest account of who waits and who has a permit.
    struct Model {
        schedule: Schedule<u64>,
        permits: usize,
        ids: Vec<Id>,
        /// By plugin, in the order of their coming.
        waiting: Vec<VecDeque<(Ticket, u64)>>,
        running: Vec<usize>,
        waiters: u64,
        /// The plugins in the order of their grants.
        grants: Vec<usize>,
    }

    impl Model {
        fn new(permits: u32) -> Self {
            let mut schedule = Schedule::new(permits, Order::LeastUsed);
            let ids = (0..PLUGINS).map(|_| schedule.join(ONE)).collect();
            let waiting = vec![VecDeque::new(); PLUGINS];
            let permits = permits as usize;
            Self { schedule, permits, ids, waiting, running: vec![], waiters: 0, grants: vec![] }
        }

        fn take(&mut self, step: Step) {
            match step {
                Step::Wait(plugin) => {
                    let ticket = self.schedule.wait(self.ids[plugin], self.waiters);
                    self.waiting[plugin].push_back((ticket, self.waiters));
                    self.waiters += 1;
                }
                Step::Cancel(which) => {
                    let all: Vec<_> = (0..PLUGINS)
                        .flat_map(|plugin| (0..self.waiting[plugin].len()).map(move |at| (plugin, at)))
                        .collect();
                    if let Some((plugin, at)) = all.get(which % all.len().max(1)).copied() {
                        let (ticket, _) = self.waiting[plugin].remove(at).expect("it is there");
                        self.schedule.cancel(self.ids[plugin], ticket);
                    }
                }
                Step::Finish(which, cpu) if !self.running.is_empty() => {
                    let plugin = self.running.remove(which % self.running.len());
                    self.schedule.give_back(self.ids[plugin], cpu.map(milliseconds));
                }
                Step::Unused(which) if !self.running.is_empty() => {
                    let plugin = self.running.remove(which % self.running.len());
                    self.schedule.give_back_unused(self.ids[plugin]);
                }
                Step::Finish(..) | Step::Unused(_) => {}
            }
            while let Some((id, waiter)) = self.schedule.grant() {
                let plugin = self.ids.iter().position(|it| *it == id).expect("one of ours");
                let (_, first) = self.waiting[plugin].pop_front().expect("a permit for nobody");
                assert_eq!(waiter, first, "within a plugin, first come, first served");
                self.running.push(plugin);
                self.grants.push(plugin);
            }
            assert!(self.running.len() <= self.permits, "more permits than there are");
            let somebody_waits = self.waiting.iter().any(|waiting| !waiting.is_empty());
            assert!(!somebody_waits || self.running.len() == self.permits, "a permit is free and somebody waits");
        }
    }

    proptest! {
        #[test]
        fn no_permit_is_granted_twice_and_no_waiter_is_lost(
            permits in 1..5_u32, steps in proptest::collection::vec(step(), 1..200),
        ) {
            let mut model = Model::new(permits);
            for step in steps {
                model.take(step);
            }
            while !model.running.is_empty() {
                model.take(Step::Finish(0, Some(1)));
            }
            prop_assert!(model.waiting.iter().all(VecDeque::is_empty), "somebody waits for ever");
        }

        /// Whatever the others did before, and however many of them wait.
        #[test]
        fn a_single_key_waits_for_at_most_one_call_of_each_other_plugin(
            permits in 1..5_u32,
            steps in proptest::collection::vec(step(), 1..200),
            costs in proptest::collection::vec(0..200_u64, 64),
        ) {
            let mut model = Model::new(permits);
            // The last plugin has been idle all the time.
            for step in steps.into_iter().filter(|step| !matches!(step, Step::Wait(plugin) if *plugin == PLUGINS - 1)) {
                model.take(step);
            }
            for _ in 0..1_000 {
                model.take(Step::Wait(0));
            }
            model.grants.clear();
            model.take(Step::Wait(PLUGINS - 1));
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
}
