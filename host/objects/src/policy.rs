//! The fields of a `ClusterPluginPolicy`. Rights are kept as they are: the parser of policy files judges them.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::artefact::{ArtefactOrigin, InstalledArtefact};
use crate::plugin::{reference, repository};

/// The source that a policy is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySource {
    /// The repository or `ConfigMap`.
    pub origin: ArtefactOrigin,
    /// If not empty, only artefacts of the repository or files of the `ConfigMap` with one of these digests may run.
    pub digests: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SourceFields {
    repository: Option<String>,
    config_map: Option<ConfigMapName>,
    /// A missing list allows every digest, and an empty one none.
    digests: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigMapName {
    name: String,
}

impl PolicySource {
    fn read(fields: Value) -> Result<Self, String> {
        let SourceFields { repository: named, config_map, digests } =
            SourceFields::deserialize(fields).map_err(|error| format!("spec.source: {error}"))?;
        let origin = match (named, config_map) {
            (Some(named), None) => {
                let read = reference(&named).map_err(|problem| format!("spec.source.repository: {problem}"))?;
                if read.names_version() {
                    return Err("spec.source.repository: it has a tag or a digest; use digests for these".to_owned());
                }
                ArtefactOrigin::Repository(repository(&read))
            }
            (None, Some(config_map)) => ArtefactOrigin::ConfigMap(config_map.name),
            _ => return Err("spec.source: set exactly one of repository and configMap".to_owned()),
        };
        if digests.as_ref().is_some_and(Vec::is_empty) {
            return Err("spec.source.digests: it is empty; leave it out to allow every digest".to_owned());
        }
        Ok(Self { origin, digests: digests.unwrap_or_default() })
    }

    /// Whether the policy allows this digest.
    #[must_use]
    pub(crate) fn allows_digest(&self, digest: &str) -> bool {
        self.digests.is_empty() || self.digests.iter().any(|listed| listed == digest)
    }

    /// Whether the policy is for this artefact.
    #[must_use]
    pub fn covers(&self, artefact: &InstalledArtefact) -> bool {
        artefact.source.origin().as_ref() == Ok(&self.origin) && self.allows_digest(artefact.named_digest())
    }
}

/// A `ClusterPluginPolicy` as the host sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyObject {
    /// The object's name, which is that of the plugin that it is for. So the right to write one policy is the right to
    /// grant to one plugin, and no plugin has two policies.
    pub name: String,
    /// The source that it is for, or the reason why the policy cannot be read.
    pub source: Result<PolicySource, String>,
    /// All other fields, which are those of a policy file.
    pub(crate) rights: Map<String, Value>,
}

impl PolicyObject {
    /// Reads an object from the API server's JSON. `None` if it has no name or no spec.
    #[must_use]
    pub fn read(object: &Value) -> Option<Self> {
        let name = object.pointer("/metadata/name")?.as_str()?.to_owned();
        let mut rights = object.get("spec")?.as_object()?.clone();
        let is_own = rights.remove("plugin").is_some_and(|plugin| plugin == name.as_str());
        let source = PolicySource::read(rights.remove("source").unwrap_or_default());
        let other = || "spec.plugin: it is not the policy's own name; name the policy as its plugin".to_owned();
        let source = if is_own { source } else { Err(other()) };
        Some(Self { name, source, rights })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugin::{ConfigMapSource, OciSource, PluginSource};

    fn source(fields: &Value) -> Result<PolicySource, String> {
        let spec = json!({"plugin": "shop", "source": fields});
        PolicyObject::read(&json!({"metadata": {"name": "shop"}, "spec": spec})).expect("it names a plugin").source
    }

    fn artefact(image: &str, digest: &str, file: &str) -> InstalledArtefact {
        let oci = OciSource { image: image.to_owned(), pull_secret: None };
        let source = PluginSource { oci: Some(oci), config_map: None };
        InstalledArtefact { source, digest: Some(digest.to_owned()), file_digest: file.to_owned() }
    }

    #[test]
    fn a_policy_covers_all_versions_of_its_repository_and_no_other() {
        let policy = source(&json!({"repository": "R.example/team/shop"})).expect("valid");
        assert!(policy.covers(&artefact("r.example/team/shop:1", "sha256:a", "sha256:b")));
        for other in ["r.example/team/shop/more:1", "r.example/team/sho:1", "r.example:81/team/shop:1"] {
            assert!(!policy.covers(&artefact(other, "sha256:a", "sha256:b")), "{other}");
        }
    }

    #[test]
    fn a_policy_for_a_plugin_of_another_name_cannot_be_used() {
        let spec = json!({"plugin": "payments", "source": {"repository": "r.example/shop"}});
        let read = PolicyObject::read(&json!({"metadata": {"name": "shop"}, "spec": spec})).expect("it has a name");
        assert_eq!(read.name, "shop");
        assert!(read.source.expect_err("it would grant to another plugin").contains("spec.plugin"));
    }

    #[test]
    fn digests_narrow_a_repository_by_artefact_and_a_config_map_by_file() {
        let policy = source(&json!({"repository": "r.example/shop", "digests": ["sha256:a"]})).expect("valid");
        assert!(policy.covers(&artefact("r.example/shop", "sha256:a", "sha256:b")));
        assert!(!policy.covers(&artefact("r.example/shop", "sha256:b", "sha256:a")));
        assert!(!policy.covers(&artefact("r.example/other", "sha256:a", "sha256:b")));
        let policy = source(&json!({"configMap": {"name": "files"}, "digests": ["sha256:b"]})).expect("valid");
        let config_map = ConfigMapSource { name: "files".to_owned(), key: None };
        let of_map = PluginSource { oci: None, config_map: Some(config_map) };
        let file =
            |digest: &str| InstalledArtefact { source: of_map.clone(), digest: None, file_digest: digest.to_owned() };
        assert!(policy.covers(&file("sha256:b")) && !policy.covers(&file("sha256:a")));
    }

    #[test]
    fn a_policy_without_one_clear_source_cannot_be_read() {
        for wrong in [
            json!(null),
            json!({}),
            json!({"digests": ["sha256:a"]}),
            json!({"repository": "r.example/shop", "digests": []}),
            json!({"repository": "r.example/shop", "digest": ["sha256:a"]}),
            json!({"repository": "r.example/shop:1"}),
            json!({"repository": "*"}),
            json!({"repository": "r.example/shop", "configMap": {"name": "a"}}),
        ] {
            assert!(source(&wrong).is_err(), "{wrong}");
        }
    }
}
