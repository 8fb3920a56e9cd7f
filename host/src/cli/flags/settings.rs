//! Turns flags into the settings of a host.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::Context as _;
use clap::{ArgAction, Args};
use windlass_kube::{LiveBudget, WriteRate};
use windlass_runtime::{GrantMode, GuardSettings, LeaseMode, PolicySettings, Settings, call_slots};

use crate::cli::features::FeatureGateArgs;
use crate::cli::flags::admin_serving::AdminServingArgs;
use crate::cli::flags::hooks::HookArgs;
use crate::cli::flags::leases::LeaseArgs;
use crate::cli::flags::limits::LimitArgs;
use crate::cli::flags::objects::ObjectArgs;
use crate::cli::flags::size::ByteSize;
use crate::cli::flags::traces::TraceArgs;

/// The settings without flags. Each flag takes its default from here, so that hosts in tests and in `windlass check`
/// run as `windlass run` does.
pub(crate) static DEFAULTS: LazyLock<Settings> = LazyLock::new(Settings::default);

/// The directory for compiled plugins. `named` is the value of `--cache-dir`. `None` if that is not set and there is no
/// home directory.
pub(crate) fn cache_dir(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| DEFAULTS.cache_dir.clone())
}

/// The flags about plugins, shared by all commands that run them.
#[derive(Debug, Args)]
pub(crate) struct PluginArgs {
    /// The directory of plugins, one NAME.wasm each. It may be empty at first.
    #[arg(long, value_name = "DIR", env = "WINDLASS_PLUGINS")]
    pub(crate) plugins: Option<PathBuf>,
    /// The directory of configurations, one NAME.config.yaml for each plugin. Default: the plugin directory.
    #[arg(long, value_name = "DIR", env = "WINDLASS_CONFIG_DIR")]
    pub(crate) config_dir: Option<PathBuf>,
    /// Watch only this namespace. Default: the namespaces that each manifest names, or all.
    #[arg(long, short, value_name = "NAMESPACE", value_parser = crate::cli::namespace)]
    pub(crate) namespace: Option<String>,
    /// Where plugins get their rights from. policy: from NAME.policy.yaml, which you write; a plugin without one waits.
    /// manifest: each plugin may do all that it asks for. Default: policy. `dev` defaults to manifest, unless the
    /// plugin's folder has a NAME.policy.yaml.
    #[arg(long, value_enum, value_name = "SOURCE", env = "WINDLASS_GRANTS")]
    pub(crate) grants: Option<GrantMode>,
    /// The directory of policies, one NAME.policy.yaml for each plugin. Default: the plugin directory.
    #[arg(long, value_name = "DIR", env = "WINDLASS_POLICY_DIR")]
    pub(crate) policy_dir: Option<PathBuf>,
    /// A file of kind `PluginCeiling`, which limits all plugins: a policy cannot grant more than it allows.
    #[arg(long, value_name = "FILE", env = "WINDLASS_CEILING")]
    pub(crate) ceiling: Option<PathBuf>,
    /// Load only the plugins whose SHA-256 digests are in this file, one a line, as sha256sum prints them. The host
    /// follows the file: remove a digest, and its plugin stops.
    #[arg(long, value_name = "FILE", env = "WINDLASS_ALLOWED_DIGESTS")]
    pub(crate) allowed_digests: Option<PathBuf>,
    /// The namespace that the host itself runs in. No plugin may touch it. Default: the Pod's, in a Pod.
    #[arg(long, value_name = "NAMESPACE", value_parser = crate::cli::namespace, env = "POD_NAMESPACE")]
    pub(crate) host_namespace: Option<String>,
    /// Change nothing in the cluster: call the plugins, send their writes as server-side dry runs only, and show in the
    /// log and in `/plugins` what they would change.
    #[arg(long, env = "WINDLASS_READ_ONLY", action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_value_t = DEFAULTS.read_only, default_missing_value = "true", hide_default_value = true,
        hide_possible_values = true)]
    pub(crate) read_only: bool,
    /// The most calls that run at once, over all plugins. Default: twice the processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrent_calls: Option<u16>,
    /// The most that all caches of one plugin may hold. A plugin that needs more is suspended; other plugins go on.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(DEFAULTS.plugin_cache))]
    pub(crate) plugin_cache_limit: ByteSize,
    /// The most that one cache may hold, even if several plugins share it.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(DEFAULTS.cache))]
    pub(crate) cache_limit: ByteSize,
    /// The directory for compiled plugins, private to this user. Default: `XDG_CACHE_HOME`/windlass, else
    /// ~/.cache/windlass.
    #[arg(long, value_name = "DIR", env = "WINDLASS_CACHE_DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) admin: AdminServingArgs,
    #[command(flatten)]
    pub(crate) hooks: HookArgs,
    #[command(flatten)]
    pub(crate) objects: ObjectArgs,
    /// Append a line to this file for each write that a plugin has made or tried, as JSON. `none`, the default, writes
    /// no such file; `--log-level windlass::audit=debug,info` shows the same lines in the log.
    #[arg(long, value_name = "FILE", env = "WINDLASS_AUDIT_LOG")]
    pub(crate) audit_log: Option<PathBuf>,
    /// A PEM file of certificate authorities that HTTPS requests of plugins trust, besides the system's.
    #[arg(long, value_name = "FILE", env = "WINDLASS_HTTP_CA")]
    pub(crate) http_ca: Option<PathBuf>,
    /// Reads per second that one plugin may send to the API server. Reads from caches do not count.
    #[arg(long, value_name = "N", default_value_t = DEFAULTS.live.per_second, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) live_reads_per_second: u32,
    /// Reads that one plugin may send to the API server in a burst.
    #[arg(long, value_name = "N", default_value_t = DEFAULTS.live.burst, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) live_reads_burst: u32,
    /// Writes per second that one plugin may make. Further writes wait, and do not delay other plugins. 0 means no
    /// limit.
    #[arg(long, value_name = "N", default_value_t = DEFAULTS.guards.writes.per_second)]
    pub(crate) writes_per_second: u32,
    /// Writes that one plugin may make in a burst.
    #[arg(long, value_name = "N", default_value_t = DEFAULTS.guards.writes.burst, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) writes_burst: u32,
    /// The number of writes to one object within a minute that counts as a hot loop. The host then calls the plugin
    /// rarely for the primary that causes the writes. 0 switches this off.
    #[arg(long, value_name = "N", default_value_t = DEFAULTS.guards.hot_loop_writes, value_parser = clap::value_parser!(u32).range(..=65_535))]
    pub(crate) hot_loop_writes: u32,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) leases: LeaseArgs,
    #[command(flatten)]
    pub(crate) traces: TraceArgs,
    #[command(flatten)]
    pub(crate) feature_gates: FeatureGateArgs,
}

impl PluginArgs {
    /// The file of the audit log.
    pub(crate) fn audit_log(&self) -> Option<&Path> {
        self.audit_log.as_deref().filter(|file| *file != "none")
    }

    /// The settings of `windlass run` from these flags.
    pub(crate) fn settings_of_run(self) -> anyhow::Result<Settings> {
        self.settings(DEFAULTS.policies.mode, DEFAULTS.leases.mode)
    }

    /// The settings from these flags. `mode` is the default of `--grants`, and `leases` that of `--leases`.
    pub(crate) fn settings(self, mode: GrantMode, leases: LeaseMode) -> anyhow::Result<Settings> {
        let plugins = self.plugins.context("no directory of plugins was named (--plugins)")?;
        let host_namespace = self.host_namespace.or_else(pod_namespace);
        let mut leases = self.leases.settings(leases)?;
        leases.namespace = leases.namespace.or_else(|| host_namespace.clone()).or_else(|| self.namespace.clone());
        if self.read_only {
            // A lease is a write, and a host that writes nothing needs no lease.
            leases.mode = LeaseMode::None;
        }
        let (mode, cache_dir) = (self.grants.unwrap_or(mode), cache_dir(self.cache_dir));
        let objects = self.objects.settings(cache_dir.as_deref(), host_namespace.as_deref(), mode)?;
        let concurrent_calls = self.concurrent_calls.map_or(DEFAULTS.concurrent_calls, u32::from);
        Ok(Settings {
            leases,
            limits: self.limits.limits()?,
            features: self.feature_gates.features(),
            read_only: self.read_only,
            record: None,
            traces: self.traces.settings()?,
            rollback: DEFAULTS.rollback,
            policies: PolicySettings {
                mode,
                directory: self.policy_dir.unwrap_or_else(|| plugins.clone()),
                ceiling: self.ceiling,
                host_namespace,
            },
            compiler: crate::cli::compiler()?,
            plugins,
            allowed_digests: self.allowed_digests,
            config_dir: self.config_dir,
            namespace: self.namespace,
            concurrent_calls,
            call_slots: call_slots(concurrent_calls),
            cache_dir,
            objects,
            plugin_cache: self.plugin_cache_limit.0,
            cache: self.cache_limit.0,
            admin: self.admin.settings()?,
            hooks: self.hooks.settings()?,
            http_ca: self.http_ca,
            live: LiveBudget { per_second: self.live_reads_per_second, burst: self.live_reads_burst },
            guards: GuardSettings {
                writes: WriteRate { per_second: self.writes_per_second, burst: self.writes_burst },
                hot_loop_writes: self.hot_loop_writes,
            },
        })
    }
}

/// The largest size of the file with the Pod's namespace. A name has at most 63 bytes.
const NAMESPACE_FILE_BYTES_MAX: u64 = 1 << 10;

/// The namespace of the Pod that this process runs in, if known.
fn pod_namespace() -> Option<String> {
    let path = Path::new("/var/run/secrets/kubernetes.io/serviceaccount/namespace");
    let mounted = windlass_files::read_text(path, NAMESPACE_FILE_BYTES_MAX).ok();
    mounted.map(|namespace| namespace.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}
