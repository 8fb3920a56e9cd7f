//! The parts of a manifest other than watches: rights, metrics, HTTP hosts.

use serde::Serialize;

/// Rights to resources of the API, as in a rule of a Kubernetes Role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Permission {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
}

impl Permission {
    /// The right to use `verbs` on a resource or a subresource, such as `deployments` or `deployments/scale`. The core
    /// group is "". An apply needs `create` and `patch`.
    pub fn new(api_group: &str, resource: &str, verbs: &[&str]) -> Self {
        Self {
            api_groups: vec![api_group.to_owned()],
            resources: vec![resource.to_owned()],
            verbs: texts(verbs),
            namespaces: Vec::new(),
            names: Vec::new(),
        }
    }

    /// Restricts the rights to these namespaces.
    pub fn in_namespaces(self, namespaces: &[&str]) -> Self {
        Self { namespaces: texts(namespaces), ..self }
    }

    /// Restricts the rights to objects with these names.
    pub fn named(self, names: &[&str]) -> Self {
        Self { names: texts(names), ..self }
    }
}

/// A metric that the plugin may set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Metric {
    name: String,
    r#type: MetricType,
    help: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<f64>,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MetricType {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size.
    Histogram,
}

impl Metric {
    /// A metric without labels. `help` is its description for people.
    pub fn new(name: &str, r#type: MetricType, help: &str) -> Self {
        Self { name: name.to_owned(), r#type, help: help.to_owned(), labels: Vec::new(), buckets: Vec::new() }
    }

    /// Sets the labels of each value.
    pub fn labels(self, labels: &[&str]) -> Self {
        Self { labels: texts(labels), ..self }
    }

    /// Sets a histogram's upper bounds, in ascending order.
    pub fn buckets(self, bounds: &[f64]) -> Self {
        Self { buckets: bounds.to_vec(), ..self }
    }
}

/// Access to an HTTP host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct HttpAccess {
    scheme: HttpScheme,
    host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    methods: Vec<String>,
}

/// The protocol for a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HttpScheme {
    /// Encrypted.
    Https,
    /// Not encrypted.
    Http,
}

impl HttpAccess {
    /// The right to send requests with these methods to a host. A `*` at its start stands for one label, as in
    /// `*.example.com`.
    pub fn new(scheme: HttpScheme, host: &str, methods: &[&str]) -> Self {
        Self { scheme, host: host.to_owned(), port: None, methods: texts(methods) }
    }

    /// Sets a port other than the scheme's default.
    pub fn port(self, port: u16) -> Self {
        Self { port: Some(port), ..self }
    }
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}
