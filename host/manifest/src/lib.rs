//! A plugin's manifest: the document that `describe` returns. `wit/manifest.schema.json` is its schema.
//!
//! This crate reads and checks manifests. It does not need the engine that runs plugins, because a plugin's requests
//! follow from its manifest alone. The sandbox (`windlass-wasm`) reads the manifest when it loads a plugin,
//! `windlass-policy` drafts policies from it, and the host starts the controllers that it declares.
//!
//! Unknown fields are errors with a hint: if a misspelt `workers` were ignored, it would only be noticed in production.

mod access;
mod convert;
mod entry;
mod hook;
mod kinds;
mod options;
mod read;
mod timer;
mod validate;
mod watch;

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_core::rights::grants::Scheme;

pub use access::ImpliedAccess;
pub use entry::{EntryPoint, OptionalExports};
pub use hook::Hook;
pub use kinds::{ConfiguredKinds, WriteVerb};
pub use read::{ManifestError, did_you_mean, nearest};
pub use timer::PrimaryTimer;
pub use validate::is_dns_label;
pub use watch::Watch;

/// The `apiVersion` of manifests.
pub const API_VERSION: &str = "windlass.dev/v1alpha1";
/// The `kind` of manifests.
pub const KIND: &str = "PluginManifest";

/// How long a call may take by default. The host waits equally long for a single read.
pub const CALL_DEADLINE_DEFAULT: Duration = Duration::from_secs(30);

/// The default interval at which every primary is reconciled, even if nothing has changed. The same as
/// controller-runtime's `defaultSyncPeriod` (`pkg/cache/cache.go`).
const RESYNC_PERIOD_DEFAULT: Duration = Duration::from_hours(10);

/// A plugin's manifest, read and validated.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always [`KIND`].
    pub kind: String,
    /// The plugin's identity. Its file is named `NAME.wasm`.
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    /// A description for people.
    pub description: Option<String>,
    pub controllers: Vec<Controller>,
    /// Whole `CustomResourceDefinition` objects that the plugin brings.
    #[serde(default)]
    pub crds: Vec<Map<String, Value>>,
    /// The permissions that the plugin needs beyond those that its watches imply.
    #[serde(default)]
    pub permissions: Vec<Permission>,
    /// Finalizers other than its own that the plugin's writes add or remove. `*` means all.
    #[serde(default)]
    pub finalizers: Vec<String>,
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// The configuration that an operator may set.
    pub config: Option<ConfigSchema>,
    /// The hosts to which the plugin sends HTTP requests.
    #[serde(default)]
    pub http: Vec<HttpHost>,
}

/// A reconcile loop over one kind of primary object.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Controller {
    /// Unique within the plugin.
    pub name: String,
    /// The objects that the controller reconciles.
    pub primary: Watch,
    /// Kinds of objects that the controller creates. A change of such an object concerns the primary that controls it.
    #[serde(default)]
    pub owns: Vec<Watch>,
    /// Other kinds whose changes concern primaries. Each has a mapping, which finds the primaries.
    #[serde(default)]
    pub watches: Vec<Watch>,
    /// Web addresses at which other systems name primaries that are to run.
    #[serde(default)]
    pub hooks: Vec<Hook>,
    #[serde(default)]
    pub options: Options,
}

/// How a controller runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    /// How many calls run at the same time.
    pub workers: u32,
    /// The number of retries after which the host gives up a key. Some failures do not count.
    pub max_retries: u32,
    pub backoff: Backoff,
    /// The interval at which every primary is reconciled, even if nothing has changed.
    pub resync_ms: u32,
    /// How long a call may take.
    pub deadline_ms: u32,
    /// Whether the host keeps a finalizer on primaries.
    pub finalizer: bool,
    /// Whether the controller writes the status of primaries. If so, the manifest asks for the right to do it.
    pub status: bool,
    /// The treatment of a key that has waited too long for the cache to show its own writes.
    pub expectation_timeout: ExpectationTimeout,
    /// Whether the host may leave out calls that would read the same as the last call about their object.
    pub saved_calls: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 16,
            max_retries: 15,
            backoff: Backoff::default(),
            resync_ms: convert::millis(RESYNC_PERIOD_DEFAULT),
            deadline_ms: convert::millis(CALL_DEADLINE_DEFAULT),
            finalizer: false,
            status: true,
            expectation_timeout: ExpectationTimeout::Probe,
            saved_calls: true,
        }
    }
}

/// The delays between retries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Backoff {
    /// How a delay is computed.
    pub limiter: LimiterKind,
    /// The first delay, in milliseconds. 5 if left out.
    pub base_ms: Option<u32>,
    /// The longest delay, in milliseconds. 1,000,000 if left out.
    pub max_ms: Option<u32>,
    /// How many retries all keys together may have per second. 10 if left out.
    pub per_second: Option<u32>,
    /// How many retries all keys together may have at once. 100 if left out.
    pub burst: Option<u32>,
}

/// How the delay of a retry is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LimiterKind {
    /// The delay doubles with each failure of the key.
    #[default]
    Exponential,
    /// All keys share one limit on retries per second.
    TokenBucket,
    /// The longer of the two delays above.
    MaxOf,
}

/// The treatment of a key that has waited too long for the cache to show its own writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExpectationTimeout {
    /// The key continues to wait until the cache is proven to be fresh.
    Probe,
    Run,
}

/// A permission that a plugin needs beyond those that its watches imply, written as in RBAC.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Permission {
    /// The core group is the empty string.
    pub api_groups: Vec<String>,
    /// Plural names. A subresource is written as `deployments/scale`.
    pub resources: Vec<String>,
    pub verbs: Vec<String>,
    /// Empty means all namespaces, and cluster-scoped objects.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Empty means all names.
    #[serde(default)]
    pub names: Vec<String>,
}

/// A metric that a plugin may set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metric {
    pub name: String,
    /// How the metric counts.
    #[serde(rename = "type")]
    pub metric_type: MetricType,
    /// A description for people.
    pub help: String,
    /// The names of the metric's labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The upper bounds of the buckets, in ascending order. For histograms only.
    #[serde(default)]
    pub buckets: Vec<f64>,
}

/// The type of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MetricType {
    /// A value that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Values counted in buckets.
    Histogram,
}

/// The configuration that an operator may set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigSchema {
    /// A JSON schema.
    pub schema: Map<String, Value>,
}

/// A host to which a plugin sends HTTP requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpHost {
    pub scheme: Scheme,
    /// A host name. `*` matches one label of it.
    pub host: String,
    /// `None` means the port of the scheme.
    pub port: Option<u16>,
    /// HTTP methods, such as `GET`.
    pub methods: Vec<String>,
}
