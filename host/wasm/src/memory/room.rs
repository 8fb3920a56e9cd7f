//! Reserves memory of the guests for the objects that a call's writes have left.
//!
//! An overlay cannot wait, because the write is done. So it takes free memory. If there is none, it keeps a small
//! amount on credit, for which the call waits before it goes on (`Meter::pay_for`), and drops the remaining objects.

use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::budget::shared_budget::{Portion, Wants};
use windlass_core::cache::overlay::Room;

use super::{GuestMemory, Share, pages};

/// A call's memory for the objects that it has written.
#[derive(Debug)]
struct OverlayRoom {
    memory: Arc<GuestMemory>,
    share: Share,
    held: Mutex<Portion>,
}

impl GuestMemory {
    /// Memory for the objects that a call of the plugin with `share` has written, initially empty.
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
