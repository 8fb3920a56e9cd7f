//! The part of a plugin's code that decides about the changes of watches.

use std::time::Duration;

use futures::future::BoxFuture;
use windlass_core::cache::mapping::Target;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::ChangeBatch;

use crate::dispatch::LOG;
use crate::dispatch::route::Route;

/// The plugin's own code for watches.
pub(crate) trait MapChanges: Send + Sync + 'static {
    /// Whether each change counts.
    fn matches(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<bool>, CodeFailure>>;

    /// The targets of each change. The error is the result of a failed call.
    fn map(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<Vec<Target>>, CallResult>>;

    /// Reports that the code has filtered out this many changes.
    fn filtered(&self, changes: usize);

    /// Whether the policy hides the object with this key from the plugin.
    fn hides(&self, key: &ObjectKey) -> bool;

    /// Whether the caches that the code reads are filled. Before that, a change is kept only if the coming run of every
    /// primary, or the coming rescan, would miss it.
    fn may_begin(&self) -> bool;

    /// Completes when the code may be called.
    fn begins(&self) -> BoxFuture<'static, ()>;
}

/// A failed call of the code.
#[derive(Debug)]
pub(crate) struct CodeFailure {
    /// How the call ended.
    pub(crate) result: CallResult,
    /// How long the call took. The time in which it waited to be made does not count.
    pub(crate) took: Duration,
}

/// Reports at trace level how a call of `function` about a change of the object `key` ended, for listeners such as
/// `windlass check`.
pub(super) fn note_result(function: &'static str, route: &Route, key: &ObjectKey, result: &CallResult) {
    let (watch, kind) = (route.watch.as_deref().unwrap_or_default(), &route.kind.kind);
    tracing::trace!(target: LOG, %function, %watch, %kind, %key, ?result, "asked about a change");
}
