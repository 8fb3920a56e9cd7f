//! The operator's configuration of a plugin, as its calls get it.

use tokio::sync::watch;
use windlass_core::secret::confidential::Confidential;

/// A plugin's configuration. None: there is none yet that it could start with.
pub(crate) type Configured = watch::Receiver<Option<Confidential>>;

/// Has `requeue` done whenever there is another configuration than `configured` has seen. What the first calls get may
/// be marked as seen before they are begun, and not here: what changes before this is polled would be, too, and nobody
/// told of it.
pub(crate) async fn requeue_on_change(mut configured: Configured, requeue: impl Fn()) {
    while configured.changed().await.is_ok() {
        requeue();
    }
}
