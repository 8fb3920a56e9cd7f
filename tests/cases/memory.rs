//! Tests that a host returns free memory to the system.

use anyhow::Context as _;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};

use crate::webapp::plugin_directory;

/// Only glibc needs this. The process keeps its id, which supervisors know.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[tokio::test(flavor = "multi_thread")]
async fn a_host_has_fixed_thresholds_for_free_memory() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    let [kubeconfig, plugins] = [server.kubeconfig(), plugins.path()].map(|it| it.display().to_string());
    let arguments = ["run", "--kubeconfig", &kubeconfig, "--plugins", &plugins, "--grants=manifest", "--leases=none"];
    let host = Host::start(&arguments.map(std::ffi::OsStr::new), None)?;
    host.says("controller started").await?;
    let id = host.id().context("it runs")?;
    let environment = std::fs::read(format!("/proc/{id}/environ"))?;
    let names: Vec<_> = environment.split(|byte| *byte == 0).filter(|it| it.starts_with(b"MALLOC_")).collect();
    anyhow::ensure!(
        names == [b"MALLOC_MMAP_THRESHOLD_=1048576".as_slice(), b"MALLOC_TRIM_THRESHOLD_=4194304"],
        "{names:?}"
    );
    Ok(())
}
