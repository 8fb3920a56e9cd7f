//! The hooks of a controller: web addresses at which other systems name primaries that are to run.

use serde::Deserialize;
use windlass_core::cache::mapping::Mapping;

use super::Controller;
use super::validate::Problems;
use super::watch::check_mapping;

/// A web address at which other systems name primaries that are to run. A delivery to it is an object of kind
/// [`KIND`](Self::KIND), and its mapping reads that object.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hook {
    /// Unique within the plugin, and among the watches of its controller.
    pub name: String,
    /// The primaries that a delivery names. The object has no namespace and no labels, so only some mappings fit.
    pub mapping: Mapping,
}

impl Hook {
    /// The `apiVersion` of a delivery.
    pub const API_VERSION: &str = "windlass.dev/v1alpha1";
    /// The `kind` of a delivery. No server serves it.
    pub const KIND: &str = "HookDelivery";
}

impl Controller {
    pub(crate) fn check_hooks(&self, path: &str, problems: &mut Problems) {
        problems.count(format_args!("{path}.hooks"), self.hooks.len());
        if self.primary.kinds_from.is_some() && !self.hooks.is_empty() {
            let what = "are for primaries of one kind, which the manifest names: leave out the hooks, or `kindsFrom`";
            problems.add(format_args!("{path}.hooks"), what);
        }
        for (index, hook) in self.hooks.iter().enumerate() {
            let at = format!("{path}.hooks[{index}].mapping");
            match &hook.mapping {
                Mapping::Field(_) | Mapping::Reference(_) => {
                    check_mapping(&hook.mapping, &at, &self.primary.indexes, problems);
                }
                Mapping::All | Mapping::Mapper => {}
                _ => problems.add(
                    at,
                    "a delivery has no owner, label or namespace: map it by `field` or `reference`, such as \
                     `/payload/name`, by `mapper`, or by `all`",
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{EntryPoint, Manifest, OptionalExports};

    fn read(hooks: &Value, primary: &Value) -> Result<Manifest, String> {
        let manifest = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [
                {"name": "a", "primary": primary, "hooks": hooks},
                {"name": "b", "primary": {"apiVersion": "v1", "kind": "Secret", "name": "secrets"}, "hooks": [
                    {"name": "other", "mapping": {"type": "all"}},
                ]},
            ],
            "config": {"schema": {}},
        });
        Manifest::from_json(&manifest.to_string()).map_err(|error| error.to_string())
    }

    fn of_config_maps(hooks: &Value) -> Result<Manifest, String> {
        read(hooks, &json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "maps"}))
    }

    #[test]
    fn a_delivery_is_mapped_by_its_payload_or_by_code() {
        let field = json!({"type": "field", "pointer": "/payload/name"});
        let reference = json!({"type": "reference", "base": "/payload", "namespace": "/ns", "name": "/name"});
        for mapping in [field, reference, json!({"type": "all"}), json!({"type": "mapper"})] {
            let manifest = of_config_maps(&json!([{"name": "pushed", "mapping": mapping}])).expect("valid");
            assert_eq!(manifest.controllers[0].hooks.len(), 1);
        }
        for mapping in [json!({"type": "owner"}), json!({"type": "sameName"}), json!({"type": "customize"})] {
            let refused = of_config_maps(&json!([{"name": "pushed", "mapping": mapping}])).expect_err("it cannot");
            assert!(refused.contains("controllers[0].hooks[0].mapping: a delivery has no owner"), "{refused}");
        }
        let unread = json!([{"name": "pushed", "mapping": {"type": "field", "pointer": "payload"}}]);
        let refused = of_config_maps(&unread).expect_err("no pointer");
        assert!(refused.contains("controllers[0].hooks[0].mapping.pointer"), "{refused}");
    }

    #[test]
    fn a_hook_has_a_name_of_its_own() {
        let hooks = |names: &[&str]| {
            let all = |name: &&str| json!({"name": name, "mapping": {"type": "all"}});
            of_config_maps(&names.iter().map(all).collect())
        };
        for (names, problem) in [
            (&["pushed", "pushed"][..], "also the name of another watch or hook"),
            (&["maps"], "also the name of another watch or hook"),
            (&["other"], "`other` appears twice"),
            (&["Push/ed"], "is not a DNS label"),
        ] {
            let refused = hooks(names).expect_err(problem);
            assert!(refused.contains(problem), "{refused}");
        }
        assert!(hooks(&["pushed", "merged"]).is_ok());
    }

    #[test]
    fn hooks_need_primaries_of_one_kind() {
        let primary = json!({"kindsFrom": "/kinds", "projection": {"type": "metadata"}});
        let refused = read(&json!([{"name": "pushed", "mapping": {"type": "all"}}]), &primary).expect_err("many kinds");
        assert!(refused.contains("controllers[0].hooks: are for primaries of one kind"), "{refused}");
    }

    #[test]
    fn a_timer_has_no_hooks() {
        let hooks = json!([{"name": "pushed", "mapping": {"type": "all"}}]);
        let refused = read(&hooks, &json!({"timer": {"intervalMs": 60_000}})).expect_err("it would never run");
        assert!(refused.contains("controllers[0].hooks: must be empty if the primary is a timer"), "{refused}");
    }

    #[test]
    fn a_hook_that_code_maps_needs_a_mapper() {
        let manifest = of_config_maps(&json!([{"name": "pushed", "mapping": {"type": "mapper"}}])).expect("valid");
        let problem = |entry, relations| {
            let exports = OptionalExports { version: "0.3.0", relations, matches: relations };
            manifest.check_entry(entry, exports).map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(problem(EntryPoint::Reconciler, true), "");
        let missing = problem(EntryPoint::Reconciler, false);
        assert!(
            missing.contains("hooks[0].mapping: the plugin exports no `windlass:plugin/mapper@0.3.0`"),
            "{missing}"
        );
        let composer = problem(EntryPoint::Composer, true);
        assert!(composer.contains("hooks[0].mapping: `mapper` is only for reconcilers"), "{composer}");
    }
}
