//! Runs work on large texts, which takes up to tens of milliseconds, on separate threads, and not on the threads that
//! run guests and watches. The number of separate threads is limited for the host as a whole and for each plugin.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use windlass_core::budget::shared_budget::{BudgetShare, Portion, SharedBudget, Wants};

/// Texts larger than this are parsed on a separate thread.
pub(crate) const READ_IN_PLACE_BYTES_MAX: usize = 64 << 10;
/// The maximum number of one plugin's tasks that keep a thread while they wait for the server.
const PLUGIN_WAITING_WORK_MAX: usize = 2;
/// The maximum number of tasks of all plugins that keep a thread while they wait for the server.
const WAITING_WORK_MAX: u32 = 32;
/// The maximum number of texts of one plugin that are parsed concurrently, without waiting for the server.
const PLUGIN_TEXTS_READ_MAX: usize = 2;
/// The maximum number of texts of all plugins that are parsed concurrently.
const TEXTS_READ_MAX: usize = 4;

/// One plugin's share of the threads. Clones are the same share.
#[derive(Clone, Debug)]
pub(crate) struct Offload {
    threads: SharedBudget,
    of_threads: BudgetShare,
    long: Arc<Semaphore>,
    reads: [Arc<Semaphore>; 2],
}

/// A permit to use a thread.
#[derive(Debug)]
pub(crate) struct Thread {
    _of_one: OwnedSemaphorePermit,
    _of_all: Portion,
}

impl Offload {
    /// The share of a host's first plugin.
    pub(crate) fn new() -> Self {
        Self::part_of(SharedBudget::new(WAITING_WORK_MAX), Arc::new(Semaphore::new(TEXTS_READ_MAX)))
    }

    /// The share of another plugin of the same host.
    pub(crate) fn of_another(&self) -> Self {
        Self::part_of(self.threads.clone(), self.reads[1].clone())
    }

    fn part_of(threads: SharedBudget, reads_of_all: Arc<Semaphore>) -> Self {
        let of_threads = threads.share();
        let reads = [Arc::new(Semaphore::new(PLUGIN_TEXTS_READ_MAX)), reads_of_all];
        Self { threads, of_threads, long: Arc::new(Semaphore::new(PLUGIN_WAITING_WORK_MAX)), reads }
    }

    /// Waits for a thread.
    pub(crate) async fn thread(&self) -> Thread {
        // Acquires the plugin's own permit first, so that a plugin that has used up its share does not block others.
        let of_one = self.long.clone().acquire_owned().await.expect("never closed");
        Thread { _of_one: of_one, _of_all: self.of_threads.take(1, Wants::ToBegin).await }
    }

    /// Parses `text`, on a separate thread if it is large.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        text: String,
        read: impl FnOnce(&str) -> T + Send + 'static,
    ) -> T {
        if text.len() <= READ_IN_PLACE_BYTES_MAX {
            return read(&text);
        }
        let mut permits = Vec::with_capacity(self.reads.len());
        for reads in &self.reads {
            permits.push(reads.clone().acquire_owned().await.expect("never closed"));
        }
        let reading = spawn_blocking(move || {
            // Held until the work is done, even if the caller stops waiting.
            let _permits = permits;
            read(&text)
        });
        match reading.await {
            Ok(read) => read,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, and the caller with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use futures::FutureExt as _;
    use futures::future::join_all;

    use super::*;

    /// How many texts of `plugins` plugins are parsed concurrently.
    async fn at_a_time(plugins: usize) -> usize {
        let (first, now, most) = (Offload::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let counted = Arc::new((now, most));
        let parts: Vec<_> = (0..plugins).map(|_| first.of_another()).collect();
        let reads = parts.iter().flat_map(|part| [part; 5]).map(|part| {
            let counted = counted.clone();
            part.read("x".repeat((64 << 10) + 1), move |_| {
                let (now, most) = &*counted;
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(20));
                now.fetch_sub(1, Ordering::SeqCst);
            })
        });
        join_all(reads).await;
        counted.1.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn few_large_texts_are_read_at_a_time_and_fewer_of_one_plugin() {
        assert!((1..=2).contains(&at_a_time(1).await));
        assert!((1..=4).contains(&at_a_time(5).await));
    }

    #[tokio::test]
    async fn a_small_text_is_read_on_the_callers_thread() {
        let here = thread::current().id();
        let there = Offload::new().read("x".repeat(64 << 10), |_| thread::current().id()).now_or_never();
        assert_eq!(there, Some(here));
        assert_ne!(Offload::new().read("x".repeat((64 << 10) + 1), |_| thread::current().id()).await, here);
    }

    #[test]
    fn plugins_that_hold_threads_leave_one_for_a_plugin_without() {
        let first = Offload::new();
        let parts: Vec<_> = (0..20).map(|_| first.of_another()).collect();
        let have = || parts.iter().filter_map(|part| part.thread().now_or_never()).collect::<Vec<_>>();
        let (ones, seconds, thirds) = (have(), have(), have());
        assert_eq!([ones.len(), seconds.len(), thirds.len()], [20, 10, 0]);
        assert!(first.thread().now_or_never().is_some(), "it has none");
    }
}
