//! The questions that the status asks a working controller.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::breaker;
use windlass_core::queue::key_state::CallBlock;
use windlass_core::queue::trigger::Triggers;
use windlass_kube::ConditionCounts;

/// How long ago the last call about a key changed nothing, and the number of calls that were saved since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnchangedKey {
    pub(crate) since: Duration,
    pub(crate) saved: u64,
}

/// The guards of a controller's calls, as status and metrics show them.
pub(crate) trait CallGuards: Send + Sync {
    /// The state of the circuit breaker.
    fn breaker(&self) -> breaker::BreakerState;

    /// The state of the circuit breaker with its reasons, for `/plugins`.
    fn breaker_json(&self) -> Value;

    /// Number of keys in the slow lane, which write one object over and over.
    fn slowed(&self) -> usize;

    /// The keys in the slow lane, for `/plugins`.
    fn slow_lane_json(&self) -> Vec<Value>;

    /// The object that `key` writes over and over. `None` if the key is not in the slow lane.
    fn loops_over(&self, key: &ObjectKey) -> Option<Arc<str>>;

    /// The last call about `key`, if it changed nothing and the next one may be saved.
    fn unchanged(&self, key: &ObjectKey) -> Option<UnchangedKey>;
}

/// The keys of a working controller, as dispatch knows them.
pub(crate) trait KeySource: Send + Sync {
    /// Why no call can be made now.
    fn block(&self) -> Option<CallBlock>;

    /// The watches whose caches have not been listed since the server was restored.
    fn unproven(&self) -> Vec<String>;

    /// Whether the primary of `key` exists.
    fn has(&self, key: &ObjectKey) -> bool;

    /// The keys of all existing primaries.
    fn all(&self) -> Vec<ObjectKey>;

    /// Why `key` is queued, if known.
    fn triggers(&self, key: &ObjectKey) -> Triggers;

    /// When the controller's timer was due and is due next, for `/plugins`. `None` if it has none.
    fn timer(&self) -> Option<Value>;

    /// The kind of the primaries, and how many of them have each condition.
    fn conditions(&self) -> (ObjectKind, ConditionCounts);

    /// Queues the keys whose last calls failed, with all their retries, and ends the pause of an open circuit. This is
    /// the only method by which the status changes a controller, on request at the admin address.
    fn resume(&self) -> ResumedController;
}

/// The parts of a controller that were resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResumedController {
    /// Number of keys that run because their last calls had failed.
    pub(crate) failed_keys: usize,
    /// True if the circuit was open. Then a trial call is made now.
    pub(crate) had_open_circuit: bool,
}
