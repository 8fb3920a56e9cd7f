//! The commands that query a running host, at its admin address or through the API server. `resume` also changes
//! something. The other commands only show what the host does.

use std::process::ExitCode;

use clap::Subcommand;

use crate::cli::watching::keys::KeysArgs;
use crate::cli::watching::resume::ResumeArgs;
use crate::cli::watching::status::StatusArgs;
use crate::cli::watching::top::TopArgs;

/// A command that queries a running host.
#[derive(Debug, Subcommand)]
pub(crate) enum RunningCommand {
    /// Show the plugins of a running host: what each does and why, its queue, and what it uses.
    ///
    /// Without --admin-address, the host's Pods are found in the cluster of the kubeconfig and queried through the API
    /// server, which needs list on pods and get on pods/proxy. With several replicas, each plugin is shown as by the
    /// replica that has its lease. Exit codes: 0, all is well; 1, a plugin is not well, there is no such plugin, or a
    /// replica does not answer; 2, the host cannot be queried, or standard output cannot be written to.
    #[command(after_help = "Examples:\n  windlass status -n windlass -o wide\n  \
        windlass status webapp --admin-address 127.0.0.1:8080 -o json")]
    Status(StatusArgs),
    /// Show the keys of a plugin that are not done, and why; or everything that is known of one key.
    ///
    /// A key is the namespace and the name of an object that the plugin reconciles. Exit codes: 0, shown; 1, there is
    /// no such plugin or key; 2, the host cannot be queried, or standard output cannot be written to.
    #[command(after_help = "Examples:\n  windlass keys webapp -n windlass\n  \
        windlass keys webapp prod/shop --admin-address 127.0.0.1:8080\n  \
        windlass keys webapp --state given-up,hot-loop --admin-address 127.0.0.1:8080")]
    Keys(KeysArgs),
    /// Show which plugin uses the CPU, the memory, the caches and the API server, every two seconds.
    ///
    /// CPU% is the share of one processor. Exit codes, with --once or if the first look fails: 0, shown; 2, the host
    /// cannot be queried, or standard output cannot be written to.
    #[command(after_help = "Examples:\n  windlass top -n windlass\n  \
        windlass top --once --sort-by memory --admin-address 127.0.0.1:8080")]
    Top(TopArgs),
    /// Make a plugin retry what the host has stopped or postponed, without a restart.
    ///
    /// A suspended plugin fills its caches again, within the same limits. If a controller's circuit is open, one trial
    /// call is made now. Keys whose last calls failed run with all their retries. A version that was rolled back is not
    /// tried again: replace its file. A plugin can be resumed once every ten seconds. A single object runs when its
    /// annotation windlass.dev/run-requested-at changes, which needs no command of this program.
    ///
    /// Query the replica that has the plugin's lease, with a token whose user has the verb post for nonResourceURLs
    /// /plugins/PLUGIN/resume; without --admin-auth token, from the host's own machine or through kubectl port-forward.
    /// Exit codes: 0, something was resumed; 1, there was nothing to resume, the replica does not run the plugin, or
    /// there is no such plugin; 2, the host cannot be queried, or standard output cannot be written to.
    #[command(after_help = "Examples:\n  windlass resume webapp --admin-address 127.0.0.1:8080\n  \
        windlass resume webapp --admin-address https://127.0.0.1:8080 --token-file token --insecure-skip-tls-verify")]
    Resume(ResumeArgs),
}

impl RunningCommand {
    pub(crate) async fn run(self) -> ExitCode {
        let shown = match self {
            Self::Status(args) => args.run().await,
            Self::Keys(args) => args.run().await,
            Self::Top(args) => args.run().await,
            Self::Resume(args) => args.run().await,
        };
        shown.unwrap_or_else(|failure| failure.report())
    }
}
