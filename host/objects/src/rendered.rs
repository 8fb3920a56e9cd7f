//! The policy and the configuration of a plugin, as the files that hosts read. So one parser judges both ways.

use std::path::Path;

use serde_json::{Map, Value, json};
use windlass_manifest::API_VERSION;
use windlass_policy::document;

use crate::plugin::{PluginObject, PluginSpec, RolloutSpec};
use crate::policy::PolicyObject;

/// The kind of a configuration's file.
const CONFIGURATION: &str = "PluginConfig";
/// The rollout of a version that waits until it is promoted.
const SHADOW: &str = "shadow";

/// The text of the policy file of `plugin`. The error says why a host would not take it.
pub(crate) fn rendered_policy(plugin: &str, spec: &PluginSpec, policy: &PolicyObject) -> Result<String, String> {
    let mut fields = policy.rights.clone();
    if spec.paused {
        fields.insert("paused".to_owned(), json!(true));
    }
    if let Some(rollout) = rollout(spec.rollout.as_ref(), fields.get("rollout")) {
        fields.insert("rollout".to_owned(), rollout);
    }
    for (field, value) in [("apiVersion", API_VERSION), ("kind", document::POLICY), ("plugin", plugin)] {
        fields.insert(field.to_owned(), json!(value));
    }
    let text = Value::Object(fields).to_string();
    let read = document::policy(Path::new("spec"), text.as_bytes(), plugin);
    read.map(|_| text).map_err(|error| error.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The rollout that both allow. If the policy has one, only the policy decides when a shadow is promoted, but the
/// plugin may still ask for a shadow.
fn rollout(of_plugin: Option<&RolloutSpec>, of_policy: Option<&Value>) -> Option<Value> {
    let Some(of_plugin) = of_plugin else { return of_policy.cloned() };
    let Some(of_policy) = of_policy else {
        let mut fields = Map::new();
        fields.extend(of_plugin.strategy.as_ref().map(|strategy| ("strategy".to_owned(), json!(strategy))));
        fields.extend(of_plugin.promote_after.as_ref().map(|after| ("promoteAfter".to_owned(), after.clone())));
        return (!fields.is_empty()).then_some(Value::Object(fields));
    };
    let mut fields = of_policy.as_object()?.clone();
    if of_plugin.strategy.as_deref() == Some(SHADOW) {
        fields.insert("strategy".to_owned(), json!(SHADOW));
    }
    Some(Value::Object(fields))
}

/// Whether new versions wait as shadows, according to the text of a policy file.
pub(crate) fn has_shadow(policy: &str) -> bool {
    let rollout = serde_json::from_str::<Value>(policy).ok().map(|policy| policy["rollout"]["strategy"] == SHADOW);
    rollout.unwrap_or_default()
}

impl PluginObject {
    /// The text of its configuration file. `None` without a configuration.
    #[must_use]
    pub fn config_file(&self) -> Option<String> {
        let config = self.readable_spec()?.config.as_ref()?;
        let file = json!({"apiVersion": API_VERSION, "kind": CONFIGURATION, "plugin": self.name, "config": config});
        Some(file.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;

    use super::*;

    fn rendered(spec: &Value, rights: &Value) -> Result<Value, String> {
        let mut spec = spec.clone();
        spec["source"] = json!({"configMap": {"name": "files"}});
        let mut of_policy = rights.clone();
        of_policy["plugin"] = json!("shop");
        of_policy["source"] = json!({"configMap": {"name": "files"}});
        let policy =
            PolicyObject::read(&json!({"metadata": {"name": "shop"}, "spec": of_policy})).expect("it is a policy");
        let spec = PluginSpec::deserialize(spec).expect("it is a spec");
        rendered_policy("shop", &spec, &policy).map(|text| serde_json::from_str(&text).expect("it is JSON"))
    }

    #[test]
    fn a_plugin_can_pause_itself_but_not_resume_against_its_policy() {
        let paused = |plugin, policy| {
            let text = rendered(&json!({"paused": plugin}), &json!({"paused": policy})).expect("valid");
            text["paused"].clone()
        };
        assert_eq!(
            [paused(true, false), paused(false, true), paused(true, true)],
            [json!(true), json!(true), json!(true)]
        );
        assert_eq!(paused(false, false), json!(false));
    }

    #[test]
    fn the_more_careful_rollout_counts() {
        let rollout = |plugin: Value, policy: Value| {
            let given = |value: Value| if value.is_null() { json!({}) } else { json!({"rollout": value}) };
            rendered(&given(plugin), &given(policy)).expect("valid")["rollout"].clone()
        };
        let (shadow, replace) = (json!({"strategy": "shadow"}), json!({"strategy": "replace"}));
        let after = json!({"calls": 1, "time": "1m"});
        let promoted = json!({"strategy": "shadow", "promoteAfter": after});
        assert_eq!(rollout(json!(null), json!(null)), json!(null));
        assert_eq!(rollout(promoted.clone(), json!(null)), promoted);
        assert_eq!(rollout(replace.clone(), shadow.clone()), shadow, "a plugin cannot skip its policy's shadow");
        assert_eq!(rollout(promoted.clone(), shadow.clone()), shadow, "nor promote it");
        assert_eq!(rollout(promoted, replace), shadow);
    }

    #[test]
    fn a_plugin_cannot_set_a_field_of_its_policy() {
        for field in ["rules", "instances", "impersonate", "hooks", "http", "crds", "finalizers", "plugin"] {
            let spec = json!({"source": {"configMap": {"name": "files"}}, field: null});
            assert!(PluginSpec::deserialize(spec).is_err(), "{field}");
        }
    }

    #[test]
    fn a_policy_that_no_file_could_have_is_refused_with_the_reason() {
        let rule = json!({"apiGroups": [""], "resources": ["pods/*"], "verbs": ["get"]});
        let problem = rendered(&json!({}), &json!({"rules": [rule]})).expect_err("RBAC would ignore the rule");
        assert!(problem.contains("pods/*"), "{problem}");
        let problem = rendered(&json!({}), &json!({"rulez": []})).expect_err("it is misspelt");
        assert!(problem.contains("rulez"), "{problem}");
    }
}
