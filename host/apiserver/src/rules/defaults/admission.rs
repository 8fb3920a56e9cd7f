//! Defaults for admission configurations.

use serde_json::{Map, Value, json};

use super::{default, default_text, each};
use crate::object::{self, as_map_mut};

/// Sets the defaults of a `ValidatingWebhookConfiguration` or `MutatingWebhookConfiguration`.
pub(super) fn webhooks(kind: &str, configuration: &mut Value) {
    for webhook in each(as_map_mut(configuration), "webhooks") {
        default_text(webhook, "failurePolicy", "Fail");
        match_resources(webhook, "rules");
        default(webhook, "timeoutSeconds", json!(10));
        if kind == "MutatingWebhookConfiguration" {
            default_text(webhook, "reinvocationPolicy", "Never");
        }
        let service = webhook.get_mut("clientConfig").and_then(|config| config.get_mut("service"));
        if let Some(service) = service.and_then(Value::as_object_mut) {
            default(service, "port", json!(443));
        }
    }
}

/// Sets the defaults of a policy or a binding.
pub(super) fn policy(kind: &str, policy: &mut Value) {
    let spec = object::map_mut(policy, "spec");
    if kind == "ValidatingAdmissionPolicy" {
        default_text(spec, "failurePolicy", "Fail");
    }
    for key in ["matchConstraints", "matchResources"] {
        if let Some(resources) = spec.get_mut(key).and_then(Value::as_object_mut) {
            match_resources(resources, "resourceRules");
            for rule in each(resources, "excludeResourceRules") {
                default_text(rule, "scope", "*");
            }
        }
    }
}

/// Sets the defaults of the part that selects requests.
fn match_resources(map: &mut Map<String, Value>, rules: &str) {
    default_text(map, "matchPolicy", "Equivalent");
    default(map, "namespaceSelector", json!({}));
    default(map, "objectSelector", json!({}));
    for rule in each(map, rules) {
        default_text(rule, "scope", "*");
    }
}
