//! A plugin's current rights, as far as the operator decides them.

use std::sync::Arc;

use windlass_core::grants::{Allowance, Forbidden, Grants, Layer};
use windlass_core::principal::ServiceAccount;

/// A plugin's current rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing: no policy is in force. Why, where its file is there.
    Waiting(Option<String>),
    /// The grants that its manifest asks for, within these bounds.
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
    /// The grants of a plugin that asks for `asked`, on a host confined to the namespace `only`.
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
