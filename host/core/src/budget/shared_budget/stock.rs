//! Decides how much each plugin may have. A plain value: callers report what happens and ask who is next.
//!
//! A plugin may take more only if it then holds at most as much as is left ([`may_take`]). The more other plugins
//! hold, the less this plugin may hold, and something is left for a plugin that holds nothing. Two plugins that
//! take all they may leave a quarter free, and three plugins an eighth.
//!
//! The plugin that holds least is next, so a newcomer does not have to wait behind other plugins. Among equals the
//! longest waiter is next. Within a plugin, work that goes on comes before work that begins. Small requests pass a
//! large one that does not fit: holding memory back for it would make other plugins wait for one plugin's large
//! request. The caller handles that large request (`wasm/src/memory.rs`).

use crate::budget::accounts::{AccountEntry, AccountId, Accounts, WaitTicket, Wants};

/// Whether a plugin that holds `held` may take `amount` of `free`. A plugin that holds nothing may take the last
/// unit.
fn may_take(held: u32, amount: u32, free: u32) -> bool {
    let is_single = held == 0 && amount == 1;
    free.checked_sub(amount).is_some_and(|left| amount == 0 || is_single || held.saturating_add(amount) <= left)
}

/// The most of `all` that one plugin can hold.
pub(super) fn most_of_one(all: u32) -> u32 {
    (all / 2).max(all.min(1))
}

struct StockWaiter<W> {
    amount: u32,
    waiter: W,
}

/// The amount that one plugin holds.
#[derive(Default)]
struct StockHeld {
    now: u32,
    /// The most that the plugin has held at any time.
    most: u32,
}

impl StockHeld {
    fn take(&mut self, amount: u32) {
        self.now += amount;
        self.most = self.most.max(self.now);
    }
}

impl<W> AccountEntry<StockHeld, StockWaiter<W>> {
    /// The plugin's next waiter, if the plugin may take the amount that this waiter wants. `free` is the number of
    /// free units.
    fn next_of(&self, free: u32) -> Option<WaitTicket> {
        let (ticket, _, next) = self.next()?;
        may_take(self.account.now, next.amount, free).then_some(ticket)
    }
}

/// The amount, the accounts and the waiters. `W` is the handle that wakes a waiter.
pub(super) struct Stock<W> {
    all: u32,
    /// The units that no plugin holds. Once [`Stock::grant`] has returned `None`, they are too few for the first waiter
    /// of each plugin.
    free: u32,
    accounts: Accounts<StockHeld, StockWaiter<W>>,
}

impl<W> Stock<W> {
    pub(super) fn new(all: u32) -> Self {
        Self { all, free: all, accounts: Accounts::new() }
    }

    pub(super) fn all(&self) -> u32 {
        self.all
    }

    pub(super) fn free(&self) -> u32 {
        self.free
    }

    pub(super) fn join(&mut self) -> AccountId {
        self.accounts.join(StockHeld::default())
    }

    /// Closes an account that holds nothing and has no waiter.
    pub(super) fn leave(&mut self, id: AccountId) {
        self.accounts.leave(id);
    }

    pub(super) fn held(&self, id: AccountId) -> u32 {
        self.accounts.get(id).account.now
    }

    /// The most that the plugin has held at any time.
    pub(super) fn most_held(&self, id: AccountId) -> u32 {
        self.accounts.get(id).account.most
    }

    /// Takes `amount` and returns true if the plugin may have it now, and if no waiter of the plugin is passed over.
    pub(super) fn try_take(&mut self, id: AccountId, amount: u32, wants: Wants) -> bool {
        let entry = self.accounts.get_mut(id);
        let is_passing = entry.is_waiting(Wants::ToGoOn) || wants == Wants::ToBegin && entry.has_waiters();
        let may = !is_passing && may_take(entry.account.now, amount, self.free);
        if may {
            entry.account.take(amount);
            self.free -= amount;
        }
        may
    }

    pub(super) fn wait(&mut self, id: AccountId, amount: u32, wants: Wants, waiter: W) -> WaitTicket {
        self.accounts.wait(id, wants, StockWaiter { amount, waiter })
    }

    /// Removes a waiter and returns it. Returns `None` if it has been granted already.
    pub(super) fn cancel(&mut self, id: AccountId, ticket: WaitTicket) -> Option<W> {
        self.accounts.cancel(id, ticket).map(|waiting| waiting.waiter)
    }

    /// Grants the next waiter its amount, and returns the amount. Returns `None` if no waiter may have its amount.
    pub(super) fn grant(&mut self) -> Option<(u32, W)> {
        let free = self.free;
        let accounts = self.accounts.iter_mut();
        let (_, entry) = accounts
            .filter_map(|entry| Some(((entry.account.now, entry.next_of(free)?), entry)))
            .min_by_key(|(first, _)| *first)?;
        let (_, StockWaiter { amount, waiter }) = entry.pop()?;
        entry.account.take(amount);
        self.free -= amount;
        Some((amount, waiter))
    }

    pub(super) fn give_back(&mut self, id: AccountId, amount: u32) {
        self.accounts.get_mut(id).account.now -= amount;
        self.free += amount;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes one unit at a time, as long as the plugin may.
    fn grab(stock: &mut Stock<()>, id: AccountId) {
        while stock.try_take(id, 1, Wants::ToBegin) {}
    }

    #[test]
    fn three_greedy_plugins_leave_an_eighth_and_a_fourth_gets_half_of_it() {
        for all in [64, 4_096] {
            let mut stock: Stock<()> = Stock::new(all);
            let ids = [(); 4].map(|()| stock.join());
            let held = ids.map(|id| {
                grab(&mut stock, id);
                stock.held(id)
            });
            assert_eq!(held, [all / 2, all / 4, all / 8, all / 16]);
        }
    }

    #[test]
    fn the_last_unit_is_for_a_plugin_that_holds_nothing() {
        for all in [1, 2, 3] {
            let mut stock: Stock<()> = Stock::new(all);
            let [first, second] = [(); 2].map(|()| stock.join());
            grab(&mut stock, first);
            assert_eq!(stock.held(first), most_of_one(all));
            assert_eq!(stock.try_take(second, 1, Wants::ToBegin), all > 1);
        }
        assert_eq!((most_of_one(0), most_of_one(7)), (0, 3));
    }

    /// One step of a random interleaving. The numbers select a plugin or waiter among those that exist.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Wait(usize, u32, bool),
        Try(usize, u32, bool),
        Cancel(usize),
        GiveBack(usize),
    }

    const PLUGINS: usize = 4;

    fn step() -> impl Strategy<Value = Step> {
        let amount = || prop_oneof![3 => 0..4_u32, 1 => 0..64_u32];
        prop_oneof![
            4 => (0..PLUGINS, amount(), any::<bool>()).prop_map(|(it, amount, begins)| Step::Wait(it, amount, begins)),
            2 => (0..PLUGINS, amount(), any::<bool>()).prop_map(|(it, amount, begins)| Step::Try(it, amount, begins)),
            1 => any::<usize>().prop_map(Step::Cancel),
            4 => any::<usize>().prop_map(Step::GiveBack),
        ]
    }

    /// The stock under test and a simple model of its waiters and holders.
    struct Model {
        stock: Stock<u64>,
        all: u32,
        ids: Vec<AccountId>,
        /// Waiters in order of arrival: the plugin, whether it begins, the amount, the ticket and the model's own
        /// number.
        waiting: Vec<(usize, bool, u32, WaitTicket, u64)>,
        /// Amounts that were granted and not returned, each with its plugin.
        granted: Vec<(usize, u32)>,
        waiters: u64,
    }

    fn wants(begins: bool) -> Wants {
        if begins { Wants::ToBegin } else { Wants::ToGoOn }
    }

    impl Model {
        fn new(all: u32) -> Self {
            let mut stock = Stock::new(all);
            let ids = (0..PLUGINS).map(|_| stock.join()).collect();
            Self { stock, all, ids, waiting: vec![], granted: vec![], waiters: 0 }
        }

        fn held(&self, plugin: usize) -> u32 {
            self.granted.iter().filter(|(of, _)| *of == plugin).map(|(_, amount)| amount).sum()
        }

        fn free(&self) -> u32 {
            self.all - (0..PLUGINS).map(|plugin| self.held(plugin)).sum::<u32>()
        }

        /// The plugin's next waiter, as an index into `waiting`.
        fn next_of(&self, plugin: usize) -> Option<usize> {
            let first = |begins| self.waiting.iter().position(|(of, is, ..)| (*of, *is) == (plugin, begins));
            first(false).or_else(|| first(true))
        }

        fn takes(&mut self, plugin: usize, amount: u32) {
            let (before, free) = (self.held(plugin), self.free());
            self.granted.push((plugin, amount));
            let (held, left) = (self.held(plugin), free - amount);
            assert!(amount == 0 || held <= left || (before == 0 && amount == 1), "{held} held and {left} left");
        }

        fn take(&mut self, step: Step) {
            match step {
                Step::Wait(plugin, amount, begins) => {
                    let amount = amount.min(most_of_one(self.all));
                    let ticket = self.stock.wait(self.ids[plugin], amount, wants(begins), self.waiters);
                    self.waiting.push((plugin, begins, amount, ticket, self.waiters));
                    self.waiters += 1;
                }
                Step::Try(plugin, amount, begins) => {
                    let passes = self.waiting.iter().any(|(of, is, ..)| *of == plugin && (begins || !is));
                    let taken = self.stock.try_take(self.ids[plugin], amount, wants(begins));
                    assert!(!(taken && passes), "a waiter of the plugin was passed over");
                    if taken {
                        self.takes(plugin, amount);
                    } else {
                        assert!(passes || !may_take(self.held(plugin), amount, self.free()), "the amount was free");
                    }
                }
                Step::Cancel(which) if !self.waiting.is_empty() => {
                    let (plugin, _, _, ticket, waiter) = self.waiting.remove(which % self.waiting.len());
                    assert_eq!(self.stock.cancel(self.ids[plugin], ticket), Some(waiter));
                }
                Step::GiveBack(which) if !self.granted.is_empty() => {
                    let (plugin, amount) = self.granted.remove(which % self.granted.len());
                    self.stock.give_back(self.ids[plugin], amount);
                }
                Step::Cancel(_) | Step::GiveBack(_) => {}
            }
            self.grant();
        }

        fn grant(&mut self) {
            while let Some((granted, waiter)) = self.stock.grant() {
                let place =
                    self.waiting.iter().position(|(.., it)| *it == waiter).expect("a granted waiter has waited");
                let (plugin, _, amount, ..) = self.waiting[place];
                assert_eq!((granted, self.next_of(plugin)), (amount, Some(place)), "the next waiter of its plugin");
                let mine = (self.held(plugin), waiter);
                for other in (0..PLUGINS).filter(|other| *other != plugin) {
                    let Some(next) = self.next_of(other) else { continue };
                    let (_, _, amount, _, number) = self.waiting[next];
                    let is_before =
                        (self.held(other), number) < mine && may_take(self.held(other), amount, self.free());
                    assert!(!is_before, "another has less, or has waited longer");
                }
                self.waiting.remove(place);
                self.takes(plugin, amount);
            }
            for plugin in 0..PLUGINS {
                assert_eq!(self.stock.held(self.ids[plugin]), self.held(plugin));
                let next = self.next_of(plugin).map(|place| self.waiting[place].2);
                let could = next.is_some_and(|amount| may_take(self.held(plugin), amount, self.free()));
                assert!(!could, "a waiter waits for an amount that is free");
            }
            assert_eq!(self.stock.free(), self.free());
        }
    }

    proptest! {
        #[test]
        fn grants_are_unique_and_bounded_and_no_waiter_is_lost(
            all in 0..70_u32, steps in proptest::collection::vec(step(), 1..200),
        ) {
            let mut model = Model::new(all);
            for step in steps {
                model.take(step);
            }
            while !model.granted.is_empty() {
                model.take(Step::GiveBack(0));
            }
            prop_assert!(model.waiting.is_empty(), "a waiter waits forever");
        }

        /// The newcomer gets its half whatever the other plugins hold, and however many of them wait.
        #[test]
        fn a_newcomer_gets_half_of_what_is_left_at_once(
            all in 2..70_u32, steps in proptest::collection::vec(step(), 1..200),
        ) {
            let mut model = Model::new(all);
            // The last plugin holds nothing.
            let others = |step: &Step| {
                !matches!(step, Step::Wait(plugin, ..) | Step::Try(plugin, ..) if *plugin == PLUGINS - 1)
            };
            for step in steps.into_iter().filter(others) {
                model.take(step);
            }
            let half = model.free() / 2;
            prop_assert!(model.stock.try_take(model.ids[PLUGINS - 1], half, Wants::ToBegin));
        }
    }
}
