//! A hot swap during a call: the plugin's file is replaced while the call is held at a write.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use windlass_wasm::Plugin;

use crate::fault::WritePoint;
use crate::trace::{Happening, Record};

/// The time for which a write is held, so that the next generation can get ready and take over.
const WRITE_HOLD: Duration = Duration::from_secs(1);

/// A swap of the plugin for another generation of the same component.
#[derive(Clone)]
pub(super) struct HotSwap {
    pub(super) at: WritePoint,
    /// Delivers the generation.
    pub(super) newest: watch::Sender<Arc<Plugin>>,
}

impl HotSwap {
    /// Delivers the other generation, and gives it time to take over.
    pub(super) async fn strike(&self, record: &Record) {
        record.note(Happening::Delivered);
        self.newest.send_modify(|plugin| *plugin = plugin.another_generation());
        sleep(WRITE_HOLD).await;
    }
}
