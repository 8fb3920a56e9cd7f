//! `windlass run`: plugins against a cluster.

pub(crate) mod config;
pub(crate) mod record;
pub(crate) mod shutdown;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use tokio::runtime::{Builder, Runtime};
use windlass_kube::client::{self, ConnectOptions};

use crate::cli::flags::limits;
use crate::cli::flags::log::LogControl;
use crate::cli::flags::settings::PluginArgs;
use crate::cli::run::config::HostConfig;
use crate::cli::run::record::RecordArgs;

/// Run plugins against a cluster.
///
/// Loads each NAME.wasm in the plugin directory, starts the watches that its manifest declares, and calls the plugin
/// for each object that changes. Follows the directory while it runs: add, replace or delete a file, and the host
/// loads, swaps or stops that plugin. NAME.next.wasm beside it is called as a shadow; see `windlass rollout`. Finds the
/// cluster as kubectl does: --kubeconfig, else KUBECONFIG, else ~/.kube/config, else the service account of the Pod.
///
/// A plugin may do only what its policy grants: NAME.policy.yaml beside it. Without a policy the plugin waits, and the
/// log says what it asks for. `windlass grant` writes a policy for review. --grants=manifest grants each plugin all
/// that it asks for, unreviewed.
#[derive(Debug, Args)]
#[command(mut_arg("plugins", |plugins| plugins.required(true)), mut_arg("limits", |it| it.long_help(limits::long_help())))]
#[command(after_help = "Examples:\n  windlass run --plugins /etc/windlass/plugins --context staging\n  \
    windlass run --plugins target/plugins --namespace try-out --grants=manifest   # to try plugins out")]
pub(super) struct RunArgs {
    /// Also read settings from this file, of kind `HostConfiguration`. Flags and environment variables override it.
    /// `windlass config print` shows the resulting settings.
    #[arg(long, value_name = "FILE", env = "WINDLASS_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    plugins: PluginArgs,
    #[command(flatten)]
    record: RecordArgs,
    /// The kubeconfig file. Default: KUBECONFIG, then ~/.kube/config, then the Pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// A separate thread for elections, so that leases are renewed in time however busy the host is.
fn lease_threads() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_name("windlass-lease").worker_threads(1).build()
}

impl RunArgs {
    /// The file of the audit log.
    pub(super) fn audit_log(&self) -> Option<&Path> {
        self.plugins.audit_log()
    }

    /// Refuses settings that a host would refuse. The plugin directory may still be missing.
    pub(super) fn check(mut self) -> anyhow::Result<()> {
        self.plugins.plugins.get_or_insert_default();
        self.plugins.settings_of_run().map(drop)
    }

    /// Runs a host until it is told to stop. `config` is the file of `--config`, already read.
    pub(super) async fn run(self, config: Option<HostConfig>, log: LogControl) -> anyhow::Result<()> {
        if let (Some(config), Some(file)) = (config, &self.config) {
            tracing::info!(file = %file.display(), "settings come from a configuration file too");
            tokio::spawn(config.follow(log));
        }
        let mut settings = self.plugins.settings_of_run()?;
        let stop = shutdown::on_signal()?;
        let options = ConnectOptions { kubeconfig: self.kubeconfig, context: self.context, namespace: None };
        // A kubeconfig may name a program that provides credentials, and this program may not answer.
        let Some(connection) = stop.run_until_cancelled(client::connect(&options)).await else {
            tracing::info!("stopped before the first controller started");
            return Ok(());
        };
        let connection = connection?;
        let threads = lease_threads().context("cannot start the thread of the leases")?;
        settings.record = self.record.start()?;
        settings.leases.threads = Some(threads.handle().clone());
        let result = windlass_runtime::run(connection, settings, stop).await;
        threads.shutdown_background();
        Ok(result?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{CommandFactory as _, Parser as _};
    use windlass_runtime::{GrantMode, GuardSettings, LeaseMode, LeaseSettings, PolicySettings, Settings, processors};

    use crate::cli::{Cli, Command};

    /// The settings of `windlass run --plugins p`.
    fn of_run() -> Settings {
        let cli =
            Cli::try_parse_from(["windlass", "run", "--plugins", "p"]).expect("the plugins are all that it needs");
        let Command::Run(run) = cli.command else { panic!("not `run`") };
        run.plugins.settings_of_run().expect("the defaults fit together")
    }

    #[test]
    fn flags_have_the_same_defaults_as_the_settings() {
        // This pattern has no `..`, so that a new setting must be added here, and compared with the default of its
        // flag.
        let Settings {
            plugins,
            allowed_digests,
            config_dir,
            namespace,
            concurrent_calls,
            call_slots,
            limits,
            compiler: _,
            cache_dir,
            plugin_cache,
            cache,
            admin,
            hooks,
            http_ca,
            live,
            guards: GuardSettings { writes, hot_loop_writes },
            policies: PolicySettings { mode: grants, directory, ceiling, host_namespace },
            read_only,
            rollback,
            leases:
                LeaseSettings { mode, namespace: lease_namespace, instance, timing, stability, warm_standby, threads },
            features,
            objects,
            record,
            traces,
        } = of_run();
        let usual = Settings::default();
        assert_eq!((plugins.to_str(), directory.to_str()), (Some("p"), Some("p")), "they are named");
        assert_eq!(
            (allowed_digests, config_dir, namespace),
            (usual.allowed_digests, usual.config_dir, usual.namespace)
        );
        assert_eq!((concurrent_calls, call_slots), (usual.concurrent_calls, usual.call_slots));
        assert_eq!((limits, cache_dir), (usual.limits, usual.cache_dir));
        assert_eq!((plugin_cache, cache), (usual.plugin_cache, usual.cache));
        assert_eq!((admin, hooks, http_ca), (usual.admin, usual.hooks, usual.http_ca));
        assert_eq!((live, writes), (usual.live, usual.guards.writes));
        assert_eq!(hot_loop_writes, usual.guards.hot_loop_writes);
        assert_eq!((grants, ceiling), (usual.policies.mode, usual.policies.ceiling));
        assert_eq!(host_namespace, usual.policies.host_namespace);
        assert_eq!((read_only, rollback), (usual.read_only, usual.rollback));
        assert_eq!((mode, lease_namespace), (usual.leases.mode, usual.leases.namespace));
        assert_eq!((instance, timing), (usual.leases.instance, usual.leases.timing));
        assert_eq!((stability, warm_standby), (usual.leases.stability, usual.leases.warm_standby));
        assert_eq!(threads.is_none(), usual.leases.threads.is_none());
        assert_eq!(format!("{features:?}"), format!("{:?}", usual.features));
        assert_eq!(objects, usual.objects);
        assert_eq!((record.is_none(), traces.is_none()), (usual.record.is_none(), usual.traces.is_none()));
    }

    /// The values are literals, because operators rely on these defaults.
    #[test]
    fn the_defaults_are_those_that_operators_know() {
        let run = of_run();
        assert_eq!(
            (run.guards.writes.per_second, run.guards.writes.burst, run.guards.hot_loop_writes),
            (500, 2_000, 300)
        );
        assert_eq!((run.live.per_second, run.live.burst), (20, 100));
        assert_eq!((run.plugin_cache, run.cache), (1 << 30, 1 << 30));
        assert_eq!(run.concurrent_calls, 2 * processors());
        let timing = run.leases.timing;
        let times = [timing.duration(), timing.renew_deadline(), timing.retry_period(), run.leases.stability];
        assert_eq!(times, [15, 10, 2, 60].map(Duration::from_secs));
        assert_eq!(
            (run.policies.mode, run.leases.mode, run.leases.instance.as_str()),
            (GrantMode::Policy, LeaseMode::Shards, "main")
        );
        assert!(run.rollback && !run.read_only && !run.leases.warm_standby);
    }

    #[test]
    fn a_plugin_writes_as_often_in_a_check_as_in_production() {
        let (check, run) = (Settings::in_process(), of_run());
        assert_eq!((check.guards.writes, check.live), (run.guards.writes, run.live));
    }

    /// The default of a flag of `windlass run`, as its help shows it.
    fn default_of(flag: &str) -> String {
        let mut command = Cli::command();
        let run = command.find_subcommand_mut("run").expect("it is there");
        let flag = run.get_arguments().find(|it| it.get_long() == Some(flag)).expect("it is there");
        flag.get_default_values()[0].to_string_lossy().into_owned()
    }

    /// `2000` as `2,000`.
    fn grouped(number: &str) -> String {
        match number.len().checked_sub(3) {
            Some(at @ 1..) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("{},{}", &number[..at], &number[at..])
            }
            _ => number.to_owned(),
        }
    }

    #[test]
    fn the_page_for_operators_and_the_chart_name_the_same_defaults() {
        const PAGES: [&str; 2] =
            [include_str!("../../../docs/operating/run.md"), include_str!("../../../docs/operating/replicas.md")];
        const CHART: &str = include_str!("../../../deploy/chart/values.yaml");
        let rows = |flag: &str| {
            let flag = format!("--{flag}");
            let names =
                |line: &&str| line.split('|').nth(1).is_some_and(|it| it.split(['`', ' ']).any(|word| word == flag));
            PAGES.iter().flat_map(|page| page.lines()).filter(names).collect::<Vec<_>>()
        };
        for flag in [
            "writes-per-second",
            "writes-burst",
            "hot-loop-writes",
            "live-reads-per-second",
            "live-reads-burst",
            "plugin-cache-limit",
            "cache-limit",
            "lease-duration",
            "lease-renew-deadline",
            "lease-retry-period",
            "lease-stability",
        ] {
            let default = grouped(&default_of(flag));
            let says = |row: &&str| row.split([' ', ':']).any(|word| word.trim_end_matches(['.', ',']) == default);
            assert!(rows(flag).iter().any(says), "--{flag} is {default} by default, and its rows: {:?}", rows(flag));
        }
        for (value, flag) in [
            ("duration", "lease-duration"),
            ("renewDeadline", "lease-renew-deadline"),
            ("retryPeriod", "lease-retry-period"),
        ] {
            assert!(CHART.contains(&format!("\n  {value}: {}\n", default_of(flag))), "leases.{value} of the chart");
        }
    }
}
