//! Valid manifests of built-in kinds, which `mutations` changes.

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::mutations::Schemas;
use crate::suite;

/// A valid object.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The number in the file, from 1.
    pub number: usize,
    /// Its kind.
    pub kind: String,
    /// The whole object.
    pub object: Value,
    /// The plural name of its resource.
    resource: String,
    namespaced: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    /// `GROUP/VERSION` and the plural name of the resource.
    of: String,
    #[serde(rename = "kind")]
    name: String,
    #[serde(default)]
    cluster: bool,
    /// The objects, without a name and without the fields that `of` and `kind` determine.
    objects: Vec<Value>,
}

/// The manifests of `manifests.yaml`.
pub fn read_all() -> anyhow::Result<Vec<Manifest>> {
    let path = suite::home().join("manifests.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let options = serde_saphyr::options! { strict_booleans: true };
    let kinds: Vec<Kind> = serde_saphyr::from_str_with_options(&text, options)?;
    let mut all = Vec::new();
    for kind in kinds {
        let (version, resource) = kind.of.rsplit_once('/').with_context(|| kind.of.clone())?;
        for mut object in kind.objects {
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind.name);
            let number = all.len() + 1;
            if object["metadata"]["name"].is_null() {
                object["metadata"]["name"] = json!(format!("m-{number}"));
            }
            let (name, resource) = (kind.name.clone(), resource.to_owned());
            all.push(Manifest { number, kind: name, object, resource, namespaced: !kind.cluster });
        }
    }
    Ok(all)
}

impl Manifest {
    /// The path of the collection.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        let version = self.object["apiVersion"].as_str().unwrap_or_default();
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let place = if self.namespaced { format!("namespaces/{namespace}/") } else { String::new() };
        format!("{root}/{version}/{place}{}", self.resource)
    }

    /// The schema of the kind.
    #[must_use]
    pub fn schema<'a>(&self, schemas: &'a Schemas) -> Option<&'a Value> {
        let version = self.object["apiVersion"].as_str()?;
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let own = json!({ "group": group, "version": version, "kind": self.kind });
        schemas.values().find(|schema| {
            schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| kinds.contains(&own))
        })
    }

    /// The name for messages.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} #{}", self.kind, self.number)
    }
}
