//! Which plugin gets the next CPU permit: a value that is told what happens and says who is next.
//!
//! A call has a *call slot* from its beginning to its end, and a *CPU permit* while it is at work: one that waits gives
//! its CPU permit up and queues for another when it goes on. Both are scarce, CPU permits much more so.
//!
//! Start-time fair queueing over CPU time. Each plugin has an account of the CPU that its calls used, divided by its
//! weight; a free CPU permit goes to the plugin that waits with the least on its account. A call that has not ended is
//! reckoned by what such calls used lately, so that a plugin with many of them does not look as if they were free.
//! Within a plugin calls that go on come before those that begin.
//!
//! The *horizon* is where all who wait have got to: no waiting account is behind it, and it never goes back. A plugin
//! that begins to wait is brought up to it. So one that was idle cannot save up a claim, and one that comes is behind
//! nobody: with no debt of its own it gets the next CPU permit, but for others that came up to the horizon before it,
//! one grant each.
//!
//! To be next is worth nothing while others have everything. So a plugin takes one more only if enough stays free beside
//! ([`may_take`]): the more plugins have, the less any of them may have, and something is left for one that has nothing.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::budget::accounts::{AccountEntry, AccountId, Accounts, WaitTicket, Wants};

/// The estimate for a plugin's first call, in nanoseconds, before anything is known of it.
const FIRST_ESTIMATE: u64 = 1_000_000;
/// A call is passed over half-way by a plugin that has used so much less, in nanoseconds over the weight. What is less does
/// not pay for the change.
const WORTH_A_CHANGE: u64 = 5_000_000;
/// One part in this many of an estimate is the last call's.
const SMOOTHING: u64 = 4;
/// A plugin may have so many times the CPU permits that it leaves free: three quarters of all, if it is alone.
const PERMITS_TO_FREE: u64 = 3;
/// The same of call slots: a half. They are there for calls that wait long.
const CALLS_TO_FREE: u64 = 1;

/// Whether a plugin that has `held` may take one of the `free`, so that it then has at most `to_free` times what is
/// left. Who has none may take the last.
///
/// If `n` plugins take all that they may, that leaves one part in `1 + n * to_free`.
fn may_take(held: u64, free: u32, to_free: u64) -> bool {
    match free.checked_sub(1) {
        None => false,
        Some(left) => held == 0 || held < to_free.saturating_mul(left.into()),
    }
}

/// One plugin's account.
struct CpuAccount {
    weight: u64,
    /// The CPU that its calls used, in nanoseconds over the weight. It only grows.
    used: u64,
    /// The CPU that one of its calls uses, going by the last ones, in nanoseconds.
    estimate: u64,
    /// Its calls that have not ended: each has a call slot.
    call_slots: u64,
    /// Those of them that have a CPU permit.
    permits: u64,
}

impl CpuAccount {
    /// The CPU that it has used, and that its calls which have not ended will have used: the plugin with less goes
    /// first.
    fn reckoned(&self) -> u64 {
        self.used.saturating_add(self.call_slots.saturating_mul(self.estimate) / self.weight)
    }

    /// A call has ended that used `cpu`; None: it is taken for one as usual. Of this it has `paid` some already.
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
    /// Somebody waits who could have something. Otherwise it wants to begin calls only, and has as many as it may: what
    /// it has used does not grow before one of them ends, which may be long.
    fn is_hungry(&self, free: Free) -> bool {
        self.is_waiting(Wants::ToGoOn) || self.is_waiting(Wants::ToBegin) && self.account.may_begin(free)
    }

    /// Its own next waiter, if the plugin may have more of what is free.
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

/// By what the next one is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuOrder {
    /// The plugin that has used least.
    LeastUsed,
    /// The plugin that has waited longest.
    FirstCome,
}

/// The permits and call slots that nobody has.
#[derive(Clone, Copy, Debug)]
struct Free {
    permits: u32,
    call_slots: u32,
}

/// CPU permits and call slots, the accounts, and who waits: `W` is how a waiter is reached.
pub(super) struct Schedule<W> {
    order: CpuOrder,
    /// While somebody waits there is nothing that he may have, once [`Schedule::grant`] has returned None.
    free: Free,
    accounts: Accounts<CpuAccount, W>,
    horizon: u64,
}

impl<W> Schedule<W> {
    /// At least one CPU permit, and no fewer call slots than CPU permits.
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

    /// Queues a waiter who has a call slot for a CPU permit.
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

    /// Forgets a waiter and returns it, if it has not been granted what it waits for already.
    pub(super) fn cancel(&mut self, id: AccountId, ticket: WaitTicket) -> Option<W> {
        self.accounts.cancel(id, ticket)
    }

    /// Gives what is free to whoever is next. None: nobody waits who may have it.
    pub(super) fn grant(&mut self) -> Option<(AccountId, W)> {
        if self.free.permits == 0 {
            return None;
        }
        self.bring_up();
        // Also of those that may have no more CPU permits now: they are not behind the horizon when they may again. But
        // not of those whose calls wait, or all who come would be brought up to nothing, and have a claim on the time
        // that those wait.
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

    /// Brings those up to the horizon that could have had nothing while it went on, for their own calls held all that
    /// they may: that is no claim on their neighbours.
    fn bring_up(&mut self) {
        let (horizon, free) = (self.horizon, self.free);
        for entry in self.accounts.iter_mut().filter(|entry| entry.is_hungry(free)) {
            entry.account.used = entry.account.used.max(horizon);
        }
    }

    /// Takes the CPU permit of a call back that has not ended.
    pub(super) fn pause(&mut self, id: AccountId) {
        self.account(id).permits -= 1;
        self.free.permits += 1;
    }

    /// A call that goes on has used so much more.
    pub(super) fn pay(&mut self, id: AccountId, cpu: Duration) {
        self.account(id).pay(nanoseconds(cpu));
    }

    /// Whether a plugin that has used much less than `id`, whose call has a CPU permit, waits for one and could have
    /// this one.
    pub(super) fn is_wanted(&self, id: AccountId) -> bool {
        if self.order == CpuOrder::FirstCome {
            return false;
        }
        let free = Free { permits: self.free.permits.saturating_add(1), ..self.free };
        let mine = self.accounts.get(id).account.reckoned();
        // Its own account is among them, and never behind itself.
        let mut waiting = self.accounts.iter().filter(|(_, entry)| entry.next_of(free).is_some());
        waiting.any(|(_, entry)| entry.account.reckoned().saturating_add(WORTH_A_CHANGE) < mine)
    }

    /// A call has ended that had no CPU permit: takes its call slot back and charges what it used, of which it has
    /// `paid` some before; None: what such calls use.
    pub(super) fn end(&mut self, id: AccountId, cpu: Option<Duration>, paid: Duration) {
        let account = self.account(id);
        account.call_slots -= 1;
        account.charge(cpu, paid);
        self.free.call_slots += 1;
    }

    /// The same of a call that was never made.
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
