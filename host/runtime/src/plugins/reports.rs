//! Reports of what became of a generation, from `swap` to `reload`.
//!
//! A generation is one [`Plugin`]: the bytes of a file at one time.

use std::sync::Arc;

use tokio::sync::mpsc;
use windlass_wasm::Plugin;

/// The fate of the newest generation that a plugin was to run.
#[derive(Clone, Debug)]
pub(crate) enum Swapped {
    /// This one runs.
    Runs(Arc<Plugin>),
    /// It does not run yet.
    Pending {
        /// Of the one that does not.
        digest: Arc<str>,
        /// Why.
        reason: String,
    },
    /// It did not prove itself, and the last one that has is to run again.
    RolledBack {
        /// The digest of the one that did not.
        rejected: Arc<str>,
        /// The one that has.
        to: Arc<Plugin>,
        /// How it failed.
        because: String,
    },
}

/// Where is told what becomes of generations, with the plugin's name.
pub(crate) type Reports = mpsc::UnboundedSender<(Arc<str>, Swapped)>;
