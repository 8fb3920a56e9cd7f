//! Checks in production that some gate would wake each parked key. A key that none would wake is dead: it ignores edits,
//! deleted children and its own deletion, and nothing else shows that.

use std::collections::HashMap;

use super::Gate;
use crate::object::ObjectKey;

/// The parked keys that the last look found unknown to the gate, each with its turn in the queue.
#[derive(Debug, Default)]
pub struct ParkedAudit {
    suspects: HashMap<ObjectKey, u32>,
}

impl Gate {
    /// Looks at the parked keys, wakes those that are lost, and returns them. There should never be one.
    ///
    /// A key is lost if two looks in a row find it parked in the same turn, and unknown to this gate. One look is not
    /// enough: a gate frees a key under its own lock, and wakes it under the queue's a moment later.
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
