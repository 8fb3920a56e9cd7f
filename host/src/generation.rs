//! What becomes of a newer generation of a plugin, told by whoever runs the plugin to whoever follows its file.

use std::sync::Arc;

use tokio::sync::mpsc;

/// What has become of the newest generation that a running plugin was given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "told by whoever swaps generations in place")]
pub(crate) enum Swapped {
    /// It runs.
    Runs,
    /// It does not run yet, and why; the one before it goes on.
    Pending(String),
    /// It ran, and failed so often that the one before it runs again.
    RolledBack {
        /// The digest that is not to be run again until the file changes.
        rejected: Arc<str>,
        /// Why.
        because: String,
    },
}

/// Where it is told, with the plugin's name.
pub(crate) type Reports = mpsc::UnboundedSender<(Arc<str>, Swapped)>;
