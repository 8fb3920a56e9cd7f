//! How replicas share out plugins, as the command line says it.

use std::time::Duration;

use clap::ValueEnum;
use tokio::runtime::Handle;
use windlass_core::life::lease::Timing;

/// The longest offer that is written. Each replica writes its own every retry period, and all others read it; an object
/// has 256 KiB for annotations.
pub(super) const OFFER_BYTES_MAX: usize = 64 << 10;

/// How long replicas must be the same before plugins move between them: longer than a Pod of a rolling update takes to
/// become ready.
const STABILITY_DEFAULT: Duration = Duration::from_mins(1);

/// By which leases plugins are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LeaseMode {
    /// One lease: one replica runs all plugins.
    Single,
    /// 32 leases, each for the plugins whose names fall into it.
    Shards,
    /// A lease for each plugin.
    PerPlugin,
    /// None: this process runs all plugins, and whoever starts a second one answers for it.
    None,
}

/// The same, checked.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// How plugins go by leases.
    pub mode: LeaseMode,
    /// Where the leases are. None: where the host is, or works.
    pub namespace: Option<String>,
    /// The installation's name.
    pub instance: String,
    /// How long leases last, and how often they are renewed.
    pub timing: Timing,
    /// How long replicas must be the same before plugins move between them.
    pub stability: Duration,
    /// Caches of plugins that others run are kept.
    pub warm_standby: bool,
    /// Where elections run, so that a renewal waits for nothing else that the host does. None: where everything runs.
    pub threads: Option<Handle>,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self {
            mode: LeaseMode::Shards,
            namespace: None,
            instance: "main".to_owned(),
            timing: Timing::default(),
            stability: STABILITY_DEFAULT,
            warm_standby: false,
            threads: None,
        }
    }
}

impl LeaseSettings {
    /// The lease by which `plugin` goes. None: it goes by none.
    pub(super) fn lease_of(&self, plugin: &str) -> Option<String> {
        let Self { mode, instance, .. } = self;
        match mode {
            LeaseMode::None => None,
            LeaseMode::Single => Some(format!("windlass-{instance}-all")),
            LeaseMode::Shards => {
                Some(format!("windlass-{instance}-shard-{:02}", windlass_core::life::sharing::shard_of(plugin)))
            }
            LeaseMode::PerPlugin => Some(format!("windlass-{instance}-plugin-{plugin}")),
        }
    }

    /// The lease that says what was rolled back.
    pub(super) fn rejected_lease(&self) -> String {
        format!("windlass-{}-rejected", self.instance)
    }

    /// The prefix of the names of members' leases.
    pub(super) fn member_prefix(&self) -> String {
        format!("windlass-{}-member-", self.instance)
    }
}
