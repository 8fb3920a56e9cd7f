//! The operator's policies for plugins: parses their documents, and derives the rights of a plugin from them.
//!
//! This crate watches no files and runs no plugins. In `windlass-runtime`, `policies` watches the files and
//! `controller` runs the plugins.

pub mod asks;
pub mod document;
pub mod draft;
#[cfg(test)]
mod examples;
mod hook;
mod http;
mod lack;
mod narrowed;
pub mod problem;
pub mod review;
pub mod rights;
mod sensitive;
pub mod superfluous;
pub mod unserved;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use windlass_core::life::instances::Instances;
use windlass_core::rights::grants::Allowance;
use windlass_core::rights::principal::ServiceAccount;

pub use hook::{HOOK_SECRETS_MAX, OpenHook, SecretKeyRef};
pub use problem::PolicyError;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The plugin that the policy is for.
    pub plugin: String,
    /// Whether the plugin is paused, which means that it is not called.
    pub paused: bool,
    /// How calls use instances of the plugin.
    pub instances: Instances,
    /// The service account that the plugin impersonates. `None` if it acts as the host.
    pub impersonate: Option<ServiceAccount>,
    /// How a changed plugin file is put into service.
    pub rollout: RolloutStrategy,
    /// When the next version is promoted automatically. `None` if only the operator promotes it.
    pub promote_after: Option<PromoteAfter>,
    /// The hooks of the plugin that are open. Hooks that are not listed are closed.
    pub hooks: Vec<OpenHook>,
    /// The most that the plugin may do.
    pub allowance: Arc<Allowance>,
}

impl Policy {
    /// The namespaces and names of the Secrets that sign deliveries to its hooks.
    #[must_use]
    pub fn hook_secrets(&self) -> BTreeSet<(String, String)> {
        let secrets = self.hooks.iter().flat_map(|hook| &hook.secrets);
        secrets.map(|secret| (secret.namespace.clone(), secret.name.clone())).collect()
    }
}

/// How a changed `NAME.wasm` is put into service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RolloutStrategy {
    /// The new version replaces the running one, at first on probation.
    #[default]
    Replace,
    /// The new version becomes the next one, and runs as a shadow until it is promoted.
    Shadow,
}

/// How long a next version must agree with the current one before it is promoted automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromoteAfter {
    /// The number of consecutive calls.
    pub calls: u32,
    /// The minimum time.
    pub time: Duration,
}
