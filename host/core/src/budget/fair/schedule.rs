//! Decides which plugin gets the next CPU permit. A plain value: callers report what happens and ask who is next.
//!
//! A call holds a *call slot* from beginning to end, and a *CPU permit* while it computes. A call that waits gives up
//! its CPU permit and queues for another when it goes on. Both are scarce, CPU permits much more so.
//!
//! The algorithm is start-time fair queueing over CPU time. Each plugin has an account of the CPU that its calls used,
//! divided by its weight. A free CPU permit goes to the waiting plugin with the least on its account. A call that has
//! not ended is charged an estimate from the plugin's recent calls, so that a plugin with many open calls does not look
//! idle. Within a plugin, calls that go on come before calls that begin.
//!
//! A plugin is *hungry* while it waits for something that could be granted to it. The *horizon* is the lowest account
//! among the hungry plugins. The horizon never falls. The account of a plugin that becomes hungry is raised to the
//! horizon. So an idle plugin cannot save up a claim, and a newcomer without debt gets the next CPU permit, after at
//! most one grant to each plugin that reached the horizon before it.
//!
//! A plugin that is next gets nothing while other plugins hold everything. So a plugin may take one more unit only if
//! enough stays free ([`may_take`]). The more all plugins hold, the less each may hold, and something is left for a
//! plugin that has nothing.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::budget::accounts::{AccountEntry, AccountId, Accounts, WaitTicket, Wants};

/// The estimate for a plugin's first call, in nanoseconds.
const FIRST_ESTIMATE: u64 = 1_000_000;
/// A running call yields to a plugin that has used at least this much less CPU time, in nanoseconds divided by the
/// weight. A smaller difference is not worth the switch.
const YIELD_ADVANTAGE_MIN: u64 = 5_000_000;
/// The last call counts for one part in `SMOOTHING` of the moving average.
const SMOOTHING: u64 = 4;
/// A plugin may hold at most this multiple of the CPU permits that are still free. A plugin that is alone may hold
/// three quarters of all permits.
const PERMITS_TO_FREE: u64 = 3;
/// A plugin may hold at most this multiple of the call slots that are still free. A plugin that is alone may hold half
/// of all slots. More slots than permits must stay free, because calls that wait long keep their slots.
const CALLS_TO_FREE: u64 = 1;

/// Whether a plugin that holds `held` units may take one of the `free` units. Afterwards, it may hold at most
/// `to_free` times as many units as are left. A plugin that holds none may take the last one.
///
/// If `n` plugins take all they may, one part in `1 + n * to_free` stays free.
fn may_take(held: u64, free: u32, to_free: u64) -> bool {
    match free.checked_sub(1) {
        None => false,
        Some(left) => held == 0 || held < to_free.saturating_mul(left.into()),
    }
}

/// One plugin's account.
struct CpuAccount {
    weight: u64,
    /// CPU time that the plugin's calls have used, in nanoseconds divided by the weight. Never decreases.
    used: u64,
    /// Moving average of the CPU time of one call of the plugin, in nanoseconds.
    estimate: u64,
    /// Calls that have not ended. Each holds a call slot.
    call_slots: u64,
    /// Calls that hold a CPU permit.
    permits: u64,
}

impl CpuAccount {
    /// CPU used so far plus the estimate for open calls. The plugin with the lowest sum goes first.
    fn reckoned(&self) -> u64 {
        self.used.saturating_add(self.call_slots.saturating_mul(self.estimate) / self.weight)
    }

    /// Charges an ended call that used `cpu`, or the estimate if `None`. `paid` is the part that was charged before.
    fn charge(&mut self, cpu: Option<Duration>, paid: Duration) {
        let cost = cpu.map_or(self.estimate, nanoseconds);
        self.pay(cost.saturating_sub(nanoseconds(paid)));
        self.estimate = self.estimate - self.estimate / SMOOTHING + cost / SMOOTHING;
    }

    fn pay(&mut self, cpu: u64) {
        self.used = self.used.saturating_add(cpu / self.weight);
    }

    fn may_begin(&self, free: Free) -> bool {
        may_take(self.call_slots, free.call_slots, CALLS_TO_FREE)
    }
}

impl<W> AccountEntry<CpuAccount, W> {
    /// Whether a waiter of this plugin could be granted something. If not, the plugin only wants to begin calls and
    /// holds as many as it may. Then its used CPU does not grow until one of them ends, which may take long.
    fn is_hungry(&self, free: Free) -> bool {
        self.is_waiting(Wants::ToGoOn) || self.is_waiting(Wants::ToBegin) && self.account.may_begin(free)
    }

    /// The plugin's next waiter, if the plugin may take more of the free permits and slots.
    fn next_of(&self, free: Free) -> Option<WaitTicket> {
        if !may_take(self.account.permits, free.permits, PERMITS_TO_FREE) {
            return None;
        }
        let (ticket, wants, _) = self.next()?;
        (wants == Wants::ToGoOn || self.account.may_begin(free)).then_some(ticket)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How the next plugin is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuOrder {
    /// The plugin that has used least.
    LeastUsed,
    /// The plugin that has waited longest.
    FirstCome,
}

/// CPU permits and call slots that no call holds.
#[derive(Clone, Copy, Debug)]
struct Free {
    permits: u32,
    call_slots: u32,
}

/// CPU permits, call slots, accounts and waiters. `W` is the handle that wakes a waiter.
pub(super) struct Schedule<W> {
    order: CpuOrder,
    /// The permits and slots that no call holds. Once [`Schedule::grant`] has returned `None`, no waiter may take any
    /// of them.
    free: Free,
    accounts: Accounts<CpuAccount, W>,
    horizon: u64,
}

impl<W> Schedule<W> {
    /// Takes at least one CPU permit, and at least as many call slots as CPU permits.
    pub(super) fn new(permits: u32, call_slots: u32, order: CpuOrder) -> Self {
        let permits = permits.max(1);
        let free = Free { permits, call_slots: call_slots.max(permits) };
        Self { order, free, accounts: Accounts::new(), horizon: 0 }
    }

    pub(super) fn join(&mut self, weight: NonZeroU32) -> AccountId {
        let (weight, used) = (weight.get().into(), self.horizon);
        self.accounts.join(CpuAccount { weight, used, estimate: FIRST_ESTIMATE, call_slots: 0, permits: 0 })
    }

    /// Closes an account that has no call and no waiter.
    pub(super) fn leave(&mut self, id: AccountId) {
        self.accounts.leave(id);
    }

    /// Queues a waiter for a call slot and a CPU permit.
    pub(super) fn begin(&mut self, id: AccountId, waiter: W) -> WaitTicket {
        self.wait(id, Wants::ToBegin, waiter)
    }

    /// Queues a waiter for a CPU permit. Its call has a call slot already.
    pub(super) fn go_on(&mut self, id: AccountId, waiter: W) -> WaitTicket {
        self.wait(id, Wants::ToGoOn, waiter)
    }

    fn wait(&mut self, id: AccountId, wants: Wants, waiter: W) -> WaitTicket {
        let entry = self.accounts.get_mut(id);
        if !entry.has_waiters() {
            entry.account.used = entry.account.used.max(self.horizon);
        }
        self.accounts.wait(id, wants, waiter)
    }

    /// Removes a waiter and returns it. Returns `None` if it has been granted already.
    pub(super) fn cancel(&mut self, id: AccountId, ticket: WaitTicket) -> Option<W> {
        self.accounts.cancel(id, ticket)
    }

    /// Grants free permits and slots to the next waiter. Returns `None` if no waiter may have more.
    pub(super) fn grant(&mut self) -> Option<(AccountId, W)> {
        if self.free.permits == 0 {
            return None;
        }
        self.bring_up();
        // Hungry plugins include plugins that may have no more CPU permits now, so that they are not behind the horizon
        // later. They do not include plugins whose calls all wait: such plugins would hold the horizon back, and every
        // newcomer would get a claim on the time of that wait.
        let hungry = self.accounts.iter().filter(|(_, entry)| entry.is_hungry(self.free));
        let least_used = hungry.map(|(_, entry)| entry.account.used).min()?;
        let reckoned = |account: &CpuAccount| match self.order {
            CpuOrder::LeastUsed => account.reckoned(),
            CpuOrder::FirstCome => 0,
        };
        let waiting =
            self.accounts.iter().filter_map(|(id, entry)| Some((id, &entry.account, entry.next_of(self.free)?)));
        let (next, ..) = waiting.min_by_key(|(_, account, first)| (reckoned(account), *first))?;
        self.horizon = self.horizon.max(least_used);
        self.free.permits -= 1;
        let entry = self.accounts.get_mut(next);
        entry.account.permits += 1;
        let (wants, waiter) = entry.pop()?;
        if wants == Wants::ToBegin {
            entry.account.call_slots += 1;
            self.free.call_slots -= 1;
        }
        Some((next, waiter))
    }

    /// Raises some accounts to the horizon: those of plugins that could get nothing because their own calls held all
    /// they may hold. Their wait must not become a claim on other plugins.
    fn bring_up(&mut self) {
        let (horizon, free) = (self.horizon, self.free);
        for entry in self.accounts.iter_mut().filter(|entry| entry.is_hungry(free)) {
            entry.account.used = entry.account.used.max(horizon);
        }
    }

    /// Takes back the CPU permit of a call that begins to wait.
    pub(super) fn pause(&mut self, id: AccountId) {
        self.account(id).permits -= 1;
        self.free.permits += 1;
    }

    /// Charges `cpu` more to a running call.
    pub(super) fn pay(&mut self, id: AccountId, cpu: Duration) {
        self.account(id).pay(nanoseconds(cpu));
    }

    /// Whether another plugin that has used much less than `id` waits for a CPU permit and could take the permit that
    /// a call of `id` holds.
    pub(super) fn is_wanted(&self, id: AccountId) -> bool {
        if self.order == CpuOrder::FirstCome {
            return false;
        }
        let free = Free { permits: self.free.permits.saturating_add(1), ..self.free };
        let mine = self.accounts.get(id).account.reckoned();
        // `waiting` may include the plugin of `id` itself. That does no harm: a plugin has never used much less than
        // itself.
        let mut waiting = self.accounts.iter().filter(|(_, entry)| entry.next_of(free).is_some());
        waiting.any(|(_, entry)| entry.account.reckoned().saturating_add(YIELD_ADVANTAGE_MIN) < mine)
    }

    /// Ends a call that holds no CPU permit: takes back its call slot and charges `cpu`, or the estimate if `None`.
    /// `paid` is the part that was charged before.
    pub(super) fn end(&mut self, id: AccountId, cpu: Option<Duration>, paid: Duration) {
        let account = self.account(id);
        account.call_slots -= 1;
        account.charge(cpu, paid);
        self.free.call_slots += 1;
    }

    /// As [`Self::end`], for a call that was never made.
    pub(super) fn end_unused(&mut self, id: AccountId) {
        self.account(id).call_slots -= 1;
        self.free.call_slots += 1;
    }

    fn account(&mut self, id: AccountId) -> &mut CpuAccount {
        &mut self.accounts.get_mut(id).account
    }
}

#[cfg(test)]
mod tests;
