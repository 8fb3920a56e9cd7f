//! `ValidatingAdmissionPolicy`: expressions that allow or deny writes. Bindings select the requests and the parameters.

mod binding;
mod judge;
mod params;
mod policy;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use binding::PolicyBinding;
pub(super) use judge::judge;
use policy::Policy;
pub(crate) use policy::{ExpressionError, check};

use crate::object;

/// The parsed policies and bindings. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    policies: Arc<BTreeMap<String, Arc<Policy>>>,
    bindings: Arc<BTreeMap<String, Arc<PolicyBinding>>>,
}

impl Policies {
    pub(super) fn is_empty(&self) -> bool {
        self.policies.is_empty() || self.bindings.is_empty()
    }

    /// Adds an object of the resource `plural`, if it is a policy or a binding.
    pub(super) fn define(&mut self, plural: &str, object: &Value) {
        let name = object::name(object).to_owned();
        match plural {
            "validatingadmissionpolicies" => {
                Arc::make_mut(&mut self.policies).insert(name, Arc::new(Policy::read(object)));
            }
            "validatingadmissionpolicybindings" => {
                Arc::make_mut(&mut self.bindings).insert(name, Arc::new(PolicyBinding::read(object)));
            }
            _ => {}
        }
    }

    /// Forgets a deleted policy or binding.
    pub(super) fn undefine(&mut self, plural: &str, name: &str) {
        match plural {
            "validatingadmissionpolicies" => {
                Arc::make_mut(&mut self.policies).remove(name);
            }
            "validatingadmissionpolicybindings" => {
                Arc::make_mut(&mut self.bindings).remove(name);
            }
            _ => {}
        }
    }

    /// Each policy with its bindings, by name.
    fn bound(&self) -> impl Iterator<Item = (&Policy, Vec<&PolicyBinding>)> {
        self.policies.values().map(move |policy| {
            let own = self.bindings.values().filter(|binding| binding.policy == policy.name);
            (&**policy, own.map(|binding| &**binding).collect())
        })
    }
}
