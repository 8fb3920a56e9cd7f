//! The definitions of both kinds. The chart's files are the only copy.

/// The definition of `ClusterPlugins`, in YAML.
pub const CLUSTER_PLUGINS: &str = include_str!("../../../deploy/chart/files/definitions/clusterplugins.yaml");
/// The definition of `ClusterPluginPolicies`, in YAML.
pub const CLUSTER_PLUGIN_POLICIES: &str =
    include_str!("../../../deploy/chart/files/definitions/clusterpluginpolicies.yaml");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;
    use windlass_core::object::conditions::ConditionStatus;

    use super::*;
    use crate::{CLUSTER_PLUGIN, CLUSTER_PLUGIN_POLICY, GROUP, OBJECTS_API_VERSION};

    fn definition(text: &str) -> Value {
        serde_saphyr::from_str(text).expect("it is YAML")
    }

    fn schema<'a>(definition: &'a Value, path: &str) -> &'a Value {
        let root = "/spec/versions/0/schema/openAPIV3Schema";
        definition.pointer(&format!("{root}{path}")).expect("it is there")
    }

    fn fields(schema: &Value) -> BTreeSet<String> {
        schema["properties"].as_object().expect("an object").keys().cloned().collect()
    }

    #[test]
    fn the_definitions_have_the_names_that_the_host_watches() {
        for (text, kind) in [(CLUSTER_PLUGINS, CLUSTER_PLUGIN), (CLUSTER_PLUGIN_POLICIES, CLUSTER_PLUGIN_POLICY)] {
            let definition = definition(text);
            assert_eq!(definition["spec"]["names"]["kind"], kind);
            assert_eq!(definition["spec"]["scope"], "Cluster");
            let version = definition["spec"]["versions"][0]["name"].as_str().expect("it has one");
            assert_eq!(format!("{GROUP}/{version}"), OBJECTS_API_VERSION);
        }
    }

    #[test]
    fn a_policys_definition_has_all_fields_of_a_policy_file() {
        let of_files = include_str!("../../../docs/schema/policy.schema.json");
        let of_files: Value = serde_json::from_str(of_files).expect("it is JSON");
        let mut of_files = fields(&of_files["$defs"]["document"]);
        let mut of_objects = fields(schema(&definition(CLUSTER_PLUGIN_POLICIES), "/properties/spec"));
        assert!(of_objects.remove("source") && of_files.remove("apiVersion") && of_files.remove("kind"));
        assert_eq!(of_objects, of_files);
    }

    /// A comma in an unquoted text would end it, and begin another field.
    #[test]
    fn the_schemas_have_only_fields_of_schemas() {
        fn check(schema: &Value) {
            for (field, value) in schema.as_object().expect("an object") {
                assert!(FIELDS.contains(&&**field) || field.starts_with("x-kubernetes-"), "{field}: {value}");
            }
            let children = schema["properties"].as_object().into_iter().flat_map(|it| it.values());
            children.chain(schema.get("items")).for_each(check);
        }
        const FIELDS: [&str; 14] = [
            "type",
            "properties",
            "items",
            "description",
            "enum",
            "pattern",
            "format",
            "required",
            "minimum",
            "maximum",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
        ];
        for text in [CLUSTER_PLUGINS, CLUSTER_PLUGIN_POLICIES] {
            check(schema(&definition(text), ""));
        }
    }

    #[test]
    fn conditions_have_the_statuses_of_their_definition() {
        let definition = definition(CLUSTER_PLUGINS);
        let path = "/properties/status/properties/conditions/items/properties/status/enum";
        let listed = schema(&definition, path).as_array().expect("a list").clone();
        let statuses = ConditionStatus::ALL;
        assert_eq!(listed, statuses.map(|status| Value::from(status.as_str())));
    }
}
