//! The flags about replicas, shared by all commands that run plugins.

use clap::{ArgAction, Args};
use windlass_core::life::lease::Timing;

use windlass_runtime::{LeaseMode, LeaseSettings};

use crate::cli::flags::admin_serving::UsageError;
use crate::cli::flags::duration::DurationArg;
use crate::cli::flags::instance::instance;
use crate::cli::flags::settings::DEFAULTS;

/// How replicas share the plugins.
#[derive(Debug, Args)]
pub(crate) struct LeaseArgs {
    /// How replicas divide the plugins, so that each plugin runs in one replica. shards: 32 leases, each for some of
    /// the plugins. single: one lease; one replica runs all plugins. per-plugin: a lease for each plugin; for a few
    /// plugins only. none: no lease; there is only one replica. Default: shards; for `dev`, none.
    #[arg(long, value_enum, value_name = "HOW", env = "WINDLASS_LEASES")]
    leases: Option<LeaseMode>,
    /// The namespace of the leases. Default: the host's own, else --namespace, else the context's.
    #[arg(long, value_name = "NAMESPACE", value_parser = crate::cli::namespace, env = "WINDLASS_LEASE_NAMESPACE")]
    lease_namespace: Option<String>,
    /// The name of this installation. Give it to all its replicas, and to no other host with leases in the same
    /// namespace.
    #[arg(long, value_name = "NAME", default_value_t = DEFAULTS.leases.instance.clone(), value_parser = instance, env = "WINDLASS_INSTANCE")]
    instance: String,
    /// Another replica takes a lease after seeing it unchanged for this long. Whole seconds.
    #[arg(long, value_name = "TIME", default_value_t = DurationArg(DEFAULTS.leases.timing.duration()))]
    lease_duration: DurationArg,
    /// A holder that cannot renew its lease stops this long after the last renewal.
    #[arg(long, value_name = "TIME", default_value_t = DurationArg(DEFAULTS.leases.timing.renew_deadline()))]
    lease_renew_deadline: DurationArg,
    /// How often a lease is renewed.
    #[arg(long, value_name = "TIME", default_value_t = DurationArg(DEFAULTS.leases.timing.retry_period()))]
    lease_retry_period: DurationArg,
    /// Plugins move between live replicas only after the set of replicas has been the same for this long.
    #[arg(long, value_name = "TIME", default_value_t = DurationArg(DEFAULTS.leases.stability))]
    lease_stability: DurationArg,
    /// Also fill the caches of plugins that other replicas run. A takeover is quicker, but each replica needs memory
    /// for all plugins.
    #[arg(long, env = "WINDLASS_WARM_STANDBY", action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_value_t = DEFAULTS.leases.warm_standby, default_missing_value = "true", hide_default_value = true,
        hide_possible_values = true)]
    warm_standby: bool,
}

impl LeaseArgs {
    /// The checked settings; `mode` applies without `--leases`.
    pub(crate) fn settings(self, mode: LeaseMode) -> Result<LeaseSettings, UsageError> {
        let timing = Timing::new(self.lease_duration.0, self.lease_renew_deadline.0, self.lease_retry_period.0);
        let timing = timing.map_err(|error| UsageError(error.to_string()))?;
        Ok(LeaseSettings {
            mode: self.leases.unwrap_or(mode),
            namespace: self.lease_namespace,
            instance: self.instance,
            timing,
            stability: self.lease_stability.0,
            warm_standby: self.warm_standby,
            threads: None,
        })
    }
}
