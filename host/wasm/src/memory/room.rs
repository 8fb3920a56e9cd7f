//! Room in the guests' memory for the objects that a call's writes have left.
//!
//! An overlay cannot wait: the write is done. So it takes what is free; without it, it keeps little on credit, for
//! which the call waits before it goes on (`Meter::pay_for`), and the rest not at all.

use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::budget::shared_budget::{Portion, Wants};
use windlass_core::cache::overlay::Room;

use super::{GuestMemory, Share, pages};

/// A call's room for what it has written.
#[derive(Debug)]
struct OverlayRoom {
    memory: Arc<GuestMemory>,
    share: Share,
    held: Mutex<Portion>,
}

impl GuestMemory {
    /// Room for what a call of the plugin with `share` has written, empty as yet.
    pub(crate) fn room(self: &Arc<Self>, share: &Share) -> Arc<dyn Room> {
        let held = Mutex::new(share.pages.nothing());
        Arc::new(OverlayRoom { memory: self.clone(), share: share.clone(), held })
    }
}

impl Room for OverlayRoom {
    fn try_have(&self, bytes: usize) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let more = pages(bytes).saturating_sub(held.amount());
        if more == 0 {
            return true;
        }
        match self.memory.at_once(&self.share, more, Wants::ToGoOn) {
            Some(taken) => held.merge(taken),
            None => return false,
        }
        true
    }
}
