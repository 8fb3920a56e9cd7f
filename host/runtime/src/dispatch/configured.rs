//! The operator's configuration of a plugin, as its calls get it.

use tokio::sync::watch;
use windlass_core::secret::confidential::Confidential;
use windlass_manifest::{ConfiguredKinds, Manifest};

/// A plugin's configuration. `None` while there is no valid one.
pub(crate) type Configured = watch::Receiver<Option<Confidential>>;

/// The kinds that the configuration names for `manifest` now. `None` while there is no valid configuration and the
/// manifest needs one to name its kinds.
pub(crate) fn kinds(manifest: &Manifest, configured: &Configured) -> Option<ConfiguredKinds> {
    if manifest.kind_pointers().is_empty() {
        return Some(ConfiguredKinds::default());
    }
    let config = configured.borrow().clone()?;
    // Its follower has checked both.
    ConfiguredKinds::read(&manifest.controllers, &serde_json::from_str(&config).ok()?).ok()
}

/// Calls `requeue` each time the configuration differs from what `configured` has seen. The caller marks the
/// configuration of the first calls as seen before they begin. If this function did so, a change before its first poll
/// would be lost.
pub(crate) async fn requeue_on_change(mut configured: Configured, requeue: impl Fn()) {
    while configured.changed().await.is_ok() {
        requeue();
    }
}
