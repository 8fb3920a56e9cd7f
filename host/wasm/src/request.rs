//! The arguments of one call, and its limits.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::secret::confidential::Confidential;

/// The object of a call, and the reasons for the call; as `types.request` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The controller's name in the manifest.
    pub controller: Arc<str>,
    /// The key of the primary.
    pub key: ObjectKey,
    /// The primary's last known UID.
    pub uid: Option<Arc<str>>,
    /// The cached primary. `None` if it is not in the watch's scope, usually because it is gone.
    pub object: Option<Arc<str>>,
    /// Whether the primary is being deleted and waits for its finalizers.
    pub deleting: bool,
    /// The number of counted retries of this key since its last success.
    pub attempt: u32,
    /// 32 hexadecimal digits.
    pub trace_id: Arc<str>,
}

/// The arguments of a composer; as `composer.composition-request` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositionRequest {
    /// The key and the reasons for the call. `request.object` is always `None`: the object is in `parent`.
    pub request: Request,
    pub parent: Arc<str>,
    /// The objects of the owned kinds that the parent controls.
    pub children: Vec<Arc<str>>,
    /// The objects of the other watches that map to the parent.
    pub related: Vec<Arc<str>>,
    /// The operator's configuration of the plugin.
    pub config: Confidential,
}

/// A change of one object; as `mapper.change` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    /// The state before the change. `None` if the object is new, or part of a first list.
    pub old: Option<Arc<str>>,
    /// The state after the change. `None` if the object is gone.
    pub new: Option<Arc<str>>,
}

/// Changes of one watch, which a mapper maps to primaries; as `mapper.change-batch` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeBatch {
    /// The controller's name in the manifest.
    pub controller: Arc<str>,
    /// The watch's name in the manifest.
    pub watch: Arc<str>,
    /// The changes in order.
    pub changes: Vec<ObjectChange>,
}

/// The limits of a single call, which replace the sandbox's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Wall time, including host calls; at most the sandbox's `most_deadline`.
    pub deadline: Option<Duration>,
    /// Whether the call may use an instance that has served other calls.
    pub instances: Instances,
    /// The time and random data that the call sees. `None` for the real time and real random data.
    pub replay: Option<Replay>,
}

/// Fixed time and random data, with which a call can be repeated exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The time since 1970, which stands still.
    pub now: Duration,
    /// The seed of random data. In `compose`, the seed is derived from the request in any case.
    pub seed: [u8; 32],
}
