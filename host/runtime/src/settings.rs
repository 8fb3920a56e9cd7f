//! The settings of a host, as set on the command line.

use std::path::PathBuf;

use tokio::runtime::Handle;
use windlass_core::life::features::Features;
use windlass_kube::{CACHE_BYTES_DEFAULT, LiveBudget};
use windlass_record::Recordings;
use windlass_wasm::{Compiler, Limits, Sandbox, SandboxError, SandboxOptions};

use crate::dispatch::guards::GuardSettings;
use crate::dispatch::ports::call_slots;
use crate::hooks::settings::HookSettings;
use crate::leadership::{LeaseMode, LeaseSettings};
use crate::object_settings::ObjectSettings;
use crate::observe::admin::settings::AdminSettings;
use crate::policies::{GrantMode, PolicySettings};
use crate::traces::TraceSettings;

/// The settings of one host.
#[derive(Debug)]
pub struct Settings {
    /// The directory of plugins.
    pub plugins: PathBuf,
    /// The list of digests that may run. `None` if all may.
    pub allowed_digests: Option<PathBuf>,
    /// The directory of `NAME.config.yaml`. `None` for the directory of plugins.
    pub config_dir: Option<PathBuf>,
    /// The only namespace that this host may watch. `None` for all.
    pub namespace: Option<String>,
    /// The number of calls that may run on a processor at once.
    pub concurrent_calls: u32,
    /// The number of calls that may be in progress at once, running or waiting; see [`call_slots`](crate::call_slots).
    pub call_slots: u32,
    /// The limits of each call, and of all calls together.
    pub limits: Limits,
    /// Compiles plugins in a separate process.
    pub compiler: Compiler,
    /// The directory of compiled plugins. `None` if they are not kept.
    pub cache_dir: Option<PathBuf>,
    /// The memory limit of all caches of one plugin, in bytes.
    pub plugin_cache: usize,
    /// The memory limit of any one cache, in bytes.
    pub cache: usize,
    /// Where the admin endpoint listens, and who may use it. `None` for no endpoint.
    pub admin: Option<AdminSettings>,
    /// Where the host receives deliveries to hooks. `None` if it does not.
    pub hooks: Option<HookSettings>,
    /// Further certificate authorities that plugins' HTTPS requests trust.
    pub http_ca: Option<PathBuf>,
    /// How often one plugin may read from the API server itself.
    pub live: LiveBudget,
    /// Further limits of one plugin over all its calls.
    pub guards: GuardSettings,
    /// The sources of policies.
    pub policies: PolicySettings,
    /// If true, the host changes nothing in the cluster.
    pub read_only: bool,
    /// If true, a new version of a plugin that fails much more often than the previous one is rolled back.
    pub rollback: bool,
    /// How replicas share out plugins.
    pub leases: LeaseSettings,
    /// The feature gates.
    pub features: Features,
    /// Where the files of plugins are that are objects of the cluster. `None` if the host does not follow objects.
    pub objects: Option<ObjectSettings>,
    /// Where calls are recorded. `None` if they are not.
    pub record: Option<Recordings>,
    /// Where the spans of calls are exported. `None` if they are not.
    pub traces: Option<TraceSettings>,
}

/// Files of at least this many bytes are compiled in two steps. Smaller ones, such as those of C and Rust plugins, are
/// fully compiled in a quarter of a second.
pub const QUICK_COMPILE_BYTES_MIN: u64 = 1 << 20;

/// The number of calls at once in a simulated world. It does not depend on the machine, so that all machines make the
/// same calls.
const CALLS_OF_SIMULATED_WORLD: u32 = 4;

/// The settings of `windlass run` without flags, with two exceptions. The directories of plugins and policies have no
/// default. And plugins are compiled in this process, where `run` uses a child process: only the program itself can be
/// started as the compiler, and a test is another program.
///
/// The flags of `run` take their defaults from here. So do the flags of other commands with the same meaning, such as
/// `--cache-dir`. `--limit` changes one limit of [`Limits::default`], which these settings use too. Commands that only
/// load plugins or replay calls take the rest from [`SandboxOptions`].
impl Default for Settings {
    fn default() -> Self {
        let concurrent_calls = 2 * processors();
        Self {
            plugins: PathBuf::new(),
            allowed_digests: None,
            config_dir: None,
            namespace: None,
            concurrent_calls,
            call_slots: call_slots(concurrent_calls),
            limits: Limits::default(),
            compiler: Compiler::InProcess,
            cache_dir: windlass_wasm::default_cache_dir(),
            plugin_cache: CACHE_BYTES_DEFAULT,
            cache: CACHE_BYTES_DEFAULT,
            admin: None,
            hooks: None,
            http_ca: None,
            live: LiveBudget::default(),
            guards: GuardSettings::default(),
            policies: PolicySettings {
                mode: GrantMode::Policy,
                directory: PathBuf::new(),
                ceiling: None,
                host_namespace: None,
            },
            read_only: false,
            rollback: true,
            leases: LeaseSettings::default(),
            features: Features::default(),
            objects: None,
            record: None,
            traces: None,
        }
    }
}

impl Settings {
    /// The settings of a host that runs loaded plugins in a simulated world: no files, no leases, no rollback, and
    /// plugins are granted all that they ask for. The rest is the default of `windlass run`.
    #[must_use]
    pub fn in_process() -> Self {
        let run = Self::default();
        Self {
            concurrent_calls: CALLS_OF_SIMULATED_WORLD,
            call_slots: call_slots(CALLS_OF_SIMULATED_WORLD),
            cache_dir: None,
            policies: PolicySettings { mode: GrantMode::Manifest, ..run.policies },
            rollback: false,
            leases: LeaseSettings { mode: LeaseMode::None, ..run.leases },
            ..run
        }
    }

    /// The sandbox that runs plugins, on the threads of the tokio runtime that this is called on (ADR 36).
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
        };
        let sandbox = Sandbox::with_at_least(self.concurrent_calls, options)?;
        if sandbox.concurrent_calls() < self.call_slots {
            tracing::warn!(
                calls = sandbox.concurrent_calls(),
                wanted = self.call_slots,
                "the address space is limited (`ulimit -v`): fewer calls can run at once, so plugins wait for each other sooner"
            );
        }
        Ok(sandbox)
    }
}

/// The number of processors of this machine.
#[must_use]
pub fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}
