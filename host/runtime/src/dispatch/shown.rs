//! Status of dispatch: the guards of a controller's calls, and its keys.

use std::sync::Arc;

use serde_json::Value;
use windlass_core::cache::mapping::Primaries as _;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::breaker;
use windlass_core::queue::key_state::CallBlock;
use windlass_core::queue::trigger::Triggers;
use windlass_kube::ConditionCounts;

use super::Dispatch;
use super::call_record::CallRecord;
use super::circuit::Circuit;
use super::middleware::slow_lane::SlowLaneKeys;
use super::saving::SavedCalls;
use crate::observe::status::{CallGuards, KeySource, ResumedController, UnchangedKey};

/// The guards that a controller's calls pass.
pub(crate) struct ControllerGuards {
    pub(crate) circuit: Circuit,
    pub(crate) lane: Arc<SlowLaneKeys>,
    /// The kept calls, and the record that says whether any may be saved. `None` if every call is made.
    pub(crate) saved: Option<(Arc<SavedCalls>, Arc<CallRecord>)>,
}

impl CallGuards for ControllerGuards {
    fn breaker(&self) -> breaker::BreakerState {
        self.circuit.state()
    }

    fn breaker_json(&self) -> Value {
        self.circuit.to_json()
    }

    fn slowed(&self) -> usize {
        self.lane.count()
    }

    fn slow_lane_json(&self) -> Vec<Value> {
        self.lane.to_json()
    }

    fn loops_over(&self, key: &ObjectKey) -> Option<Arc<str>> {
        self.lane.object_of(key)
    }

    fn unchanged(&self, key: &ObjectKey) -> Option<UnchangedKey> {
        let (saved, record) = self.saved.as_ref()?;
        saved.unchanged(key).filter(|_| record.may_keep())
    }
}

impl KeySource for Dispatch {
    fn block(&self) -> Option<CallBlock> {
        self.permits.call_gate.block()
    }

    fn unproven(&self) -> Vec<String> {
        self.permits.call_gate.trust().unproven().into_iter().map(str::to_owned).collect()
    }

    fn has(&self, key: &ObjectKey) -> bool {
        // The plugin must not learn of objects that its policy hides, and a list of names would reveal them.
        !self.callee.principal.grants().hides(key) && self.keys.primaries.get(key).is_some()
    }

    fn all(&self) -> Vec<ObjectKey> {
        let grants = self.callee.principal.grants();
        self.keys.primaries.all().into_iter().filter(|key| !grants.hides(key)).collect()
    }

    fn triggers(&self, key: &ObjectKey) -> Triggers {
        self.keys.memory().triggers(key)
    }

    fn timer(&self) -> Option<Value> {
        Some(self.keys.primaries.timer.as_ref()?.to_json())
    }

    fn conditions(&self) -> (ObjectKind, ConditionCounts) {
        (self.keys.primary.kind.clone(), self.keys.primaries.conditions())
    }

    fn resume(&self) -> ResumedController {
        // The keys come first, because one of them may be the trial call.
        let failed_keys = self.keys.run_failed();
        ResumedController { failed_keys, had_open_circuit: self.permits.call_gate.probe_now() }
    }
}
