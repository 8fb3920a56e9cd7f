//! Has the definitions of custom resources of a plugin's manifest installed before its controllers look for their kinds.
//!
//! What the operator does not grant, or a host that may only read, is not installed, and the plugin goes on with what the
//! cluster has: many operators install definitions themselves. A definition that is refused because stored objects would be
//! lost, or because it is another's, keeps its plugin from starting: it would work on a kind that it does not know.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use windlass_core::grants::{Allowance, Grants};
use windlass_core::principal::Principal;
use windlass_core::retry::RetryPolicy;
use windlass_kube::{Definition, DefinitionError};
use windlass_wasm::Manifest;

use crate::host::Host;
use crate::plugins::supplies::Supplies;
use crate::policies::Standing;
use crate::supervise::jittered_policy;

/// How long the server may take to serve a definition.
const ESTABLISHED: Duration = Duration::from_secs(30);
/// The pauses before a definition is tried again. Somebody has to do something about most of what is refused.
const RETRIES: RetryPolicy = jittered_policy(Duration::from_secs(1), Duration::from_mins(1));

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

impl Installer {
    /// Tries until all of them are there, as soon and as far as the operator's policies let it.
    pub(crate) async fn run(&self) {
        let (policies, plugin) = (&self.host.policies, &self.role.plugin);
        let (mut changes, mut told, mut retries) = (policies.changes(), String::new(), RETRIES.begin());
        loop {
            let bounds = match policies.standing(plugin) {
                // `windlass grant` writes policies that pause: nothing happens before somebody has read them.
                Standing::Granted(bounds) if !policies.pauses(plugin) => bounds,
                Standing::Granted(_) | Standing::Waiting(_) => {
                    changes.next().await;
                    continue;
                }
            };
            match self.install(&bounds.grants(self.asked.clone(), None)).await {
                Ok(left_out) => {
                    self.ready.send_replace(true);
                    if left_out.is_empty() {
                        return;
                    }
                    let message = left_out.join("; ");
                    if told != message {
                        tracing::warn!(
                            %plugin, reason = message, "definitions not installed: the plugin goes on with what the cluster has"
                        );
                        told = message;
                    }
                    changes.next().await;
                    retries.reset();
                }
                Err(error) => {
                    let message = error.to_string();
                    if told != message {
                        tracing::warn!(
                            %plugin, error = message, "waiting: the plugin starts when its definitions can be installed"
                        );
                        told = message;
                    }
                    // Whether the time is up or the policies have changed does not matter.
                    drop(tokio::time::timeout(retries.pause(windlass_world::random()), changes.next()).await);
                }
            }
        }
    }

    /// Returns what a read-only host does not do about `definition`. None: there is nothing to do. That this cannot be told
    /// keeps no plugin from starting.
    async fn withhold(&self, definition: &Definition) -> Option<String> {
        let why = match self.supplies.definitions.would_install(&self.role, definition).await {
            Ok(would) => would?,
            Err(error) => error.to_string(),
        };
        Some(format!("{}: the host runs with --read-only; {why}", definition.name()))
    }

    /// Returns why which of them were left out.
    async fn install(&self, grants: &Grants) -> Result<Vec<String>, DefinitionError> {
        let mut left_out = Vec::new();
        for definition in &self.definitions {
            if let Err(denial) = grants.check_crd(definition.name()) {
                left_out.push(denial.to_string());
            } else if self.host.read_only {
                left_out.extend(self.withhold(definition).await);
            } else {
                let manager = self.role.field_manager();
                self.supplies.definitions.install(&self.role, &manager, definition, ESTABLISHED).await?;
            }
        }
        Ok(left_out)
    }
}
