//! Decides from the stored roles whether a user may make a request.

use std::ops::ControlFlow;

use serde_json::Value;

use crate::authz::{Attributes, PolicyRule, User, resolve};
use crate::object::{self, text};
use crate::resources::resource::GroupResource;
use crate::storage::state::State;
use crate::storage::{ObjectKey, Store};

/// An annotation on a service account: the resources that the account may not use, even if a role allows them. With it,
/// tests provoke denials. The resources are written as in kubectl (`deployments.apps`), separated by commas; `*` means
/// all.
const DENY: &str = "/metadata/annotations/windlass.dev~1deny";

/// The rights that hold at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    store: &'a Store,
    by_roles: bool,
}

/// The decision, with a reason in the words of a real server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

impl<'a> Access<'a> {
    pub(crate) fn of(state: &'a State) -> Access<'a> {
        Access { store: &state.store, by_roles: state.by_roles }
    }

    pub(crate) fn decide(self, user: &User, attributes: &Attributes) -> Decision {
        if self.is_denied(user, attributes) {
            let reason = "the service account's annotation windlass.dev/deny forbids it".to_owned();
            return Decision { allowed: false, reason };
        }
        if !self.by_roles {
            return Decision { allowed: true, reason: "the embedded API server allows everything".to_owned() };
        }
        if user.is_master() {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut decision = Decision::default();
        let mut vain = Vec::new();
        resolve::visit(self.store, user, attributes.namespace(), |bound| {
            match &bound.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    let reason = format!("RBAC: allowed by {}", bound.source());
                    decision = Decision { allowed: true, reason };
                    return ControlFlow::Break(());
                }
                Ok(_) => {}
                Err(error) => vain.push(error.clone()),
            }
            ControlFlow::Continue(())
        });
        if !decision.allowed && !vain.is_empty() {
            decision.reason = format!("RBAC: {}", object::aggregate(&vain));
        }
        decision
    }

    /// The rules for the user in the namespace, and an error if some could not be determined.
    pub(crate) fn rules(self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Option<String>) {
        let mut rules = Vec::new();
        if !self.by_roles {
            rules.extend([PolicyRule::all_resources(), PolicyRule::all_paths()]);
        }
        let mut vain = Vec::new();
        if self.by_roles {
            resolve::visit(self.store, user, namespace, |bound| {
                match bound.rules {
                    Ok(found) => rules.extend(found),
                    Err(error) => vain.push(error),
                }
                ControlFlow::Continue(())
            });
        }
        (rules, (!vain.is_empty()).then(|| object::aggregate(&vain)))
    }

    /// The rules of the role that a binding in `namespace` refers to.
    pub(super) fn role_rules(self, reference: &Value, namespace: &str) -> Result<Vec<PolicyRule>, String> {
        resolve::role_rules(self.store, reference, namespace)
    }

    fn is_denied(self, user: &User, attributes: &Attributes) -> bool {
        let Attributes::Resource(asked) = attributes else { return false };
        let Some((namespace, name)) = User::service_account_of(&user.name) else { return false };
        let key = ObjectKey {
            resource: GroupResource::new("", "serviceaccounts"),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let Some(account) = self.store.get(&key) else { return false };
        let asked = GroupResource::new(&asked.group, &asked.resource).to_string();
        text(account, DENY).split(',').map(str::trim).any(|denied| denied == "*" || denied == asked)
    }
}
