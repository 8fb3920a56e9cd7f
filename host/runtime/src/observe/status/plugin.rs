//! The status of one plugin, and of its files.

mod facts;
mod health;
mod summary;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use windlass_core::life::plugin_state::{LeaseStatus, PluginPhase};
use windlass_core::queue::breaker::BREAKER_PAUSE_MIN;
use windlass_core::rights::grants::Denials;
use windlass_kube::Budget;
use windlass_manifest::Hook;
use windlass_wasm::{Plugin, PluginStats};

pub(crate) use self::health::PluginHealth;
use super::{ControllerStatus, locked, shortened};
use crate::suspension::Suspension;

/// The shortest time between two resumptions of a plugin. With it, repeated requests cannot call the plugin or fill its
/// caches more often than its circuit breaker would.
pub(crate) const RESUME_INTERVAL: Duration = BREAKER_PAUSE_MIN;

/// A plugin file that does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NotTaken {
    /// The digest of the file, if it could be read.
    pub(crate) digest: Option<Arc<str>>,
    /// Why it does not run.
    pub(crate) reason: String,
}

/// Children of one kind that a plugin has left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LeftBehind {
    /// Such as `deployments.apps`.
    pub(crate) resource: String,
    /// The number of children. The host counts up to 10,000.
    pub(crate) count: usize,
}

/// A plugin's lease, as the status shows it.
pub(crate) trait LeaseView: Send + Sync {
    /// The name of the lease. `None` without leases.
    fn name(&self) -> Option<Arc<str>>;

    /// The holder, if known.
    fn holder(&self) -> Option<Arc<str>>;

    /// Whether this replica may run the plugin now.
    fn status(&self) -> LeaseStatus;
}

/// The next version of a plugin, as the status shows it.
pub(crate) trait NextView: Send + Sync {
    /// For `/plugins`.
    fn to_json(&self) -> Value;
}

/// The hooks of plugins, as the status shows them.
pub(crate) trait HooksView: Send + Sync {
    /// The hooks of `plugin`, whose manifest has `declared`, for `/plugins`.
    fn to_json(&self, plugin: &str, declared: &[&Hook]) -> Value;
}

/// The plugins that replicas can serve, as the status shows them.
pub(crate) trait ReplicasView: Send + Sync {
    /// Why no replica runs `plugin`. `None` if one does, or may.
    fn unserved(&self, plugin: &str) -> Option<String>;

    /// The replicas that report that they can serve `plugin`, each with the digest of its file.
    fn digests(&self, plugin: &str) -> BTreeMap<Arc<str>, Arc<str>>;
}

/// The status of one plugin, over all its generations.
pub(crate) struct PluginStatus {
    pub(crate) name: Arc<str>,
    pub(crate) denials: Denials,
    current: Mutex<CurrentPluginStatus>,
    controllers: Mutex<BTreeMap<String, Arc<ControllerStatus>>>,
    left_behind: Mutex<Vec<LeftBehind>>,
    /// The plugin's lease.
    lease: Mutex<Option<Arc<dyn LeaseView>>>,
    /// The version that waits to become the current one.
    next: Mutex<Option<Arc<dyn NextView>>>,
    /// The budget of its caches.
    budget: Mutex<Weak<Budget>>,
    /// The suspension of the generation that runs.
    suspension: Mutex<Weak<Suspension>>,
    /// Why the newest configuration of the generation that runs is not in force, if so.
    refused_config: Mutex<Option<watch::Receiver<Option<String>>>>,
    /// When it was last resumed.
    resumed: Mutex<Option<Instant>>,
}

#[derive(Clone, Debug)]
struct CurrentPluginStatus {
    phase: PluginPhase,
    reason: Option<String>,
    plugin: Option<Arc<Plugin>>,
    /// The newest generation, if it does not run yet, and the reason.
    pending: Option<NotTaken>,
    /// The current file, if it does not run.
    not_taken: Option<NotTaken>,
    /// The generation that was rolled back.
    rejected: Option<NotTaken>,
    /// Why other replicas have not learned yet that a version was rejected, or may be tried again.
    untold: Option<String>,
    /// Number of attempts to load the plugin's file, by result.
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
            refused_config: Mutex::default(),
            resumed: Mutex::default(),
        }
    }

    /// Sets the lease on which the plugin depends.
    pub(crate) fn goes_by(&self, lease: Arc<dyn LeaseView>) {
        *locked(&self.lease) = Some(lease);
    }

    /// Sets the plugin's next version; `None` if there is none.
    pub(crate) fn has_next(&self, next: Option<Arc<dyn NextView>>) {
        *locked(&self.next) = next;
    }

    /// Sets the plugin's phase and the reason.
    pub(crate) fn set(&self, phase: PluginPhase, reason: Option<String>) {
        let mut current = locked(&self.current);
        current.phase = phase;
        current.reason = reason.map(shortened);
    }

    /// If the plugin's phase follows its policy, sets the phase that the policy demands now. `phase_of_policy` reads it
    /// from the policy; `None` changes nothing. The lock is held meanwhile. Otherwise, if two callers read the policy
    /// and then set the phase, the older reading could be set last.
    pub(crate) fn follows_policy(&self, phase_of_policy: impl FnOnce() -> Option<(PluginPhase, Option<String>)>) {
        let mut current = locked(&self.current);
        let follows =
            matches!(current.phase, PluginPhase::WaitingForPolicy | PluginPhase::Paused | PluginPhase::Started);
        if follows && let Some((phase, reason)) = phase_of_policy() {
            (current.phase, current.reason) = (phase, reason.map(shortened));
        }
    }

    /// Updates the reason if the plugin is still suspended.
    pub(crate) fn still_suspended(&self, why: String) {
        let mut current = locked(&self.current);
        if current.phase == PluginPhase::Suspended {
            current.reason = Some(shortened(why));
        }
    }

    /// Ends the plugin's suspension, if no controller is filling its caches. `false` if the plugin is still suspended
    /// or was not suspended.
    pub(crate) fn is_unsuspended_if_filled(&self) -> bool {
        !self.controllers().iter().any(|controller| controller.is_filling()) && self.is_unsuspended()
    }

    /// Ends the plugin's suspension. `false` if it was not suspended.
    pub(crate) fn is_unsuspended(&self) -> bool {
        let mut current = locked(&self.current);
        let was_suspended = current.phase == PluginPhase::Suspended;
        if was_suspended {
            (current.phase, current.reason) = (PluginPhase::Started, None);
        }
        was_suspended
    }

    /// Sets the running generation. Phases that the operator has caused stay, but a suspension ends, as it belongs to
    /// one generation.
    pub(crate) fn is_now(&self, plugin: Arc<Plugin>) {
        let mut current = locked(&self.current);
        if !matches!(current.phase, PluginPhase::Paused | PluginPhase::WaitingForPolicy | PluginPhase::Ending) {
            (current.phase, current.reason) = (PluginPhase::Started, None);
        }
        (current.plugin, current.pending) = (Some(plugin), None);
    }

    /// Records that nothing of the plugin runs any more.
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

    /// Records which newer generation waits, and why. `None` if no generation waits.
    pub(crate) fn pends(&self, pending: Option<NotTaken>) {
        locked(&self.current).pending = pending;
    }

    /// Records that another generation is the newest. So the reason why an earlier generation waits no longer matters.
    /// But if the waiting generation `returns` after a rollback, it comes first and stays shown.
    pub(crate) fn is_newest(&self, returns: Option<&str>) {
        locked(&self.current).pending.take_if(|pending| returns.is_none() || pending.digest.as_deref() != returns);
    }

    /// Sets the current file if it was not taken; `None` if it runs.
    pub(crate) fn has_not_taken(&self, not_taken: Option<NotTaken>) {
        locked(&self.current).not_taken = not_taken;
    }

    /// Sets the generation that was rolled back and is not run again; `None` if there is none.
    pub(crate) fn has_rejected(&self, rejected: Option<NotTaken>) {
        locked(&self.current).rejected = rejected;
    }

    /// Sets why other replicas have not learned yet of a rejection or a pardon; `None` once they have.
    pub(crate) fn is_unpublished(&self, why: Option<String>) {
        locked(&self.current).untold = why.map(shortened);
    }

    /// Counts an attempt to load the plugin's file, with this result.
    pub(crate) fn count_load(&self, result: &'static str) {
        *locked(&self.current).loads.entry(result).or_default() += 1;
    }

    /// Number of attempts to load the plugin's file, by result.
    pub(crate) fn loads(&self) -> Vec<(&'static str, u64)> {
        locked(&self.current).loads.iter().map(|(result, times)| (*result, *times)).collect()
    }

    /// How far the host has got with the plugin's file. [`PluginStatus::health`] has the state of the plugin itself.
    pub(crate) fn phase(&self) -> PluginPhase {
        locked(&self.current).phase
    }

    /// The reason for its phase.
    pub(crate) fn reason(&self) -> Option<String> {
        locked(&self.current).reason.clone()
    }

    /// The generation that runs.
    pub(crate) fn generation(&self) -> Option<Arc<Plugin>> {
        locked(&self.current).plugin.clone()
    }

    /// Sets the budget of the caches of the running generation.
    pub(crate) fn caches_within(&self, budget: &Arc<Budget>) {
        *locked(&self.budget) = Arc::downgrade(budget);
    }

    /// Sets the suspension of the running generation.
    pub(crate) fn suspended_by(&self, suspension: &Arc<Suspension>) {
        *locked(&self.suspension) = Arc::downgrade(suspension);
    }

    /// Sets where to find why the newest configuration of the running generation is not in force.
    pub(crate) fn configured_by(&self, refused: watch::Receiver<Option<String>>) {
        *locked(&self.refused_config) = Some(refused);
    }

    /// Why the newest configuration is not in force, if so.
    fn refused_config(&self) -> Option<String> {
        locked(&self.refused_config).as_ref().and_then(|refused| refused.borrow().clone().map(shortened))
    }

    /// Starts to fill the caches of the suspended plugin again, within the same limits, and does not wait for that.
    /// `false` if the plugin is not suspended on this replica.
    pub(crate) fn retry_suspended(&self) -> bool {
        let suspension = locked(&self.suspension).upgrade();
        suspension.is_some_and(|suspension| suspension.attempt_now(Instant::now()))
    }

    /// Whether the plugin may be resumed at `now`. The error says how long to wait.
    pub(crate) fn may_resume(&self, now: Instant) -> Result<(), Duration> {
        let last = *locked(&self.resumed);
        let wait = last.map_or(Duration::ZERO, |last| (last + RESUME_INTERVAL).saturating_duration_since(now));
        if wait.is_zero() { Ok(()) } else { Err(wait) }
    }

    /// Records that the plugin was resumed at `now`.
    pub(crate) fn has_resumed(&self, now: Instant) {
        *locked(&self.resumed) = Some(now);
    }

    pub(crate) fn lease(&self) -> Option<Arc<dyn LeaseView>> {
        locked(&self.lease).clone()
    }

    /// Number of bytes in the caches that the plugin reads, and in its saved calls. Shared caches count in full.
    pub(crate) fn cache_bytes(&self) -> usize {
        locked(&self.budget).upgrade().map_or(0, |budget| budget.used())
    }

    /// Sets the controllers that are shown, by name.
    pub(crate) fn shows(&self, controllers: BTreeMap<String, Arc<ControllerStatus>>) {
        *locked(&self.controllers) = controllers;
    }

    /// Its controllers, ordered by name.
    pub(crate) fn controllers(&self) -> Vec<Arc<ControllerStatus>> {
        locked(&self.controllers).values().cloned().collect()
    }

    /// Sets the leftovers of the plugin's earlier versions, which were found when the host started.
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

/// The lease, for `/plugins` and the status page.
fn lease_json(lease: &dyn LeaseView) -> Value {
    let status = lease.status();
    json!({"status": status.as_str(), "heldHere": status == LeaseStatus::Held, "holder": lease.holder().as_deref()})
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PluginStatus {
        /// The status of the controller `name`. Adds it if it is not known yet.
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
    fn a_policy_does_not_set_the_phase_of_an_ending_or_suspended_plugin() {
        let plugin = PluginStatus::new("webapp");
        for phase in [PluginPhase::Loading, PluginPhase::NotLoaded, PluginPhase::Ending, PluginPhase::Suspended] {
            plugin.set(phase, None);
            plugin.follows_policy(|| Some((PluginPhase::Started, None)));
            assert_eq!(plugin.phase(), phase);
        }
    }
}
