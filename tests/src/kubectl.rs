//! `kubectl` as a user runs it.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context, bail};
use tokio::process::Command;

/// kubectl for one kubeconfig and usually one namespace.
pub struct Kubectl<'a> {
    kubeconfig: &'a Path,
    namespace: Option<&'a str>,
}

impl<'a> Kubectl<'a> {
    /// kubectl that asks `kubeconfig`'s server about `namespace`.
    #[must_use]
    pub fn new(kubeconfig: &'a Path, namespace: &'a str) -> Self {
        Self { kubeconfig, namespace: Some(namespace) }
    }

    /// kubectl for objects with namespaces of their own: given a namespace, kubectl would refuse objects of another.
    #[must_use]
    pub fn of_all_namespaces(kubeconfig: &'a Path) -> Self {
        Self { kubeconfig, namespace: None }
    }

    /// Runs `kubectl ARGUMENTS` and returns what it printed. Fails with everything that it printed.
    pub async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.output(arguments).await?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {}: {}\n{printed}{said}", arguments.join(" "), output.status);
        }
        Ok(printed)
    }

    /// Runs `kubectl ARGUMENTS`, which must fail, and returns what it printed.
    pub async fn refused(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.output(arguments).await?;
        if output.status.success() {
            bail!("kubectl {} should have failed", arguments.join(" "));
        }
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// A command that the caller may add to, for example an editor.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig)
            .args(self.namespace.map(|it| ["--namespace", it]).into_iter().flatten())
            .args(arguments)
            // Its discovery cache would outlive the server.
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
