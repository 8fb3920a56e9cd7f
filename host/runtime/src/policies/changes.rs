//! Notifies waiting tasks when a policy in force has changed, and when calls are paused or resumed.

use std::collections::BTreeMap;

use tokio::sync::watch;
use windlass_core::life::instances::Instances;

use super::PoliciesInForce;

/// Notifies of changes of the policies in force.
pub(crate) struct Changes(pub(super) watch::Receiver<PoliciesInForce>);

impl Changes {
    /// Completes when something has changed.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether one plugin's calls share instances.
#[derive(Clone, Debug)]
pub(crate) struct InstancesOf {
    pub(super) plugin: String,
    pub(super) state: watch::Receiver<PoliciesInForce>,
}

impl InstancesOf {
    /// The instance mode of the policy in force; without a policy, each call gets its own instance.
    pub(crate) fn now(&self) -> Instances {
        self.state.borrow().policy(&self.plugin).map(|policy| policy.instances).unwrap_or_default()
    }
}

/// Knows whether one plugin's calls are paused.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    pub(super) plugin: String,
    pub(super) paused: watch::Receiver<BTreeMap<String, bool>>,
}

impl Pause {
    /// True if the plugin's calls are paused now.
    pub(crate) fn is_on(&self) -> bool {
        self.paused.borrow().get(&self.plugin).copied().unwrap_or_default()
    }

    /// Completes when calls are paused (`on`), or resumed.
    pub(crate) async fn becomes(&self, on: bool) {
        let is = |pauses: &BTreeMap<String, bool>| pauses.get(&self.plugin).copied().unwrap_or_default() == on;
        if self.paused.clone().wait_for(is).await.is_err() && self.is_on() != on {
            std::future::pending::<()>().await;
        }
    }
}
