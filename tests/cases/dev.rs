//! `windlass dev`: the embedded API server and the plugins in one process.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use windlass_tests::host::Host;
use windlass_tests::kubectl::Kubectl;
use windlass_tests::objects::Objects;
use windlass_tests::story::Story;
use windlass_tests::wait::{CONDITION_TIMEOUT, until};
use windlass_tests::{paths, server};

use crate::swap_judged::{object, put};
use crate::webapp::plugin_directory;

/// `windlass dev` on `plugins`, which writes `kubeconfig`.
fn dev(plugins: &Path, kubeconfig: &Path, more: &[&str]) -> anyhow::Result<Host> {
    let arguments: [&OsStr; 5] =
        ["dev".as_ref(), "--plugins".as_ref(), plugins.as_ref(), "--kubeconfig-out".as_ref(), kubeconfig.as_ref()];
    let more = more.iter().map(OsStr::new);
    Host::start(&arguments.into_iter().chain(more).collect::<Vec<_>>(), None)
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_with_the_kubeconfig_that_dev_writes() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("made/for/it/kubeconfig");
    let plugins = plugin_directory()?;
    let host = dev(plugins.path(), &kubeconfig, &[])?;
    host.says("embedded API server is ready").await?;

    // The plugin exists before its CRD. It must report that it waits, and start once the CRD exists.
    host.says("does not serve apps.kubedojo.io/v1beta1 WebApp").await?;
    let objects = Objects::new(server::client(&kubeconfig).await?, "default");
    server::install_webapp(&objects).await?;
    host.says("controller started").await?;
    Story::new(&objects).create().await?;
    Story::new(&objects).run().await?;
    let kubectl = Kubectl::new(&kubeconfig, "default");
    let all = kubectl.run(&["get", "webapps,deployments,services"]).await?;
    assert!(all.contains("deployment.apps/shop") && all.contains("service/shop"), "{all}");
    let status = host.terminate().await?;
    assert!(status.success(), "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_json_when_asked_for() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    let plugins = plugin_directory()?;
    let host = dev(plugins.path(), &kubeconfig, &["--log-format", "json"])?;
    let line = host.says("embedded API server is ready").await?;
    let line: serde_json::Value = serde_json::from_str(&line)?;
    assert_eq!(line["level"], "INFO");
    assert!(line["server"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:")), "{line}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_whose_log_is_not_read_still_stops() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    let plugins = plugin_directory()?;
    let mut host = tokio::process::Command::new(paths::windlass()?)
        .env("WINDLASS_CACHE_DIR", paths::cache()?)
        .args(["dev".as_ref(), "--plugins".as_ref(), plugins.path().as_os_str()])
        .args(["--kubeconfig-out".as_ref(), kubeconfig.as_os_str()])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    drop(host.stderr.take());
    until("the host has begun", || async { kubeconfig.exists().then_some(()).ok_or("no kubeconfig yet") }).await?;
    let id = host.id().expect("it runs").to_string();
    assert!(tokio::process::Command::new("kill").args(["-TERM", &id]).status().await?.success());
    let status = tokio::time::timeout(CONDITION_TIMEOUT, host.wait()).await??;
    assert!(status.success(), "{status}");
    Ok(())
}

/// `run` would roll such a build back, and would compare the author's next build with it.
#[tokio::test(flavor = "multi_thread")]
async fn dev_runs_a_build_even_if_it_fails_at_each_call() -> anyhow::Result<()> {
    let (directory, plugins) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let kubeconfig = directory.path().join("kubeconfig");
    put("steady-0", plugins.path())?;
    let host = dev(plugins.path(), &kubeconfig, &[])?;
    host.says("embedded API server is ready").await?;
    let objects = Objects::new(server::client(&kubeconfig).await?, "default");
    for number in 0..8 {
        objects.apply(&object(&format!("key-{number}"))).await?;
    }
    host.says("steady end key-7 0").await?;
    put("steady-1-traps", plugins.path())?;
    // By this time, `run` would have rolled back to the previous version.
    host.says("circuit opened").await?;
    put("steady-2", plugins.path())?;
    host.says("steady end key-7 2").await?;
    assert!(!host.log().contains("rolled back"), "{}", host.log());
    assert!(host.terminate().await?.success());
    Ok(())
}
