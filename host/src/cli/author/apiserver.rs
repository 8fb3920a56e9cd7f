//! `windlass apiserver`: the embedded API server on its own.

use std::path::PathBuf;

use clap::Args;

use crate::cli::author::embedded::EmbeddedArgs;
use crate::cli::print;
use crate::cli::run::shutdown;

/// Run the embedded API server on its own, for tests in any language.
///
/// A Kubernetes API server in one process, on a loopback port, for kubectl and any other client. It needs no etcd and
/// no container. Once it is ready, it prints a line `ready URL kubeconfig=FILE` to standard output. SIGTERM or Ctrl-C
/// ends it.
///
/// Workloads become ready by themselves, and garbage is collected. --controllers none makes it a bare API server like
/// envtest's. With --reactors the server misbehaves as you say.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass apiserver --kubeconfig-out kubeconfig --port-file port &\n  \
    KUBECONFIG=kubeconfig kubectl get namespaces\n  \
    windlass apiserver --controllers none                        # for suites written for envtest\n  \
    windlass apiserver --controllers gc,namespaces               # and no workload becomes ready by itself\n  \
    windlass apiserver --load manifests --authorization rbac     # kubectl auth can-i --as …\n  \
    windlass apiserver --state objects.state --reactors bad-day.yaml")]
pub(crate) struct ApiServerArgs {
    #[command(flatten)]
    embedded: EmbeddedArgs,
    /// Write a kubeconfig for the API server to this file.
    #[arg(long, value_name = "FILE", default_value = ".windlass/kubeconfig")]
    kubeconfig_out: PathBuf,
    /// Write the port to this file once the server is ready. Programs that start the server wait for the file.
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
}

impl ApiServerArgs {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let stop = shutdown::on_signal()?;
        let server = self.embedded.start(self.kubeconfig_out.clone(), self.port_file).await?;
        // On standard output, for programs that read it. The log is on standard error.
        print(&format!("ready {} kubeconfig={}\n", server.url(), self.kubeconfig_out.display()))?;
        stop.cancelled().await;
        server.shutdown().await;
        Ok(())
    }
}
