//! The operator's policies for plugins: the documents, and what follows from them for one plugin.
//!
//! Here are no files watched and no plugins run: `policies` does the first, `controller` the second.

pub mod asks;
pub mod document;
pub mod draft;
#[cfg(test)]
mod examples;
mod http;
mod lack;
mod narrowed;
pub mod problem;
pub mod review;
pub mod rights;
mod sensitive;
pub mod superfluous;
pub mod unserved;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use windlass_core::life::instances::Instances;
use windlass_core::rights::grants::Allowance;
use windlass_core::rights::principal::ServiceAccount;

pub use problem::PolicyError;

/// A plugin's policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The plugin that it is about.
    pub plugin: String,
    /// No call is made, until it is lifted.
    pub paused: bool,
    /// In which instances its calls take place.
    pub instances: Instances,
    /// As whom the plugin acts. None: as the host.
    pub impersonate: Option<ServiceAccount>,
    /// How another file of it comes to run.
    pub rollout: RolloutStrategy,
    /// When its next version takes over by itself. None: when the operator promotes it.
    pub promote_after: Option<PromoteAfter>,
    /// The most that the plugin may do.
    pub allowance: Arc<Allowance>,
}

/// How another `NAME.wasm` comes to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RolloutStrategy {
    /// It replaces what runs, on probation.
    #[default]
    Replace,
    /// It is the next version, and a shadow, until it is promoted.
    Shadow,
}

/// How long a next version must have agreed with the current one before it takes over by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromoteAfter {
    /// So many calls, one after the other.
    pub calls: u32,
    /// And for so long.
    pub time: Duration,
}
