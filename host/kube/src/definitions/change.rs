//! Decides without I/O what to do with a manifest's CRD, given the cluster's CRD.

use serde_json::{Map, Value, json};
use windlass_core::object::selector::is_dns_subdomain;

use super::DefinitionError;

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "CustomResourceDefinition";
/// The metadata that a manifest may set. Owner references would let the garbage collector delete the CRD with all its
/// objects, and finalizers would keep it forever.
const METADATA: [&str; 3] = ["name", "labels", "annotations"];

/// The part of a manifest's `CustomResourceDefinition` that is applied, checked as far as possible without a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    name: String,
    /// `metadata`, with the fields in [`METADATA`] only.
    metadata: Value,
    spec: Value,
}

/// The step to take for a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DefinitionStep {
    /// Do nothing, because the cluster has an equal CRD.
    Keep,
    /// Apply the CRD over the `resourceVersion` on which the decision is based. `None` if the cluster does not have the
    /// CRD yet.
    Apply { over: Option<String> },
}

/// The reason why the cluster's CRD must not be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Objects may be stored in versions that would be removed.
    #[error(
        "objects may be stored in its version {} (status.storedVersions), which the manifest leaves out: they could not \
         be read any more. Keep that version in the manifest (`served: false` will do), or migrate the objects and \
         remove the version from status.storedVersions first", versions.join(", ")
    )]
    DropsStored {
        /// The versions that would be removed.
        versions: Vec<String>,
    },
    /// A field differs that cannot be changed.
    #[error(
        "the cluster has {field} {existing:?} and the manifest {wanted:?}, which cannot change while the \
         definition exists: correct the manifest, or delete the definition by hand, with all objects of the kind"
    )]
    Another {
        /// The field that differs.
        field: &'static str,
        /// The value in the cluster.
        existing: String,
        /// The value in the manifest.
        wanted: String,
    },
    /// The cluster's CRD is being deleted, with all objects of the kind.
    #[error("it is being deleted; it can be installed once it is gone")]
    Terminating,
}

impl Definition {
    /// Reads a CRD from a manifest.
    pub fn read(document: &Map<String, Value>) -> Result<Self, DefinitionError> {
        let name = document.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        let unsound = |problem: String| DefinitionError::Unsound { name: name.clone(), problem };
        for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if document.get(field).and_then(Value::as_str) != Some(expected) {
                return Err(unsound(format!("its {field} is not {expected}")));
            }
        }
        let spec = document.get("spec").cloned().unwrap_or_default();
        let (group, plural) = (text(&spec, "/group"), text(&spec, "/names/plural"));
        // The name becomes part of a path.
        if name != format!("{plural}.{group}") || !is_dns_subdomain(&name) {
            return Err(unsound(format!("its name must be its plural and group, {plural}.{group}")));
        }
        if versions(&spec).is_empty() {
            return Err(unsound("it has no versions".to_owned()));
        }
        if text(&spec, "/conversion/strategy") == "Webhook" {
            let problem = "it converts by a webhook, to which the API server would send every object of the kind: no \
                           plugin can serve webhooks. Install the definition by hand, or use the strategy None, for \
                           versions without differences";
            return Err(unsound(problem.to_owned()));
        }
        let metadata = metadata(document).map_err(|field| {
            unsound(format!("its metadata.{field} cannot be set by a manifest: only {} can", METADATA.join(", ")))
        })?;
        Ok(Self { name, metadata, spec })
    }

    /// `<plural>.<group>`, the name in policies.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The API group of the kind.
    #[must_use]
    pub fn group(&self) -> &str {
        text(&self.spec, "/group")
    }

    /// The document to apply, locked to the `resourceVersion` `over`.
    pub(super) fn document(&self, over: Option<&str>) -> Value {
        let mut metadata = self.metadata.clone();
        if let Some(version) = over {
            metadata["resourceVersion"] = version.into();
        }
        json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": self.spec})
    }

    /// The step to take if the cluster has `existing`.
    pub(super) fn step(&self, existing: Option<&Value>) -> Result<DefinitionStep, Refusal> {
        let Some(existing) = existing else { return Ok(DefinitionStep::Apply { over: None }) };
        if !existing["metadata"]["deletionTimestamp"].is_null() {
            return Err(Refusal::Terminating);
        }
        let immutable = [
            ("spec.group", "/group"),
            ("spec.scope", "/scope"),
            ("spec.names.plural", "/names/plural"),
            ("spec.names.kind", "/names/kind"),
        ];
        for (field, pointer) in immutable {
            let [before, wanted] = [&existing["spec"], &self.spec].map(|spec| text(spec, pointer).to_owned());
            if before != wanted {
                return Err(Refusal::Another { field, existing: before, wanted });
            }
        }
        let kept = versions(&self.spec);
        let stored = strings(&existing["status"]["storedVersions"]);
        let dropped: Vec<_> = stored.into_iter().filter(|version| !kept.contains(&version.as_str())).collect();
        if !dropped.is_empty() {
            return Err(Refusal::DropsStored { versions: dropped });
        }
        if self.is_already(existing) {
            return Ok(DefinitionStep::Keep);
        }
        Ok(DefinitionStep::Apply { over: Some(text(existing, "/metadata/resourceVersion").to_owned()) })
    }

    /// Whether the cluster's CRD has everything that the manifest sets, with an equal spec. A difference that does not
    /// matter to the server, such as an explicit default, costs one apply that changes nothing.
    fn is_already(&self, existing: &Value) -> bool {
        let pairs = ["labels", "annotations"].into_iter().flat_map(|field| {
            let wanted = self.metadata[field].as_object().into_iter().flatten();
            wanted.map(move |(key, value)| existing["metadata"][field].get(key) == Some(value))
        });
        pairs.into_iter().all(|is_there| is_there) && defaulted(&existing["spec"]) == defaulted(&self.spec)
    }
}

/// The state of a CRD in the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DefinitionState {
    /// The server serves the kind, or will shortly.
    Established,
    /// Another CRD has one of this CRD's names.
    NamesTaken(String),
    /// The server has not decided yet, with the reason if it gives one.
    Pending(String),
}

/// The server's progress with a CRD. An established CRD stays established even if one of its short names is taken.
pub(super) fn state(definition: &Value) -> DefinitionState {
    let condition = |name: &str| {
        let mut conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|condition| condition["type"] == name)?;
        Some((text(found, "/status") == "True", text(found, "/message").to_owned()))
    };
    match (condition("Established"), condition("NamesAccepted")) {
        (Some((true, _)), _) => DefinitionState::Established,
        (_, Some((false, message))) => DefinitionState::NamesTaken(message),
        (Some((false, message)), _) => DefinitionState::Pending(message),
        (None, _) => DefinitionState::Pending("the server has not reported its state yet".to_owned()),
    }
}

/// The part of a manifest's metadata that is applied. The error names a field that is not allowed.
fn metadata(document: &Map<String, Value>) -> Result<Value, String> {
    let mut kept = Map::new();
    for (field, value) in document.get("metadata").and_then(Value::as_object).into_iter().flatten() {
        // Generators of CRDs write fields that are null.
        if value.is_null() {
            continue;
        }
        if !METADATA.contains(&field.as_str()) {
            return Err(field.clone());
        }
        kept.insert(field.clone(), value.clone());
    }
    Ok(Value::Object(kept))
}

/// `spec` with the defaults that the server adds.
fn defaulted(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let kind = text(&spec, "/names/kind").to_owned();
    let defaults = [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))];
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        for (field, default) in defaults {
            names.entry(field).or_insert_with(|| default.into());
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
        if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
            spec.remove("preserveUnknownFields");
        }
    }
    spec
}

fn versions(spec: &Value) -> Vec<&str> {
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions.filter_map(|version| version["name"].as_str()).collect()
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The string at `pointer`, or an empty one.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "metadata": {"name": "widgets.example.com", "creationTimestamp": null, "labels": {"app": "widgets"}},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        })
    }

    fn read(document: &Value) -> Result<Definition, DefinitionError> {
        Definition::read(document.as_object().expect("an object"))
    }

    fn changed(pointer: &str, value: Value) -> Value {
        let mut document = document();
        *document.pointer_mut(pointer).expect("a field") = value;
        document
    }

    /// The CRD as a server stores it.
    fn existing() -> Value {
        let mut existing = document();
        existing["metadata"]["resourceVersion"] = "7".into();
        existing["metadata"]["labels"]["other"] = "x".into();
        existing["spec"]["names"]["singular"] = "widget".into();
        existing["spec"]["names"]["listKind"] = "WidgetList".into();
        existing["spec"]["conversion"] = json!({"strategy": "None"});
        existing["status"] = json!({"storedVersions": ["v1"]});
        existing
    }

    #[test]
    fn a_missing_definition_is_applied_and_an_equal_one_is_kept() {
        let wanted = read(&document()).expect("sound");
        assert_eq!(wanted.step(None), Ok(DefinitionStep::Apply { over: None }));
        assert_eq!(wanted.step(Some(&existing())), Ok(DefinitionStep::Keep));
        let applied = wanted.document(Some("7"));
        assert_eq!(applied["metadata"]["resourceVersion"], "7");
        assert!(applied["metadata"].get("creationTimestamp").is_none());
    }

    #[test]
    fn a_differing_definition_is_applied_at_the_version_compared() {
        let apply = Ok(DefinitionStep::Apply { over: Some("7".to_owned()) });
        let schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        for other in [
            changed("/spec/versions/0/schema/openAPIV3Schema", schema.clone()),
            changed("/metadata/labels/app", "other".into()),
        ] {
            assert_eq!(read(&other).expect("sound").step(Some(&existing())), apply, "{other}");
        }
        // A field that the manifest no longer has is a difference too.
        let mut richer = existing();
        richer["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        assert_eq!(read(&document()).expect("sound").step(Some(&richer)), apply);
    }

    #[test]
    fn a_version_in_which_objects_may_be_stored_is_not_dropped() {
        let mut before = existing();
        before["status"]["storedVersions"] = json!(["v1alpha1", "v1"]);
        let refusal = read(&document()).expect("sound").step(Some(&before)).expect_err("v1alpha1 would be gone");
        assert_eq!(refusal, Refusal::DropsStored { versions: vec!["v1alpha1".to_owned()] });
        assert!(refusal.to_string().contains("v1alpha1"), "{refusal}");
    }

    #[test]
    fn the_scope_and_the_names_of_a_definition_do_not_change() {
        for (pointer, value) in [("/spec/scope", "Cluster"), ("/spec/names/kind", "Gadget")] {
            let other = read(&changed(pointer, value.into())).expect("sound by itself");
            let refusal = other.step(Some(&existing())).expect_err("another thing");
            assert!(matches!(&refusal, Refusal::Another { wanted, .. } if wanted == value), "{refusal}");
        }
    }

    #[test]
    fn a_definition_that_is_being_deleted_is_refused_for_now() {
        let mut going = existing();
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(read(&document()).expect("sound").step(Some(&going)), Err(Refusal::Terminating));
    }

    #[test]
    fn an_owned_misnamed_or_webhook_definition_is_unsound() {
        let mut owned = document();
        owned["metadata"]["ownerReferences"] = json!([{"uid": "u"}]);
        let mut webhook = document();
        webhook["spec"]["conversion"] = json!({"strategy": "Webhook"});
        for (wrong, why) in [
            (changed("/metadata/name", "../secrets".into()), "name"),
            (changed("/spec/group", "other.com".into()), "name"),
            (changed("/kind", "Secret".into()), "kind"),
            (changed("/spec/versions", json!([])), "versions"),
            (owned, "ownerReferences"),
            (webhook, "webhook"),
        ] {
            let error = read(&wrong).expect_err("unsound").to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_definition_is_served_once_it_is_established() {
        let with = |conditions: Value| state(&json!({"status": {"conditions": conditions}}));
        let names = |status: &str| json!({"type": "NamesAccepted", "status": status, "message": "\"Widget\" is taken"});
        let established = |status: &str| json!({"type": "Established", "status": status, "message": "not yet"});
        assert!(matches!(state(&json!({})), DefinitionState::Pending(_)));
        assert_eq!(with(json!([names("True"), established("False")])), DefinitionState::Pending("not yet".to_owned()));
        assert_eq!(with(json!([names("True"), established("True")])), DefinitionState::Established);
        let taken = with(json!([names("False"), established("False")]));
        assert_eq!(taken, DefinitionState::NamesTaken("\"Widget\" is taken".to_owned()));
        assert_eq!(with(json!([names("False"), established("True")])), DefinitionState::Established);
    }
}
