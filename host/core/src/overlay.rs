//! What the writes of a call have returned so far, which its later cache reads show (§3.4).
//!
//! The cache itself learns of a write by its watch, later. Within a call that would be a lie: it would read the state
//! that it has just replaced. There is no snapshot across kinds; only the call's own writes are laid over its reads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::object::{Object, ObjectKey, ObjectKind};

/// The states that a call's own writes have left. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    states: Arc<Mutex<HashMap<(ObjectKind, ObjectKey), State>>>,
}

/// What a write has left of an object. None: nothing.
type State = Option<Object>;

impl Overlay {
    /// Keeps what a committed write has left: the object that the server returned, or nothing.
    pub fn record(&self, kind: ObjectKind, key: ObjectKey, state: Option<Object>) {
        self.states().insert((kind, key), state);
    }

    /// What this call knows better than the cache about an object. None: it has not written it.
    #[must_use]
    pub fn get(&self, kind: &ObjectKind, key: &ObjectKey) -> Option<Option<Object>> {
        let states = self.states();
        if states.is_empty() {
            return None; // Nearly always: spares the key's copy.
        }
        states.get(&(kind.clone(), key.clone())).cloned()
    }

    fn states(&self) -> MutexGuard<'_, HashMap<(ObjectKind, ObjectKey), State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
