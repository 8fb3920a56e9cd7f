//! A hot swap in the middle of a call: the plugin's file is replaced, and the call is held at a write meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use windlass_wasm::Plugin;

use crate::fault::WritePoint;
use crate::trace::{Happening, Record};

/// How long a write is held, so that the next generation gets ready and takes over meanwhile.
const WRITE_HOLD: Duration = Duration::from_secs(1);

/// A swap of the plugin for another generation, which is the same component.
#[derive(Clone)]
pub(super) struct HotSwap {
    pub(super) at: WritePoint,
    /// Where the generation is delivered.
    pub(super) newest: watch::Sender<Arc<Plugin>>,
}

impl HotSwap {
    /// Delivers the other generation, and waits until it may have taken over.
    pub(super) async fn strike(&self, record: &Record) {
        record.note(Happening::Delivered);
        self.newest.send_modify(|plugin| *plugin = plugin.another_generation());
        sleep(WRITE_HOLD).await;
    }
}
