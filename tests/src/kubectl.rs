//! Runs `kubectl` as a user does.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context, bail};
use tokio::process::Command;

/// kubectl with a kubeconfig and usually a namespace.
pub struct Kubectl<'a> {
    kubeconfig: &'a Path,
    namespace: Option<&'a str>,
}

impl<'a> Kubectl<'a> {
    /// kubectl that uses the server of `kubeconfig` and the namespace `namespace`.
    #[must_use]
    pub fn new(kubeconfig: &'a Path, namespace: &'a str) -> Self {
        Self { kubeconfig, namespace: Some(namespace) }
    }

    /// kubectl without a namespace, for objects that name their own. With a namespace, kubectl would refuse objects of
    /// another one.
    #[must_use]
    pub fn of_all_namespaces(kubeconfig: &'a Path) -> Self {
        Self { kubeconfig, namespace: None }
    }

    /// Runs `kubectl ARGUMENTS` and returns its standard output. The error of a failed run contains all output.
    pub async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.output(arguments).await?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {}: {}\n{printed}{errors}", arguments.join(" "), output.status);
        }
        Ok(printed)
    }

    /// Runs `kubectl ARGUMENTS`, which must fail, and returns its output.
    pub async fn refused(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.output(arguments).await?;
        if output.status.success() {
            bail!("kubectl {} should have failed", arguments.join(" "));
        }
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Returns a command that the caller may extend, for example with an editor.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig)
            .args(self.namespace.map(|it| ["--namespace", it]).into_iter().flatten())
            .args(arguments)
            // Keep the discovery cache with this server: kubectl's default cache would outlive it.
            .env("KUBECACHEDIR", self.kubeconfig.with_extension("cache"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn output(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let running = self.command(arguments).output();
        let limited = tokio::time::timeout(crate::wait::CONDITION_TIMEOUT, running).await;
        limited
            .with_context(|| format!("kubectl {} does not end", arguments.join(" ")))?
            .context("start kubectl: is it installed? `make setup TESTS=1` does that")
    }
}
