//! Charges a feed's memory to the budgets of its subscribers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Feed, FeedState, SubscribeOptions, Subscriber};
use crate::informer::budget::{Budget, BudgetScope, Charges, Excess};
use crate::informer::error::OverBudget;

impl Feed {
    /// Charges a list of `bytes` that is still arriving. An error means that no budget has room, or that there are no
    /// subscribers any more.
    pub(crate) fn afford(&self, bytes: usize) -> Result<(), OverBudget> {
        let mut state = self.lock();
        self.charge(&mut state, bytes)?;
        if state.subscribers.is_empty() { Err(OverBudget) } else { Ok(()) }
    }

    /// Charges the size of the objects, at least `at_least` bytes, and the size of the indexes. Stops the subscribers
    /// without room for this.
    pub(super) fn charge(&self, state: &mut FeedState, at_least: usize) -> Result<(), OverBudget> {
        let bytes = self.store.whole_bytes().max(at_least);
        let broke = if bytes > self.limit {
            state.charges.refuse(&self.excess(bytes));
            state.subscribers.keys().copied().collect()
        } else {
            let indexes = self.index_bytes(&state.subscribers);
            let of_indexes = |budget: &Arc<Budget>| indexes.get(&Arc::as_ptr(budget)).copied().unwrap_or_default();
            let mut broke = self.refuse_large_indexes(&mut state.charges, bytes, of_indexes);
            broke.extend(state.charges.set(bytes, of_indexes, &self.spec));
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

    /// Finds the subscribers whose indexes push the cache over the cache's own limit, stops charging their budgets, and
    /// returns these budgets. The cache continues for the other subscribers.
    fn refuse_large_indexes(
        &self,
        charges: &mut Charges,
        bytes: usize,
        indexes: impl Fn(&Arc<Budget>) -> usize,
    ) -> Vec<Arc<Budget>> {
        let needed = |budget: &Arc<Budget>| bytes.saturating_add(indexes(budget));
        let large = charges.budgets().map(|budget| (Arc::clone(budget), needed(budget)));
        let large: Vec<_> = large.filter(|(_, needed)| *needed > self.limit).collect();
        for (budget, needed) in &large {
            charges.refuse_one(budget, self.excess(*needed));
        }
        large.into_iter().map(|(budget, _)| budget).collect()
    }

    fn excess(&self, needed: usize) -> Excess {
        let (watch, limit) = (self.spec.clone(), self.limit);
        Excess { watch, needed, total: needed, limit, scope: BudgetScope::Informer }
    }

    /// The memory of the indexes that each budget's subscribers have declared, in bytes. Budgets without an index are
    /// left out.
    fn index_bytes(&self, subscribers: &HashMap<u64, Subscriber>) -> HashMap<*const Budget, usize> {
        let mut declared: HashMap<_, HashSet<_>> = HashMap::new();
        for SubscribeOptions { budget, indexes, .. } in subscribers.values().map(|it| &it.options) {
            if let Some(budget) = budget.as_ref().filter(|_| !indexes.is_empty()) {
                declared.entry(Arc::as_ptr(budget)).or_default().extend(indexes);
            }
        }
        declared.into_iter().map(|(budget, indexes)| (budget, self.store.index_bytes(indexes))).collect()
    }
}
