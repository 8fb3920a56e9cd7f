//! What a plugin may do now, as far as the operator has a say.

use std::sync::Arc;

use windlass_core::grants::{Allowance, Forbidden, Grants, Layer};
use windlass_core::principal::ServiceAccount;

/// What a plugin may do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing: no policy is in force. Why, where its file is there.
    Waiting(Option<String>),
    /// What its manifest asks for, within this.
    Granted(Box<Bounds>),
}

/// The operator's part of a plugin's grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) impersonate: Option<ServiceAccount>,
    pub(super) policy: Option<Arc<Allowance>>,
    pub(super) ceiling: Option<Arc<Allowance>>,
    pub(super) forbidden: Forbidden,
}

impl Bounds {
    /// What the plugin may do that asks for `asked` on a host that is confined to the namespace `only`.
    pub(crate) fn grants(&self, asked: Allowance, only: Option<&str>) -> Grants {
        let mut grants = Grants::asked(asked).within(only).without(self.forbidden.clone());
        for (layer, bound) in [(Layer::Policy, &self.policy), (Layer::Ceiling, &self.ceiling)] {
            if let Some(bound) = bound {
                grants = grants.bounded(layer, bound.clone());
            }
        }
        grants
    }
}
