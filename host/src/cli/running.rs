//! The commands that show what a running host does. They ask its admin address, or its Pods through the API
//! server, and change nothing.

use std::process::ExitCode;

use clap::Subcommand;

use super::keys::KeysArgs;
use super::status::StatusArgs;
use super::top::TopArgs;

/// A command that shows what a running host does.
#[derive(Debug, Subcommand)]
pub(super) enum RunningCommand {
    /// Show the plugins of a running host: what each does and why, its queue, and what it uses.
    ///
    /// Without --admin-address, the host's Pods are found in the cluster of the kubeconfig and asked through the API server, which
    /// needs list on pods and get on pods/proxy. Of several replicas, each plugin is shown as the one shows it that has its lease.
    /// Exit codes: 0, all is well; 1, a plugin is not, there is no such plugin, or a replica does not answer; 2, the host cannot
    /// be asked, or nothing be written.
    #[command(after_help = "Examples:\n  windlass status -n windlass -o wide\n  \
        windlass status webapp --admin-address 127.0.0.1:8080 -o json")]
    Status(StatusArgs),
    /// Show the keys of a plugin that are not done, and why; or all that is known of one key.
    ///
    /// A key is the namespace and the name of an object that the plugin reconciles. Exit codes: 0, shown; 1, there is no such
    /// plugin or key; 2, the host cannot be asked, or nothing be written.
    #[command(after_help = "Examples:\n  windlass keys webapp -n windlass\n  \
        windlass keys webapp prod/shop --admin-address 127.0.0.1:8080\n  \
        windlass keys webapp --state given-up,hot-loop --admin-address 127.0.0.1:8080")]
    Keys(KeysArgs),
    /// Show which plugin uses the CPU, the memory, the caches and the API server, every two seconds.
    ///
    /// CPU% is of one processor. Exit codes, with --once or when the first look fails: 0, shown; 2, the host cannot be asked, or nothing be
    /// written.
    #[command(after_help = "Examples:\n  windlass top -n windlass\n  \
        windlass top --once --sort-by memory --admin-address 127.0.0.1:8080")]
    Top(TopArgs),
}

impl RunningCommand {
    pub(super) async fn run(self) -> ExitCode {
        let shown = match self {
            Self::Status(args) => args.run().await,
            Self::Keys(args) => args.run().await,
            Self::Top(args) => args.run().await,
        };
        shown.unwrap_or_else(|failure| failure.told())
    }
}
