//! Reports about generations, from `swap` to `reload`.
//!
//! A generation is one [`Plugin`]: the content of a file at one time.

use std::sync::Arc;

use tokio::sync::mpsc;
use windlass_wasm::Plugin;

/// The state of a plugin's newest generation.
#[derive(Clone, Debug)]
pub(crate) enum Swapped {
    /// The generation runs.
    Runs(Arc<Plugin>),
    /// The generation does not run yet.
    Pending {
        /// Its digest.
        digest: Arc<str>,
        reason: String,
    },
    /// The generation has failed its probation, and the last proven generation takes over again.
    RolledBack {
        /// The digest of the failed generation.
        rejected: Arc<str>,
        /// The proven generation.
        to: Arc<Plugin>,
        /// How it failed.
        because: String,
    },
}

/// Sends reports about generations, with the plugin's name.
pub(crate) type Reports = mpsc::UnboundedSender<(Arc<str>, Swapped)>;
