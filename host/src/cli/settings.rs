//! From flags to the settings of a host.

use anyhow::Context as _;
use windlass_kube::{LiveBudget, WriteRate};
use windlass_runtime::{GrantMode, GuardSettings, LeaseMode, PolicySettings, Settings, call_slots, processors};

use super::PluginArgs;

impl PluginArgs {
    /// The settings from these flags. `mode` is the default of `--grants`, and `leases` that of `--leases`.
    pub(super) fn settings(self, mode: GrantMode, leases: LeaseMode) -> anyhow::Result<Settings> {
        let plugins = self.plugins.context("no directory of plugins was named (--plugins)")?;
        let host_namespace = self.host_namespace.or_else(pod_namespace);
        let mut leases = self.leases.settings(leases)?;
        leases.namespace = leases.namespace.or_else(|| host_namespace.clone()).or_else(|| self.namespace.clone());
        if self.read_only {
            // A lease would be a change, and a host that changes nothing needs none.
            leases.mode = LeaseMode::None;
        }
        let concurrent_calls = self.concurrent_calls.map_or(2 * processors(), u32::from);
        Ok(Settings {
            leases,
            limits: self.limits.limits()?,
            features: self.feature_gates.features(),
            read_only: self.read_only,
            record: None,
            rollback: true,
            policies: PolicySettings {
                mode: self.grants.unwrap_or(mode),
                directory: self.policy_dir.unwrap_or_else(|| plugins.clone()),
                ceiling: self.ceiling,
                host_namespace,
            },
            compiler: super::compiler()?,
            plugins,
            allowed_digests: self.allowed_digests,
            config_dir: self.config_dir,
            namespace: self.namespace,
            concurrent_calls,
            call_slots: call_slots(concurrent_calls),
            cache_dir: self.cache_dir.or_else(windlass_wasm::default_cache_dir),
            plugin_cache: self.plugin_cache_limit.0,
            cache: self.cache_limit.0,
            admin_address: self.admin_address,
            http_ca: self.http_ca,
            live: LiveBudget { per_second: self.live_reads_per_second.into(), burst: self.live_reads_burst.into() },
            guards: GuardSettings {
                writes: WriteRate { per_second: self.writes_per_second, burst: self.writes_burst },
                hot_loop_writes: self.hot_loop_writes.into(),
            },
        })
    }
}

/// The namespace of the Pod that this process runs in, if it can tell.
fn pod_namespace() -> Option<String> {
    let mounted = std::fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace").ok();
    mounted.map(|namespace| namespace.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}
