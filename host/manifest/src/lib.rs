//! A plugin's manifest: the document that `describe` answers, as `wit/manifest.schema.json` describes it.
//!
//! It is read and checked here, without the engine that runs plugins: what a plugin asks for follows from it alone. The
//! sandbox (`windlass-wasm`) reads it when it loads a plugin, policies (`windlass-policy`) are drafted from it, and the
//! host starts controllers by it.
//!
//! Reading it is strict. A field that is not known is an error with a hint, because a misspelt `workers` that is
//! quietly ignored is found out in production.

mod access;
mod convert;
mod entry;
mod options;
mod read;
mod validate;
mod watch;

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_core::rights::grants::Scheme;

pub use access::ImpliedAccess;
pub use entry::EntryPoint;
pub use read::{ManifestError, did_you_mean, nearest};
pub use validate::is_dns_label;
pub use watch::Watch;

/// The only `apiVersion` of manifests.
pub const API_VERSION: &str = "windlass.dev/v1alpha1";
/// The only `kind` of manifests.
pub const KIND: &str = "PluginManifest";

/// How long a call may take whose manifest does not say: as long as the host waits for one read.
pub const CALL_DEADLINE_DEFAULT: Duration = Duration::from_secs(30);

/// How often every primary runs without a change: controller-runtime's `defaultSyncPeriod` (`pkg/cache/cache.go`).
const RESYNC_PERIOD_DEFAULT: Duration = Duration::from_hours(10);

/// A plugin's manifest, read and validated.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// [`API_VERSION`]
    pub api_version: String,
    /// [`KIND`]
    pub kind: String,
    /// The plugin's identity, equal to its file's stem.
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    /// For people.
    pub description: Option<String>,
    pub controllers: Vec<Controller>,
    /// Whole `CustomResourceDefinition` objects that the plugin brings.
    #[serde(default)]
    pub crds: Vec<Map<String, Value>>,
    /// The permissions that it needs beyond those that its watches imply.
    #[serde(default)]
    pub permissions: Vec<Permission>,
    /// Finalizers of others that its own writes add or remove; `*` for all.
    #[serde(default)]
    pub finalizers: Vec<String>,
    /// Metrics that it keeps.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// The configuration that an operator may set.
    pub config: Option<ConfigSchema>,
    /// Hosts that it calls.
    #[serde(default)]
    pub http: Vec<HttpHost>,
}

/// A reconcile loop over one kind of primary object.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Controller {
    /// Unique within the plugin.
    pub name: String,
    /// The objects that are reconciled.
    pub primary: Watch,
    /// Kinds of objects that it creates; a change maps to the primary that controls the object.
    #[serde(default)]
    pub owns: Vec<Watch>,
    /// Other kinds that concern primaries, each with a mapping.
    #[serde(default)]
    pub watches: Vec<Watch>,
    #[serde(default)]
    pub options: Options,
}

/// How a controller runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    /// Calls at the same time.
    pub workers: u32,
    /// Counted retries before a key is given up.
    pub max_retries: u32,
    /// The delays between retries.
    pub backoff: Backoff,
    /// How often every primary is reconciled without a change.
    pub resync_ms: u32,
    /// How long a call may take.
    pub deadline_ms: u32,
    /// Whether the host keeps a finalizer on primaries.
    pub finalizer: bool,
    /// The fate of a key that has waited too long for its own writes.
    pub expectation_timeout: ExpectationTimeout,
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
            expectation_timeout: ExpectationTimeout::Probe,
        }
    }
}

/// The delays between retries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Backoff {
    /// How they are found.
    pub limiter: LimiterKind,
    /// The first; 5 if left out. In milliseconds, as the next.
    pub base_ms: Option<u32>,
    /// The longest; 1,000,000 if left out.
    pub max_ms: Option<u32>,
    /// Retries a second of all keys together; 10 if left out.
    pub per_second: Option<u32>,
    /// Retries of all keys at once; 100 if left out.
    pub burst: Option<u32>,
}

/// How the delay of a retry is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LimiterKind {
    /// It doubles with each failure of the key.
    #[default]
    Exponential,
    /// The retries of all keys share a rate.
    TokenBucket,
    /// The longer of both.
    MaxOf,
}

/// The fate of a key that has waited too long for its own writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExpectationTimeout {
    /// It goes on waiting until the cache has been proven fresh.
    Probe,
    Run,
}

/// A permission that a plugin needs beyond those that its watches imply; as RBAC writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Permission {
    /// The core group is the empty string.
    pub api_groups: Vec<String>,
    /// In plural, with subresources as `deployments/scale`.
    pub resources: Vec<String>,
    pub verbs: Vec<String>,
    /// Empty: all, and cluster-scoped objects.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Empty: all.
    #[serde(default)]
    pub names: Vec<String>,
}

/// A metric that a plugin keeps.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metric {
    pub name: String,
    /// The way in which it counts.
    #[serde(rename = "type")]
    pub metric_type: MetricType,
    /// For people.
    pub help: String,
    /// The names of its labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Upper bounds, ascending; for histograms only.
    #[serde(default)]
    pub buckets: Vec<f64>,
}

/// The type of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MetricType {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values in buckets.
    Histogram,
}

/// The configuration that an operator may set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigSchema {
    /// A JSON schema.
    pub schema: Map<String, Value>,
}

/// A host that a plugin calls.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpHost {
    pub scheme: Scheme,
    /// A name; `*` for one label.
    pub host: String,
    /// None: the scheme's.
    pub port: Option<u16>,
    /// Such as `GET`.
    pub methods: Vec<String>,
}
