//! Charges a feed's memory to the budgets of its subscribers.

use std::sync::Arc;

use super::{Feed, FeedState, Subscriber};
use crate::informer::budget::{BudgetScope, Excess};
use crate::informer::error::OverBudget;

impl Feed {
    /// Charges a list of `bytes` that is still arriving. An error means that no budget has room, or that there are no
    /// subscribers any more.
    pub(crate) fn afford(&self, bytes: usize) -> Result<(), OverBudget> {
        let mut state = self.lock();
        self.charge(&mut state, bytes)?;
        if state.subscribers.is_empty() { Err(OverBudget) } else { Ok(()) }
    }

    /// Charges the size of the store, or `at_least` bytes, and stops the subscribers without room for it.
    pub(super) fn charge(&self, state: &mut FeedState, at_least: usize) -> Result<(), OverBudget> {
        let bytes = self.store.whole_bytes().max(at_least);
        let broke = if bytes > self.limit {
            let (watch, limit) = (self.spec.clone(), self.limit);
            let excess = Excess { watch, needed: bytes, total: bytes, limit, scope: BudgetScope::Informer };
            state.charges.refuse(&excess);
            state.subscribers.keys().copied().collect()
        } else {
            let broke = state.charges.set(bytes, &self.spec);
            let is_broke = |subscriber: &Subscriber| {
                subscriber.options.budget.as_ref().is_some_and(|it| broke.iter().any(|broke| Arc::ptr_eq(broke, it)))
            };
            state.subscribers.iter().filter(|(_, it)| is_broke(it)).map(|(id, _)| *id).collect::<Vec<_>>()
        };
        if broke.is_empty() {
            return Ok(());
        }
        for id in broke {
            state.stop(id);
        }
        self.subscribers.send_replace(state.subscribers.len());
        if state.subscribers.is_empty() { Err(OverBudget) } else { Ok(()) }
    }
}
