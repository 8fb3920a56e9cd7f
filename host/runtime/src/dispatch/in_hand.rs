//! A key that a worker works on, and how it is put down.
//!
//! A worker takes its next key as soon as a call has ended. If a write of the call may still be carried out, only the
//! key waits for that, and not the worker; otherwise a slow API server would block all workers.

use std::future::Future;
use std::sync::Arc;

use tokio_util::task::TaskTracker;
use windlass_core::object::ObjectKey;
use windlass_core::queue::Queue;
use windlass_core::write::settle::Settled;

use super::Dispatch;
use crate::phases::Dropped;

/// A key that a worker works on. When it is dropped, however that happens, the queue may hand the key out again, or
/// parks it.
pub(super) struct InHand {
    queue: Queue<ObjectKey>,
    /// Counts the key if it is given back to a queue that is shut down.
    dropped: Arc<Dropped>,
    pub(super) key: ObjectKey,
    pub(super) end: KeyEnd,
}

/// The end of a worker's work on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyEnd {
    Done,
    /// The key must not run before the gate wakes it.
    Held,
    /// The key goes back unprocessed, because another generation has the queue, or because no call may begin any more.
    /// An abandoned round leaves it to the next one.
    GivenBack,
}

impl InHand {
    /// A key that `queue` has handed out.
    pub(super) fn new(queue: Queue<ObjectKey>, dropped: Arc<Dropped>, key: ObjectKey) -> Self {
        Self { queue, dropped, key, end: KeyEnd::Done }
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        match self.end {
            KeyEnd::Done => self.queue.done(&self.key),
            KeyEnd::Held => self.queue.park(&self.key),
            KeyEnd::GivenBack => {
                if !self.queue.give_back(&self.key) {
                    self.dropped.add(1);
                }
            }
        }
    }
}

/// The tasks that hold keys of one controller: its workers, and tasks that wait with a key until its write has settled.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    /// The tasks of this generation, including earlier rounds.
    of_generation: TaskTracker,
    /// The tasks of all generations.
    of_all: TaskTracker,
}

impl Workers {
    pub(crate) fn new(of_generation: TaskTracker, of_all: TaskTracker) -> Self {
        Self { of_generation, of_all }
    }

    /// Starts a task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.of_generation.spawn(self.of_all.track_future(task));
    }

    /// Waits until the tasks of this generation have ended.
    pub(crate) async fn wait(&self) {
        self.of_generation.wait().await;
    }
}

impl Dispatch {
    /// Ends the work on a key once everything that its call began is over. From then on the key may be processed again.
    pub(super) async fn put_down(&self, in_hand: InHand, mut settled: Settled) {
        if settled.is_over() {
            return;
        }
        let Some(settling) = self.status.settling.begin(in_hand.key.clone()) else {
            return settled.wait().await;
        };
        if let Some(keys) = self.status.settling.count_to_log() {
            tracing::warn!(
                plugin = %self.callee.principal.plugin, controller = %self.callee.controller, key = %in_hand.key, keys,
                "the outcome of a write is not known: its key waits until the object shows the write, or the API \
                 server can no longer carry it out; see `settling` in /plugins"
            );
        }
        let waiting = async move {
            settled.wait().await;
            // Dropped first, so that a worker that gets the key next does not find it waiting.
            drop(settling);
            drop(in_hand);
        };
        self.shutdown.workers.spawn(waiting);
    }
}
