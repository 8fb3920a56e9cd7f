//! Aggregated cluster roles. Each gets the rules of all roles that its selectors match, as in the controller
//! `clusterrole-aggregation`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::authz;
use crate::object::{self, label_selector};
use crate::request::{Target, WriteOptions};
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::state::State;
use crate::verbs::patch;

const MANAGER: &str = "clusterrole-aggregation-controller";

pub(super) fn react(state: &mut State, resource: &GroupResource) {
    if *resource == authz::cluster_roles() {
        aggregate(state);
    }
}

/// Updates the rules of all aggregated roles. True if a role was written: then another pass is needed, because other
/// roles may include its rules.
pub(super) fn aggregate(state: &mut State) -> bool {
    let mut written = false;
    let roles =
        |state: &State| -> Vec<Arc<Value>> { state.store.list(&authz::cluster_roles(), None).cloned().collect() };
    for role in &roles(state) {
        let selectors = object::items(role, "/aggregationRule/clusterRoleSelectors");
        if selectors.is_empty() {
            continue;
        }
        // The roles are read again for each role: if two roles select each other, the second must see the first one's
        // new rules.
        let combined = selected_rules(&roles(state), role, selectors);
        if object::items(role, "/rules") != combined {
            written |= write(state, object::name(role), &combined);
        }
    }
    written
}

/// The rules of the roles that the selectors match, without duplicates, in the order of selectors and then of names.
fn selected_rules(roles: &[Arc<Value>], aggregated: &Value, selectors: &[Value]) -> Vec<Value> {
    let mut combined: Vec<Value> = Vec::new();
    for selector in selectors {
        for role in roles {
            if object::name(role) == object::name(aggregated) || !label_selector::selects(selector, role) {
                continue;
            }
            for rule in object::items(role, "/rules") {
                if !combined.contains(rule) {
                    combined.push(rule.clone());
                }
            }
        }
    }
    combined
}

fn write(state: &mut State, name: &str, rules: &[Value]) -> bool {
    let key = ObjectKey { resource: authz::cluster_roles(), namespace: String::new(), name: name.to_owned() };
    let Some(resource) = state.registry.storage_type(&key.resource).cloned() else { return false };
    let target = Target { resource, namespace: None, name: Some(name.to_owned()), subresource: None };
    let options = WriteOptions::of_applying_component(MANAGER);
    let config = json!({
        "apiVersion": target.resource.api_version(),
        "kind": target.resource.kind,
        "metadata": { "name": name },
        "rules": rules,
    });
    let result = patch::apply(state, &target, &options, config);
    if let Err(error) = &result {
        tracing::debug!(name, %error, "an aggregated cluster role could not be written");
    }
    result.is_ok()
}
