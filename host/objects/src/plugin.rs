//! The fields of a `ClusterPlugin`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_manifest::is_dns_label;
use windlass_oci::{OciReference, OciVersion};

use crate::artefact::ArtefactOrigin;

/// The `spec` of a `ClusterPlugin`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PluginSpec {
    pub(crate) source: PluginSource,
    #[serde(default)]
    pub(crate) config: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) rollout: Option<RolloutSpec>,
    #[serde(default)]
    pub(crate) paused: bool,
    /// [`PluginObject::instance`] has it, even if another field cannot be read.
    #[serde(default)]
    instance: Option<String>,
}

/// Where a plugin's file comes from. Exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginSource {
    /// An artefact in a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<OciSource>,
    /// A `ConfigMap` in the host's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSource>,
}

/// An artefact in a registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OciSource {
    /// HOST/REPOSITORY, with a tag or a digest.
    pub image: String,
    /// The name of a Secret in the host's namespace, with credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<String>,
}

/// A key of a `ConfigMap`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMapSource {
    /// The `ConfigMap`'s name.
    pub name: String,
    /// The key. `None` for the plugin's name and `.wasm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How a new version comes to run, with the fields of a policy's `rollout`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutSpec {
    /// `replace` or `shadow`.
    #[serde(default)]
    pub strategy: Option<String>,
    /// When a shadow is promoted.
    #[serde(default)]
    pub promote_after: Option<Value>,
}

/// The reference that an `image` stands for.
pub(crate) fn reference(image: &str) -> Result<OciReference, String> {
    format!("oci://{image}").parse::<OciReference>().map_err(|error| error.to_string())
}

/// The repository of a reference, in the form in which repositories are compared.
pub(crate) fn repository(reference: &OciReference) -> String {
    format!("{}/{}", reference.host(), reference.repository())
}

impl PluginSource {
    /// The place that a policy must name. The error says which field is wrong.
    pub fn origin(&self) -> Result<ArtefactOrigin, String> {
        match (&self.oci, &self.config_map) {
            (Some(oci), None) => Ok(ArtefactOrigin::Repository(repository(&reference(&oci.image)?))),
            (None, Some(config_map)) => Ok(ArtefactOrigin::ConfigMap(config_map.name.clone())),
            _ => Err("source: set exactly one of oci and configMap, because a plugin has one file".to_owned()),
        }
    }

    /// The digest that the source itself names, as `sha256:…`.
    #[must_use]
    pub fn digest(&self) -> Option<String> {
        match reference(&self.oci.as_ref()?.image).ok()?.version() {
            OciVersion::Digest(digest) => Some(digest.to_string()),
            OciVersion::Tag(_) => None,
        }
    }
}

/// A `ClusterPlugin` as the host sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginObject {
    /// The object's name, which is the plugin's.
    pub name: String,
    /// The object's UID.
    pub uid: String,
    /// The generation of its spec.
    pub generation: i64,
    /// The installation that runs it. `None` for the one without a name.
    pub instance: Option<String>,
    /// Its spec, or the reason why the host cannot read it.
    pub(crate) spec: Result<PluginSpec, String>,
    /// If the spec cannot be read, the last one that could.
    former: Option<PluginSpec>,
}

impl PluginObject {
    /// Reads an object from the API server's JSON. `None` if it has no name.
    #[must_use]
    pub fn read(object: &Value) -> Option<Self> {
        let text = |field: &str| object.pointer(field).and_then(Value::as_str).map(str::to_owned);
        let name = text("/metadata/name")?;
        let spec = PluginSpec::deserialize(&object["spec"]).map_err(|error| format!("spec: {error}"));
        let spec = spec.and_then(|spec| {
            spec.source.origin().map_err(|problem| format!("spec.{problem}"))?;
            Ok(spec)
        });
        let spec = spec.and_then(|spec| {
            // Files are named after it, so a name that is no label must not reach a path.
            let is_label = is_dns_label(&name);
            is_label.then_some(spec).ok_or_else(|| {
                "metadata.name is not a DNS label: name the object as the plugin's manifest does".to_owned()
            })
        });
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        let (uid, instance) = (text("/metadata/uid").unwrap_or_default(), text("/spec/instance"));
        Some(Self { name, uid, generation, instance, spec, former: None })
    }

    /// The same, as a later state of `before`: if its spec cannot be read, the plugin keeps the former one. A mistake
    /// asks for nothing, so it also ends nothing.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        if self.spec.is_err() && self.uid == before.uid {
            self.former = before.readable_spec().cloned();
        }
        self
    }

    /// The last spec that could be read.
    pub(crate) fn readable_spec(&self) -> Option<&PluginSpec> {
        self.spec.as_ref().ok().or(self.former.as_ref())
    }

    /// Where its file comes from. `None` if the spec cannot be read.
    #[must_use]
    pub fn source(&self) -> Option<&PluginSource> {
        self.spec.as_ref().ok().map(|spec| &spec.source)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, spec: &Value) -> PluginObject {
        let metadata = json!({"name": name, "uid": "u", "generation": 3});
        PluginObject::read(&json!({"metadata": metadata, "spec": spec})).expect("it has a name")
    }

    #[test]
    fn a_source_has_the_origin_that_its_policy_must_name() {
        let origin = |spec: Value| object("shop", &spec).source().expect("it is valid").origin();
        let image = "Registry.example.com:5000/team/shop:1.2";
        assert_eq!(
            origin(json!({"source": {"oci": {"image": image}}})),
            Ok(ArtefactOrigin::Repository("registry.example.com:5000/team/shop".to_owned()))
        );
        assert_eq!(
            origin(json!({"source": {"configMap": {"name": "files"}}})),
            Ok(ArtefactOrigin::ConfigMap("files".to_owned()))
        );
    }

    #[test]
    fn the_installation_is_known_even_if_the_rest_cannot_be_read() {
        let source = json!({"configMap": {"name": "files"}});
        let good = object("shop", &json!({"source": source, "instance": "blue"}));
        assert!(good.source().is_some());
        let wrong = object("shop", &json!({"instance": "blue"}));
        assert!(wrong.source().is_none());
        assert_eq!([good.instance, wrong.instance], ["blue", "blue"].map(|it| Some(it.to_owned())));
        assert_eq!(object("shop", &json!({"source": source})).instance, None);
    }

    #[test]
    fn a_spec_that_cannot_be_read_says_why() {
        let problem = |name: &str, spec: Value| object(name, &spec).spec.expect_err("it is wrong");
        let both = json!({"oci": {"image": "h.example/a"}, "configMap": {"name": "a"}});
        for (spec, part) in [
            (json!({}), "missing field `source`"),
            (json!({"source": {}}), "exactly one"),
            (json!({"source": both}), "exactly one"),
            (json!({"source": {"oci": {"image": "../etc"}}}), "no valid host"),
            (json!({"source": {"configMap": {"name": "a"}}, "rules": []}), "unknown field"),
        ] {
            let problem = problem("shop", spec);
            assert!(problem.contains(part), "{part}: {problem}");
        }
        let good = json!({"source": {"configMap": {"name": "a"}}});
        assert!(problem("my.shop", good.clone()).contains("DNS label"));
        assert!(problem("..", good).contains("DNS label"));
    }
}
