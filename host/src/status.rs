//! What each plugin and each of its controllers is doing, for the admin endpoint.
//!
//! Whoever changes something writes it here as it happens ([`PluginStatus::set`], [`ControllerStatus::set`] and so on);
//! nobody decides anything by it. `admin` and `metrics` read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::clock::Moment;
use windlass_core::gate::Gate;
use windlass_core::grants::Denials;
use windlass_core::object::ObjectKey;
use windlass_core::queue::Queue;
use windlass_wasm::Plugin;

use crate::circuit::Circuit;
use crate::leadership::Seat;
use crate::leftovers::LeftBehind;
use crate::metrics::ControllerMetrics;
use crate::slow_lane::Lane;

/// Keys of one controller that are listed as given up. More are only counted.
const MOST_GIVEN_UP: usize = 1000;
/// Keys of one controller that are listed as held, those that have waited for the longest. More are only counted.
const MOST_HELD: usize = 10;
/// An error as it is shown; the log has all of it.
const MOST_ERROR_BYTES: usize = 1024;

/// What a plugin is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PluginState {
    /// Its file is being read, compiled and asked what it is.
    Loading,
    /// Its file cannot be run.
    NotLoaded,
    /// Its file is gone, or may not run any more: what runs of it ends.
    Ending,
    /// There is no policy for it.
    WaitingForPolicy,
    /// The operator has paused it.
    Paused,
    /// Its controllers work, or wait for what they need.
    Running,
    /// The host has stopped it until it is replaced.
    Suspended,
}

/// What a controller is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ControllerState {
    /// Another replica runs it.
    StandingBy,
    /// It looks for its kinds.
    Starting,
    /// For a kind that is not served, or for the API server.
    Waiting,
    /// Its caches take their first lists.
    Syncing,
    /// Its workers work.
    Running,
    /// It will not run again under this host's settings.
    Stopped,
}

/// The status of everything. Clones share it.
#[derive(Clone)]
pub(crate) struct Status(Arc<Shared>);

/// What the directory of plugins holds that does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NotTaken {
    /// Of the file, if it could be read.
    pub(crate) digest: Option<Arc<str>>,
    /// Why it was not taken.
    pub(crate) reason: String,
}

struct Shared {
    plugins: Mutex<BTreeMap<Arc<str>, Arc<PluginStatus>>>,
    /// The plugins of the directory have been loaded, or have failed to.
    loaded: AtomicBool,
    /// The host stops.
    stop: CancellationToken,
}

impl Status {
    /// Of a host that has not loaded anything yet, and that ends with `stop`.
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self(Arc::new(Shared { plugins: Mutex::default(), loaded: AtomicBool::new(false), stop }))
    }

    /// The plugin `name`, which is known from now on.
    pub(crate) fn plugin(&self, name: &str) -> Arc<PluginStatus> {
        let mut plugins = self.plugins_by_name();
        if let Some(known) = plugins.get(name) {
            return known.clone();
        }
        let (name, new): (Arc<str>, _) = (name.into(), Arc::new(PluginStatus::new(name)));
        plugins.insert(name, new.clone());
        new
    }

    /// The plugin `name`, if it is known.
    pub(crate) fn known(&self, name: &str) -> Option<Arc<PluginStatus>> {
        self.plugins_by_name().get(name).cloned()
    }

    /// There is nothing of the plugin `name` any more.
    pub(crate) fn forget(&self, name: &str) {
        self.plugins_by_name().remove(name);
    }

    /// All plugins, by name.
    pub(crate) fn plugins(&self) -> Vec<Arc<PluginStatus>> {
        self.plugins_by_name().values().cloned().collect()
    }

    /// The plugins of the directory are known now.
    pub(crate) fn loaded(&self) {
        self.0.loaded.store(true, Ordering::Relaxed);
    }

    /// Whether the host does its work. If not, why not.
    pub(crate) fn ready(&self) -> Result<(), String> {
        if self.0.stop.is_cancelled() {
            return Err("the host stops".to_owned());
        }
        if !self.0.loaded.load(Ordering::Relaxed) {
            return Err("plugins are being loaded".to_owned());
        }
        let plugins = self.plugins();
        let controllers = plugins.iter().flat_map(|plugin| plugin.controllers());
        let unready = controllers
            .filter(|controller| matches!(controller.state().0, ControllerState::Starting | ControllerState::Syncing));
        let names: Vec<_> = unready.map(|controller| controller.name.to_string()).collect();
        if names.is_empty() { Ok(()) } else { Err(format!("these controllers are starting: {}", names.join(", "))) }
    }

    /// Everything, for `/plugins`.
    pub(crate) fn to_json(&self) -> Value {
        json!({"plugins": self.plugins().iter().map(|plugin| plugin.to_json()).collect::<Vec<_>>()})
    }

    fn plugins_by_name(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<PluginStatus>>> {
        locked(&self.0.plugins)
    }
}

/// The status of one plugin, whichever of its generations runs.
pub(crate) struct PluginStatus {
    pub(crate) name: Arc<str>,
    /// What it was denied.
    pub(crate) denials: Denials,
    current: Mutex<Current>,
    controllers: Mutex<BTreeMap<String, Arc<ControllerStatus>>>,
    left_behind: Mutex<Vec<LeftBehind>>,
    /// By which lease it goes, and who holds that.
    seat: Mutex<Option<Seat>>,
}

#[derive(Clone, Debug)]
struct Current {
    state: PluginState,
    reason: Option<String>,
    plugin: Option<Arc<Plugin>>,
    /// The newest generation, where it does not run yet, and why not.
    pending: Option<NotTaken>,
    /// The file as it is, where it is not what runs.
    not_taken: Option<NotTaken>,
    /// What was rolled back.
    rejected: Option<NotTaken>,
    /// How loading its file went, by result.
    loads: BTreeMap<&'static str, u64>,
}

impl PluginStatus {
    fn new(name: &str) -> Self {
        let current = Current {
            state: PluginState::Loading,
            reason: None,
            plugin: None,
            pending: None,
            not_taken: None,
            rejected: None,
            loads: BTreeMap::new(),
        };
        Self {
            name: name.into(),
            denials: Denials::default(),
            current: Mutex::new(current),
            controllers: Mutex::default(),
            left_behind: Mutex::default(),
            seat: Mutex::default(),
        }
    }

    /// It runs where its lease is held.
    pub(crate) fn goes_by(&self, seat: Seat) {
        *locked(&self.seat) = Some(seat);
    }

    /// It does `state` now, and why.
    pub(crate) fn set(&self, state: PluginState, reason: Option<String>) {
        let mut current = locked(&self.current);
        current.state = state;
        current.reason = reason.map(shortened);
    }

    /// This generation runs now. Controllers that it does not have are not shown any more.
    pub(crate) fn runs(&self, plugin: Arc<Plugin>) {
        let has = |name: &String| plugin.manifest().controllers.iter().any(|controller| controller.name == *name);
        locked(&self.controllers).retain(|name, _| has(name));
        let mut current = locked(&self.current);
        // What the operator has paused stays so, whichever generation is there.
        if !matches!(current.state, PluginState::Paused | PluginState::WaitingForPolicy) {
            (current.state, current.reason) = (PluginState::Running, None);
        }
        (current.plugin, current.pending) = (Some(plugin), None);
    }

    /// Nothing of it runs any more.
    pub(crate) fn has_ended(&self) {
        {
            let mut current = locked(&self.current);
            (current.plugin, current.pending) = (None, None);
        }
        locked(&self.controllers).clear();
        *locked(&self.seat) = None;
    }

    /// The newest generation does not run yet; or, with None, there is none that waits.
    pub(crate) fn pends(&self, pending: Option<NotTaken>) {
        locked(&self.current).pending = pending;
    }

    /// The file as it is now was not taken; or, with None, it is what runs.
    pub(crate) fn has_not_taken(&self, not_taken: Option<NotTaken>) {
        locked(&self.current).not_taken = not_taken;
    }

    /// This was rolled back and is not run again; or, with None, nothing is.
    pub(crate) fn has_rejected(&self, rejected: Option<NotTaken>) {
        locked(&self.current).rejected = rejected;
    }

    /// Its file was loaded, or was not, with this result.
    pub(crate) fn count_load(&self, result: &'static str) {
        *locked(&self.current).loads.entry(result).or_default() += 1;
    }

    /// How often its file was loaded with which result.
    pub(crate) fn loads(&self) -> Vec<(&'static str, u64)> {
        locked(&self.current).loads.iter().map(|(result, times)| (*result, *times)).collect()
    }

    /// This generation has taken another's place. What the operator has said of the plugin holds for each of them, but not that
    /// one of them is suspended.
    pub(crate) fn is_now(&self, plugin: Arc<Plugin>) {
        let mut current = locked(&self.current);
        current.plugin = Some(plugin);
        if matches!(current.state, PluginState::NotLoaded | PluginState::Suspended) {
            (current.state, current.reason) = (PluginState::Running, None);
        }
    }

    /// What it does.
    pub(crate) fn state(&self) -> PluginState {
        locked(&self.current).state
    }

    /// Why it does that.
    pub(crate) fn reason(&self) -> Option<String> {
        locked(&self.current).reason.clone()
    }

    /// The lease that it goes by.
    pub(crate) fn lease(&self) -> Option<Arc<str>> {
        locked(&self.seat).as_ref()?.lease.clone()
    }

    /// Whether this process ran it, or was the last to.
    pub(crate) fn ran_here(&self) -> bool {
        locked(&self.seat).as_ref().is_some_and(Seat::is_held)
    }

    /// The generation that runs.
    pub(crate) fn generation(&self) -> Option<Arc<Plugin>> {
        locked(&self.current).plugin.clone()
    }

    /// The controller whose status this is, by its name in the manifest, is one of its own from now on.
    pub(crate) fn list(&self, name: &str, controller: &Arc<ControllerStatus>) {
        locked(&self.controllers).insert(name.to_owned(), controller.clone());
    }

    /// It has no controller `name` any more.
    pub(crate) fn unlist(&self, name: &str) {
        locked(&self.controllers).remove(name);
    }

    /// The controller `name`, which is known from now on.
    #[cfg(test)]
    pub(crate) fn controller(&self, name: &str, workers: u32, metrics: ControllerMetrics) -> Arc<ControllerStatus> {
        let new = || ControllerStatus::unlisted(&self.name, name, workers, metrics);
        locked(&self.controllers).entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// Its controllers, by name.
    pub(crate) fn controllers(&self) -> Vec<Arc<ControllerStatus>> {
        locked(&self.controllers).values().cloned().collect()
    }

    /// Its earlier versions have left this behind, as was found when the host started.
    pub(crate) fn has_left_behind(&self, found: Vec<LeftBehind>) {
        *locked(&self.left_behind) = found;
    }

    fn to_json(&self) -> Value {
        let Current { state, reason, plugin, pending, not_taken, rejected, loads: _ } = locked(&self.current).clone();
        let controllers: Vec<_> =
            locked(&self.controllers).iter().map(|(name, controller)| controller.to_json(name)).collect();
        let denials = self.denials.snapshot().into_iter().map(|denial| {
            json!({
                "verb": denial.verb, "resource": denial.resource, "cause": denial.cause,
                "count": denial.count, "last": denial.last,
            })
        });
        let seat = locked(&self.seat).clone().filter(|seat| seat.lease.is_some());
        let lease = seat.map(|seat| {
            json!({"name": seat.lease.as_deref(), "heldHere": seat.is_held(), "holder": seat.holder().as_deref()})
        });
        json!({
            "name": &*self.name,
            "state": state,
            "reason": reason,
            "lease": lease,
            "version": plugin.as_ref().map(|plugin| &plugin.manifest().version),
            "digest": plugin.as_ref().map(|plugin| plugin.digest().to_string()),
            "pending": pending,
            "notTaken": not_taken,
            "rejected": rejected,
            "controllers": controllers,
            "denials": denials.collect::<Vec<_>>(),
            "leftBehind": *locked(&self.left_behind),
        })
    }
}

/// The status of one controller, over all its rounds.
pub(crate) struct ControllerStatus {
    pub(crate) plugin: Arc<str>,
    /// `PLUGIN/CONTROLLER`
    pub(crate) name: Arc<str>,
    workers: AtomicU32,
    pub(crate) metrics: ControllerMetrics,
    doing: Mutex<Doing>,
}

struct Doing {
    state: ControllerState,
    reason: Option<String>,
    queue: Option<Queue<ObjectKey>>,
    /// What holds keys, and its caches by name.
    gate: Option<(Weak<Gate>, Vec<String>)>,
    given_up: BTreeMap<ObjectKey, String>,
    /// How many are given up that `given_up` had no room for.
    unlisted: u64,
    last_error: Option<(ObjectKey, String, Instant)>,
    /// What keeps the plugin from being called in vain, and from going round in circles.
    guards: Option<(Circuit, Arc<Lane>)>,
}

impl Default for Doing {
    fn default() -> Self {
        Self {
            state: ControllerState::Starting,
            reason: None,
            queue: None,
            gate: None,
            given_up: BTreeMap::new(),
            unlisted: 0,
            last_error: None,
            guards: None,
        }
    }
}

/// A call that runs; counted as long as this lives.
pub(crate) struct Active<'a>(&'a ControllerMetrics);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.active.dec();
    }
}

impl ControllerStatus {
    /// Of the controller `name` of `plugin`, shown nowhere.
    pub(crate) fn unlisted(plugin: &Arc<str>, name: &str, workers: u32, metrics: ControllerMetrics) -> Arc<Self> {
        Arc::new(Self {
            plugin: plugin.clone(),
            name: format!("{plugin}/{name}").into(),
            workers: AtomicU32::new(workers),
            metrics,
            doing: Mutex::new(Doing::default()),
        })
    }

    /// How many workers it has.
    pub(crate) fn workers(&self) -> u32 {
        self.workers.load(Ordering::Relaxed)
    }

    /// It has so many workers now.
    pub(crate) fn works_with(&self, workers: u32) {
        self.workers.store(workers, Ordering::Relaxed);
    }

    /// It does `state` now, and why.
    pub(crate) fn set(&self, state: ControllerState, reason: Option<String>) {
        let mut doing = locked(&self.doing);
        doing.state = state;
        doing.reason = reason.map(shortened);
    }

    /// What it does, and why.
    pub(crate) fn state(&self) -> (ControllerState, Option<String>) {
        let doing = locked(&self.doing);
        (doing.state, doing.reason.clone())
    }

    /// A round begins, with this queue. What the last one had given up is queued again like all else.
    pub(crate) fn begins(&self, queue: Queue<ObjectKey>) {
        let mut doing = locked(&self.doing);
        *doing = Doing { state: ControllerState::Syncing, queue: Some(queue), ..Doing::default() };
    }

    /// The keys of the round are held by `gate`, which waits for these caches.
    pub(crate) fn holds_by(&self, gate: &Arc<Gate>, caches: Vec<String>) {
        locked(&self.doing).gate = Some((Arc::downgrade(gate), caches));
    }

    /// The calls of the round pass `circuit` and `lane`.
    pub(crate) fn guarded_by(&self, circuit: Circuit, lane: Arc<Lane>) {
        locked(&self.doing).guards = Some((circuit, lane));
    }

    /// Whether the calls of the current round are made.
    pub(crate) fn circuit(&self) -> Option<Circuit> {
        Some(locked(&self.doing).guards.as_ref()?.0.clone())
    }

    /// How many keys are called about rarely because they loop.
    pub(crate) fn slowed(&self) -> u64 {
        locked(&self.doing).guards.as_ref().map_or(0, |(_, lane)| lane.count() as u64)
    }

    /// What holds the keys of the current round.
    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        locked(&self.doing).gate.as_ref()?.0.upgrade()
    }

    /// The keys that are held, and why.
    fn held(&self) -> Vec<Value> {
        let Some((gate, caches)) = locked(&self.doing).gate.clone() else { return vec![] };
        let Some(gate) = gate.upgrade() else { return vec![] };
        let (waiting, now) = gate.waiting(MOST_HELD);
        let held = waiting.into_iter().map(|it| {
            let seconds = |since: Moment| now.0.saturating_sub(since.0).as_secs();
            json!({
                "key": it.key.to_string(),
                "heldSeconds": it.held.map(seconds),
                "waitsSeconds": seconds(it.since),
                "watch": caches.get(it.cache),
                "waitsFor": shortened(it.what),
            })
        });
        held.collect()
    }

    /// The queue of the current round.
    pub(crate) fn queue(&self) -> Option<Queue<ObjectKey>> {
        locked(&self.doing).queue.clone()
    }

    /// How many keys are given up (§3.1).
    pub(crate) fn given_up(&self) -> u64 {
        let doing = locked(&self.doing);
        doing.given_up.len() as u64 + doing.unlisted
    }

    /// A call runs, until the result is dropped.
    pub(crate) fn call(&self) -> Active<'_> {
        self.metrics.active.inc();
        Active(&self.metrics)
    }

    /// A call took so long.
    pub(crate) fn called(&self, took: Duration) {
        self.metrics.time.observe(took.as_secs_f64());
    }

    /// A call about `key` ended well; it asks to run again, or not.
    pub(crate) fn succeeded(&self, key: &ObjectKey, again: bool) {
        if again { &self.metrics.requeue_after } else { &self.metrics.success }.inc();
        self.forget(key);
    }

    /// A call ended without an answer.
    pub(crate) fn trapped(&self, reason: &'static str) {
        self.metrics.trapped(reason);
    }

    /// The circuit has opened.
    pub(crate) fn opened(&self) {
        self.metrics.openings.inc();
    }

    /// A hot loop was found.
    pub(crate) fn looped(&self) {
        self.metrics.hot_loops.inc();
    }

    /// A call about `key` failed, and is made again after a while.
    pub(crate) fn failed(&self, key: &ObjectKey, error: &str) {
        self.note_error(key, error);
    }

    /// A call about `key` failed for good.
    pub(crate) fn failed_for_good(&self, key: &ObjectKey, error: &str) {
        self.metrics.terminal.inc();
        self.note_error(key, error);
        self.forget(key);
    }

    /// A call about `key` failed, and it is tried rarely from now on.
    pub(crate) fn gave_up(&self, key: &ObjectKey, error: &str) {
        self.note_error(key, error);
        let mut doing = locked(&self.doing);
        if doing.given_up.len() < MOST_GIVEN_UP || doing.given_up.contains_key(key) {
            doing.given_up.insert(key.clone(), shortened(error.to_owned()));
        } else {
            doing.unlisted += 1;
        }
    }

    fn note_error(&self, key: &ObjectKey, error: &str) {
        self.metrics.error.inc();
        self.metrics.errors.inc();
        locked(&self.doing).last_error = Some((key.clone(), shortened(error.to_owned()), Instant::now()));
    }

    fn forget(&self, key: &ObjectKey) {
        locked(&self.doing).given_up.remove(key);
    }

    fn to_json(&self, name: &str) -> Value {
        let (queue, held) = (self.queue().map(|queue| queue.metrics()), self.held());
        let doing = locked(&self.doing);
        let guards = doing.guards.as_ref();
        let given_up = doing.given_up.iter().map(|(key, error)| json!({"key": key.to_string(), "error": error}));
        let last_error = doing.last_error.as_ref().map(
            |(key, error, at)| json!({"key": key.to_string(), "error": error, "secondsAgo": at.elapsed().as_secs()}),
        );
        json!({
            "name": name,
            "state": doing.state,
            "reason": doing.reason,
            "queue": queue.map(|queue| json!({"depth": queue.depth, "parked": queue.parked})),
            "held": held,
            "givenUp": given_up.collect::<Vec<_>>(),
            "givenUpUnlisted": doing.unlisted,
            "breaker": guards.map(|(circuit, _)| circuit.to_json()),
            "slowLane": guards.map_or_else(Vec::new, |(_, lane)| lane.to_json()),
            "lastError": last_error,
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shortened(mut text: String) -> String {
    if text.len() > MOST_ERROR_BYTES {
        text.truncate(text.floor_char_boundary(MOST_ERROR_BYTES));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::HostMetrics;

    fn controller(status: &Status) -> Arc<ControllerStatus> {
        status.plugin("webapp").controller("web", 1, HostMetrics::new().controller("webapp", "web"))
    }

    #[test]
    fn a_host_is_ready_once_every_controller_works_or_says_what_it_waits_for() {
        let stop = CancellationToken::new();
        let status = Status::new(stop.clone());
        assert!(status.ready().is_err_and(|why| why.contains("loaded")));
        let controller = controller(&status);
        status.loaded();
        assert!(status.ready().is_err_and(|why| why.contains("webapp/web")));
        controller.set(ControllerState::Waiting, Some("no such kind".to_owned()));
        assert_eq!(status.ready(), Ok(()));
        controller.set(ControllerState::Syncing, None);
        assert!(status.ready().is_err());
        controller.set(ControllerState::Running, None);
        assert_eq!(status.ready(), Ok(()));
        stop.cancel();
        assert!(status.ready().is_err_and(|why| why.contains("stops")));
    }

    #[tokio::test]
    async fn a_key_is_given_up_until_it_ends_well() {
        let status = Status::new(CancellationToken::new());
        let controller = controller(&status);
        let key = ObjectKey::namespaced("prod", "shop");
        controller.gave_up(&key, "it cannot");
        let shown = status.to_json();
        let web = &shown["plugins"][0]["controllers"][0];
        assert_eq!(web["givenUp"][0], json!({"key": "prod/shop", "error": "it cannot"}));
        assert_eq!(web["lastError"]["error"], "it cannot");
        controller.succeeded(&key, false);
        assert_eq!(controller.given_up(), 0);
        assert_eq!(controller.metrics.success.get(), 1);
    }

    #[tokio::test]
    async fn a_flood_of_given_up_keys_is_counted_and_not_kept() {
        let status = Status::new(CancellationToken::new());
        let controller = controller(&status);
        for index in 0..=MOST_GIVEN_UP {
            controller.gave_up(&ObjectKey::cluster(format!("a{index}")), &"long".repeat(1000));
        }
        assert_eq!(controller.given_up(), MOST_GIVEN_UP as u64 + 1);
        assert!(status.to_json().to_string().len() < (MOST_ERROR_BYTES + 100) * (MOST_GIVEN_UP + 2));
    }
}
