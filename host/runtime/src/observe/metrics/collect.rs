//! Metrics looked up at each scrape: queues, caches, plugins, denials, panics.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue};
use prometheus_client::metrics::MetricType;
use windlass_core::queue::breaker;
use windlass_core::queue::{self, Histogram};
use windlass_core::write::expectations::ExpectationCounts;
use windlass_kube::{Informers, ListReason, Recorder, WriteOutcome, Writer};

use super::conditions::conditions;
use crate::observe::status::{ControllerStatus, PluginStatus, Status};
use crate::supervise::Panics;

/// The sources of the metrics.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) status: Status,
    pub(crate) panics: Panics,
    pub(crate) informers: Informers,
    pub(crate) recorder: Recorder,
    pub(crate) writer: Writer,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sources")
    }
}

/// Reads a count from a queue's metrics.
type QueueCount = fn(&queue::QueueMetrics) -> usize;

/// The labels of one line.
pub(crate) type Owned = Vec<(&'static str, String)>;

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.plugins(&mut encoder)?;
        self.queues(&mut encoder)?;
        self.caches(&mut encoder)?;
        let panics = self.panics.snapshot().into_iter().map(|(task, times)| (vec![("task", task.to_owned())], times));
        counters(&mut encoder, "windlass_task_panics", "Panics of the host's own tasks", panics)?;
        let mutations = WriteOutcome::ALL
            .map(|outcome| (vec![("outcome", outcome.as_str().replace(' ', "_"))], self.writer.count(outcome)));
        let help = "Mutations by plugins, and by the host for plugins, by how they ended at the API server";
        counters(&mut encoder, "windlass_mutations", help, mutations)?;
        let dropped = [(vec![], self.recorder.dropped())];
        let help = "Kubernetes Events that were dropped because too many waited";
        counters(&mut encoder, "windlass_events_dropped", help, dropped)
    }
}

impl Sources {
    fn plugins(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let plugins = self.status.plugins();
        let loaded = plugins.iter().filter_map(|plugin| Some((plugin, plugin.generation()?)));
        let loaded: Vec<_> = loaded.collect();
        let info = loaded.iter().map(|(plugin, generation)| {
            let labels = vec![
                ("plugin", plugin.name.to_string()),
                ("version", generation.manifest().version.clone()),
                ("digest", generation.short_digest().to_owned()),
                ("state", self.status.health(plugin).state.as_str().to_owned()),
            ];
            (labels, 1_i64)
        });
        gauges(encoder, "windlass_loaded_plugin", "The plugins that are loaded, and what they do", info)?;
        let states = plugins.iter().map(|plugin| {
            let state = self.status.health(plugin).state.as_str().to_owned();
            (vec![("plugin", plugin.name.to_string()), ("state", state)], 1_i64)
        });
        let help = "The state of each plugin, loaded or not, as /plugins shows it";
        gauges(encoder, "windlass_plugin_state", help, states)?;
        let loads = plugins.iter().flat_map(|plugin| {
            plugin.loads().into_iter().map(|(result, times)| {
                (vec![("plugin", plugin.name.to_string()), ("result", result.to_owned())], times)
            })
        });
        let help = "Attempts to load a plugin's file, by result";
        counters(encoder, "windlass_plugin_loads", help, loads)?;
        let unserved = plugins.iter().map(|plugin| {
            (vec![("plugin", plugin.name.to_string())], i64::from(self.status.unserved(&plugin.name).is_some()))
        });
        let help = "Whether no replica runs the plugin, as this replica sees it";
        gauges(encoder, "windlass_plugin_unserved", help, unserved)?;
        let digests = plugins.iter().map(|plugin| {
            (vec![("plugin", plugin.name.to_string())], gauge(self.status.distinct_digests(&plugin.name) as u64))
        });
        let help = "Number of different files of the plugin among the replicas that publish their digests";
        gauges(encoder, "windlass_plugin_distinct_digests", help, digests)?;
        let lines = loaded.iter().map(|(plugin, generation)| {
            (vec![("plugin", plugin.name.to_string())], generation.stats().dropped_log_lines)
        });
        counters(encoder, "windlass_log_lines_dropped", "Log lines of plugins beyond what a call may log", lines)?;
        let values = loaded.iter().map(|(plugin, generation)| {
            (vec![("plugin", plugin.name.to_string())], generation.stats().dropped_metric_values)
        });
        let help = "Values of plugins' metrics beyond what a call may give";
        counters(encoder, "windlass_metric_values_over_limit", help, values)?;
        memory(encoder, &plugins)?;
        let denials = plugins.iter().flat_map(|plugin| {
            plugin.denials.snapshot().into_iter().map(|denial| {
                let labels = vec![
                    ("plugin", plugin.name.to_string()),
                    ("verb", denial.verb),
                    ("resource", denial.resource),
                    ("cause", denial.cause.to_owned()),
                ];
                (labels, denial.count)
            })
        });
        counters(encoder, "windlass_grants_denied", "What plugins were denied", denials)
    }

    fn queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let plugins = self.status.plugins();
        let controllers: Vec<_> = plugins.iter().flat_map(|plugin| plugin.controllers()).collect();
        let workers = controllers.iter().map(|it| (labels(it), i64::from(it.workers())));
        gauges(encoder, "controller_runtime_max_concurrent_reconciles", "How many calls may run at once", workers)?;
        let given_up = controllers.iter().map(|it| (labels(it), gauge(it.given_up())));
        let help = "Keys that have used up their retries and are tried rarely";
        gauges(encoder, "windlass_keys_given_up", help, given_up)?;
        let paused = controllers.iter().map(|it| (labels(it), gauge(it.paused() as u64)));
        let help = "Keys whose object is paused by its annotation, of up to a thousand keys that are not done";
        gauges(encoder, "windlass_keys_paused", help, paused)?;
        let breakers = controllers.iter().filter_map(|it| Some((labels(it), breaker(it.breaker()?))));
        let help = "Circuit breaker of a controller: 0 if all calls are made, 1 if one trial call is made, 2 if no call is made";
        gauges(encoder, "windlass_controller_breaker_state", help, breakers)?;
        let slowed = controllers.iter().map(|it| (labels(it), gauge(it.slowed())));
        let help = "Keys that write one object over and over, and are tried rarely";
        gauges(encoder, "windlass_keys_in_slow_lane", help, slowed)?;
        let queues: Vec<_> =
            controllers.iter().filter_map(|it| Some((queue_labels(it), it.queue()?.metrics()))).collect();
        let gauge_of =
            |value: fn(&queue::QueueMetrics) -> f64| queues.iter().map(move |(it, at)| (it.clone(), value(at)));
        #[allow(clippy::cast_precision_loss, reason = "no queue has 2^52 keys")]
        let depth = gauge_of(|at| at.depth as f64);
        gauges(encoder, "workqueue_depth", "Keys that are ready for a worker", depth)?;
        #[allow(clippy::cast_precision_loss, reason = "no queue has 2^52 keys")]
        let parked = gauge_of(|at| at.parked as f64);
        gauges(encoder, "windlass_workqueue_parked", "Keys that are held until their own writes are seen", parked)?;
        let longest =
            controllers.iter().filter_map(|it| Some((queue_labels(it), it.gate()?.longest_wait().as_secs_f64())));
        let help = "How long the key that waits the longest has waited for a cache to show its own writes";
        gauges(encoder, "windlass_workqueue_longest_held_seconds", help, longest)?;
        let lost = controllers.iter().map(|it| (labels(it), it.lost()));
        let help = "Keys that were parked although no gate would have woken them: any such key is a bug of the host";
        counters(encoder, "windlass_keys_lost", help, lost)?;
        let settling = controllers.iter().map(|it| (queue_labels(it), gauge(it.settling.count() as u64)));
        let help = "Keys that wait, without a worker, until the outcome of one of their writes is known";
        gauges(encoder, "windlass_workqueue_settling", help, settling)?;
        let counted: [(&str, &str, QueueCount); 2] = [
            ("windlass_keys_failing", "Keys whose last call has failed, and that are tried again", |at| at.failing),
            (
                "windlass_keys_in_backoff",
                "Keys whose last call has failed, and that wait for their next attempt",
                |at| at.backing_off,
            ),
        ];
        for (name, help, count) in counted {
            let lines = queues.iter().map(|(it, at)| (it[..2].to_vec(), gauge(count(at) as u64)));
            gauges(encoder, name, help, lines)?;
        }
        let unfinished = gauge_of(|at| at.unfinished_work.as_secs_f64());
        let help = "The total time that workers have spent so far on the keys that they have now";
        gauges(encoder, "workqueue_unfinished_work_seconds", help, unfinished)?;
        let longest = gauge_of(|at| at.longest_running.as_secs_f64());
        let help = "How long the longest running worker has had its key";
        gauges(encoder, "workqueue_longest_running_processor_seconds", help, longest)?;
        let adds = queues.iter().map(|(it, at)| (it.clone(), at.adds));
        counters(encoder, "workqueue_adds", "Additions to the queue", adds)?;
        let retries = queues.iter().map(|(it, at)| (it.clone(), at.retries));
        counters(encoder, "workqueue_retries", "Rate-limited additions to the queue", retries)?;
        let waited = queues.iter().map(|(it, at)| (it.clone(), at.queue_duration));
        histograms(encoder, "workqueue_queue_duration_seconds", "From addition to worker", waited)?;
        let worked = queues.iter().map(|(it, at)| (it.clone(), at.work_duration));
        histograms(encoder, "workqueue_work_duration_seconds", "From worker to done", worked)?;
        conditions(encoder, &controllers)?;
        expectations(encoder, &controllers)
    }

    fn caches(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let caches = self.informers.figures();
        let labelled = |at: usize| vec![("watch", caches[at].watch.to_string())];
        let all = 0..caches.len();
        let objects = all.clone().map(|at| (labelled(at), gauge(caches[at].objects as u64)));
        gauges(encoder, "windlass_informer_objects", "Objects in a cache", objects)?;
        let bytes = all.clone().map(|at| (labelled(at), gauge(caches[at].bytes as u64)));
        gauges(encoder, "windlass_informer_bytes", "The approximate memory that a cache occupies", bytes)?;
        let synced = all.clone().map(|at| (labelled(at), i64::from(caches[at].status.synced)));
        gauges(encoder, "windlass_informer_synced", "Whether a cache holds its first complete list", synced)?;
        let unproven = all.clone().map(|at| (labelled(at), i64::from(caches[at].unproven)));
        let help =
            "Whether a cache has not been listed since the API server was restored: its controllers make no calls";
        gauges(encoder, "windlass_informer_unproven", help, unproven)?;
        let restores = [(vec![], self.informers.restore_count())];
        let help = "Restores of the API server's etcd that were noticed";
        counters(encoder, "windlass_server_restores", help, restores)?;
        let silence = all.clone().filter_map(|at| Some((labelled(at), caches[at].silence?.as_secs_f64())));
        let help = "How long a cache has received nothing from the API server, neither a change nor a bookmark";
        gauges(encoder, "windlass_informer_silence_seconds", help, silence)?;
        let lists = all.clone().flat_map(|at| {
            // A line appears once its reason has occurred. But every cache has the line for its first list from the
            // beginning.
            let is_shown = |(reason, count): &(ListReason, u64)| *count > 0 || *reason == ListReason::First;
            let counts = ListReason::ALL.into_iter().zip(caches[at].status.lists_by_reason).filter(is_shown);
            counts.map(move |(reason, count)| {
                let mut labels = labelled(at);
                labels.push(("reason", reason.as_str().to_owned()));
                (labels, count)
            })
        });
        let help = "Complete lists that a cache has taken over, by the reason for the list";
        counters(encoder, "windlass_informer_lists", help, lists)?;
        let malformed = all.map(|at| (labelled(at), caches[at].status.malformed));
        let help = "Lists and events that could not be read, or came out of order";
        counters(encoder, "windlass_informer_malformed", help, malformed)
    }
}

/// The memory use of each plugin.
fn memory(encoder: &mut DescriptorEncoder<'_>, plugins: &[Arc<PluginStatus>]) -> fmt::Result {
    let labels = |plugin: &PluginStatus| vec![("plugin", plugin.name.to_string())];
    let stats = || plugins.iter().filter_map(|plugin| Some((labels(plugin), plugin.generation()?.stats())));
    let now = stats().map(|(labels, stats)| (labels, gauge(stats.memory as u64)));
    let help = "Linear memory that calls and parked instances of a plugin have, or have reserved";
    gauges(encoder, "windlass_plugin_memory_bytes", help, now)?;
    let most = stats().map(|(labels, stats)| (labels, gauge(stats.most_memory as u64)));
    let help = "The maximum of the plugin's linear memory since its file was loaded";
    gauges(encoder, "windlass_plugin_memory_peak_bytes", help, most)?;
    let caches = plugins.iter().map(|plugin| (labels(plugin), gauge(plugin.cache_bytes() as u64)));
    let help = "Bytes in the caches that a plugin reads, and in its saved calls; a cache that several plugins read counts \
                for each";
    gauges(encoder, "windlass_plugin_cache_bytes", help, caches)
}

fn expectations(encoder: &mut DescriptorEncoder<'_>, controllers: &[Arc<ControllerStatus>]) -> fmt::Result {
    type Count = fn(&ExpectationCounts) -> u64;
    let counts: Vec<_> = controllers.iter().filter_map(|it| Some((labels(it), it.gate()?.counts()))).collect();
    let counted: [(&str, &str, Count); 5] = [
        ("raised", "Writes that a cache did not show yet when they were answered", |it| it.raised),
        ("observed", "Writes that a cache showed already when they were answered", |it| it.observed),
        (
            "satisfied",
            "Writes that a cache has shown later, except writes that were given up or are covered by the expectation \
             of a later write",
            |it| it.satisfied,
        ),
        ("expired", "Writes that a cache has not shown for five minutes", |it| it.expired),
        ("held", "How often a key was held because a cache did not show its own writes yet", |it| it.held),
    ];
    for (name, help, count) in counted {
        let lines = counts.iter().map(|(labels, counts)| (labels.clone(), count(counts)));
        counters(encoder, &format!("windlass_expectations_{name}"), help, lines)?;
    }
    let waits = counts.iter().map(|(labels, counts)| (labels.clone(), counts.wait));
    histograms(
        encoder,
        "windlass_expectations_wait_seconds",
        "From the answer to a write until a cache shows it",
        waits,
    )
}

pub(super) fn labels(controller: &ControllerStatus) -> Owned {
    let name = controller.name.split_once('/').map_or(&*controller.name, |(_, name)| name);
    vec![("controller", name.to_owned()), ("plugin", controller.plugin.to_string())]
}

/// client-go's label `name`, and its parts.
fn queue_labels(controller: &ControllerStatus) -> Owned {
    let mut labels = labels(controller);
    labels.push(("name", controller.name.to_string()));
    labels
}

fn breaker(state: breaker::BreakerState) -> i64 {
    match state {
        breaker::BreakerState::Closed => 0,
        breaker::BreakerState::HalfOpen => 1,
        breaker::BreakerState::Open => 2,
    }
}

pub(super) fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: impl IntoIterator<Item = (Owned, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in lines {
        family.encode_family(&labels)?.encode_counter::<Owned, _, f64>(&value, None)?;
    }
    Ok(())
}

pub(crate) fn gauges<V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: impl IntoIterator<Item = (Owned, V)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in lines {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn histograms(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: impl IntoIterator<Item = (Owned, Histogram)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (labels, Histogram { buckets, count, sum }) in lines {
        let mut bound = 1e-9;
        let mut bounded: Vec<(f64, u64)> = buckets
            .iter()
            .map(|count| {
                bound *= 10.0;
                (bound, *count)
            })
            .collect();
        bounded.push((f64::INFINITY, count - buckets.iter().sum::<u64>()));
        #[allow(clippy::cast_precision_loss, reason = "a sum of nanoseconds need not be exact")]
        let seconds = sum as f64 / 1e9;
        family.encode_family(&labels)?.encode_histogram::<Owned>(seconds, count, &bounded, None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use windlass_core::life::plugin_state::{ControllerState, PluginPhase, PluginState};
    use windlass_core::object::ObjectKey;
    use windlass_core::queue::outcome::Retry;
    use windlass_core::queue::{ItemExponential, Queue};

    use crate::clock::SystemClock;
    use crate::tests::stage::Stage;

    #[tokio::test]
    async fn settling_keys_and_unserved_plugins_are_gauges() {
        let stage = Stage::new().await;
        let metrics = &stage.host.metrics;
        let queue = Queue::new(Arc::new(SystemClock::new()), ItemExponential::default());
        let controller = stage.host.status.plugin("webapp").controller("web", 1, metrics.controller("webapp", "web"));
        controller.begins(queue.clone());
        queue.add_rate_limited(ObjectKey::namespaced("prod", "other"), Retry::Counted, Some(Duration::from_hours(1)));
        let settling = controller.settling.begin(ObjectKey::namespaced("prod", "shop"));
        assert!(settling.is_some());
        let shown = |name: &str| {
            let text = metrics.text();
            let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
            line.and_then(|line| line.rsplit_once(' ')).map(|(_, value)| value.to_owned())
        };
        assert_eq!(shown("windlass_workqueue_settling").as_deref(), Some("1"), "{}", metrics.text());
        let zero = ["windlass_plugin_unserved", "windlass_plugin_cache_bytes", "windlass_plugin_distinct_digests"];
        let one = ["windlass_keys_failing", "windlass_keys_in_backoff", "controller_runtime_max_concurrent_reconciles"];
        for (value, names) in [("0", zero.as_slice()), ("1", one.as_slice())] {
            for name in names {
                assert_eq!(shown(name).as_deref(), Some(value), "{name} in {}", metrics.text());
            }
        }
        drop(settling);
        assert_eq!(shown("windlass_workqueue_settling").as_deref(), Some("0"));
        stage.phases.stop.cancel();
    }

    #[tokio::test]
    async fn the_state_of_a_plugin_is_the_same_in_metrics_and_on_plugins() {
        let stage = Stage::new().await;
        let generation = stage.load(1).await;
        let plugin = stage.host.status.plugin(generation.name());
        let metrics = stage.host.metrics.controller("chameleon", "chameleon");
        let controller = plugin.controller("chameleon", 1, metrics);
        plugin.is_now(generation);
        let shown = |state: &str| {
            let (text, label) = (stage.host.metrics.text(), format!(r#",state="{state}"}} 1"#));
            let of = |name: &str| text.lines().any(|line| line.starts_with(name) && line.ends_with(&label));
            let on_plugins = stage.host.status.plugin_json(&plugin)["state"] == state;
            [of(r#"windlass_plugin_state{plugin="chameleon""#), of("windlass_loaded_plugin{"), on_plugins]
        };
        controller.set(ControllerState::Waiting, Some("no kind WebApp".to_owned()));
        assert_eq!(shown("waiting"), [true; 3]);
        controller.set(ControllerState::Running, None);
        assert_eq!((shown("running"), shown("waiting")), ([true; 3], [false; 3]));
        plugin.set(PluginPhase::Suspended, None);
        assert_eq!(shown("suspended"), [true; 3]);
        plugin.has_ended();
        assert_eq!(shown("suspended"), [true, false, true], "also without a file that is loaded");
        stage.phases.stop.cancel();
    }

    #[test]
    fn each_state_that_needs_a_person_has_an_alert() {
        let alerts = include_str!("../../../../../deploy/chart/files/alerts.yaml");
        let selected = alerts.split(r#"windlass_plugin_state{state=~\""#).skip(1);
        let selected = selected.filter_map(|rest| rest.split_once('\\')).flat_map(|(states, _)| states.split('|'));
        // WindlassPluginUnserved, WindlassBreakerOpen and WindlassLeaseUnheld are based on other metrics.
        let others = ["unserved", "breaker-open", "lease-lost"];
        let alerted: BTreeSet<_> = selected.chain(others).collect();
        let needed = PluginState::ALL.iter().filter(|state| state.needs_person()).map(|state| state.as_str());
        assert_eq!(alerted, needed.collect());
    }
}
