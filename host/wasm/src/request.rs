//! The request of one call: which object it is about, and within what it takes place.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::secret::confidential::Confidential;

/// Which object a call is about, and why now; as `types.request` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The controller's name in the manifest.
    pub controller: Arc<str>,
    /// The key of the primary.
    pub key: ObjectKey,
    /// The primary's last known UID.
    pub uid: Option<Arc<str>>,
    /// The primary as cached. None: it is not in the watch's scope, usually because it is gone.
    pub object: Option<Arc<str>>,
    /// The primary is being deleted and waits for its finalizers.
    pub deleting: bool,
    /// How many retries of this key were counted since its last success.
    pub attempt: u32,
    /// 32 hexadecimal digits.
    pub trace_id: Arc<str>,
}

/// The request to a composer; as `composer.composition-request` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositionRequest {
    /// Which object, and why now. Its `object` is None: it is the `parent`.
    pub request: Request,
    /// The parent as cached.
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
    /// The state before. None: it is new, or part of a first list.
    pub old: Option<Arc<str>>,
    /// The state now. None: it has gone.
    pub new: Option<Arc<str>>,
}

/// Changes of one watch, of which a mapper says whom they concern; as `mapper.change-batch` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeBatch {
    /// The controller's name in the manifest.
    pub controller: Arc<str>,
    /// The watch's name in the manifest.
    pub watch: Arc<str>,
    /// In their order.
    pub changes: Vec<ObjectChange>,
}

/// The limits of a single call instead of the sandbox's for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Wall time, host calls included; at most the sandbox's `most_deadline`.
    pub deadline: Option<Duration>,
    /// In which instance it takes place.
    pub instances: Instances,
    /// The time and chance that it sees. None: the real ones.
    pub replay: Option<Replay>,
}

/// Time and chance that are known, so that a call can be made again and everything in it is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The time since 1970, which stands still.
    pub now: Duration,
    /// The seed of randomness. In `compose` it follows from the request in any case.
    pub seed: [u8; 32],
}
