//! Installs the custom resource definitions of a plugin's manifest before its controllers look for their kinds, and
//! again if they are deleted while the plugin runs.
//!
//! Definitions that the operator does not grant are not installed. A read-only host installs none. The plugin then uses
//! what the cluster has, because many operators install definitions themselves. If a definition is refused because
//! stored objects would be lost, or because it belongs to another owner, the plugin does not start, as it would work on
//! a kind that it does not know.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, select_all};
use tokio::sync::watch;
use tokio::time::Instant;
use windlass_core::retry::{Retries, RetryPolicy};
use windlass_core::rights::grants::{Allowance, Grants};
use windlass_core::rights::principal::Principal;
use windlass_kube::{Definition, DefinitionError};
use windlass_manifest::Manifest;

use crate::admission::kinds;
use crate::host::Host;
use crate::plugins::supplies::Supplies;
use crate::policies::Standing;
use crate::supervise::jittered_policy;

/// How long the server may take to serve a definition.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(30);
/// The pauses before a definition is tried again. Most refusals last until an operator acts.
const INSTALL_BACKOFF: RetryPolicy = jittered_policy(INSTALL_BACKOFF_MIN, INSTALL_BACKOFF_MAX);
/// The first pause.
const INSTALL_BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest pause.
const INSTALL_BACKOFF_MAX: Duration = Duration::from_mins(1);

/// If a definition was installed for this long, its deletion begins a new series, with the shortest pauses.
const STABLE_AFTER: Duration = Duration::from_mins(10);
/// How often the host looks for definitions that its watch does not show.
const DEFINITIONS_LOOK_INTERVAL: Duration = Duration::from_mins(5);

/// Installs the definitions of one plugin.
pub(crate) struct Installer {
    pub(crate) host: Arc<Host>,
    pub(crate) supplies: Arc<Supplies>,
    pub(crate) definitions: Vec<Definition>,
    /// The host, in the role that installs definitions for the plugin.
    pub(crate) role: Principal,
    /// The grants that the plugin's manifest asks for.
    pub(crate) asked: Allowance,
    pub(crate) ready: watch::Sender<bool>,
}

/// The definitions that a plugin with this manifest brings.
pub(crate) fn definitions(manifest: &Manifest) -> Result<Vec<Definition>, DefinitionError> {
    manifest.crds.iter().map(Definition::read).collect()
}

/// The result of an attempt: the installed definitions, and those left out because of a policy or a read-only host.
#[derive(Default)]
struct Installation {
    /// The names of the definitions that the cluster has in the manifest's form.
    installed: Vec<Arc<str>>,
    /// Why each of the other definitions was left out.
    left_out: Vec<String>,
}

/// Paces the attempts to install: failures, and definitions that are soon deleted again, make the pauses longer.
struct Pacing {
    retries: Retries,
}

impl Pacing {
    fn begin() -> Self {
        Self { retries: INSTALL_BACKOFF.begin() }
    }

    /// The pause after a failure.
    fn after_failure(&mut self) -> Duration {
        self.retries.pause(windlass_world::random())
    }

    /// The pause before a definition is installed again, after it was deleted `installed_for` after its installation.
    /// If another client deletes it each time, deletions and installations must not alternate in a tight loop.
    fn after_loss(&mut self, installed_for: Duration) -> Duration {
        if installed_for >= STABLE_AFTER {
            self.retries.reset();
        }
        self.retries.pause(windlass_world::random())
    }
}

impl Installer {
    /// Installs all definitions as soon and as far as the operator's policies allow, and again when one has gone. Never
    /// returns; the end of the generation ends this.
    pub(crate) async fn run(&self) {
        let (policies, plugin) = (&self.host.policies, &self.role.plugin);
        let (mut changes, mut logged, mut pacing) = (policies.changes(), String::new(), Pacing::begin());
        // Definitions are followed before any is installed, so that no deletion is missed.
        self.host.kinds.want();
        loop {
            let bounds = match policies.standing(plugin) {
                // `windlass grant` writes paused policies: nothing happens before an operator has reviewed them.
                Standing::Granted(bounds) if !policies.pauses(plugin) => bounds,
                Standing::Granted(_) | Standing::Waiting(_) => {
                    changes.next().await;
                    continue;
                }
            };
            let before = self.host.kinds.snapshot();
            let pause = match self.install(&bounds.grants(self.asked.clone(), None)).await {
                Ok(installation) => {
                    self.ready.send_replace(true);
                    self.log_left_out(&installation.left_out, &mut logged);
                    let since = Instant::now();
                    tokio::select! {
                        biased;
                        // Changed policies do not affect installed definitions, but may grant the definitions that were
                        // left out.
                        () = changes.next(), if !installation.left_out.is_empty() => {
                            pacing = Pacing::begin();
                            continue;
                        }
                        () = self.lost(&installation.installed, &before) => {}
                    }
                    // Earlier changes of policies no longer matter.
                    changes = policies.changes();
                    pacing.after_loss(since.elapsed())
                }
                Err(error) => {
                    self.log_failure(&error, &mut logged);
                    pacing.after_failure()
                }
            };
            if tokio::time::timeout(pause, changes.next()).await.is_ok() {
                // A failure under the previous policies says nothing about the new policies.
                pacing = Pacing::begin();
            }
        }
    }

    /// Completes when one of the `installed` definitions has gone or changed since `before`, or when it is time to
    /// look, because the host does not see all of them.
    async fn lost(&self, installed: &[Arc<str>], before: &kinds::Definitions) {
        let kinds = &self.host.kinds;
        let mut losses: Vec<BoxFuture<'_, Option<Arc<str>>>> = Vec::new();
        for name in installed {
            losses.push(kinds.replaced(name, before).map(|()| Some(name.clone())).boxed());
        }
        losses.push(self.unseen(installed).map(|()| None).boxed());
        let (lost, ..) = select_all(losses).await;
        if let Some(definition) = lost {
            let plugin = &self.role.plugin;
            tracing::warn!(
                %plugin, %definition,
                "a definition of the plugin was deleted or replaced: it is installed again if its policy allows it"
            );
        }
    }

    /// Completes after a while if the host does not see all `installed` definitions: it may not watch definitions, or
    /// one was deleted before its watch began.
    async fn unseen(&self, installed: &[Arc<str>]) {
        tokio::time::sleep(DEFINITIONS_LOOK_INTERVAL).await;
        let seen = self.host.kinds.snapshot();
        if installed.iter().all(|name| seen.contains_key(name)) {
            // From now on, the watch shows each loss.
            pending::<()>().await;
        }
    }

    /// Logs which definitions were left out, once for each reason.
    fn log_left_out(&self, left_out: &[String], logged: &mut String) {
        let (plugin, message) = (&self.role.plugin, left_out.join("; "));
        if !message.is_empty() && *logged != message {
            tracing::warn!(
                %plugin, reason = message,
                "definitions not installed: the plugin continues with the definitions in the cluster"
            );
        }
        *logged = message;
    }

    /// Logs a failure, once for each reason.
    fn log_failure(&self, error: &DefinitionError, logged: &mut String) {
        let (plugin, message) = (&self.role.plugin, error.to_string());
        if *logged == message {
            return;
        }
        if *self.ready.borrow() {
            tracing::warn!(
                %plugin, error = message,
                "cannot reinstall or update a definition: the plugin continues with the definitions in the cluster"
            );
        } else {
            tracing::warn!(%plugin, error = message, "waiting: the plugin starts when its definitions can be installed");
        }
        *logged = message;
    }

    /// The action on `definition` that a read-only host withholds. `None` if there is nothing to do. If this cannot be
    /// determined, the plugin starts nevertheless.
    async fn withhold(&self, definition: &Definition) -> Option<String> {
        let why = match self.supplies.definitions.would_install(&self.role, definition).await {
            Ok(would) => would?,
            Err(error) => error.to_string(),
        };
        Some(format!("{}: the host runs with --read-only; {why}", definition.name()))
    }

    /// Installs what `grants` allow.
    async fn install(&self, grants: &Grants) -> Result<Installation, DefinitionError> {
        let mut installation = Installation::default();
        for definition in &self.definitions {
            if let Err(denial) = grants.check_crd(definition.name()) {
                installation.left_out.push(denial.to_string());
            } else if self.host.read_only {
                installation.left_out.extend(self.withhold(definition).await);
            } else {
                let manager = self.role.field_manager();
                self.supplies.definitions.install(&self.role, &manager, definition, ESTABLISHED_TIMEOUT).await?;
                installation.installed.push(definition.name().into());
            }
        }
        Ok(installation)
    }
}

#[cfg(test)]
mod tests;
