//! The settings of a host, which the command line makes.

use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime::Handle;
use windlass_core::features::Features;
use windlass_core::lease::Timing;
use windlass_kube::{LiveBudget, WriteRate};
use windlass_record::Recordings;
use windlass_wasm::{Compiler, Limits, Sandbox, SandboxError, SandboxOptions};

use crate::dispatch::guards::GuardSettings;
use crate::dispatch::ports::call_slots;
use crate::leadership::{LeaseMode, LeaseSettings};
use crate::observe::admin::settings::AdminSettings;
use crate::policies::{GrantMode, PolicySettings};
use crate::traces::TraceSettings;

/// The settings of one host.
#[derive(Debug)]
pub struct Settings {
    /// The directory of plugins.
    pub plugins: PathBuf,
    /// The list of digests that may run. None: all may.
    pub allowed_digests: Option<PathBuf>,
    /// The directory of `NAME.config.yaml`. None: beside the plugins.
    pub config_dir: Option<PathBuf>,
    /// The only namespace that this host may watch. None: all.
    pub namespace: Option<String>,
    /// How many calls may be at work at once.
    pub concurrent_calls: u32,
    /// How many calls may have begun at once, at work or waiting; see [`call_slots`](crate::call_slots).
    pub call_slots: u32,
    /// The limits of each call, and of all calls together.
    pub limits: Limits,
    /// Compiles plugins, as a process of its own.
    pub compiler: Compiler,
    /// The directory of compiled plugins. None: they are not kept.
    pub cache_dir: Option<PathBuf>,
    /// The most that the caches of one plugin may hold together, in bytes.
    pub plugin_cache: usize,
    /// The most that any one cache may hold, in bytes.
    pub cache: usize,
    /// Where the admin endpoint listens, and for whom. None: nowhere.
    pub admin: Option<AdminSettings>,
    /// Authorities that plugins' HTTPS requests trust too.
    pub http_ca: Option<PathBuf>,
    /// How often one plugin may read the API server itself.
    pub live: LiveBudget,
    /// Further limits of one plugin, over all its calls.
    pub guards: GuardSettings,
    /// Where policies come from.
    pub policies: PolicySettings,
    /// Nothing is changed in the cluster.
    pub read_only: bool,
    /// A new version of a plugin that fails much more often than the one before is rolled back. Without it, what is delivered runs.
    pub rollback: bool,
    /// How replicas share out plugins.
    pub leases: LeaseSettings,
    /// Which feature gates are on.
    pub features: Features,
    /// Where calls are recorded. None: nowhere.
    pub record: Option<Recordings>,
    /// Where the spans of calls are exported. None: nowhere.
    pub traces: Option<TraceSettings>,
}

/// Files of at least so many bytes are compiled in two steps. Smaller ones, as C and Rust make them, are compiled well in a
/// quarter of a second.
pub const QUICK_COMPILE_BYTES_MIN: u64 = 1 << 20;

impl Settings {
    /// Those of a host that runs loaded plugins in a told world: no files, no leases, all that the plugins ask for is granted, and
    /// nothing is rolled back. The rest is as `windlass run` has it by default.
    ///
    /// # Panics
    /// Never: the timing of leases is a valid one.
    #[must_use]
    pub fn in_process() -> Self {
        let seconds = Duration::from_secs;
        Self {
            plugins: PathBuf::new(),
            allowed_digests: None,
            config_dir: None,
            namespace: None,
            concurrent_calls: 4,
            call_slots: call_slots(4),
            limits: Limits::default(),
            compiler: Compiler::InProcess,
            cache_dir: None,
            plugin_cache: 1 << 30,
            cache: 1 << 30,
            admin: None,
            http_ca: None,
            live: LiveBudget::default(),
            guards: GuardSettings { writes: WriteRate { per_second: 50, burst: 200 }, hot_loop_writes: 300 },
            policies: PolicySettings {
                mode: GrantMode::Manifest,
                directory: PathBuf::new(),
                ceiling: None,
                host_namespace: None,
            },
            read_only: false,
            rollback: false,
            leases: LeaseSettings {
                mode: LeaseMode::None,
                namespace: None,
                instance: "main".to_owned(),
                timing: Timing::new(seconds(15), seconds(10), seconds(2)).expect("the usual timing"),
                stability: seconds(60),
                warm_standby: false,
                threads: None,
            },
            features: Features::default(),
            record: None,
            traces: None,
        }
    }

    /// The sandbox that runs plugins, on the threads of the tokio runtime that this is called on (ADR 19).
    pub(crate) fn sandbox(&self) -> Result<Sandbox, SandboxError> {
        if self.cache_dir.is_none() {
            tracing::warn!("compiled plugins are not kept: there is no home directory; name one with --cache-dir");
        }
        let options = SandboxOptions {
            limits: self.limits.clone(),
            concurrent_calls: self.call_slots,
            compiler: self.compiler.clone(),
            cache: self.cache_dir.clone(),
            quick_from: Some(QUICK_COMPILE_BYTES_MIN),
            threads: Handle::current().metrics().num_workers(),
            runtime: Some(Handle::current()),
        };
        let sandbox = Sandbox::with_at_least(self.concurrent_calls, options)?;
        if sandbox.concurrent_calls() < self.call_slots {
            tracing::warn!(
                calls = sandbox.concurrent_calls(),
                wanted = self.call_slots,
                "the address space is limited (`ulimit -v`): fewer calls may have begun at once, and plugins that wait hold up others sooner"
            );
        }
        Ok(sandbox)
    }
}

/// How many processors this machine has.
#[must_use]
pub fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}
