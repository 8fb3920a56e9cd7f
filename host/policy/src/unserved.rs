//! Finds subresources that a plugin may write but that the CRDs of its kinds do not declare. Every such write would
//! fail, so `build` and `inspect` warn about them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use windlass_core::rights::grants::Rule;
use windlass_manifest::Manifest;

/// The subresources that a CRD can declare, each with an example.
const DECLARATIONS: [(&str, &str); 2] = [
    ("status", "{status: {}}"),
    ("scale", "{scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}"),
];
const WRITING: [&str; 4] = ["create", "update", "patch", "*"];

/// A subresource that a CRD lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnservedSubresource {
    /// The place of the CRD: `crd.yaml`, or the manifest.
    pub place: &'static str,
    /// The CRD's name, such as `webapps.apps.kubedojo.io`.
    pub definition: String,
    /// The versions that do not declare the subresource.
    pub versions: Vec<String>,
    /// `status` or `scale`.
    pub subresource: &'static str,
    /// The reason why the plugin may write the subresource.
    pub why: String,
}

impl fmt::Display for UnservedSubresource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, definition, versions, subresource, why } = self;
        let declaration = DECLARATIONS.iter().find(|(name, _)| name == subresource).map_or("", |(_, how)| how);
        write!(
            f,
            "{place} declares no subresource {subresource} for {} of {definition}, but {why}. The API server answers such a \
             write with 404, and the host retries the key. Add `subresources: {declaration}` to the version, unless the \
             plugin never writes it",
            versions.join(", ")
        )
    }
}

/// The subresources that a plugin with this manifest may write, but that no CRD declares: neither the plugin's own CRDs
/// nor those in `beside`, from the folder's `crd.yaml`.
#[must_use]
pub fn of_manifest(manifest: &Manifest, beside: &[Value]) -> Vec<UnservedSubresource> {
    let own = manifest.crds.iter().filter_map(|crd| CrdSpec::of("the manifest", crd.get("spec")?));
    let beside = beside.iter().filter_map(|crd| CrdSpec::of("crd.yaml", crd.get("spec")?));
    // The host installs the plugin's own CRDs, so they take precedence over the CRDs in the folder.
    let mut known = BTreeSet::new();
    let definitions: Vec<_> = own.chain(beside).filter(|it| known.insert((it.group, it.plural))).collect();
    let rules = manifest.permission_rules();
    let mut found: Vec<UnservedSubresource> = Vec::new();
    for definition in &definitions {
        found.extend(definition.lacking_status(manifest));
        for (subresource, _) in DECLARATIONS {
            let is_told = found.iter().any(|it| it.subresource == subresource && it.definition == definition.name());
            let asked = !is_told && rules.iter().any(|rule| definition.is_written(rule, subresource));
            found.extend(definition.lacking_everywhere(subresource).filter(|_| asked));
        }
    }
    found
}

/// The CRD of a custom resource.
struct CrdSpec<'a> {
    place: &'static str,
    group: &'a str,
    kind: &'a str,
    plural: &'a str,
    versions: Vec<&'a Value>,
}

impl<'a> CrdSpec<'a> {
    /// `None` if `spec` is incomplete.
    fn of(place: &'static str, spec: &'a Value) -> Option<Self> {
        let (names, versions) = (&spec["names"], spec["versions"].as_array()?);
        Some(Self {
            place,
            group: spec["group"].as_str()?,
            kind: names["kind"].as_str()?,
            plural: names["plural"].as_str()?,
            versions: versions.iter().filter(|version| version["served"] != false).collect(),
        })
    }

    fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// A missing status subresource in the version that a controller uses for its primaries. Every controller asks to
    /// write its primaries' status, unless its options say `status: false`.
    fn lacking_status(&self, manifest: &Manifest) -> Option<UnservedSubresource> {
        manifest.controllers.iter().filter(|controller| controller.options.status).find_map(|controller| {
            let kind = controller.primary.object_kind();
            let is_its = |version: &&&Value| format!("{}/{}", self.group, text(version, "name")) == *kind.api_version;
            let version = self.versions.iter().find(is_its).filter(|_| self.kind == &*kind.kind)?;
            let why = format!(
                "the controller {} may write the status of its primaries (its options do not say `status: false`)",
                controller.name
            );
            (!declares(version, "status")).then(|| self.unserved(&[version], "status", why))
        })
    }

    /// A permission does not name a version, so one version that declares the subresource is enough.
    fn lacking_everywhere(&self, subresource: &'static str) -> Option<UnservedSubresource> {
        let is_declared = self.versions.iter().any(|version| declares(version, subresource));
        let why = format!("a permission of the manifest asks to write {}/{subresource}", self.plural);
        (!is_declared).then(|| self.unserved(&self.versions, subresource, why))
    }

    /// Whether `rule` covers `subresource` of this resource with a verb that writes.
    fn is_written(&self, rule: &Rule, subresource: &str) -> bool {
        let resource = format!("{}/{subresource}", self.plural);
        let is_its_group = rule.groups.iter().any(|group| group == "*" || group == self.group);
        let writes = rule.verbs.iter().any(|verb| WRITING.contains(&&**verb));
        is_its_group && writes && rule.resources.contains(&resource)
    }

    fn unserved(&self, versions: &[&Value], subresource: &'static str, why: String) -> UnservedSubresource {
        let versions = versions.iter().map(|version| text(version, "name").to_owned()).collect();
        UnservedSubresource { place: self.place, definition: self.name(), versions, subresource, why }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn declares(version: &Value, subresource: &str) -> bool {
    version["subresources"].get(subresource).is_some_and(|declared| !declared.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(versions: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "shops.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Shop", "plural": "shops"},
                "versions": versions,
            },
        })
    }

    /// A plugin for Shops in v1, with these CRDs and permissions.
    fn manifest(crds: &[Value], permissions: &Value) -> Manifest {
        let manifest = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{"name": "shops", "primary": {"apiVersion": "example.com/v1", "kind": "Shop"}}],
            "permissions": permissions, "crds": crds,
        });
        Manifest::from_json(&manifest.to_string()).expect("valid")
    }

    fn permission(resource: &str, verb: &str) -> Value {
        json!([{"apiGroups": ["example.com"], "resources": [resource], "verbs": [verb]}])
    }

    fn bare() -> Value {
        definition(&json!([{"name": "v1", "served": true}]))
    }

    fn with(subresources: &Value) -> Value {
        definition(&json!([{"name": "v1", "served": true, "subresources": subresources}]))
    }

    fn lacked(found: &[UnservedSubresource]) -> Vec<(&str, &str)> {
        found.iter().map(|it| (it.place, it.subresource)).collect()
    }

    #[test]
    fn a_missing_status_is_reported_with_its_place_and_fix() {
        let found = of_manifest(&manifest(&[], &json!([])), &[bare()]);
        assert_eq!(lacked(&found), [("crd.yaml", "status")]);
        let said = found[0].to_string();
        for words in ["crd.yaml", "v1 of shops.example.com", "controller shops", "404", "subresources: {status: {}}"] {
            assert!(said.contains(words), "{words:?} is not in: {said}");
        }
        assert_eq!(of_manifest(&manifest(&[], &json!([])), &[with(&json!({"status": {}}))]), []);
    }

    #[test]
    fn a_controller_that_writes_no_status_needs_none() {
        let mut plugin = manifest(&[], &json!([]));
        plugin.controllers[0].options.status = false;
        assert_eq!(of_manifest(&plugin, &[bare()]), []);
        let mut plugin = manifest(&[], &permission("shops/status", "update"));
        plugin.controllers[0].options.status = false;
        assert_eq!(lacked(&of_manifest(&plugin, &[bare()])), [("crd.yaml", "status")]);
    }

    #[test]
    fn only_the_version_of_the_primary_needs_the_status() {
        let versions = |v1: Value, v2: Value| {
            definition(&json!([
                {"name": "v1", "served": true, "subresources": v1}, {"name": "v2", "served": true, "subresources": v2},
            ]))
        };
        let plugin = manifest(&[], &json!([]));
        let found = of_manifest(&plugin, &[versions(json!({}), json!({"status": {}}))]);
        assert_eq!(found.iter().map(|it| it.versions.join(" ")).collect::<Vec<_>>(), ["v1"]);
        assert_eq!(of_manifest(&plugin, &[versions(json!({"status": {}}), json!({}))]), []);
    }

    #[test]
    fn the_manifests_own_crd_takes_precedence() {
        let plugin = |crd: Value| manifest(&[crd], &json!([]));
        let status = || with(&json!({"status": {}}));
        assert_eq!(lacked(&of_manifest(&plugin(bare()), &[status()])), [("the manifest", "status")]);
        assert_eq!(of_manifest(&plugin(status()), &[bare()]), []);
    }

    #[test]
    fn only_permissions_to_write_need_the_subresource() {
        let status = || with(&json!({"status": {}}));
        let found = |permissions: &Value| of_manifest(&manifest(&[], permissions), &[status()]);
        assert_eq!(lacked(&found(&permission("shops/scale", "patch"))), [("crd.yaml", "scale")]);
        for other in [
            permission("shops/scale", "get"),
            permission("shops", "patch"),
            permission("shops/status", "patch"),
            json!([{"apiGroups": ["other.com"], "resources": ["shops/scale"], "verbs": ["patch"]}]),
        ] {
            assert_eq!(found(&other), [], "{other}");
        }
        let scale = json!({"status": {}, "scale": {"specReplicasPath": ".a", "statusReplicasPath": ".b"}});
        assert_eq!(of_manifest(&manifest(&[], &permission("shops/scale", "patch")), &[with(&scale)]), []);
    }

    #[test]
    fn a_missing_status_is_reported_once() {
        let found = of_manifest(&manifest(&[], &permission("shops/status", "update")), &[bare()]);
        assert_eq!(lacked(&found), [("crd.yaml", "status")]);
    }

    #[test]
    fn incomplete_definitions_are_skipped() {
        assert_eq!(
            of_manifest(&manifest(&[], &json!([])), &[json!({}), json!({"spec": {"group": "example.com"}})]),
            []
        );
    }
}
