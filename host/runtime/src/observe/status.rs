//! The status of each plugin and controller, for the admin endpoint.
//!
//! The code that changes a state writes it here as it happens ([`PluginStatus::set`], [`ControllerStatus::set`] and so
//! on), and makes no decisions based on it. `admin` and `metrics` read it.

mod calls;
mod controller;
mod plugin;
mod settling;
mod withheld;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::calls::KeyCallEnd;
pub(crate) use self::controller::{
    CallGuards, ControllerStatus, GateCaches, KeyListing, KeySource, ResumedController, UnchangedKey,
};
pub(crate) use self::plugin::{
    HooksView, LeaseView, LeftBehind, NextView, NotTaken, PluginHealth, PluginStatus, ReplicasView,
};
pub(crate) use windlass_core::life::plugin_state::{ControllerState, PluginPhase, PluginState};
use windlass_objects::EngineFacts;

/// The longest error that is shown, in bytes. The log has the whole error.
const SHOWN_ERROR_BYTES_MAX: usize = 1024;

/// The status of everything. Clones share it.
#[derive(Clone)]
pub(crate) struct Status(Arc<StatusInner>);

struct StatusInner {
    plugins: Mutex<BTreeMap<Arc<str>, Arc<PluginStatus>>>,
    /// True once the plugins of the directory were loaded or have failed to load.
    loaded: AtomicBool,
    replicas: OnceLock<Arc<dyn ReplicasView>>,
    hooks: OnceLock<Arc<dyn HooksView>>,
    /// Cancelled when the host stops.
    stop: CancellationToken,
}

impl Status {
    /// The status of a host that has not loaded anything yet, and that ends with `stop`.
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self(Arc::new(StatusInner {
            plugins: Mutex::default(),
            loaded: AtomicBool::new(false),
            replicas: OnceLock::new(),
            hooks: OnceLock::new(),
            stop,
        }))
    }

    /// The status of the plugin `name`. Adds it if it is not known yet.
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

    /// Removes the plugin `name`, of which nothing is left.
    pub(crate) fn forget(&self, name: &str) {
        self.plugins_by_name().remove(name);
    }

    /// All plugins, by name.
    pub(crate) fn plugins(&self) -> Vec<Arc<PluginStatus>> {
        self.plugins_by_name().values().cloned().collect()
    }

    /// Marks the plugins of the directory as known.
    pub(crate) fn loaded(&self) {
        self.0.loaded.store(true, Ordering::Relaxed);
    }

    /// Uses `replicas` from now on to show which plugins replicas can serve.
    pub(crate) fn sees(&self, replicas: Arc<dyn ReplicasView>) {
        // A host sets this once.
        let _ = self.0.replicas.set(replicas);
    }

    /// Uses `hooks` from now on to show the hooks of plugins.
    pub(crate) fn shows_hooks(&self, hooks: Arc<dyn HooksView>) {
        // A host sets this once.
        let _ = self.0.hooks.set(hooks);
    }

    /// The hooks of `plugin`. Null if this host listens on no address for them.
    fn hooks(&self, plugin: &PluginStatus) -> Value {
        let Some(hooks) = self.0.hooks.get() else { return Value::Null };
        let generation = plugin.generation();
        let controllers = generation.iter().flat_map(|plugin| &plugin.manifest().controllers);
        hooks.to_json(&plugin.name, &controllers.flat_map(|controller| &controller.hooks).collect::<Vec<_>>())
    }

    /// Why no replica runs `plugin`, as far as this one knows. `None` if one does, or may.
    pub(crate) fn unserved(&self, plugin: &str) -> Option<String> {
        // While this replica compiles the file, it may soon be the one that runs it.
        let is_loading = self.known(plugin).is_some_and(|plugin| plugin.phase() == PluginPhase::Loading);
        if is_loading { None } else { self.0.replicas.get()?.unserved(plugin) }
    }

    /// The replicas that can serve `plugin`, each with the digest of its file.
    fn digests(&self, plugin: &str) -> BTreeMap<Arc<str>, Arc<str>> {
        self.0.replicas.get().map(|replicas| replicas.digests(plugin)).unwrap_or_default()
    }

    /// Number of different files of `plugin` among the replicas.
    pub(crate) fn distinct_digests(&self, plugin: &str) -> usize {
        // A replica with many plugins does not publish their digests.
        self.digests(plugin).values().filter(|digest| !digest.is_empty()).collect::<BTreeSet<_>>().len()
    }

    /// A warning if replicas have different files of `plugin`.
    fn mixed(&self, plugin: &str) -> Option<String> {
        if self.distinct_digests(plugin) < 2 {
            return None;
        }
        let files = self.digests(plugin);
        let files = files.iter().filter(|(_, digest)| !digest.is_empty());
        let files: Vec<_> = files.map(|(replica, digest)| format!("{replica}: {digest}")).collect();
        Some(format!("replicas have different versions of its file ({})", files.join(", ")))
    }

    /// An error if the host does not do its work. Otherwise a line for each plugin that is not well: such a plugin must
    /// not take the Pod out of service, where other plugins run, or stop a rollout, which may bring what the plugin
    /// lacks.
    pub(crate) fn ready(&self) -> Result<Vec<String>, String> {
        if self.0.stop.is_cancelled() {
            return Err("the host stops".to_owned());
        }
        if !self.0.loaded.load(Ordering::Relaxed) {
            return Err("plugins are being loaded".to_owned());
        }
        let plugins = self.plugins();
        // A suspended plugin that is tried again must not take the Pod out of service.
        let begins = plugins.iter().filter(|plugin| plugin.phase() != PluginPhase::Suspended);
        let controllers = begins.flat_map(|plugin| plugin.controllers());
        let starting: Vec<_> = controllers.filter(|it| it.is_filling()).map(|it| it.name.to_string()).collect();
        if !starting.is_empty() {
            return Err(format!("these controllers are starting: {}", starting.join(", ")));
        }
        let warnings = plugins.iter().filter_map(|plugin| self.health(plugin).warning(&plugin.name));
        Ok(warnings.collect())
    }

    /// Everything that `/plugins` shows.
    pub(crate) fn to_json(&self) -> Value {
        let plugins: Vec<_> = self.plugins().iter().map(|plugin| self.plugin_json(plugin)).collect();
        json!({"starting": !self.0.loaded.load(Ordering::Relaxed), "plugins": plugins})
    }

    /// The state of `plugin` on this replica, and the reason.
    pub(crate) fn health(&self, plugin: &PluginStatus) -> PluginHealth {
        let health = plugin.health(self.unserved(&plugin.name).as_deref());
        if health.state != PluginState::Running || !health.is_well {
            return health;
        }
        match self.mixed(&plugin.name) {
            Some(why) => PluginHealth { why: Some(why), is_well: false, ..health },
            None => health,
        }
    }

    /// The facts for the status of the object of `plugin`.
    pub(crate) fn facts(&self, plugin: &PluginStatus) -> EngineFacts {
        plugin.facts(self.health(plugin))
    }

    /// Everything about `plugin`.
    pub(crate) fn plugin_json(&self, plugin: &PluginStatus) -> Value {
        let mut shown = plugin.to_json(&self.health(plugin));
        shown["unserved"] = json!(self.unserved(&plugin.name));
        shown["hooks"] = self.hooks(plugin);
        if let Some(lease) = shown["lease"].as_object_mut() {
            lease.insert("canServe".to_owned(), json!(self.digests(&plugin.name)));
        }
        shown
    }

    /// A summary of each plugin, for the status page. Times of failures are seconds since `began`.
    pub(crate) fn summaries(&self, began: Instant) -> Vec<(Arc<str>, Value)> {
        let plugins = self.plugins();
        let short =
            |plugin: &Arc<PluginStatus>| (plugin.name.clone(), plugin.summary_json(&self.health(plugin), began));
        plugins.iter().map(short).collect()
    }

    fn plugins_by_name(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<PluginStatus>>> {
        locked(&self.0.plugins)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shortened(mut text: String) -> String {
    if text.len() > SHOWN_ERROR_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_ERROR_BYTES_MAX));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKey;

    use super::*;
    use crate::observe::metrics::HostMetrics;

    fn controller(status: &Status) -> Arc<ControllerStatus> {
        status.plugin("webapp").controller("web", 1, HostMetrics::new().controller("webapp", "web"))
    }

    #[test]
    fn a_host_is_ready_once_every_controller_runs_or_names_its_obstacle() {
        let stop = CancellationToken::new();
        let status = Status::new(stop.clone());
        assert!(status.ready().is_err_and(|why| why.contains("loaded")));
        let controller = controller(&status);
        status.loaded();
        assert!(status.ready().is_err_and(|why| why.contains("webapp/web")));
        status.plugin("webapp").set(PluginPhase::Started, None);
        controller.set(ControllerState::Waiting, Some("no such kind".to_owned()));
        assert_eq!(status.ready(), Ok(vec!["webapp is waiting: controller web: no such kind".to_owned()]));
        controller.set(ControllerState::Syncing, None);
        assert!(status.ready().is_err());
        controller.set(ControllerState::Syncing, Some("it may not be listed".to_owned()));
        assert_eq!(status.ready(), Ok(vec!["webapp is list-refused: controller web: it may not be listed".to_owned()]));
        controller.set(ControllerState::Running, None);
        assert_eq!(status.ready(), Ok(vec![]));
        stop.cancel();
        assert!(status.ready().is_err_and(|why| why.contains("stops")));
    }

    /// A view in which no replica runs webapp.
    struct Lacking;

    impl ReplicasView for Lacking {
        fn unserved(&self, plugin: &str) -> Option<String> {
            (plugin == "webapp").then(|| "no replica runs it".to_owned())
        }

        fn digests(&self, plugin: &str) -> BTreeMap<Arc<str>, Arc<str>> {
            let second = if plugin == "mixed" { "5f2a" } else { "605a" };
            BTreeMap::from([("a".into(), "605a".into()), ("b".into(), second.into()), ("c".into(), "".into())])
        }
    }

    #[test]
    fn an_unserved_plugin_is_shown_and_leaves_the_replica_ready() {
        let status = Status::new(CancellationToken::new());
        for plugin in ["other", "webapp"] {
            status.plugin(plugin).set(PluginPhase::Started, None);
        }
        status.loaded();
        status.sees(Arc::new(Lacking));
        assert_eq!(status.ready(), Ok(vec!["webapp is unserved: no replica runs it".to_owned()]));
        let shown = status.to_json();
        assert_eq!(
            (&shown["plugins"][0]["unserved"], &shown["plugins"][1]["unserved"]),
            (&json!(null), &json!("no replica runs it"))
        );
    }

    #[test]
    fn a_suspended_plugin_is_a_warning_and_leaves_the_replica_ready() {
        let status = Status::new(CancellationToken::new());
        status.loaded();
        status.plugin("webapp").set(PluginPhase::Suspended, Some("it caches too much".to_owned()));
        status.plugin("other").set(PluginPhase::Started, None);
        assert_eq!(status.ready(), Ok(vec!["webapp is suspended: it caches too much".to_owned()]));
        controller(&status).set(ControllerState::Syncing, None);
        assert!(status.ready().is_ok(), "it is tried again, and may still not fit");
    }

    #[test]
    fn a_plugin_stays_suspended_until_all_its_caches_are_filled_again() {
        let status = Status::new(CancellationToken::new());
        status.loaded();
        let plugin = status.plugin("webapp");
        let [small, large] =
            ["small", "large"].map(|name| plugin.controller(name, 1, HostMetrics::new().controller("webapp", name)));
        plugin.set(PluginPhase::Suspended, Some("it caches too much".to_owned()));
        small.set(ControllerState::Running, None);
        for state in [ControllerState::Starting, ControllerState::Syncing] {
            large.set(state, None);
            assert!(!plugin.is_unsuspended_if_filled(), "{state:?}");
            assert!(status.ready().is_ok(), "{state:?}");
        }
        large.set(ControllerState::Syncing, Some("it may not be listed".to_owned()));
        assert!(plugin.is_unsuspended_if_filled() && !plugin.is_unsuspended_if_filled());
        assert_eq!(plugin.phase(), PluginPhase::Started);
    }

    #[test]
    fn replicas_with_different_files_of_one_plugin_are_a_warning() {
        let status = Status::new(CancellationToken::new());
        status.sees(Arc::new(Lacking));
        status.loaded();
        for plugin in ["alike", "mixed"] {
            status.plugin(plugin).set(PluginPhase::Started, None);
        }
        let expected = "mixed is running: replicas have different versions of its file (a: 605a, b: 5f2a)";
        assert_eq!(status.ready(), Ok(vec![expected.to_owned()]));
        assert_eq!((status.distinct_digests("alike"), status.distinct_digests("mixed")), (1, 2));
    }

    #[test]
    fn a_plugin_that_is_compiled_here_is_not_unserved() {
        let status = Status::new(CancellationToken::new());
        status.sees(Arc::new(Lacking));
        let plugin = status.plugin("webapp");
        assert_eq!((status.unserved("webapp"), &status.to_json()["plugins"][0]["state"]), (None, &json!("loading")));
        plugin.set(PluginPhase::NotLoaded, None);
        assert!(status.unserved("webapp").is_some());
    }

    #[tokio::test]
    async fn a_key_counts_as_given_up_until_it_succeeds() {
        let status = Status::new(CancellationToken::new());
        let controller = controller(&status);
        let key = ObjectKey::namespaced("prod", "shop");
        controller.gave_up(&key, "it cannot");
        let shown = status.to_json();
        let web = &shown["plugins"][0]["controllers"][0];
        assert_eq!(web["givenUp"][0], json!({"key": "prod/shop", "error": "it cannot"}));
        controller.succeeded(&key, None);
        assert_eq!(controller.given_up(), 0);
        assert_eq!(controller.metrics.success.get(), 1);
    }

    #[test]
    fn a_returning_version_is_shown_as_pending_even_beside_a_newer_one() {
        let pending = |digest: &str| NotTaken { digest: Some(digest.into()), reason: "it waits".to_owned() };
        let status = Status::new(CancellationToken::new());
        let plugin = status.plugin("webapp");
        let shown = || status.to_json()["plugins"][0]["pending"]["digest"].clone();
        plugin.pends(Some(pending("a")));
        plugin.is_newest(Some("a"));
        assert_eq!(shown(), "a");
        plugin.pends(Some(pending("c")));
        plugin.is_newest(Some("a"));
        assert_eq!(shown(), Value::Null);
        plugin.pends(Some(pending("a")));
        plugin.is_newest(None);
        assert_eq!(shown(), Value::Null);
    }

    #[tokio::test]
    async fn a_flood_of_given_up_keys_is_counted_and_not_kept() {
        let status = Status::new(CancellationToken::new());
        let controller = controller(&status);
        for index in 0..=1_000 {
            controller.gave_up(&ObjectKey::cluster(format!("a{index}")), &"long".repeat(1000));
        }
        assert_eq!(controller.given_up(), 1_000 + 1);
        assert!(status.to_json().to_string().len() < (SHOWN_ERROR_BYTES_MAX + 100) * (1_000 + 2));
    }
}
