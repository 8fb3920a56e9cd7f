//! The operator's configuration of a plugin, as its calls get it.

use tokio::sync::watch;
use windlass_core::confidential::Confidential;
use windlass_core::mapping::Primaries;
use windlass_core::object::ObjectKey;
use windlass_core::queue::{Priority, Queue};

/// A plugin's configuration. None: there is none yet that it could start with.
pub(crate) type Configured = watch::Receiver<Option<Confidential>>;

/// Queues every primary again, after all else, whenever there is another configuration than `configured` has seen. What
/// the first calls get may be marked as seen before they are begun, and not here: what changes before this is polled
/// would be, too, and nobody told of it.
pub(crate) async fn requeue_on_change(mut configured: Configured, primaries: impl Primaries, queue: Queue<ObjectKey>) {
    while configured.changed().await.is_ok() {
        for key in primaries.all() {
            queue.add_with(key, Priority::BACKGROUND);
        }
    }
}
