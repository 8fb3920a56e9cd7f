//! The status of one plugin, and of its files.

mod health;
mod summary;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::life::plugin_state::{LeaseStatus, PluginPhase};
use windlass_core::queue::breaker::BREAKER_PAUSE_MIN;
use windlass_core::rights::grants::Denials;
use windlass_kube::Budget;
use windlass_wasm::{Plugin, PluginStats};

pub(crate) use self::health::PluginHealth;
use super::{ControllerStatus, locked, shortened};
use crate::suspension::Suspension;

/// The least time between two resumptions of a plugin: nobody who resumes it over and over has it called, or its caches
/// filled, more often than its circuit breaker would.
pub(crate) const RESUME_INTERVAL: Duration = BREAKER_PAUSE_MIN;

/// A plugin file that does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NotTaken {
    /// Of the file, if it could be read.
    pub(crate) digest: Option<Arc<str>>,
    /// Why it was not taken.
    pub(crate) reason: String,
}

/// Children of one kind that a plugin has left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LeftBehind {
    /// Such as `deployments.apps`.
    pub(crate) resource: String,
    /// How many. The host counts up to 10,000.
    pub(crate) count: usize,
}

/// The lease that a plugin goes by, as status shows it.
pub(crate) trait LeaseView: Send + Sync {
    /// The name of the lease. None: the plugin goes by none.
    fn name(&self) -> Option<Arc<str>>;

    /// The replica that holds it, as far as is known.
    fn holder(&self) -> Option<Arc<str>>;

    /// Whether this replica may run the plugin now.
    fn status(&self) -> LeaseStatus;
}

/// The next version of a plugin, as status shows it.
pub(crate) trait NextView: Send + Sync {
    /// For `/plugins`.
    fn to_json(&self) -> Value;
}

/// The plugins that replicas can serve, as status shows it.
pub(crate) trait ReplicasView: Send + Sync {
    /// Why nobody runs `plugin`. None: a replica does, or may.
    fn unserved(&self, plugin: &str) -> Option<String>;

    /// The replicas that say they can serve `plugin`, each with the digest of its file.
    fn digests(&self, plugin: &str) -> BTreeMap<Arc<str>, Arc<str>>;
}

/// The status of one plugin, whichever of its generations runs.
pub(crate) struct PluginStatus {
    pub(crate) name: Arc<str>,
    /// Its denials.
    pub(crate) denials: Denials,
    current: Mutex<CurrentPluginStatus>,
    controllers: Mutex<BTreeMap<String, Arc<ControllerStatus>>>,
    left_behind: Mutex<Vec<LeftBehind>>,
    /// By which lease it goes, and who holds that.
    lease: Mutex<Option<Arc<dyn LeaseView>>>,
    /// The version that waits to become the current one.
    next: Mutex<Option<Arc<dyn NextView>>>,
    /// The budget of its caches.
    budget: Mutex<Weak<Budget>>,
    /// The suspension of the generation that runs.
    suspension: Mutex<Weak<Suspension>>,
    /// When something of it was last resumed.
    resumed: Mutex<Option<Instant>>,
}

#[derive(Clone, Debug)]
struct CurrentPluginStatus {
    phase: PluginPhase,
    reason: Option<String>,
    plugin: Option<Arc<Plugin>>,
    /// The newest generation, where it does not run yet, and why not.
    pending: Option<NotTaken>,
    /// The file as it is, where it is not what runs.
    not_taken: Option<NotTaken>,
    /// The generation that was rolled back.
    rejected: Option<NotTaken>,
    /// Why other replicas do not know yet what was rolled back, or is tried again.
    untold: Option<String>,
    /// How loading its file went, by result.
    loads: BTreeMap<&'static str, u64>,
}

impl PluginStatus {
    pub(super) fn new(name: &str) -> Self {
        let current = CurrentPluginStatus {
            phase: PluginPhase::Loading,
            reason: None,
            plugin: None,
            pending: None,
            not_taken: None,
            rejected: None,
            untold: None,
            loads: BTreeMap::new(),
        };
        Self {
            name: name.into(),
            denials: Denials::default(),
            current: Mutex::new(current),
            controllers: Mutex::default(),
            left_behind: Mutex::default(),
            lease: Mutex::default(),
            next: Mutex::default(),
            budget: Mutex::default(),
            suspension: Mutex::default(),
            resumed: Mutex::default(),
        }
    }

    /// It runs where its lease is held.
    pub(crate) fn goes_by(&self, lease: Arc<dyn LeaseView>) {
        *locked(&self.lease) = Some(lease);
    }

    /// This is its next version; or, with None, there is none.
    pub(crate) fn has_next(&self, next: Option<Arc<dyn NextView>>) {
        *locked(&self.next) = next;
    }

    /// It is in `phase` now, and why.
    pub(crate) fn set(&self, phase: PluginPhase, reason: Option<String>) {
        let mut current = locked(&self.current);
        current.phase = phase;
        current.reason = reason.map(shortened);
    }

    /// Where its phase is one that follows its policy, it is the one that the policy `says` now, if that says any.
    /// Nobody sets another meanwhile: of two who look and then set, the one that has looked first would have the last
    /// word.
    pub(crate) fn follows_policy(&self, says: impl FnOnce() -> Option<(PluginPhase, Option<String>)>) {
        let mut current = locked(&self.current);
        let follows =
            matches!(current.phase, PluginPhase::WaitingForPolicy | PluginPhase::Paused | PluginPhase::Started);
        if follows && let Some((phase, reason)) = says() {
            (current.phase, current.reason) = (phase, reason.map(shortened));
        }
    }

    /// It is still suspended, and this is why.
    pub(crate) fn still_suspended(&self, why: String) {
        let mut current = locked(&self.current);
        if current.phase == PluginPhase::Suspended {
            current.reason = Some(shortened(why));
        }
    }

    /// It is not suspended any more, if no controller fills its caches. False if it is or was not.
    pub(crate) fn is_unsuspended_if_filled(&self) -> bool {
        !self.controllers().iter().any(|controller| controller.is_filling()) && self.is_unsuspended()
    }

    /// It is not suspended any more. False if it was not.
    pub(crate) fn is_unsuspended(&self) -> bool {
        let mut current = locked(&self.current);
        let was_suspended = current.phase == PluginPhase::Suspended;
        if was_suspended {
            (current.phase, current.reason) = (PluginPhase::Started, None);
        }
        was_suspended
    }

    /// This generation runs now, in whichever's place. Controllers that it does not have are not shown any more. What
    /// the operator has said of the plugin holds for each generation, but not that one of them is suspended.
    pub(crate) fn is_now(&self, plugin: Arc<Plugin>) {
        let has = |name: &String| plugin.manifest().controllers.iter().any(|controller| controller.name == *name);
        locked(&self.controllers).retain(|name, _| has(name));
        let mut current = locked(&self.current);
        if !matches!(current.phase, PluginPhase::Paused | PluginPhase::WaitingForPolicy | PluginPhase::Ending) {
            (current.phase, current.reason) = (PluginPhase::Started, None);
        }
        (current.plugin, current.pending) = (Some(plugin), None);
    }

    /// Nothing of it runs any more.
    pub(crate) fn has_ended(&self) {
        {
            let mut current = locked(&self.current);
            (current.plugin, current.pending) = (None, None);
            if current.phase == PluginPhase::Ending {
                let reason = current.not_taken.as_ref().map(|it| shortened(it.reason.clone()));
                let phase = if reason.is_some() { PluginPhase::NotLoaded } else { PluginPhase::Loading };
                (current.phase, current.reason) = (phase, reason);
            }
        }
        locked(&self.controllers).clear();
        *locked(&self.lease) = None;
    }

    /// The newest generation does not run yet; or, with None, there is none that waits.
    pub(crate) fn pends(&self, pending: Option<NotTaken>) {
        locked(&self.current).pending = pending;
    }

    /// Another generation is the newest: what one before it waited for says nothing of this one. Unless that is the one
    /// that `returns` in the place of what runs: it has its turn before this.
    pub(crate) fn is_newest(&self, returns: Option<&str>) {
        locked(&self.current).pending.take_if(|pending| returns.is_none() || pending.digest.as_deref() != returns);
    }

    /// The file as it is now was not taken; or, with None, it is what runs.
    pub(crate) fn has_not_taken(&self, not_taken: Option<NotTaken>) {
        locked(&self.current).not_taken = not_taken;
    }

    /// This was rolled back and is not run again; or, with None, nothing is.
    pub(crate) fn has_rejected(&self, rejected: Option<NotTaken>) {
        locked(&self.current).rejected = rejected;
    }

    /// Other replicas do not know yet what was rolled back or is tried again; or, with None, they do.
    pub(crate) fn is_untold(&self, why: Option<String>) {
        locked(&self.current).untold = why.map(shortened);
    }

    /// Its file was loaded, or was not, with this result.
    pub(crate) fn count_load(&self, result: &'static str) {
        *locked(&self.current).loads.entry(result).or_default() += 1;
    }

    /// How often its file was loaded with which result.
    pub(crate) fn loads(&self) -> Vec<(&'static str, u64)> {
        locked(&self.current).loads.iter().map(|(result, times)| (*result, *times)).collect()
    }

    /// How far the host has come with its file. What the plugin does is its [`PluginStatus::health`].
    pub(crate) fn phase(&self) -> PluginPhase {
        locked(&self.current).phase
    }

    /// Why it is in that phase.
    pub(crate) fn reason(&self) -> Option<String> {
        locked(&self.current).reason.clone()
    }

    /// The generation that runs.
    pub(crate) fn generation(&self) -> Option<Arc<Plugin>> {
        locked(&self.current).plugin.clone()
    }

    /// The caches of what runs now are within this budget.
    pub(crate) fn caches_within(&self, budget: &Arc<Budget>) {
        *locked(&self.budget) = Arc::downgrade(budget);
    }

    /// The generation that runs now is suspended by this.
    pub(crate) fn suspended_by(&self, suspension: &Arc<Suspension>) {
        *locked(&self.suspension) = Arc::downgrade(suspension);
    }

    /// Fills the caches of the suspended plugin again now, within the same limits, and does not wait for that. Returns
    /// false if the plugin is not suspended on this replica.
    pub(crate) fn retry_suspended(&self) -> bool {
        let suspension = locked(&self.suspension).upgrade();
        suspension.is_some_and(|suspension| suspension.attempt_now(Instant::now()))
    }

    /// Whether it may be resumed at `now`. `Err`: after how long it may.
    pub(crate) fn may_resume(&self, now: Instant) -> Result<(), Duration> {
        let last = *locked(&self.resumed);
        let wait = last.map_or(Duration::ZERO, |last| (last + RESUME_INTERVAL).saturating_duration_since(now));
        if wait.is_zero() { Ok(()) } else { Err(wait) }
    }

    /// Something of it was resumed at `now`.
    pub(crate) fn has_resumed(&self, now: Instant) {
        *locked(&self.resumed) = Some(now);
    }

    /// The lease that it goes by.
    pub(crate) fn lease(&self) -> Option<Arc<dyn LeaseView>> {
        locked(&self.lease).clone()
    }

    /// Bytes in the caches that it reads. One that others read too counts in full.
    pub(crate) fn cache_bytes(&self) -> usize {
        locked(&self.budget).upgrade().map_or(0, |budget| budget.used())
    }

    /// The controller whose status this is, by its name in the manifest, is one of its own from now on.
    pub(crate) fn list(&self, name: &str, controller: &Arc<ControllerStatus>) {
        locked(&self.controllers).insert(name.to_owned(), controller.clone());
    }

    /// Its controllers, by name.
    pub(crate) fn controllers(&self) -> Vec<Arc<ControllerStatus>> {
        locked(&self.controllers).values().cloned().collect()
    }

    /// Its earlier versions have left this behind, as was found when the host started.
    pub(crate) fn has_left_behind(&self, found: Vec<LeftBehind>) {
        *locked(&self.left_behind) = found;
    }

    /// For `/plugins`.
    pub(super) fn to_json(&self, health: &PluginHealth) -> Value {
        let CurrentPluginStatus { plugin, pending, not_taken, rejected, untold, phase: _, reason: _, loads: _ } =
            locked(&self.current).clone();
        let controllers: Vec<_> =
            locked(&self.controllers).iter().map(|(name, controller)| controller.to_json(name)).collect();
        let denials = self.denials.snapshot().into_iter().map(|denial| {
            json!({
                "verb": denial.verb, "resource": denial.resource, "cause": denial.cause,
                "count": denial.count, "last": denial.last,
            })
        });
        let denied: u64 = self.denials.snapshot().iter().map(|denial| denial.count).sum();
        let stats = plugin.as_ref().map_or_else(PluginStats::default, |plugin| plugin.stats());
        let usage = json!({
            "memoryBytes": stats.memory, "memoryPeakBytes": stats.most_memory, "cacheBytes": self.cache_bytes(),
            "denied": denied,
        });
        let next = locked(&self.next).clone();
        let lease = locked(&self.lease).clone();
        let lease = lease.and_then(|it| {
            let mut shown = lease_json(&*it);
            shown["name"] = json!(it.name()?);
            Some(shown)
        });
        json!({
            "name": &*self.name,
            "state": health.state.as_str(),
            "reason": health.why,
            "health": health.to_json(),
            "lease": lease,
            "version": plugin.as_ref().map(|plugin| &plugin.manifest().version),
            "digest": plugin.as_ref().map(|plugin| plugin.digest().to_string()),
            "pending": pending,
            "notTaken": not_taken,
            "rejected": rejected,
            "untold": untold,
            "next": next.map(|next| next.to_json()),
            "controllers": controllers,
            "usage": usage,
            "denials": denials.collect::<Vec<_>>(),
            "leftBehind": *locked(&self.left_behind),
        })
    }
}

/// For `/plugins` and the status page.
fn lease_json(lease: &dyn LeaseView) -> Value {
    let status = lease.status();
    json!({"status": status.as_str(), "heldHere": status == LeaseStatus::Held, "holder": lease.holder().as_deref()})
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PluginStatus {
        /// The controller `name`, which is known from now on.
        pub(crate) fn controller(
            &self,
            name: &str,
            workers: u32,
            metrics: crate::observe::metrics::ControllerMetrics,
        ) -> Arc<ControllerStatus> {
            let new = || ControllerStatus::unlisted(&self.name, name, workers, metrics);
            locked(&self.controllers).entry(name.to_owned()).or_insert_with(new).clone()
        }
    }

    #[test]
    fn no_state_is_set_between_reading_a_policy_and_showing_it() {
        let plugin = PluginStatus::new("webapp");
        plugin.set(PluginPhase::Started, None);
        plugin.follows_policy(|| {
            assert!(plugin.current.try_lock().is_err(), "an end that is shown now would be lost");
            Some((PluginPhase::Paused, Some("by its policy".to_owned())))
        });
        assert_eq!((plugin.phase(), plugin.reason().as_deref()), (PluginPhase::Paused, Some("by its policy")));
    }

    #[test]
    fn a_policy_says_nothing_of_a_plugin_that_ends_or_is_suspended() {
        let plugin = PluginStatus::new("webapp");
        for phase in [PluginPhase::Loading, PluginPhase::NotLoaded, PluginPhase::Ending, PluginPhase::Suspended] {
            plugin.set(phase, None);
            plugin.follows_policy(|| Some((PluginPhase::Started, None)));
            assert_eq!(plugin.phase(), phase);
        }
    }
}
