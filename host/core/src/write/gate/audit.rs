//! Checks in production that some gate would wake each parked key. A key that no gate would wake is dead: it ignores
//! edits, deleted children and its own deletion, and nothing else reveals that.

use std::collections::HashMap;

use super::Gate;
use crate::object::ObjectKey;

/// The parked keys that the gate did not know at the last audit. The number changes each time a key is parked anew.
#[derive(Debug, Default)]
pub struct ParkedAudit {
    suspects: HashMap<ObjectKey, u32>,
}

impl Gate {
    /// Finds lost parked keys, wakes them, and returns them. There should never be one.
    ///
    /// A key is lost if it stays parked from one audit to the next, and this gate does not know it in either audit. One
    /// audit is not enough, because a gate frees a key under its own lock and wakes it under the queue's lock a moment
    /// later.
    pub fn wake_lost(&self, audit: &mut ParkedAudit) -> Vec<ObjectKey> {
        let mut unknown = self.queue.parked();
        if !unknown.is_empty() {
            self.state.with(|state| unknown.retain(|(key, _)| !state.expectations.would_wake(key)));
        }
        let before = std::mem::take(&mut audit.suspects);
        let mut lost = Vec::new();
        for (key, turn) in unknown {
            if before.get(&key) == Some(&turn) {
                self.queue.wake(&key);
                lost.push(key);
            } else {
                audit.suspects.insert(key, turn);
            }
        }
        lost
    }
}
