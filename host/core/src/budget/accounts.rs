//! One account per plugin, with a queue of waiters. The memory stock and the CPU schedule both keep such
//! accounts, and each decides by its own rule which plugin is next.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    ToBegin,
    /// The waiter continues work that has begun. Within a plugin, it comes before waiters that begin work.
    ToGoOn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AccountId(usize);

/// A waiter's number. Earlier waiters have smaller numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaitTicket(u64);

/// The accounts `A` of all plugins and their waiters. `W` is the handle that wakes a waiter.
pub(crate) struct Accounts<A, W> {
    accounts: Vec<Option<AccountEntry<A, W>>>,
    tickets: u64,
}

pub(crate) struct AccountEntry<A, W> {
    /// The amounts that the plugin holds and has used.
    pub(crate) account: A,
    /// Waiters that continue work, in ticket order.
    going_on: VecDeque<(WaitTicket, W)>,
    /// Waiters that begin work, in ticket order.
    beginning: VecDeque<(WaitTicket, W)>,
}

impl<A, W> AccountEntry<A, W> {
    /// Whether the plugin has a waiter of this kind.
    pub(crate) fn is_waiting(&self, wants: Wants) -> bool {
        match wants {
            Wants::ToBegin => !self.beginning.is_empty(),
            Wants::ToGoOn => !self.going_on.is_empty(),
        }
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.is_waiting(Wants::ToGoOn) || self.is_waiting(Wants::ToBegin)
    }

    /// The plugin's next waiter. A waiter that continues work goes first. Otherwise the longest
    /// waiter goes first.
    pub(crate) fn next(&self) -> Option<(WaitTicket, Wants, &W)> {
        let (wants, queue) =
            if self.going_on.is_empty() { (Wants::ToBegin, &self.beginning) } else { (Wants::ToGoOn, &self.going_on) };
        queue.front().map(|(ticket, waiter)| (*ticket, wants, waiter))
    }

    /// Removes the plugin's next waiter and returns it.
    pub(crate) fn pop(&mut self) -> Option<(Wants, W)> {
        let going_on = self.going_on.pop_front().map(|(_, waiter)| (Wants::ToGoOn, waiter));
        going_on.or_else(|| self.beginning.pop_front().map(|(_, waiter)| (Wants::ToBegin, waiter)))
    }

    fn queue(&mut self, wants: Wants) -> &mut VecDeque<(WaitTicket, W)> {
        match wants {
            Wants::ToBegin => &mut self.beginning,
            Wants::ToGoOn => &mut self.going_on,
        }
    }
}

impl<A, W> Accounts<A, W> {
    pub(crate) fn new() -> Self {
        Self { accounts: Vec::new(), tickets: 0 }
    }

    pub(crate) fn join(&mut self, account: A) -> AccountId {
        let free = self.accounts.iter().position(Option::is_none).unwrap_or_else(|| {
            self.accounts.push(None);
            self.accounts.len() - 1
        });
        self.accounts[free] = Some(AccountEntry { account, going_on: VecDeque::new(), beginning: VecDeque::new() });
        AccountId(free)
    }

    /// Closes an account that has no waiter.
    pub(crate) fn leave(&mut self, id: AccountId) {
        self.accounts[id.0] = None;
    }

    pub(crate) fn wait(&mut self, id: AccountId, wants: Wants, waiter: W) -> WaitTicket {
        let ticket = WaitTicket(self.tickets);
        self.tickets += 1;
        self.get_mut(id).queue(wants).push_back((ticket, waiter));
        ticket
    }

    /// Removes a waiter and returns it. Returns `None` if it has been granted already.
    pub(crate) fn cancel(&mut self, id: AccountId, ticket: WaitTicket) -> Option<W> {
        let entry = self.get_mut(id);
        [&mut entry.going_on, &mut entry.beginning].into_iter().find_map(|queue| {
            let place = queue.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()?;
            queue.remove(place).map(|(_, waiter)| waiter)
        })
    }

    pub(crate) fn get(&self, id: AccountId) -> &AccountEntry<A, W> {
        self.accounts[id.0].as_ref().expect("an account is closed only when its id is not used any more")
    }

    pub(crate) fn get_mut(&mut self, id: AccountId) -> &mut AccountEntry<A, W> {
        self.accounts[id.0].as_mut().expect("an account is closed only when its id is not used any more")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (AccountId, &AccountEntry<A, W>)> {
        self.accounts.iter().enumerate().filter_map(|(at, entry)| Some((AccountId(at), entry.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut AccountEntry<A, W>> {
        self.accounts.iter_mut().flatten()
    }
}
