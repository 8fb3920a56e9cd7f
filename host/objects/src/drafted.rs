//! The objects of a plugin in a registry, for review.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use windlass_policy::draft::{PolicyDraft, quoted};

use crate::plugin::{OciSource, reference, repository};
use crate::{CLUSTER_PLUGIN, CLUSTER_PLUGIN_POLICY, OBJECTS_API_VERSION};

/// The `ClusterPlugin` that runs the image of `source` as the plugin `name`, with `config`, and the
/// `ClusterPluginPolicy` that grants it the rights of `draft`, in YAML. The error says why the image is no artefact in
/// a registry.
pub fn drafted_objects(
    name: &str,
    source: &OciSource,
    config: Option<&Map<String, Value>>,
    draft: &PolicyDraft,
) -> Result<String, String> {
    let named = reference(&source.image)?;
    if !named.names_version() {
        return Err("name a tag or a digest, so that everyone gets the same version".to_owned());
    }
    let PolicyDraft { about, rights } = draft;
    // A label may look like a number or a boolean.
    let name = quoted(name);
    let mut text = format!(
        "{about}apiVersion: {OBJECTS_API_VERSION}\nkind: {CLUSTER_PLUGIN_POLICY}\nmetadata:\n  name: {name}\nspec:\n  \
         plugin: {name}\n  source: {{repository: {repository}}}\n",
        repository = quoted(&repository(&named))
    );
    for line in rights.lines() {
        let _ = writeln!(text, "  {line}");
    }
    // JSON is YAML.
    let _ = write!(
        text,
        "---\napiVersion: {OBJECTS_API_VERSION}\nkind: {CLUSTER_PLUGIN}\nmetadata:\n  name: {name}\nspec:\n  source:\n    \
         oci: {source}\n",
        source = json!(source)
    );
    if let Some(config) = config {
        let _ = writeln!(text, "  config: {config}", config = json!(config));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{PluginObject, PolicyObject, judge};

    fn draft() -> PolicyDraft {
        PolicyDraft {
            about: "# about\n".to_owned(),
            rights:
                "paused: true   # for now\nrules:\n# why\n- apiGroups: [\"apps\"]\n  resources: [\"deployments\"]\n  \
                     verbs: [\"get\"]\n"
                    .to_owned(),
        }
    }

    #[test]
    fn a_draft_has_a_policy_that_covers_its_plugin() {
        let config = json!({"size": 3, "note": "a: [b]\n"});
        let (image, secret) = ("registry.example.com:5000/team/shop:1.2".to_owned(), Some("login".to_owned()));
        let source = OciSource { image, pull_secret: secret };
        let text = drafted_objects("shop", &source, config.as_object(), &draft()).expect("valid");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it is YAML");
        assert_eq!(objects[1]["spec"], json!({"source": {"oci": source}, "config": config}));
        let policy = PolicyObject::read(&objects[0]).expect("a policy");
        let plugin = PluginObject::read(&objects[1]).expect("a plugin");
        let policies = BTreeMap::from([("shop".to_owned(), policy)]);
        let judged = judge(&plugin, &policies).expect("the policy can be read");
        assert_eq!(judged.refusal, None);
        let rights: Value = serde_json::from_str(&judged.text).expect("JSON");
        assert_eq!((&rights["paused"], &rights["rules"][0]["verbs"]), (&json!(true), &json!(["get"])));
    }

    #[test]
    fn a_name_that_looks_like_a_number_stays_a_name() {
        let source = OciSource { image: "registry.example.com/a:1".to_owned(), pull_secret: None };
        for name in ["123", "null", "no"] {
            let text = drafted_objects(name, &source, None, &draft()).expect("valid");
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it is YAML");
            assert_eq!((&objects[0]["spec"]["plugin"], &objects[1]["metadata"]["name"]), (&json!(name), &json!(name)));
        }
    }

    #[test]
    fn a_draft_needs_an_image_with_a_version() {
        for image in ["registry.example.com/shop", "shop:1", "registry.example.com/Shop:1", "h.example/a:1\"}\n"] {
            let source = OciSource { image: image.to_owned(), pull_secret: None };
            assert!(drafted_objects("shop", &source, None, &draft()).is_err(), "{image}");
        }
    }
}
