//! Metrics of the plugin. The host adds a prefix to the names.
//!
//! A metric is a constant that both the manifest and the code use, so that the two cannot differ:
//!
//! ```
//! use windlass_sdk::manifest::Manifest;
//! use windlass_sdk::metrics::{Counter, Histogram};
//!
//! const BACKUPS: Counter<1> = Counter::new("backups_total", "Backups that were begun.", ["result"]);
//! const SIZE: Histogram<0> = Histogram::new("backup_bytes", "Sizes of backups.", []).buckets(&[1e6, 1e9]);
//!
//! fn manifest() -> Manifest {
//!     Manifest::new("backup", "0.1.0").metric(BACKUPS).metric(SIZE)
//! }
//!
//! fn report(bytes: f64) {
//!     BACKUPS.add(1.0, ["success"]);
//!     SIZE.observe(bytes, []);
//! }
//! # manifest();
//! ```
//!
//! Setting a value never makes a call fail.

use crate::manifest::{Metric, MetricType};
use crate::native::metrics as host;

/// A value that only grows. `N` is the number of its labels.
#[derive(Debug, Clone, Copy)]
pub struct Counter<const N: usize>(Declared<N>);

/// A value that goes up and down. `N` is the number of its labels.
#[derive(Debug, Clone, Copy)]
pub struct Gauge<const N: usize>(Declared<N>);

/// Counts values by size. `N` is the number of its labels.
#[derive(Debug, Clone, Copy)]
pub struct Histogram<const N: usize> {
    declared: Declared<N>,
    buckets: &'static [f64],
}

#[derive(Debug, Clone, Copy)]
struct Declared<const N: usize> {
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
}

impl<const N: usize> Counter<N> {
    /// A counter. `help` describes the metric and its unit, for people.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Self(Declared { name, help, labels })
    }

    /// Adds to the counter. `labels` are the labels' values, in the labels' order.
    pub fn add(&self, value: f64, labels: [&str; N]) {
        self.0.send(host::add, value, labels);
    }
}

impl<const N: usize> Gauge<N> {
    /// A gauge. `help` describes the metric and its unit, for people.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Self(Declared { name, help, labels })
    }

    /// Sets the gauge. `labels` are the labels' values, in the labels' order.
    pub fn set(&self, value: f64, labels: [&str; N]) {
        self.0.send(host::set, value, labels);
    }
}

impl<const N: usize> Histogram<N> {
    /// A histogram with the host's buckets. `help` describes the metric and its unit, for people.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Self { declared: Declared { name, help, labels }, buckets: &[] }
    }

    /// Sets the upper bounds of the buckets, in ascending order.
    #[must_use]
    pub const fn buckets(self, bounds: &'static [f64]) -> Self {
        Self { buckets: bounds, ..self }
    }

    /// Adds a value. `labels` are the labels' values, in the labels' order.
    pub fn observe(&self, value: f64, labels: [&str; N]) {
        self.declared.send(host::observe, value, labels);
    }
}

impl<const N: usize> Declared<N> {
    fn send(&self, send: impl FnOnce(&str, f64, &[(String, String)]), value: f64, labels: [&str; N]) {
        let pairs = self.labels.iter().zip(labels);
        let pairs: Vec<_> = pairs.map(|(&name, value)| (name.to_owned(), value.to_owned())).collect();
        send(self.name, value, &pairs);
    }

    fn declare(&self, metric_type: MetricType) -> Metric {
        Metric::new(self.name, metric_type, self.help).labels(&self.labels)
    }
}

impl<const N: usize> From<Counter<N>> for Metric {
    fn from(counter: Counter<N>) -> Self {
        counter.0.declare(MetricType::Counter)
    }
}

impl<const N: usize> From<Gauge<N>> for Metric {
    fn from(gauge: Gauge<N>) -> Self {
        gauge.0.declare(MetricType::Gauge)
    }
}

impl<const N: usize> From<Histogram<N>> for Metric {
    fn from(histogram: Histogram<N>) -> Self {
        histogram.declared.declare(MetricType::Histogram).buckets(histogram.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_carries_its_labels_by_name() {
        let declared = Declared { name: "runs", help: "Runs.", labels: ["kind", "result"] };
        let mut sent = Vec::new();
        declared.send(
            |name, value, labels| sent.push((name.to_owned(), value.to_bits(), labels.to_vec())),
            2.0,
            ["Pod", "ok"],
        );
        let labels = vec![("kind".to_owned(), "Pod".to_owned()), ("result".to_owned(), "ok".to_owned())];
        assert_eq!(sent, [("runs".to_owned(), 2.0_f64.to_bits(), labels)]);
    }

    #[test]
    fn a_handle_declares_itself() {
        const SECONDS: Histogram<1> = Histogram::new("seconds", "Seconds.", ["kind"]).buckets(&[0.1, 1.0]);
        let expected = Metric::new("seconds", MetricType::Histogram, "Seconds.").labels(&["kind"]).buckets(&[0.1, 1.0]);
        assert_eq!(Metric::from(SECONDS), expected);
        assert_eq!(
            Metric::from(Gauge::new("things", "Things.", [])),
            Metric::new("things", MetricType::Gauge, "Things.")
        );
    }
}
