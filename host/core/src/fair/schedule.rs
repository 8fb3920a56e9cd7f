//! Which plugin gets the next turn: a value that is told what happens and says who is next.
//!
//! A call has a *place* from its beginning to its end, and a *turn* while it is at work: one that waits gives its turn up and
//! queues for another when it goes on. Both are scarce, turns much more so.
//!
//! Start-time fair queueing over CPU time. Each plugin has an account of the CPU that its calls used, divided by its
//! weight; a free turn goes to the plugin that waits with the least on its account. A call that has not ended is reckoned by
//! what such calls used lately, so that a plugin with many of them does not look as if they were free. Within a plugin calls that
//! go on come before those that begin.
//!
//! The *horizon* is where all who wait have got to: no waiting account is behind it, and it never goes back. A plugin that
//! begins to wait is brought up to it. So one that was idle cannot save up a claim, and one that comes is behind nobody:
//! with no debt of its own it gets the next turn, but for others that came up to the horizon before it, one grant each.
//!
//! To be next is worth nothing while others have everything. So a plugin takes one more only if enough stays free beside
//! ([`may_take`]): the more plugins have, the less any of them may have, and something is left for one that has nothing.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

/// What a plugin's first call is reckoned at, in nanoseconds, before anything is known of it.
const FIRST_ESTIMATE: u64 = 1_000_000;
/// One part in this many of an estimate is the last call's.
const SMOOTHING: u64 = 4;
/// A plugin may have so many times the turns that it leaves free: three quarters of all, if it is alone.
const TURNS_TO_FREE: u64 = 3;
/// The same of places: a half. They are there for calls that wait long.
const PLACES_TO_FREE: u64 = 1;

/// Whether a plugin that has `held` may take one of the `free`, so that it then has at most `to_free` times what is left. Who
/// has none may take the last.
///
/// If `n` plugins take all that they may, that leaves one part in `1 + n * to_free`.
fn may_take(held: u64, free: u32, to_free: u64) -> bool {
    match free.checked_sub(1) {
        None => false,
        Some(left) => held == 0 || held < to_free.saturating_mul(left.into()),
    }
}

/// One plugin's account.
struct Account<W> {
    weight: u64,
    /// The CPU that its calls used, in nanoseconds over the weight. It only grows.
    used: u64,
    /// What a call of it uses, going by the last ones, in nanoseconds.
    estimate: u64,
    /// Its calls that have not ended: each has a place.
    places: u64,
    /// Those of them that have a turn.
    turns: u64,
    /// Who waits to go on, in the order of their tickets.
    going_on: VecDeque<(Ticket, W)>,
    /// Who waits to begin, in the order of their tickets.
    beginning: VecDeque<(Ticket, W)>,
}

impl<W> Account<W> {
    /// What it has used, and what its calls that have not ended will have: who has less goes first.
    fn reckoned(&self) -> u64 {
        self.used.saturating_add(self.places.saturating_mul(self.estimate) / self.weight)
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

    fn is_waiting(&self) -> bool {
        !(self.going_on.is_empty() && self.beginning.is_empty())
    }

    /// It wants to begin calls only, and has as many as it may. What it has used does not grow before one of them ends, which
    /// may be long.
    fn is_full(&self, free: Free) -> bool {
        self.going_on.is_empty() && !may_take(self.places, free.places, PLACES_TO_FREE)
    }

    /// Who would be next of its own, if it may have more of what is free.
    fn next(&self, free: Free) -> Option<Ticket> {
        if !may_take(self.turns, free.turns, TURNS_TO_FREE) {
            return None;
        }
        let may_begin = || may_take(self.places, free.places, PLACES_TO_FREE);
        let next = self.going_on.front().or_else(|| self.beginning.front().filter(|_| may_begin()));
        next.map(|(ticket, _)| *ticket)
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

/// What nobody has.
#[derive(Clone, Copy, Debug)]
struct Free {
    turns: u32,
    places: u32,
}

/// Turns and places, the accounts, and who waits: `W` is how a waiter is reached.
pub(super) struct Schedule<W> {
    order: Order,
    /// While somebody waits there is nothing that he may have, once [`Schedule::grant`] has returned None.
    free: Free,
    accounts: Vec<Option<Account<W>>>,
    horizon: u64,
    tickets: u64,
}

impl<W> Schedule<W> {
    /// At least one turn, and no fewer places than turns.
    pub(super) fn new(turns: u32, places: u32, order: Order) -> Self {
        let turns = turns.max(1);
        let free = Free { turns, places: places.max(turns) };
        Self { order, free, accounts: Vec::new(), horizon: 0, tickets: 0 }
    }

    /// Opens an account.
    pub(super) fn join(&mut self, weight: NonZeroU32) -> Id {
        let account = Account {
            weight: weight.get().into(),
            used: self.horizon,
            estimate: FIRST_ESTIMATE,
            places: 0,
            turns: 0,
            going_on: VecDeque::new(),
            beginning: VecDeque::new(),
        };
        let slot = self.accounts.iter().position(Option::is_none).unwrap_or_else(|| {
            self.accounts.push(None);
            self.accounts.len() - 1
        });
        self.accounts[slot] = Some(account);
        Id(slot)
    }

    /// Closes an account that has no call and no waiter.
    pub(super) fn leave(&mut self, id: Id) {
        self.accounts[id.0] = None;
    }

    /// Queues a waiter for a place and a turn.
    pub(super) fn begin(&mut self, id: Id, waiter: W) -> Ticket {
        let ticket = self.ticket(id);
        self.account(id).beginning.push_back((ticket, waiter));
        ticket
    }

    /// Queues a waiter who has a place for a turn.
    pub(super) fn go_on(&mut self, id: Id, waiter: W) -> Ticket {
        let ticket = self.ticket(id);
        self.account(id).going_on.push_back((ticket, waiter));
        ticket
    }

    fn ticket(&mut self, id: Id) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let horizon = self.horizon;
        let account = self.account(id);
        if !account.is_waiting() {
            account.used = account.used.max(horizon);
        }
        ticket
    }

    /// Forgets a waiter and returns it, if it has not been granted what it waits for already.
    pub(super) fn cancel(&mut self, id: Id, ticket: Ticket) -> Option<W> {
        let account = self.account(id);
        [&mut account.going_on, &mut account.beginning].into_iter().find_map(|waiting| {
            let place = waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()?;
            waiting.remove(place).map(|(_, waiter)| waiter)
        })
    }

    /// Gives what is free to whoever is next. None: nobody waits who may have it.
    pub(super) fn grant(&mut self) -> Option<(Id, W)> {
        if self.free.turns == 0 {
            return None;
        }
        let waiting = || {
            let accounts = self.accounts.iter().enumerate();
            accounts.filter_map(|(slot, account)| {
                let account = account.as_ref()?;
                Some((Id(slot), account, account.next(self.free)?))
            })
        };
        // Also of those that may have no more turns now: they are not behind the horizon when they may again. But not of those
        // whose calls wait, or all who come would be brought up to nothing, and have a claim on the time that those wait.
        let all = self.accounts.iter().flatten().filter(|it| it.is_waiting() && !it.is_full(self.free));
        let least_used = all.map(|account| account.used).min()?;
        let reckoned = |account: &Account<W>| match self.order {
            Order::LeastUsed => account.reckoned(),
            Order::FirstCome => 0,
        };
        let (next, ..) = waiting().min_by_key(|(_, account, first)| (reckoned(account), *first))?;
        self.horizon = self.horizon.max(least_used);
        self.free.turns -= 1;
        let account = self.account(next);
        account.turns += 1;
        if let Some((_, waiter)) = account.going_on.pop_front() {
            return Some((next, waiter));
        }
        let (_, waiter) = account.beginning.pop_front()?;
        account.places += 1;
        self.free.places -= 1;
        Some((next, waiter))
    }

    /// Takes the turn of a call back that has not ended.
    pub(super) fn pause(&mut self, id: Id) {
        self.account(id).turns -= 1;
        self.free.turns += 1;
    }

    /// A call has ended that had no turn: takes its place back and charges what it used; None: what such calls use.
    pub(super) fn end(&mut self, id: Id, cpu: Option<Duration>) {
        let account = self.account(id);
        account.places -= 1;
        account.charge(cpu);
        self.free.places += 1;
    }

    /// The same of a call that was never made.
    pub(super) fn end_unused(&mut self, id: Id) {
        self.account(id).places -= 1;
        self.free.places += 1;
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

    /// A call that has a turn ends.
    fn finish<W>(schedule: &mut Schedule<W>, id: Id, cpu: Option<Duration>) {
        schedule.pause(id);
        schedule.end(id, cpu);
    }

    /// A plugin makes call after call while nobody else may have one.
    fn is_busy(schedule: &mut Schedule<()>, busy: Id) {
        for _ in 0..1_000 {
            schedule.begin(busy, ());
            assert_eq!(schedule.grant(), Some((busy, ())));
            finish(schedule, busy, Some(milliseconds(10)));
        }
    }

    /// How many of the next hundred calls, all as dear, are `one`'s where both want them all.
    fn of_a_hundred(schedule: &mut Schedule<()>, one: Id, other: Id) -> usize {
        for _ in 0..100 {
            schedule.begin(one, ());
            schedule.begin(other, ());
        }
        let mut granted = 0;
        for _ in 0..100 {
            let (id, ()) = schedule.grant().expect("both want");
            granted += usize::from(id == one);
            finish(schedule, id, Some(milliseconds(10)));
        }
        granted
    }

    /// Keeps every plugin hungry for `time` on as many processors as there are permits; returns what each used, in
    /// milliseconds. `calls` says each plugin's weight and what a call of it costs.
    fn feast(permits: u32, calls: &[(u32, u64)], time: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(permits, 4 * permits, Order::LeastUsed);
        let ids: Vec<_> =
            calls.iter().map(|(weight, _)| schedule.join(NonZeroU32::new(*weight).expect("not zero"))).collect();
        let mut used = vec![0; calls.len()];
        let mut running = BinaryHeap::new();
        for (plugin, id) in ids.iter().enumerate() {
            for _ in 0..=permits {
                schedule.begin(*id, plugin);
            }
        }
        let mut now = 0;
        while now < time {
            while let Some((id, plugin)) = schedule.grant() {
                schedule.begin(id, plugin);
                running.push(Reverse((now + calls[plugin].1, plugin)));
            }
            let Reverse((end, plugin)) = running.pop().expect("somebody is always hungry");
            now = end;
            used[plugin] += calls[plugin].1;
            finish(&mut schedule, ids[plugin], Some(milliseconds(calls[plugin].1)));
        }
        used
    }

    #[test]
    fn first_come_is_first_served_whatever_each_has_used() {
        let mut schedule = Schedule::new(1, 4, Order::FirstCome);
        let (busy, idle) = (schedule.join(ONE), schedule.join(ONE));
        for turn in 0..4 {
            schedule.begin(busy, turn);
        }
        schedule.begin(idle, 4);
        for turn in 0..5 {
            let (id, served) = schedule.grant().expect("somebody waits");
            assert_eq!(served, turn);
            assert!(schedule.grant().is_none(), "there is one permit");
            finish(&mut schedule, id, Some(milliseconds(1_000)));
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
        let mut schedule = Schedule::new(1, 4, Order::LeastUsed);
        let [busy, idle] = [schedule.join(ONE), schedule.join(ONE)];
        is_busy(&mut schedule, busy);
        let of_the_idle = of_a_hundred(&mut schedule, idle, busy);
        assert!((45..=55).contains(&of_the_idle), "{of_the_idle} of 100");
    }

    #[test]
    fn a_plugin_pays_for_its_calls_while_they_run() {
        let mut schedule = Schedule::new(5, 16, Order::LeastUsed);
        let [many, other] = [schedule.join(ONE), schedule.join(ONE)];
        for _ in 0..4 {
            schedule.begin(many, ());
            schedule.begin(other, ());
        }
        let granted: Vec<_> = std::iter::from_fn(|| schedule.grant()).map(|(id, ())| id).collect();
        assert_eq!(granted, [many, other, many, other]);
    }

    #[test]
    fn a_permit_that_comes_back_without_a_figure_costs_what_such_calls_cost() {
        let mut schedule = Schedule::new(1, 4, Order::LeastUsed);
        let [silent, honest] = [schedule.join(ONE), schedule.join(ONE)];
        for _ in 0..3 {
            schedule.begin(silent, ());
            schedule.begin(honest, ());
        }
        assert_eq!(schedule.grant(), Some((silent, ())));
        finish(&mut schedule, silent, None);
        assert_eq!(schedule.grant(), Some((honest, ())));
        finish(&mut schedule, honest, Some(Duration::ZERO));
        assert_eq!(schedule.grant(), Some((honest, ())), "what was free is not charged");
    }

    #[test]
    fn three_that_take_all_places_that_they_may_leave_an_eighth() {
        for (turns, places) in [(1, 64), (4, 64), (64, 512)] {
            let mut schedule = Schedule::new(turns, places, Order::LeastUsed);
            for _ in 0..3 {
                let greedy = schedule.join(ONE);
                for _ in 0..1_000 {
                    schedule.begin(greedy, ());
                }
                while let Some((id, ())) = schedule.grant() {
                    schedule.pause(id);
                }
            }
            assert_eq!(schedule.free.places, places / 8);
            assert_eq!(schedule.free.turns, turns);
        }
    }

    #[test]
    fn one_that_comes_has_no_claim_on_the_time_for_which_another_ones_calls_wait() {
        let mut schedule = Schedule::new(4, 16, Order::LeastUsed);
        let [waits, busy, comes] = [schedule.join(ONE), schedule.join(ONE), schedule.join(ONE)];
        for _ in 0..16 {
            schedule.begin(waits, ());
        }
        while let Some((id, ())) = schedule.grant() {
            schedule.pause(id);
        }
        is_busy(&mut schedule, busy);
        let of_the_busy = of_a_hundred(&mut schedule, busy, comes);
        assert!((45..=55).contains(&of_the_busy), "{of_the_busy} of 100");
    }

    #[test]
    fn what_others_held_too_much_of_is_not_given_to_them_again() {
        let mut schedule = Schedule::new(4, 16, Order::LeastUsed);
        let [one, other, neighbour] = [schedule.join(ONE), schedule.join(ONE), schedule.join(ONE)];
        for _ in 0..16 {
            schedule.begin(one, ());
            schedule.begin(other, ());
        }
        let mut held: Vec<_> = std::iter::from_fn(|| schedule.grant()).map(|(id, ())| id).collect();
        for _ in 0..50 {
            finish(&mut schedule, held.remove(0), Some(milliseconds(1_000)));
            held.extend(std::iter::from_fn(|| schedule.grant()).map(|(id, ())| id));
            schedule.begin(neighbour, ());
            assert_eq!(schedule.grant(), Some((neighbour, ())), "at once");
            finish(&mut schedule, neighbour, Some(milliseconds(1)));
            schedule.begin(one, ());
            schedule.begin(other, ());
            held.extend(std::iter::from_fn(|| schedule.grant()).map(|(id, ())| id));
        }
    }

    /// One step of a random interleaving. The numbers choose among what there is.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin(usize),
        Cancel(usize),
        /// A call that has its turn waits from now on.
        Pause(usize),
        /// One that waits wants its turn again.
        GoOn(usize),
        /// Of one with a turn, or of one that waits.
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
    const PLACES: u32 = 8;

    /// A schedule and the simplest account of who waits and who has what.
    struct Model {
        schedule: Schedule<u64>,
        turns: usize,
        ids: Vec<Id>,
        /// By plugin, in the order of their coming: who begins, and who goes on.
        beginning: Vec<VecDeque<(Ticket, u64)>>,
        going_on: Vec<VecDeque<(Ticket, u64)>>,
        /// The plugins of calls that have a turn, and of calls that wait.
        running: Vec<usize>,
        paused: Vec<usize>,
        waiters: u64,
        /// The plugins in the order of their grants.
        grants: Vec<usize>,
    }

    impl Model {
        fn new(turns: u32) -> Self {
            let mut schedule = Schedule::new(turns, PLACES, Order::LeastUsed);
            let ids = (0..PLUGINS).map(|_| schedule.join(ONE)).collect();
            let waiting = vec![VecDeque::new(); PLUGINS];
            Self {
                schedule,
                turns: turns as usize,
                ids,
                beginning: waiting.clone(),
                going_on: waiting,
                running: vec![],
                paused: vec![],
                waiters: 0,
                grants: vec![],
            }
        }

        /// Takes one of the plugins out.
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
                        self.schedule.end(self.ids[plugin], cpu);
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

        /// Somebody stops waiting; if he was to go on, his call has ended.
        fn cancel(&mut self, which: usize) {
            let lengths = |waiting: &[VecDeque<(Ticket, u64)>]| {
                (0..PLUGINS)
                    .flat_map(|plugin| (0..waiting[plugin].len()).map(move |at| (plugin, at)))
                    .collect::<Vec<_>>()
            };
            let (begin, go_on) = (lengths(&self.beginning), lengths(&self.going_on));
            let chosen = which % (begin.len() + go_on.len()).max(1);
            if let Some(&(plugin, at)) = begin.get(chosen) {
                let (ticket, waiter) = self.beginning[plugin].remove(at).expect("it is there");
                assert_eq!(self.schedule.cancel(self.ids[plugin], ticket), Some(waiter));
            } else if let Some(&(plugin, at)) = go_on.get(chosen - begin.len()) {
                let (ticket, waiter) = self.going_on[plugin].remove(at).expect("it is there");
                assert_eq!(self.schedule.cancel(self.ids[plugin], ticket), Some(waiter));
                self.schedule.end(self.ids[plugin], None);
            }
        }

        fn grant(&mut self) {
            while let Some((id, waiter)) = self.schedule.grant() {
                let plugin = self.ids.iter().position(|it| *it == id).expect("one of ours");
                let first = self.going_on[plugin].pop_front().or_else(|| self.beginning[plugin].pop_front());
                let (_, first) = first.expect("a turn for nobody");
                assert_eq!(waiter, first, "within a plugin first those that go on, then first come, first served");
                self.running.push(plugin);
                self.grants.push(plugin);
            }
            let of = |all: &[usize], plugin: usize| all.iter().filter(|it| **it == plugin).count();
            let going_on: usize = self.going_on.iter().map(VecDeque::len).sum();
            let places = self.running.len() + self.paused.len() + going_on;
            assert!(self.running.len() <= self.turns && places <= PLACES as usize, "more than there is");
            for plugin in 0..PLUGINS {
                let turns = of(&self.running, plugin);
                assert!(turns <= 1 || 4 * turns <= 3 * self.turns, "{turns} turns of {} for one", self.turns);
                if turns > 0 || self.running.len() == self.turns {
                    continue;
                }
                assert!(self.going_on[plugin].is_empty(), "a turn is free, and one that has none waits to go on");
                let has_place = of(&self.paused, plugin) > 0;
                let is_full = places == PLACES as usize;
                assert!(has_place || is_full || self.beginning[plugin].is_empty(), "one that has nothing waits");
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_is_granted_twice_and_no_waiter_is_lost(
            turns in 1..5_u32, steps in proptest::collection::vec(step(), 1..200),
        ) {
            let mut model = Model::new(turns);
            for step in steps {
                model.take(step);
            }
            while !(model.running.is_empty() && model.paused.is_empty()) {
                model.take(Step::Finish(0, Some(1)));
            }
            let waiting = model.beginning.iter().chain(&model.going_on);
            prop_assert!(waiting.into_iter().all(VecDeque::is_empty), "somebody waits for ever");
        }

        /// Whatever the others did before, and however many of them wait.
        #[test]
        fn a_single_key_waits_for_at_most_one_call_of_each_other_plugin(
            turns in 1..5_u32,
            steps in proptest::collection::vec(step(), 1..200),
            costs in proptest::collection::vec(0..200_u64, 64),
        ) {
            let mut model = Model::new(turns);
            // The last plugin has been idle all the time.
            for step in steps.into_iter().filter(|step| !matches!(step, Step::Begin(plugin) if *plugin == PLUGINS - 1)) {
                model.take(step);
            }
            for _ in 0..1_000 {
                model.take(Step::Begin(0));
            }
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
}
