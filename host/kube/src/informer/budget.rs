//! Limits the memory of the caches of one plugin (invariant 3).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use windlass_core::cache::watch::WatchSpec;

/// A budget in bytes, shared by all watches of one plugin. A cache that several plugins share counts in full for each
/// of these plugins, because the other plugins still need the cache when one of them goes. Objects count with their
/// unpacked size, so that reads of one plugin cannot make another plugin exceed its budget.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: Mutex<UsedBytes>,
    excesses: watch::Sender<Excesses>,
}

/// The memory that is used now, in bytes.
#[derive(Debug, Default)]
struct UsedBytes {
    caches: usize,
    /// Memory that the plugin can do without, so caches get room as if it were free.
    dispensable: usize,
}

/// The number of watches that were stopped because they needed too much, and the last such case.
#[derive(Debug, Default)]
struct Excesses {
    count: u64,
    last: Option<Arc<Excess>>,
}

/// A watch that needed more memory than was available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    pub watch: WatchSpec,
    /// The bytes that the watch needed when it was stopped. This is a lower bound, because the rest of a list is not
    /// read.
    pub needed: usize,
    /// The bytes that all caches of the plugin together would have needed then. Equals `needed` if the limit of a
    /// single cache was exceeded.
    pub total: usize,
    pub limit: usize,
    /// The kind of the limit.
    pub scope: BudgetScope,
}

/// The kind of limit that an [`Excess`] exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetScope {
    /// The limit of all caches of the plugin together.
    Plugin,
    /// The limit of each single cache of the host.
    Informer,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needed, limit) = (Mebibytes(self.needed), Mebibytes(self.limit));
        write!(f, "the cache of {} needs at least {needed}, ", self.watch)?;
        match self.scope {
            BudgetScope::Plugin => {
                let total = Mebibytes(self.total);
                write!(f, "which makes {total} with the plugin's other caches, and a plugin may have {limit}")?;
            }
            BudgetScope::Informer => write!(f, "and one cache may have {limit}")?,
        }
        f.write_str(": narrow the watch by namespaces, selectors, `where` or a projection, or raise the limit")
    }
}

struct Mebibytes(usize);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: usize = 1 << 20;
        // One decimal is enough to see by how much a limit was exceeded.
        let tenths = (self.0.saturating_mul(10)).div_ceil(MIB);
        write!(f, "{}.{} MiB", tenths / 10, tenths % 10)
    }
}

impl Budget {
    /// An unused budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: Mutex::default(), excesses: watch::Sender::default() })
    }

    /// The number of bytes that are used now, including the dispensable ones.
    #[must_use]
    pub fn used(&self) -> usize {
        let used = self.lock();
        used.caches.saturating_add(used.dispensable)
    }

    /// Changes the use of memory that the plugin can do without from `before` to `after` bytes. Returns false and
    /// changes nothing if the caches leave no room for that. This suspends no plugin.
    pub fn change_dispensable(&self, before: usize, after: usize) -> bool {
        let mut used = self.lock();
        let dispensable = used.dispensable.saturating_sub(before).saturating_add(after);
        let has_room = after <= before || used.caches.saturating_add(dispensable) <= self.limit;
        if has_room {
            used.dispensable = dispensable;
        }
        has_room
    }

    /// The number of times that a watch was stopped because it needed too much.
    #[must_use]
    pub fn excesses(&self) -> u64 {
        self.excesses.borrow().count
    }

    /// The last excess. `None` if there was none.
    #[must_use]
    pub fn last_excess(&self) -> Option<Arc<Excess>> {
        self.excesses.borrow().last.clone()
    }

    /// Completes once watches have been stopped more than `before` times because they needed too much. Cancel-safe.
    ///
    /// # Panics
    ///
    /// Never, because the sender is in `self`.
    pub async fn exceeded(&self, before: u64) -> Arc<Excess> {
        let mut excesses = self.excesses.subscribe();
        let found = excesses.wait_for(|it| it.count > before).await.expect("the sender lives");
        Arc::clone(found.last.as_ref().expect("each is kept as the last"))
    }

    /// Changes the use of a watch from `before` to `after` bytes. Returns `None` and changes nothing if there is no
    /// room.
    pub(crate) fn change(&self, watch: &WatchSpec, before: usize, after: usize) -> Option<()> {
        let mut used = self.lock();
        let total = used.caches.saturating_sub(before).saturating_add(after);
        if after > before && total > self.limit {
            drop(used);
            self.exceed(Excess {
                watch: watch.clone(),
                needed: after,
                total,
                limit: self.limit,
                scope: BudgetScope::Plugin,
            });
            return None;
        }
        used.caches = total;
        Some(())
    }

    /// Records that a watch was stopped.
    pub fn exceed(&self, excess: Excess) {
        self.excesses.send_modify(|it| *it = Excesses { count: it.count + 1, last: Some(Arc::new(excess)) });
    }

    fn lock(&self) -> MutexGuard<'_, UsedBytes> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The budgets that one cache is charged to. Each budget is charged once, even if several watches of its plugin share
/// the cache. The objects are charged to all budgets, and an index only to the budgets whose watches declare it.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    /// The bytes of the objects.
    bytes: usize,
    payers: Vec<Payer>,
}

/// A budget that a cache is charged to.
#[derive(Debug)]
struct Payer {
    budget: Arc<Budget>,
    subscribers: usize,
    /// The bytes that the budget is charged now.
    charged: usize,
}

impl Charges {
    /// The size of the objects when they were last charged, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The budgets that are charged.
    pub(crate) fn budgets(&self) -> impl Iterator<Item = &Arc<Budget>> {
        self.payers.iter().map(|payer| &payer.budget)
    }

    /// Adds a subscriber of `budget`. Returns false if there is no room for the current objects.
    pub(crate) fn join(&mut self, budget: &Arc<Budget>, watch: &WatchSpec) -> bool {
        if let Some(payer) = self.payers.iter_mut().find(|payer| Arc::ptr_eq(&payer.budget, budget)) {
            payer.subscribers += 1;
            return true;
        }
        if budget.change(watch, 0, self.bytes).is_none() {
            return false;
        }
        self.payers.push(Payer { budget: Arc::clone(budget), subscribers: 1, charged: self.bytes });
        true
    }

    /// Removes a subscriber of `budget`.
    pub(crate) fn leave(&mut self, budget: &Arc<Budget>, watch: &WatchSpec) {
        let Some(at) = self.payers.iter().position(|payer| Arc::ptr_eq(&payer.budget, budget)) else { return };
        self.payers[at].subscribers -= 1;
        if self.payers[at].subscribers == 0 {
            let Payer { budget, charged, .. } = self.payers.swap_remove(at);
            budget.change(watch, charged, 0);
        }
    }

    /// Charges each budget with `bytes`, the current size of the objects, and with the bytes of the budget's `indexes`.
    /// Returns the budgets without room for this. They are not charged any more.
    pub(crate) fn set(
        &mut self,
        bytes: usize,
        indexes: impl Fn(&Arc<Budget>) -> usize,
        watch: &WatchSpec,
    ) -> Vec<Arc<Budget>> {
        self.bytes = bytes;
        let mut broke = Vec::new();
        self.payers.retain_mut(|Payer { budget, charged, .. }| {
            let due = bytes.saturating_add(indexes(budget));
            let paid = budget.change(watch, *charged, due).is_some();
            if paid {
                *charged = due;
            } else {
                budget.change(watch, *charged, 0);
                broke.push(Arc::clone(budget));
            }
            paid
        });
        broke
    }

    /// Records that the cache exceeds its own limit: no budget is charged any more, and all are notified.
    pub(crate) fn refuse(&mut self, excess: &Excess) {
        for Payer { budget, charged, .. } in self.payers.drain(..) {
            budget.change(&excess.watch, charged, 0);
            budget.exceed(excess.clone());
        }
    }

    /// Records that the cache exceeds its own limit because of the indexes of `budget`. This budget is not charged any
    /// more, and is notified.
    pub(crate) fn refuse_one(&mut self, budget: &Arc<Budget>, excess: Excess) {
        let Some(at) = self.payers.iter().position(|payer| Arc::ptr_eq(&payer.budget, budget)) else { return };
        let Payer { budget, charged, .. } = self.payers.swap_remove(at);
        budget.change(&excess.watch, charged, 0);
        budget.exceed(excess);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use windlass_core::object::ObjectKind;

    use super::*;

    fn pods() -> WatchSpec {
        WatchSpec::all(ObjectKind::new("v1", "Pod"))
    }

    #[test]
    fn a_cache_is_charged_once_to_each_plugin_and_given_back() {
        let (one, other) = (Budget::new(100), Budget::new(50));
        let mut charges = Charges::default();
        for budget in [&one, &one, &other] {
            assert!(charges.join(budget, &pods()));
        }
        assert!(charges.set(40, |_| 0, &pods()).is_empty());
        assert_eq!((one.used(), other.used()), (40, 40));
        let broke = charges.set(60, |_| 0, &pods());
        assert!(broke.len() == 1 && Arc::ptr_eq(&broke[0], &other));
        assert_eq!((one.used(), other.used()), (60, 0));
        charges.leave(&one, &pods());
        assert_eq!(one.used(), 60);
        charges.leave(&one, &pods());
        assert_eq!(one.used(), 0);
    }

    #[test]
    fn indexes_are_charged_to_the_plugins_that_declare_them() {
        let (one, other) = (Budget::new(100), Budget::new(100));
        let mut charges = Charges::default();
        for budget in [&one, &other] {
            assert!(charges.join(budget, &pods()));
        }
        let indexes = |bytes: usize| {
            let one = Arc::clone(&one);
            move |budget: &Arc<Budget>| if Arc::ptr_eq(budget, &one) { bytes } else { 0 }
        };
        assert!(charges.set(40, indexes(50), &pods()).is_empty());
        assert_eq!((one.used(), other.used()), (90, 40));
        let broke = charges.set(40, indexes(61), &pods());
        assert!(broke.len() == 1 && Arc::ptr_eq(&broke[0], &one));
        assert_eq!((one.used(), other.used()), (0, 40));
        charges.leave(&other, &pods());
        assert_eq!(other.used(), 0);
    }

    #[test]
    fn an_excess_names_the_watch_and_the_figures() {
        let budget = Budget::new(10 << 20);
        assert!(budget.exceeded(0).now_or_never().is_none());
        assert!(budget.change(&pods(), 0, 8 << 20).is_some());
        let secrets = WatchSpec::all(ObjectKind::new("v1", "Secret"));
        assert!(budget.change(&secrets, 0, 5 << 20).is_none());
        let excess = budget.exceeded(0).now_or_never().expect("reported at once").to_string();
        assert!(excess.starts_with("the cache of v1 Secret needs at least 5.0 MiB, which makes 13.0 MiB"), "{excess}");
        assert!(excess.contains("a plugin may have 10.0 MiB"), "{excess}");
        assert_eq!(budget.used(), 8 << 20);
    }

    #[test]
    fn shrinking_is_always_allowed() {
        let budget = Budget::new(10);
        assert!(budget.change(&pods(), 0, 10).is_some());
        assert!(budget.change(&pods(), 10, 3).is_some());
        assert_eq!(budget.used(), 3);
    }

    #[test]
    fn dispensable_memory_takes_only_what_the_caches_leave() {
        let budget = Budget::new(10);
        assert!(budget.change(&pods(), 0, 6).is_some());
        assert!(budget.change_dispensable(0, 4) && !budget.change_dispensable(4, 5));
        assert_eq!(budget.used(), 10);
        assert!(budget.change(&pods(), 6, 10).is_some(), "a cache goes first");
        assert!(!budget.change_dispensable(4, 5) && budget.change_dispensable(4, 3) && budget.change_dispensable(3, 0));
        assert_eq!((budget.used(), budget.excesses()), (10, 0));
    }
}
