//! What the host is told to do, from the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use windlass_core::features::Features;
use windlass_kube::{LiveBudget, WriteRate};
use windlass_wasm::{Limits, Sandbox, SandboxOptions};

use crate::cli::{self, PluginArgs};
use crate::guards::GuardSettings;
use crate::leadership::{LeaseMode, LeaseSettings};
use crate::policies::{GrantMode, PolicySettings};
use crate::turns;

/// What the host is told to do.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(super) plugins: PathBuf,
    /// The list of digests that may run. None: all may.
    pub(super) allowed_digests: Option<PathBuf>,
    pub(super) config_dir: Option<PathBuf>,
    pub(super) namespace: Option<String>,
    /// How many calls may be at work at once, and how many may have begun.
    pub(super) concurrent_calls: u32,
    pub(super) places: u32,
    /// What plugins may use.
    pub(super) limits: Limits,
    /// Where compiled plugins are kept.
    pub(super) cache_dir: Option<PathBuf>,
    /// The most that the caches of one plugin may hold together, in bytes.
    pub(super) plugin_cache: usize,
    /// The most that any one cache may hold, in bytes.
    pub(super) cache: usize,
    pub(super) admin_address: Option<SocketAddr>,
    /// Authorities that plugins' HTTPS requests trust too.
    pub(super) http_ca: Option<PathBuf>,
    /// How often one plugin may read the API server itself.
    pub(super) live: LiveBudget,
    /// What else one plugin may do, over all its calls.
    pub(super) guards: GuardSettings,
    pub(super) policies: PolicySettings,
    /// Nothing is changed in the cluster.
    pub(super) read_only: bool,
    pub(super) leases: LeaseSettings,
    pub(super) features: Features,
}

impl Settings {
    /// What the command line says; `mode` is what it means without `--grants`, and `leases` without `--leases`.
    pub(crate) fn new(arguments: PluginArgs, mode: GrantMode, leases: LeaseMode) -> anyhow::Result<Self> {
        let plugins = arguments.plugins.context("no directory of plugins was named (--plugins)")?;
        let host_namespace = arguments.host_namespace.or_else(pod_namespace);
        let mut leases = arguments.leases.settings(leases)?;
        leases.namespace = leases.namespace.or_else(|| host_namespace.clone()).or_else(|| arguments.namespace.clone());
        if arguments.read_only {
            // A lease would be a change, and who changes nothing needs none.
            leases.mode = LeaseMode::None;
        }
        let concurrent_calls = arguments.concurrent_calls.map_or(2 * processors(), u32::from);
        Ok(Self {
            leases,
            limits: arguments.limits.limits()?,
            features: arguments.feature_gates.features(),
            read_only: arguments.read_only,
            policies: PolicySettings {
                mode: arguments.grants.unwrap_or(mode),
                directory: arguments.policy_dir.unwrap_or_else(|| plugins.clone()),
                ceiling: arguments.ceiling,
                host_namespace,
            },
            plugins,
            allowed_digests: arguments.allowed_digests,
            config_dir: arguments.config_dir,
            namespace: arguments.namespace,
            concurrent_calls,
            places: turns::places(concurrent_calls),
            cache_dir: arguments.cache_dir.or_else(windlass_wasm::default_cache_dir),
            plugin_cache: arguments.plugin_cache_limit.0,
            cache: arguments.cache_limit.0,
            admin_address: arguments.admin_address,
            http_ca: arguments.http_ca,
            live: LiveBudget {
                per_second: arguments.live_reads_per_second.into(),
                burst: arguments.live_reads_burst.into(),
            },
            guards: GuardSettings {
                writes: WriteRate {
                    per_second: arguments.writes_per_second.into(),
                    burst: arguments.writes_burst.into(),
                },
                hot_loop_writes: arguments.hot_loop_writes.into(),
            },
        })
    }

    /// What runs plugins.
    pub(super) fn sandbox(&self) -> anyhow::Result<Sandbox> {
        if self.cache_dir.is_none() {
            tracing::warn!("compiled plugins are not kept: there is no home directory; name one with --cache-dir");
        }
        let options = SandboxOptions {
            limits: self.limits.clone(),
            concurrent_calls: self.places,
            compiler: cli::compiler()?,
            cache: self.cache_dir.clone(),
            ..SandboxOptions::default()
        };
        let sandbox = Sandbox::with_at_least(self.concurrent_calls, options)?;
        if sandbox.concurrent_calls() < self.places {
            tracing::warn!(
                calls = sandbox.concurrent_calls(),
                wanted = self.places,
                "the address space is limited (`ulimit -v`): fewer calls may have begun at once, and plugins that wait hold up others sooner"
            );
        }
        Ok(sandbox)
    }
}

/// How many this machine has.
pub(super) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}

/// The namespace of the Pod that this is, as far as the process can know.
fn pod_namespace() -> Option<String> {
    let mounted = std::fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace").ok();
    mounted.map(|namespace| namespace.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}
