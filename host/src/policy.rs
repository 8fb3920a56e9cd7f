//! What the operator lets plugins do: the documents, and what follows from them for one plugin.
//!
//! Here are no files watched and no plugins run: `policies` does the first, `controller` the second.

pub(crate) mod asks;
pub(crate) mod document;
pub(crate) mod draft;
pub(crate) mod lack;
pub(crate) mod problem;
pub(crate) mod review;
pub(crate) mod sensitive;

use std::sync::Arc;

use windlass_core::grants::Allowance;
use windlass_core::principal::ServiceAccount;
use windlass_wasm::Instances;

pub(crate) use problem::PolicyError;

/// A plugin's policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    /// What it is about.
    pub(crate) plugin: String,
    /// No call is made, until it is lifted.
    pub(crate) paused: bool,
    /// In which instances its calls take place.
    pub(crate) instances: Instances,
    /// As whom the plugin acts. None: as the host.
    pub(crate) impersonate: Option<ServiceAccount>,
    pub(crate) allowance: Arc<Allowance>,
}
