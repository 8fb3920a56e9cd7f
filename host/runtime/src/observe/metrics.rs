//! The host's counters, and their output on `/metrics`, in the `OpenMetrics` format. A metric has the name that
//! client-go or controller-runtime gives it, if there is one.
//!
//! Events are counted where they happen, in families that are kept here. Gauges, such as the depth of a queue, and
//! counters that are kept elsewhere, such as panics and mutations, are read at each scrape (`collect`). The metrics
//! that plugins declare are in `plugin`; each name must differ from those of other plugins' metrics and of the host's
//! metrics.

mod collect;
mod conditions;
mod counters;
mod guests;
mod hooks;
mod plugin;
mod ports;
mod process;
mod recordings;
mod rest_client;

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use windlass_core::deceptive;
use windlass_core::life::features::Features;
use windlass_core::queue::outcome::WAITED;
use windlass_kube::Connection;

pub(crate) use self::collect::{Sources, counters, gauges};
use self::counters::Counters;
pub(crate) use self::guests::Guests;
pub(crate) use self::hooks::HookTotals;
pub(crate) use self::plugin::PluginMetrics;
pub(crate) use self::ports::{PortCounts, counted};
use self::process::ProcessMetrics;
pub(crate) use self::recordings::RecordedCalls;
use self::rest_client::{RestClientMetrics, host_of};

/// The labels of a metric.
type MetricLabels = Vec<(&'static str, String)>;

/// A counter of seconds.
type SecondsTotal = Counter<f64, AtomicU64>;

/// A histogram whose buckets remember the trace ID of the last call in each.
type CallSeconds = HistogramWithExemplars<[(&'static str, Arc<str>); 1]>;

/// controller-runtime's buckets of `controller_runtime_reconcile_time_seconds`.
const RECONCILE_SECONDS: [f64; 33] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
];

/// The host's own counters. Clones share them.
#[derive(Clone)]
pub(crate) struct HostMetrics {
    registry: Arc<Mutex<Registry>>,
    plugins: PluginMetrics,
    http: HttpTotals,
    hooks: HookTotals,
    reads: Counters,
    live: Counters,
    writes: Counters,
    claims: Counters,
    events: Counters,
    reconciles: Counters,
    reconcile_errors: Counters,
    terminal_errors: Counters,
    traps: Counters,
    filtered: Counters,
    openings: Counters,
    hot_loops: Counters,
    saved: Counters,
    mispredicted: Counters,
    panics: Counters,
    timeouts: Counters,
    cpu: Family<MetricLabels, SecondsTotal>,
    reconcile_time: Family<MetricLabels, CallSeconds, fn() -> CallSeconds>,
    active: Family<MetricLabels, Gauge>,
}

/// How plugins' HTTP requests ended, by plugin and reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpTotals(Counters);

impl HttpTotals {
    /// Counts a request of `plugin` that ended for `reason`.
    pub(crate) fn count(&self, plugin: &str, reason: &'static str) {
        self.0.of(vec![("plugin", plugin.to_owned()), ("reason", reason.to_owned())]).inc();
    }
}

/// The outcomes of one controller's calls.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    pub(crate) success: Counter,
    pub(crate) requeue_after: Counter,
    /// Calls that asked to run again after their key's backoff.
    pub(crate) requeue: Counter,
    /// Failures that are retried.
    pub(crate) error: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal: Counter,
    /// Changes that the plugin's own code has filtered out.
    pub(crate) filtered: Counter,
    pub(crate) openings: Counter,
    pub(crate) hot_loops: Counter,
    /// Calls that were not made, because they could have changed nothing.
    pub(crate) saved: Counter,
    /// Calls that did something although they could have been saved.
    pub(crate) mispredicted: Counter,
    /// Calls in which the plugin trapped, or the host panicked.
    pub(crate) panics: Counter,
    timeouts: Counter,
    traps: Counters,
    labels: MetricLabels,
    time: CallSeconds,
    pub(crate) active: Gauge,
    /// The CPU time of the plugin, over all its controllers.
    pub(crate) cpu: SecondsTotal,
}

impl ControllerMetrics {
    /// Records that the call with this trace ID took `took`.
    pub(crate) fn called(&self, took: Duration, trace_id: &Arc<str>) {
        self.time.observe(took.as_secs_f64(), Some([("trace_id", trace_id.clone())]), None);
    }

    /// Counts a call that ended without an answer. `reason` is one of a few fixed words.
    pub(crate) fn trapped(&self, reason: &'static str) {
        if reason == "trap" {
            self.panics.inc();
        }
        if matches!(reason, "deadline" | WAITED) {
            self.timeouts.inc();
        }
        let mut labels = self.labels.clone();
        labels.push(("reason", reason.to_owned()));
        self.traps.of(labels).inc();
    }
}

impl HostMetrics {
    /// All counters at zero, with the metrics that plugins declare.
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Arc::default(),
            plugins: PluginMetrics::default(),
            http: HttpTotals::default(),
            hooks: HookTotals::default(),
            reads: Counters::default(),
            live: Counters::default(),
            writes: Counters::default(),
            claims: Counters::default(),
            events: Counters::default(),
            reconciles: Counters::default(),
            reconcile_errors: Counters::default(),
            terminal_errors: Counters::default(),
            traps: Counters::default(),
            filtered: Counters::default(),
            openings: Counters::default(),
            hot_loops: Counters::default(),
            saved: Counters::default(),
            mispredicted: Counters::default(),
            panics: Counters::default(),
            timeouts: Counters::default(),
            cpu: Family::default(),
            reconcile_time: Family::new_with_constructor(|| CallSeconds::new(RECONCILE_SECONDS.into_iter())),
            active: Family::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // The encoder adds `_total` to the names of counters.
        for (name, help, counters) in [
            ("windlass_http_requests", "HTTP requests of plugins, by how they ended", &self.http.0),
            ("windlass_hook_requests", "Requests to hooks of plugins, by how they ended", &self.hooks.0),
            ("windlass_cache_reads", "Reads of plugins from caches, by verb and result", &self.reads),
            ("windlass_live_reads", "Reads of plugins from the API server, by verb and result", &self.live),
            ("windlass_writes", "Writes of plugins, by verb, HTTP status and outcome", &self.writes),
            ("windlass_claims", "Claims of plugins, by result", &self.claims),
            ("windlass_events", "Kubernetes Events that plugins and the host have emitted", &self.events),
            ("controller_runtime_reconcile", "Calls of plugins, by result", &self.reconciles),
            ("controller_runtime_reconcile_errors", "Calls of plugins that failed", &self.reconcile_errors),
            (
                "controller_runtime_terminal_reconcile_errors",
                "Calls of plugins that failed for good",
                &self.terminal_errors,
            ),
            ("windlass_calls_trapped", "Calls that the plugin ended without an answer, by reason", &self.traps),
            ("windlass_changes_filtered", "Changes that a plugin's own code has filtered out", &self.filtered),
            (
                "windlass_controller_breaker_openings",
                "How often a controller's circuit opened, as its calls ended without an answer",
                &self.openings,
            ),
            ("windlass_hot_loops", "How often a plugin was found to write one object over and over", &self.hot_loops),
            ("windlass_calls_saved", "Calls that were not made, because they could have changed nothing", &self.saved),
            (
                "windlass_calls_mispredicted",
                "Calls that could have been saved, were made for an audit, and did something",
                &self.mispredicted,
            ),
            (
                "controller_runtime_reconcile_panics",
                "Calls in which the plugin trapped or the host panicked",
                &self.panics,
            ),
            ("controller_runtime_reconcile_timeouts", "Calls that were stopped at their deadline", &self.timeouts),
        ] {
            registry.register(name, help, counters.family());
        }
        let time = "How long a call took";
        registry.register("controller_runtime_reconcile_time_seconds", time, self.reconcile_time.clone());
        registry.register("controller_runtime_active_workers", "Calls that run", self.active.clone());
        let cpu = "Processor time that calls of a plugin have used, including calls of its next version";
        registry.register("windlass_plugin_cpu_seconds", cpu, self.cpu.clone());
        registry.register_collector(Box::new(self.plugins.clone()));
        registry.register_collector(Box::new(ProcessMetrics));
    }

    /// Shows the metrics of `sources` from now on.
    pub(crate) fn show(&self, sources: Sources) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(sources));
    }

    /// Counts the requests of `connection` from now on.
    pub(crate) fn follow_requests(&self, connection: &Connection) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let (requests, host) = (RestClientMetrics::registered(&mut registry), host_of(&connection.server));
        connection.requests.observe(move |request| requests.count(&host, request));
    }

    /// Shows the metrics of `collector` from now on.
    pub(crate) fn collect(&self, collector: Box<dyn Collector>) {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner).register_collector(collector);
    }

    /// Shows from now on which `features` are enabled, under the name and with the labels that Kubernetes uses.
    pub(crate) fn show_features(&self, features: &Features) {
        let enabled = Family::<MetricLabels, Gauge>::default();
        for (name, stage, value) in features.figures() {
            let labels = vec![("name", name.to_owned()), ("stage", stage.label().to_owned())];
            enabled.get_or_create(&labels).set(value.into());
        }
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register("kubernetes_feature_enabled", "Whether a feature is enabled, by its stage", enabled);
    }

    /// The metrics of plugins.
    pub(crate) fn plugins(&self) -> &PluginMetrics {
        &self.plugins
    }

    /// How plugins' HTTP requests ended.
    pub(crate) fn http(&self) -> &HttpTotals {
        &self.http
    }

    /// How requests to hooks ended.
    pub(crate) fn hooks(&self) -> &HookTotals {
        &self.hooks
    }

    /// The counters of `controller` of `plugin`, shown from now on, beginning at zero.
    pub(crate) fn controller(&self, plugin: &str, controller: &str) -> ControllerMetrics {
        let labels = || vec![("controller", controller.to_owned()), ("plugin", plugin.to_owned())];
        let result = |result: &str| {
            let mut labels = labels();
            labels.push(("result", result.to_owned()));
            self.reconciles.of(labels)
        };
        ControllerMetrics {
            success: result("success"),
            requeue_after: result("requeue_after"),
            requeue: result("requeue"),
            error: result("error"),
            errors: self.reconcile_errors.of(labels()),
            terminal: self.terminal_errors.of(labels()),
            filtered: self.filtered.of(labels()),
            openings: self.openings.of(labels()),
            hot_loops: self.hot_loops.of(labels()),
            saved: self.saved.of(labels()),
            mispredicted: self.mispredicted.of(labels()),
            panics: self.panics.of(labels()),
            timeouts: self.timeouts.of(labels()),
            cpu: self.cpu.get_or_create_owned(&of_plugin(plugin)),
            traps: self.traps.clone(),
            labels: labels(),
            time: self.reconcile_time.get_or_create_owned(&labels()),
            active: self.active.get_or_create_owned(&labels()),
        }
    }

    /// Removes the metrics of `plugin`, which has gone: the metrics that it declared, the metrics of its requests, and
    /// the metrics of all its controllers.
    pub(crate) fn forget(&self, plugin: &str) {
        self.plugins.forget(plugin);
        for controller in self.reconcile_errors.values(plugin, "controller") {
            self.forget_controller(plugin, &controller);
        }
        let asked = [&self.http.0, &self.hooks.0, &self.reads, &self.live, &self.writes, &self.claims, &self.events];
        asked.into_iter().chain(self.of_controllers()).for_each(|counters| counters.forget(plugin));
        self.cpu.remove(&of_plugin(plugin));
    }

    /// Removes the metrics of `controller`, which the newer version of `plugin` does not have.
    pub(crate) fn forget_controller(&self, plugin: &str, controller: &str) {
        self.of_controllers()
            .into_iter()
            .for_each(|counters| counters.forget_those(plugin, ("controller", controller)));
        let labels = vec![("controller", controller.to_owned()), ("plugin", plugin.to_owned())];
        self.reconcile_time.remove(&labels);
        self.active.remove(&labels);
    }

    /// The counters with the name of a controller.
    fn of_controllers(&self) -> [&Counters; 11] {
        [
            &self.reconciles,
            &self.reconcile_errors,
            &self.terminal_errors,
            &self.traps,
            &self.filtered,
            &self.openings,
            &self.hot_loops,
            &self.saved,
            &self.mispredicted,
            &self.panics,
            &self.timeouts,
        ]
    }

    /// The CPU time in seconds that calls of `plugin` have used so far.
    pub(crate) fn cpu_seconds(&self, plugin: &str) -> f64 {
        self.cpu.get(&of_plugin(plugin)).map_or(0.0, |cpu| cpu.get())
    }

    /// Number of writes of `plugin` that the API server has carried out so far.
    pub(crate) fn committed_writes(&self, plugin: &str) -> u64 {
        self.writes.sum(plugin, ("outcome", ports::COMMITTED))
    }

    /// All metrics in the `OpenMetrics` text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a text cannot fail.
        let _ = encode(&mut text, &registry);
        match deceptive::escape_metrics(&text) {
            Cow::Owned(escaped) => escaped,
            Cow::Borrowed(_) => text,
        }
    }
}

fn of_plugin(plugin: &str) -> MetricLabels {
    vec![("plugin", plugin.to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HttpTotals {
        /// Number of requests of `plugin` that ended for `reason`.
        pub(crate) fn of(&self, plugin: &str, reason: &'static str) -> u64 {
            self.0.of(vec![("plugin", plugin.to_owned()), ("reason", reason.to_owned())]).get()
        }
    }

    #[test]
    fn no_label_has_a_character_that_moves_a_terminals_cursor() {
        let metrics = HostMetrics::new();
        metrics.http().count("a\u{1b}[2J\nb", "ok");
        let text = metrics.text();
        assert!(text.contains(r#"plugin="a\\u{1b}[2J\nb""#), "{text}");
        assert!(!text.replace('\n', "").contains(deceptive::is_deceptive), "{text}");
    }

    #[test]
    fn all_metrics_of_a_plugin_are_removed_with_it() {
        let metrics = HostMetrics::new();
        for plugin in ["gone", "stays"] {
            let controller = metrics.controller(plugin, "c");
            controller.trapped("memory");
            controller.openings.inc();
            controller.cpu.inc_by(1.5);
            metrics.http().count(plugin, "ok");
            metrics.hooks().count(plugin, "pushed", "queued");
            for counters in [&metrics.reads, &metrics.live, &metrics.writes, &metrics.claims, &metrics.events] {
                counters.of(vec![("plugin", plugin.to_owned()), ("verb", "get".to_owned())]).inc();
            }
        }
        let lines =
            |plugin: &str| metrics.text().lines().filter(|line| line.contains(&format!("plugin=\"{plugin}\""))).count();
        let before = lines("stays");
        assert!(before > 10 && lines("gone") == before);
        metrics.forget("gone");
        assert_eq!((lines("gone"), lines("stays")), (0, before), "{}", metrics.text());
    }

    #[test]
    fn only_the_removed_controllers_metrics_are_removed() {
        let metrics = HostMetrics::new();
        for controller in ["gone", "stays"] {
            let controller = metrics.controller("shop", controller);
            controller.trapped("memory");
            controller.called(Duration::from_secs(1), &"a".into());
        }
        let lines =
            |name: &str| metrics.text().lines().filter(|line| line.contains(&format!("controller=\"{name}\""))).count();
        let before = lines("stays");
        assert!(before > 40 && lines("gone") == before);
        metrics.forget_controller("shop", "gone");
        assert_eq!((lines("gone"), lines("stays")), (0, before), "{}", metrics.text());
        metrics.forget("shop");
        assert_eq!(lines("stays"), 0, "its last version may have other controllers: {}", metrics.text());
    }

    #[test]
    fn metrics_use_controller_runtimes_names_where_it_has_them() {
        let metrics = HostMetrics::new();
        let controller = metrics.controller("webapp", "web");
        for reason in ["trap", "deadline", WAITED, "memory", "trap"] {
            controller.trapped(reason);
        }
        controller.cpu.inc_by(Duration::from_millis(2500).as_secs_f64());
        let text = metrics.text();
        let of = r#"{controller="web",plugin="webapp"}"#;
        for line in [
            format!("controller_runtime_reconcile_panics_total{of} 2"),
            format!("controller_runtime_reconcile_timeouts_total{of} 2"),
            format!("controller_runtime_active_workers{of} 0"),
            r#"windlass_plugin_cpu_seconds_total{plugin="webapp"} 2.5"#.to_owned(),
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
        }
        assert!((metrics.cpu_seconds("webapp") - 2.5).abs() < 1e-9);
    }

    #[test]
    fn each_bucket_of_the_time_of_calls_leads_to_the_trace_of_its_last_call() {
        let metrics = HostMetrics::new();
        let controller = metrics.controller("webapp", "web");
        for (millis, trace_id) in [(20, "a"), (21, "b"), (3000, "c"), (60_000, "d")] {
            controller.called(Duration::from_millis(millis), &trace_id.into());
        }
        let text = metrics.text();
        let exemplars = text.lines().filter_map(|line| line.split_once(" # ").map(|(_, exemplar)| exemplar));
        let expected = [r#"{trace_id="b"} 0.021"#, r#"{trace_id="c"} 3.0"#, r#"{trace_id="d"} 60.0"#];
        assert_eq!(exemplars.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn writes_are_those_that_were_carried_out() {
        let metrics = HostMetrics::new();
        for (plugin, outcome) in [("a", "committed"), ("a", "refused"), ("a", "committed"), ("b", "committed")] {
            let labels = vec![("plugin", plugin.to_owned()), ("outcome", outcome.to_owned())];
            metrics.writes.of(labels).inc();
        }
        assert_eq!(["a", "b", "c"].map(|plugin| metrics.committed_writes(plugin)), [2, 1, 0]);
    }
}
