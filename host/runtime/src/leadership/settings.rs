//! How replicas share the plugins, as set on the command line.

use std::time::Duration;

use clap::ValueEnum;
use tokio::runtime::Handle;
use windlass_core::life::lease::Timing;

/// The longest offer that is written, in bytes. Each replica writes its offer every retry period, and all other
/// replicas read it. An object may have 256 KiB of annotations.
pub(super) const OFFER_BYTES_MAX: usize = 64 << 10;

/// How long the set of replicas must be unchanged before plugins move between them. Longer than a Pod of a rolling
/// update takes to become ready.
const STABILITY_DEFAULT: Duration = Duration::from_mins(1);

/// The leases by which replicas share the plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LeaseMode {
    /// One lease: one replica runs all plugins.
    Single,
    /// 32 leases. A hash of a plugin's name selects its lease.
    Shards,
    /// One lease for each plugin.
    PerPlugin,
    /// No leases: this process runs all plugins, and the operator must not start a second one.
    None,
}

/// The settings of leases.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Which lease each plugin depends on.
    pub mode: LeaseMode,
    /// The namespace of the leases. `None` for the host's own, or the one that it is confined to.
    pub namespace: Option<String>,
    /// The installation's name.
    pub instance: String,
    /// The lease duration and the renewal period.
    pub timing: Timing,
    /// How long the set of replicas must be unchanged before plugins move between them.
    pub stability: Duration,
    /// Whether to keep the caches of plugins that other replicas run.
    pub warm_standby: bool,
    /// The runtime for elections, so that renewals do not wait for other work. `None` to run them on the current one.
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
    /// The lease that `plugin` depends on. `None` without leases.
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

    /// The lease that holds the rejections.
    pub(super) fn rejected_lease(&self) -> String {
        format!("windlass-{}-rejected", self.instance)
    }

    /// The lease that holds the last due times of timers.
    pub(super) fn timers_lease(&self) -> String {
        format!("windlass-{}-timers", self.instance)
    }

    /// The prefix of the names of members' leases.
    pub(super) fn member_prefix(&self) -> String {
        format!("windlass-{}-member-", self.instance)
    }
}
