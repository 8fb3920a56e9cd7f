//! The manifest: a plugin's watches and rights. It serializes to the form that `wit/manifest.schema.json`
//! describes.
//!
//! Durations are in milliseconds, at most 2³¹−1.

mod condition;
mod rules;
mod timer;
mod watch;

use serde::Serialize;
use serde_json::Value;

pub use condition::{Where, WhereSubject};
pub use rules::{HttpAccess, HttpScheme, Metric, MetricType, Permission};
pub use timer::{MissedTimes, Timer};
pub use watch::{
    Index, IndexSource, Mapping, Predicate, Projection, ReferencePath, SelectorForm, UpdateStrategy, Watch, WriteVerb,
};

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Manifest {
    api_version: &'static str,
    kind: &'static str,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    controllers: Vec<Controller>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    crds: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    permissions: Vec<Permission>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<Metric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Config>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    http: Vec<HttpAccess>,
}

impl Manifest {
    /// A manifest of a plugin without controllers yet. `name` is the stem of the file that the plugin is installed as,
    /// and `version` is the plugin's own version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            api_version: "windlass.dev/v1alpha1",
            kind: "PluginManifest",
            name: name.into(),
            version: version.into(),
            description: None,
            controllers: Vec::new(),
            crds: Vec::new(),
            permissions: Vec::new(),
            finalizers: Vec::new(),
            metrics: Vec::new(),
            config: None,
            http: Vec::new(),
        }
    }

    /// Describes the plugin's purpose in a sentence.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Adds a controller. A plugin needs at least one.
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Adds a complete `CustomResourceDefinition`, which the plugin installs.
    pub fn crd(mut self, crd: Value) -> Self {
        self.crds.push(crd);
        self
    }

    /// Asks for rights beyond those that the watches imply. Watches imply the rights to read watched objects, to change
    /// owned objects, and to write the status of primaries.
    pub fn permission(mut self, permission: Permission) -> Self {
        self.permissions.push(permission);
        self
    }

    /// Asks for the right to add and remove a finalizer other than its own; `*` for any. The host manages the plugin's
    /// own finalizer.
    pub fn finalizer(mut self, name: impl Into<String>) -> Self {
        self.finalizers.push(name.into());
        self
    }

    /// Declares a metric: one of [`metrics`](crate::metrics), or only its description.
    pub fn metric(mut self, metric: impl Into<Metric>) -> Self {
        self.metrics.push(metric.into());
        self
    }

    /// Sets the JSON schema of the configuration that an operator may give.
    pub fn config_schema(mut self, schema: Value) -> Self {
        self.config = Some(Config { schema });
        self
    }

    /// Asks for access to an HTTP host.
    pub fn http(mut self, access: HttpAccess) -> Self {
        self.http.push(access);
        self
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Config {
    schema: Value,
}

/// One reconcile loop: a primary kind, and the other objects whose changes run primaries again.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Controller {
    name: String,
    primary: Watch,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owns: Vec<Watch>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    watches: Vec<MappedWatch>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<Hook>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<Options>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct MappedWatch {
    #[serde(flatten)]
    watch: Watch,
    mapping: Mapping,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Hook {
    name: String,
    mapping: Mapping,
}

impl Controller {
    /// A controller of the objects that `primary` selects, or one that a [`Timer`] calls. The name is a DNS label,
    /// unique in the plugin.
    pub fn new(name: impl Into<String>, primary: impl Into<Watch>) -> Self {
        let (owns, watches, hooks) = (Vec::new(), Vec::new(), Vec::new());
        Self { name: name.into(), primary: primary.into(), owns, watches, hooks, options: None }
    }

    /// Watches children: a change of a child runs the primary that controls it.
    pub fn owns(mut self, watch: Watch) -> Self {
        self.owns.push(watch);
        self
    }

    /// Watches other objects: a change of such an object runs the primaries that the mapping finds.
    pub fn watches(mut self, watch: Watch, mapping: Mapping) -> Self {
        self.watches.push(MappedWatch { watch, mapping });
        self
    }

    /// Adds a hook, a web address at which other systems name objects that are to run: `POST /hooks/PLUGIN/NAME`. It is
    /// open only if the operator's policy names its secret. A delivery maps as an object of kind `HookDelivery` does
    /// that has the JSON of the request in `/payload`: by [`Mapping::Field`], [`Mapping::Reference`],
    /// [`Mapping::Mapper`] or [`Mapping::All`]. Only objects that exist run.
    pub fn hook(mut self, name: impl Into<String>, mapping: Mapping) -> Self {
        self.hooks.push(Hook { name: name.into(), mapping });
        self
    }

    /// Gives each object the plugin's finalizer before its first reconcile. An object that is being deleted then stays
    /// until a reconcile with [`deleting`](crate::Request::deleting) has returned `Done`.
    pub fn finalizer(mut self) -> Self {
        self.options.get_or_insert_default().finalizer = Some(true);
        self
    }

    /// Changes how the loop runs. This replaces the options that [`finalizer`](Self::finalizer) or an earlier call set.
    pub fn options(mut self, options: Options) -> Self {
        self.options = Some(options);
        self
    }
}

/// How a controller's loop runs. A field that is `None` has the host's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Options {
    /// How many objects are reconciled at once, from 1 to 64. Default: 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// How many counted retries an object gets before it runs only in the slow lane. Default: 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// The delays of retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// How often every object runs again even if nothing changed. Default: ten hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resync_ms: Option<u32>,
    /// How long a call may take. Default: 30 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u32>,
    /// Whether objects get the plugin's finalizer, so that the plugin can clean up before they are deleted. Default:
    /// no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizer: Option<bool>,
    /// Whether the controller writes the status of its primaries. If not, the manifest does not ask for that right.
    /// Default: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<bool>,
    /// How to treat an object whose writes do not appear in the caches for too long. Default: probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expectation_timeout: Option<ExpectationTimeout>,
    /// Whether the host may leave out calls that would read the same as the last call about their object, if that call
    /// changed nothing. Default: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_calls: Option<bool>,
}

/// The delay before the n-th retry: `base` doubled n times, at most `max`. The `limiter` may change this.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// How the delay is computed. Default: exponential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limiter: Option<Limiter>,
    /// Default: 5 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ms: Option<u32>,
    /// Default: 1000 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<u32>,
    /// Retries per second of all objects together, for a token bucket. Default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u32>,
    /// The number of retries that may run at once, for a token bucket. Default: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// How the delay of a retry is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Limiter {
    /// The delay doubles with each failure of the object.
    Exponential,
    /// The retries of all objects share a rate.
    TokenBucket,
    /// The longer of both delays.
    MaxOf,
}

/// How to continue if the caches do not show a write for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ExpectationTimeout {
    /// Probe the caches, and hold the object until they are known to be new enough.
    Probe,
    /// Run anyway, on a cache that may be older than the plugin's own writes.
    Run,
}
