//! The calls that a shadow still has to make: the last call of each key, within limits.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use windlass_core::object::ObjectKey;

use super::noted::NotedCall;

/// The most calls that wait. Further calls are not compared, because the current version never waits for its shadow.
const WAITING_CALLS_MAX: usize = 1_000;
/// The most memory that the waiting calls take, in bytes.
const WAITING_CALLS_BYTES_MAX: usize = 32 << 20;

/// The calls of one controller that its shadow still has to make.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: Mutex<WaitingCalls>,
    added: Notify,
}

#[derive(Debug, Default)]
struct WaitingCalls {
    /// The keys of `calls`, each once, in the order of their calls.
    order: VecDeque<ObjectKey>,
    calls: HashMap<ObjectKey, NotedCall>,
    bytes: usize,
}

impl Backlog {
    /// Adds `call`. It takes the place of an earlier call about the same key. Returns false if there is no room.
    pub(crate) fn offer(&self, call: NotedCall) -> bool {
        let key = call.request.key.clone();
        let mut waiting = self.lock();
        let before = waiting.calls.remove(&key);
        waiting.bytes -= before.as_ref().map_or(0, NotedCall::bytes);
        if waiting.calls.len() >= WAITING_CALLS_MAX || waiting.bytes + call.bytes() > WAITING_CALLS_BYTES_MAX {
            waiting.order.retain(|other| *other != key);
            return false;
        }
        waiting.bytes += call.bytes();
        if before.is_none() {
            waiting.order.push_back(key.clone());
        }
        waiting.calls.insert(key, call);
        drop(waiting);
        self.added.notify_one();
        true
    }

    /// Waits for the next call. Cancel-safe.
    pub(crate) async fn next(&self) -> NotedCall {
        loop {
            match self.pop() {
                Some(call) => return call,
                None => self.added.notified().await,
            }
        }
    }

    fn pop(&self) -> Option<NotedCall> {
        let mut waiting = self.lock();
        let key = waiting.order.pop_front()?;
        let call = waiting.calls.remove(&key)?;
        waiting.bytes -= call.bytes();
        Some(call)
    }

    fn lock(&self) -> MutexGuard<'_, WaitingCalls> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::FutureExt;
    use windlass_core::queue::outcome::CallResult;
    use windlass_wasm::{CallLimits, Called};

    use super::super::ledger::ShadowLedger;
    use super::super::noted::CallNotes;
    use super::*;
    use crate::tests::played;

    fn call(ledger: &Arc<ShadowLedger>, name: &str, attempt: u32) -> NotedCall {
        let (mut request, context) = played::call(None);
        (request.key, request.attempt) = (ObjectKey::namespaced("prod", name), attempt);
        let context = Arc::into_inner(context).expect("the only reference");
        NotedCall::new(
            ledger.clone(),
            request,
            context,
            CallLimits::default(),
            CallNotes::default(),
            Called::made(CallResult::Done, Duration::ZERO),
        )
    }

    fn next(backlog: &Backlog) -> Option<(String, u32)> {
        let call = backlog.next().now_or_never()?;
        Some((call.request.key.to_string(), call.request.attempt))
    }

    #[test]
    fn a_newer_call_replaces_the_one_of_its_key_in_place() {
        let (backlog, version) = (Backlog::default(), Arc::default());
        for (name, attempt) in [("a", 1), ("b", 1), ("a", 2)] {
            assert!(backlog.offer(call(&version, name, attempt)));
        }
        assert_eq!(next(&backlog), Some(("prod/a".to_owned(), 2)));
        assert_eq!(next(&backlog), Some(("prod/b".to_owned(), 1)));
        assert_eq!(next(&backlog), None);
    }

    #[test]
    fn the_backlog_of_shadow_calls_is_bounded() {
        let (backlog, version) = (Backlog::default(), Arc::default());
        for number in 0..WAITING_CALLS_MAX {
            assert!(backlog.offer(call(&version, &number.to_string(), 1)));
        }
        assert!(!backlog.offer(call(&version, "one-more", 1)));
        assert!(backlog.offer(call(&version, "7", 2)), "it takes the place of its own");
        assert_eq!(next(&backlog), Some(("prod/0".to_owned(), 1)));
        assert!(backlog.offer(call(&version, "one-more", 1)));
    }
}
