//! Hot loops: a key whose calls write one object over and over again is called rarely, until another client changes its
//! primary. `core::hot_loop` decides; the writer reports each write that it has carried out.
//!
//! If two plugins fight over one object, each is found separately, and its Event names the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use serde_json::{Value, json};
use windlass_core::cache::overlay::WrittenState;
use windlass_core::call::ports::{CallContext, Events};
use windlass_core::clock::{Clock, Moment};
use windlass_core::object::compact::Version;
use windlass_core::object::{ObjectKey, ObjectRef};
use windlass_core::queue::hot_loop::{HOT_LOOP_HOLD_MAX, SlowLane, SlowMark};
use windlass_core::queue::outcome::CallResult;
use windlass_kube::Committed;
use windlass_wasm::Called;

use crate::clock::SystemClock;
use crate::dispatch::guards::Guards;
use crate::dispatch::reconcile::{Call, Reconcile};
use crate::observe::status::ControllerStatus;

/// The most slow keys that are listed for one controller.
const LISTED_SLOW_KEYS_MAX: usize = 100;

/// The slow lane of one controller.
pub(crate) struct SlowLaneKeys {
    keys: Mutex<SlowLane<ObjectKey>>,
    clock: SystemClock,
    guards: Guards,
    events: Arc<dyn Events>,
}

impl SlowLaneKeys {
    /// An empty slow lane. It reports to `events`, which are the host's, because the plugin may have used up its own.
    pub(crate) fn new(guards: Guards, events: Arc<dyn Events>) -> Arc<Self> {
        Arc::new(Self { keys: Mutex::default(), clock: SystemClock::new(), guards, events })
    }

    /// Returns a listener that counts the writes of the controller's writer.
    pub(crate) fn listener(self: &Arc<Self>, status: Arc<ControllerStatus>) -> Committed {
        let lane = self.clone();
        Arc::new(move |call, object, version| lane.wrote(call, object, version, &status))
    }

    fn wrote(&self, call: &CallContext, object: &ObjectRef, version: Option<&Version>, status: &ControllerStatus) {
        let plugin = &call.principal.plugin;
        if !self.guards.wrote(plugin, object, version) {
            return;
        }
        status.looped();
        let name: Arc<str> = object.to_string().into();
        if !self.keys().put(&call.primary_key, name, mark(call), self.clock.now()) {
            return;
        }
        let writes = self.guards.hot_loop_writes();
        let others = self.guards.others(plugin, object);
        let also = if others.is_empty() {
            String::new()
        } else {
            format!("; meanwhile, it was also written by {}", others.join(", "))
        };
        tracing::error!(
            %plugin, controller = %call.controller, key = %call.primary_key, trace_id = %call.trace_id, %object, writes,
            others = others.join(" "), longest_pause = ?HOT_LOOP_HOLD_MAX,
            "hot loop: the plugin has written one object this often within a minute. The key that it wrote for is called rarely \
             from now on, and at once when another client changes its object"
        );
        let note = format!(
            "{plugin} has written {object} {writes} times within a minute{also}: it is called about this object rarely from now \
             on, or when the object is changed"
        );
        self.events.warn(call, "HotLoop", note);
    }

    /// The number of keys in the slow lane.
    pub(crate) fn count(&self) -> usize {
        self.keys().count()
    }

    /// The object that `key` writes over and over. `None` if the key is not in the slow lane.
    pub(crate) fn object_of(&self, key: &ObjectKey) -> Option<Arc<str>> {
        self.keys().object_of(key).cloned()
    }

    pub(crate) fn to_json(&self) -> Vec<Value> {
        let held = self.keys().held(LISTED_SLOW_KEYS_MAX, self.clock.now());
        let shown = held.into_iter().map(|(key, object, left): (_, _, Duration)| {
            json!({"key": key.to_string(), "object": &*object, "secondsLeft": left.as_secs()})
        });
        shown.collect()
    }

    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn keys(&self) -> MutexGuard<'_, SlowLane<ObjectKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The desired state of the call's primary, as far as the call knows it. The plugin's own writes do not count as a
/// change of it.
pub(crate) fn mark(call: &CallContext) -> Option<SlowMark> {
    let own = call.overlay.get(&call.primary_kind, &call.primary_key).and_then(|known| known.left);
    match own {
        Some(WrittenState::State(_, object)) => Some(SlowMark::of(&object.header)),
        Some(WrittenState::Nothing(_)) => None,
        Some(WrittenState::Unkept(_)) | None => call.primary.as_ref().map(|object| SlowMark::of(&object.header)),
    }
}

/// Calls looping keys rarely.
pub(crate) struct Slowed {
    inner: Box<dyn Reconcile>,
    lane: Arc<SlowLaneKeys>,
}

impl Slowed {
    pub(crate) fn new(inner: Box<dyn Reconcile>, lane: Arc<SlowLaneKeys>) -> Self {
        Self { inner, lane }
    }
}

impl Reconcile for Slowed {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let context = call.context.clone();
        let seen = context.primary.as_ref().map(|object| SlowMark::of(&object.header));
        let is_requested = context.triggers.has_run_request();
        let wait = self.lane.keys().wait(&context.primary_key, seen.as_ref(), is_requested, self.lane.now());
        if let Some(wait) = wait {
            tracing::debug!(?wait, "in the slow lane: no call is made");
            return ready(Called::not_made(CallResult::NotCalled { again: Some(wait) })).boxed();
        }
        let called = self.inner.reconcile(call);
        called.inspect(move |_| self.lane.keys().left_at(&context.primary_key, mark(&context))).boxed()
    }
}

#[cfg(test)]
mod tests;
