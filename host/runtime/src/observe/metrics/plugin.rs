//! The metrics that plugins declare: `windlass_plugin_<plugin>_<metric>`, each with the label `plugin`.
//!
//! A plugin is foreign code, so each value is checked before it is kept: the metric must be declared, the type and the
//! labels must match, the number must make sense, and the number of series is limited. Other values are counted and
//! dropped; they never fail a call.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use windlass_core::call::ports::{CallContext, MetricChange, Metrics};
use windlass_core::deceptive::is_deceptive;
use windlass_manifest::{Metric, MetricType as Declared};

/// The most series of one metric.
const SERIES_PER_METRIC_MAX: usize = 200;
/// The most lines that all metrics of one plugin may have. A series of a histogram has one for each bucket.
const METRIC_LINES_MAX: usize = 10_000;
/// The most labels of one value. A manifest may declare as many.
const METRIC_LABELS_MAX: usize = 256;
/// The longest value of a label, in bytes, before and after redaction.
const METRIC_LABEL_BYTES_MAX: usize = 128;
/// client-go's default buckets, for histograms that declare no buckets.
const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Why a value is dropped; a label of `windlass_metric_values_dropped_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Misfit {
    Undeclared,
    OtherType,
    Labels,
    Value,
    TooManySeries,
}

impl Misfit {
    fn as_str(self) -> &'static str {
        match self {
            Self::Undeclared => "undeclared",
            Self::OtherType => "other-type",
            Self::Labels => "labels",
            Self::Value => "value",
            Self::TooManySeries => "too-many-series",
        }
    }

    fn explained(self) -> &'static str {
        match self {
            Self::Undeclared => "the manifest declares no metric of this name, or the name is taken",
            Self::OtherType => "the manifest declares the metric with another type",
            Self::Labels => {
                "the labels differ from the manifest's, or a label's value is too long or holds a control character"
            }
            Self::Value => "the value is not finite, or is negative for a counter",
            Self::TooManySeries => "the metric or the plugin has the maximum number of series already",
        }
    }
}

/// The metrics of all plugins. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginMetrics(Arc<Mutex<BTreeMap<Arc<str>, PluginSeries>>>);

/// The metrics of one plugin.
#[derive(Debug, Default)]
struct PluginSeries {
    /// The plugin's metrics, by their names in the manifest.
    metrics: HashMap<String, Series>,
    lines: usize,
    dropped: BTreeMap<Misfit, u64>,
}

/// One metric with all its series.
#[derive(Debug)]
struct Series {
    /// The metric's name, without the suffix `_total` of counters, which the encoder adds.
    full_name: String,
    help: String,
    kind: Declared,
    labels: Vec<String>,
    buckets: Vec<f64>,
    /// The values of each series, by the values of its labels in the order of `labels`.
    values: BTreeMap<Vec<String>, Value>,
}

#[derive(Debug)]
enum Value {
    Number(f64),
    Histogram { sum: f64, count: u64, buckets: Vec<u64> },
}

impl PluginMetrics {
    /// Takes over the metrics that `plugin` declares. A metric that the previous version declared with the same name,
    /// type and labels keeps its values.
    pub(crate) fn declare(&self, plugin: &Arc<str>, declared: &[Metric]) {
        let mut plugins = self.lock();
        let mut former = plugins.remove(plugin).unwrap_or_default();
        let mut taken: BTreeSet<String> =
            plugins.values().flat_map(|it| it.metrics.values().flat_map(Series::names)).collect();
        let mut series = PluginSeries { dropped: former.dropped, ..PluginSeries::default() };
        for metric in declared {
            let mut new = Series::new(plugin, metric);
            let names = new.names();
            if names.iter().any(|name| taken.contains(name)) {
                tracing::warn!(
                    %plugin, metric = metric.name, name = new.full_name,
                    "a metric is left out: another metric, of this plugin or of another plugin, has the same name"
                );
                continue;
            }
            taken.extend(names);
            if let Some(old) = former.metrics.remove(&metric.name).filter(|old| old.is_alike(&new)) {
                new.values = old.values;
            }
            series.lines += new.values.len() * new.lines();
            series.metrics.insert(metric.name.clone(), new);
        }
        plugins.insert(plugin.clone(), series);
    }

    /// Removes the metrics of `plugin`, which has gone.
    pub(crate) fn forget(&self, plugin: &str) {
        self.lock().remove(plugin);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, PluginSeries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metrics for PluginMetrics {
    fn record(&self, call: &CallContext, change: MetricChange, name: &str, value: f64, labels: &[(String, String)]) {
        let plugin = &call.principal.plugin;
        let labels = redacted(call, labels);
        // Lock as late as possible, because other plugins wait for the lock.
        let mut plugins = self.lock();
        let series = plugins.entry(plugin.clone()).or_default();
        let Err(misfit) = series.record(change, name, value, labels.as_deref()) else { return };
        let dropped = series.dropped.entry(misfit).or_default();
        *dropped += 1;
        if *dropped == 1 {
            // Log once for each reason. The name comes from the plugin, and may be anything.
            let name: String = name.chars().take(80).collect();
            tracing::warn!(
                %plugin, controller = %call.controller, key = %call.primary_key, trace_id = %call.trace_id, metric = ?name,
                "a value of a metric was dropped: {}; further ones are only counted", misfit.explained()
            );
        }
    }

    fn gauge(&self, call: &CallContext, name: &str, labels: &[(String, String)]) -> Option<f64> {
        let labels = redacted(call, labels)?;
        let plugins = self.lock();
        let series = plugins.get(&call.principal.plugin)?.metrics.get(name)?;
        match series.values.get(&series.label_values(&labels)?)? {
            Value::Number(value) if series.kind == Declared::Gauge => Some(*value),
            _ => None,
        }
    }
}

/// The labels as they are kept: without secrets, because every client that scrapes the host can read them. `None` if
/// they cannot fit. This is checked first, because it bounds the work of redaction.
fn redacted(call: &CallContext, labels: &[(String, String)]) -> Option<Vec<(String, String)>> {
    let fits =
        labels.len() <= METRIC_LABELS_MAX && labels.iter().all(|(_, value)| value.len() <= METRIC_LABEL_BYTES_MAX);
    let redacted = |(name, value): &(String, String)| (name.clone(), call.config.redact(value).into_owned());
    fits.then(|| labels.iter().map(redacted).collect())
}

impl PluginSeries {
    /// Records a value under `labels`, if these are valid.
    fn record(
        &mut self,
        change: MetricChange,
        name: &str,
        value: f64,
        labels: Option<&[(String, String)]>,
    ) -> Result<(), Misfit> {
        let series = self.metrics.get_mut(name).ok_or(Misfit::Undeclared)?;
        let fits = match change {
            MetricChange::Add => series.kind == Declared::Counter,
            MetricChange::Set => series.kind == Declared::Gauge,
            MetricChange::Observe => series.kind == Declared::Histogram,
        };
        if !fits {
            return Err(Misfit::OtherType);
        }
        if !value.is_finite() || (change == MetricChange::Add && value < 0.0) {
            return Err(Misfit::Value);
        }
        let labels = labels.and_then(|labels| series.label_values(labels)).ok_or(Misfit::Labels)?;
        let lines = series.lines();
        if !series.values.contains_key(&labels) {
            if series.values.len() >= SERIES_PER_METRIC_MAX || self.lines + lines > METRIC_LINES_MAX {
                return Err(Misfit::TooManySeries);
            }
            self.lines += lines;
        }
        series.take(change, labels, value)
    }
}

impl Series {
    fn new(plugin: &str, metric: &Metric) -> Self {
        let name = format!("windlass_plugin_{}_{}", plugin.replace('-', "_"), metric.name);
        let full_name = match metric.metric_type {
            Declared::Counter => name.strip_suffix("_total").unwrap_or(&name).to_owned(),
            Declared::Gauge | Declared::Histogram => name,
        };
        let mut labels = metric.labels.clone();
        labels.sort();
        let buckets = match metric.metric_type {
            Declared::Histogram if metric.buckets.is_empty() => DEFAULT_BUCKETS.to_vec(),
            _ => metric.buckets.clone(),
        };
        let help = escaped(&metric.help);
        Self { full_name, help, kind: metric.metric_type, labels, buckets, values: BTreeMap::new() }
    }

    /// All names of its lines, and the name of the family.
    fn names(&self) -> Vec<String> {
        let suffixes: &[&str] = match self.kind {
            Declared::Counter => &["", "_total", "_created"],
            Declared::Gauge => &[""],
            Declared::Histogram => &["", "_bucket", "_sum", "_count", "_created"],
        };
        suffixes.iter().map(|suffix| format!("{}{suffix}", self.full_name)).collect()
    }

    fn is_alike(&self, other: &Self) -> bool {
        (self.kind, &self.labels, &self.buckets) == (other.kind, &other.labels, &other.buckets)
    }

    /// The number of lines of one series.
    fn lines(&self) -> usize {
        match self.kind {
            Declared::Counter | Declared::Gauge => 1,
            Declared::Histogram => self.buckets.len() + 3,
        }
    }

    /// The values in the order of the declared labels. `None` if the labels differ, or a value is invalid.
    fn label_values(&self, labels: &[(String, String)]) -> Option<Vec<String>> {
        let can_be = |value: &str| value.len() <= METRIC_LABEL_BYTES_MAX && !value.contains(is_deceptive);
        if labels.len() != self.labels.len() || !labels.iter().all(|(_, value)| can_be(value)) {
            return None;
        }
        let value = |name: &String| labels.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
        self.labels.iter().map(value).collect()
    }

    fn take(&mut self, change: MetricChange, labels: Vec<String>, new: f64) -> Result<(), Misfit> {
        let bounds = &self.buckets;
        let empty = || match change {
            MetricChange::Add | MetricChange::Set => Value::Number(0.0),
            // One more bucket, for values above the last bound.
            MetricChange::Observe => Value::Histogram { sum: 0.0, count: 0, buckets: vec![0; bounds.len() + 1] },
        };
        match (change, self.values.entry(labels).or_insert_with(empty)) {
            (MetricChange::Set, Value::Number(value)) => *value = new,
            (_, Value::Number(value)) => *value = finite(*value + new)?,
            (_, Value::Histogram { sum, count, buckets }) => {
                *sum = finite(*sum + new)?;
                *count += 1;
                buckets[bounds.partition_point(|bound| *bound < new)] += 1;
            }
        }
        Ok(())
    }

    fn encode(&self, plugin: &str, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.kind {
            Declared::Counter => MetricType::Counter,
            Declared::Gauge => MetricType::Gauge,
            Declared::Histogram => MetricType::Histogram,
        };
        let mut family = encoder.encode_descriptor(&self.full_name, &self.help, None, kind)?;
        for (values, value) in &self.values {
            let own = self.labels.iter().map(String::as_str).zip(values.iter().map(String::as_str));
            let labels: Vec<(&str, &str)> = std::iter::once(("plugin", plugin)).chain(own).collect();
            let mut metric = family.encode_family(&labels)?;
            match value {
                Value::Number(number) if self.kind == Declared::Counter => {
                    metric.encode_counter::<[(&str, &str); 0], _, f64>(number, None)?;
                }
                Value::Number(number) => metric.encode_gauge(number)?,
                Value::Histogram { sum, count, buckets } => {
                    let bounds = self.buckets.iter().copied().chain([f64::INFINITY]);
                    let buckets: Vec<_> = bounds.zip(buckets.iter().copied()).collect();
                    metric.encode_histogram::<[(&str, &str); 0]>(*sum, *count, &buckets, None)?;
                }
            }
        }
        Ok(())
    }
}

/// The sum, if it is still finite.
fn finite(sum: f64) -> Result<f64, Misfit> {
    if sum.is_finite() { Ok(sum) } else { Err(Misfit::Value) }
}

/// The text on one line with `OpenMetrics`' escapes, which the encoder does not add.
fn escaped(help: &str) -> String {
    let help: String = help.chars().filter(|character| *character == '\n' || !is_deceptive(*character)).collect();
    help.replace('\\', r"\\").replace('\n', r"\n").replace('"', "\\\"")
}

impl Collector for PluginMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let plugins = self.lock();
        for (plugin, series) in &*plugins {
            let sorted: BTreeMap<_, _> = series.metrics.values().map(|it| (&it.full_name, it)).collect();
            for metric in sorted.values() {
                metric.encode(plugin, &mut encoder)?;
            }
        }
        let help = "Values of plugins' metrics that were not kept, by reason";
        let mut family =
            encoder.encode_descriptor("windlass_metric_values_dropped", help, None, MetricType::Counter)?;
        for (plugin, series) in &*plugins {
            for (misfit, count) in &series.dropped {
                let labels = [("plugin", &**plugin), ("reason", misfit.as_str())];
                family.encode_family(&labels)?.encode_counter::<[(&str, &str); 0], _, f64>(count, None)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
