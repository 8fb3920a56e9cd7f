//! The flags about replicas, which every command that runs plugins has.

use std::time::Duration;

use clap::{ArgAction, Args};
use windlass_core::lease::Timing;

use windlass_runtime::{LeaseMode, LeaseSettings};

use super::admin_serving::UsageError;

/// The longest name of an installation. The names of its leases contain it.
const INSTANCE_BYTES_MAX: usize = 30;

/// How replicas share out plugins.
#[derive(Debug, Args)]
pub(crate) struct LeaseArgs {
    /// How replicas divide the plugins, so that each plugin runs in one replica. shards: 32 leases, each for some of the plugins.
    /// single: one lease; one replica runs all plugins. per-plugin: a lease for each plugin; for a few plugins only. none: no
    /// lease; there is only one replica. Default: shards; for `dev`, none.
    #[arg(long, value_enum, value_name = "HOW", env = "WINDLASS_LEASES")]
    leases: Option<LeaseMode>,
    /// The namespace of the leases. Default: the host's own, else --namespace, else the context's.
    #[arg(long, value_name = "NAMESPACE", value_parser = super::namespace, env = "WINDLASS_LEASE_NAMESPACE")]
    lease_namespace: Option<String>,
    /// The name of this installation. Give it to all its replicas, and to no other host with leases in the same namespace.
    #[arg(long, value_name = "NAME", default_value = "main", value_parser = instance, env = "WINDLASS_INSTANCE")]
    instance: String,
    /// Another replica takes a lease after seeing it unchanged for this long. Whole seconds.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    lease_duration: Duration,
    /// A holder that cannot renew its lease stops this long after the last renewal.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    lease_renew_deadline: Duration,
    /// How often a lease is renewed.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    lease_retry_period: Duration,
    /// Plugins move between live replicas only after the set of replicas has been the same for this long.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    lease_stability: Duration,
    /// Also fill the caches of plugins that other replicas run. A takeover is quicker, but each replica needs memory for all
    /// plugins.
    #[arg(long, env = "WINDLASS_WARM_STANDBY", action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_value_t = false, default_missing_value = "true", hide_default_value = true,
        hide_possible_values = true)]
    warm_standby: bool,
}

impl LeaseArgs {
    /// The checked settings; `mode` applies without `--leases`.
    pub(crate) fn settings(self, mode: LeaseMode) -> Result<LeaseSettings, UsageError> {
        let timing = Timing::new(self.lease_duration, self.lease_renew_deadline, self.lease_retry_period);
        let timing = timing.map_err(|error| UsageError(error.to_string()))?;
        Ok(LeaseSettings {
            mode: self.leases.unwrap_or(mode),
            namespace: self.lease_namespace,
            instance: self.instance,
            timing,
            stability: self.lease_stability,
            warm_standby: self.warm_standby,
            threads: None,
        })
    }
}

fn instance(text: &str) -> Result<String, String> {
    if windlass_wasm::manifest::is_dns_label(text) && text.len() <= INSTANCE_BYTES_MAX {
        Ok(text.to_owned())
    } else {
        Err(format!("the name of an installation has up to {INSTANCE_BYTES_MAX} lower-case letters, digits and dashes"))
    }
}

/// A time on the command line.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a whole number and its unit: 500ms, 15s, 2m".to_owned();
    let digits = text.find(|character: char| !character.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let number: u32 = number.parse().map_err(|_| wrong())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number.into())),
        "s" => Ok(Duration::from_secs(number.into())),
        "m" => Ok(Duration::from_secs(u64::from(number) * 60)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(time("2m"), Ok(Duration::from_mins(2)));
        for bad in ["", "15", "s", "-1s", "1.5s", "1h30m", "99999999999s"] {
            assert!(time(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_name_of_an_installation_fits_into_names() {
        assert!(instance("team-1").is_ok());
        assert!(instance("").is_err() && instance("Team").is_err() && instance(&"a".repeat(31)).is_err());
    }
}
