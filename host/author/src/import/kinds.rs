//! Finds the Kubernetes kind of a Go type.

use serde_json::Value;
use windlass_core::object::ObjectKind;

use super::project_file::ProjectFile;
use super::scan::SourcePackage;

/// The API groups of `k8s.io/api` whose name differs from the name of their folder.
const BUILT_IN_GROUPS: [(&str, &str); 16] = [
    ("core", ""),
    ("admissionregistration", "admissionregistration.k8s.io"),
    ("apiserverinternal", "internal.apiserver.k8s.io"),
    ("authentication", "authentication.k8s.io"),
    ("authorization", "authorization.k8s.io"),
    ("certificates", "certificates.k8s.io"),
    ("coordination", "coordination.k8s.io"),
    ("discovery", "discovery.k8s.io"),
    ("events", "events.k8s.io"),
    ("flowcontrol", "flowcontrol.apiserver.k8s.io"),
    ("networking", "networking.k8s.io"),
    ("node", "node.k8s.io"),
    ("rbac", "rbac.authorization.k8s.io"),
    ("resource", "resource.k8s.io"),
    ("scheduling", "scheduling.k8s.io"),
    ("storage", "storage.k8s.io"),
];
/// Packages outside `k8s.io/api` that every cluster serves.
const BUILT_IN_PACKAGES: [(&str, &str); 2] = [
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "apiextensions.k8s.io/v1"),
    ("k8s.io/kube-aggregator/pkg/apis/apiregistration/v1", "apiregistration.k8s.io/v1"),
];

/// The sources of the knowledge about kinds.
pub(super) struct GoKinds<'a> {
    pub module: &'a str,
    pub packages: &'a [SourcePackage],
    pub project: &'a ProjectFile,
    pub definitions: &'a [Value],
}

impl GoKinds<'_> {
    /// The kind of the type `name` in the package `import`. `None` if the kind is unknown.
    pub(super) fn of(&self, import: &str, name: &str) -> Option<ObjectKind> {
        if import.is_empty() || matches!(name, "Unstructured" | "PartialObjectMetadata") {
            return None;
        }
        let api_version = self
            .own(import)
            .or_else(|| self.project.api_version(import, name))
            .or_else(|| built_in(import))
            .or_else(|| self.defined(import, name))?;
        Some(ObjectKind { api_version: api_version.as_str().into(), kind: name.into() })
    }

    /// Whether each cluster that the plugin runs in serves the kind of a type in the package `import`: Kubernetes has
    /// it, or a definition of the project, which is installed with the plugin.
    pub(super) fn is_always_served(&self, import: &str, kind: &ObjectKind) -> bool {
        let is_stable = |version: &str| !version.contains("alpha") && !version.contains("beta");
        // Kubernetes serves this group since 1.34.
        let is_built_in = |api: &str| is_stable(api) && !api.starts_with("resource.k8s.io/");
        let is_of = |definition: &&Value| {
            let spec = &definition["spec"];
            let mut versions = spec["versions"].as_array().into_iter().flatten();
            let is_version = |it: &Value| {
                it["served"] != false
                    && it["name"].as_str().is_some_and(|name| *kind.api_version == *format!("{}/{name}", kind.group()))
            };
            spec["group"] == kind.group() && spec["names"]["kind"] == *kind.kind && versions.any(is_version)
        };
        built_in(import).is_some_and(|api| is_built_in(&api)) || self.definitions.iter().any(|it| is_of(&it))
    }

    /// The API of a package of the project.
    fn own(&self, import: &str) -> Option<String> {
        let folder = super::folder_of(self.module, import)?;
        let package = self.packages.iter().find(|package| package.folder == folder)?;
        let version = if package.version.is_empty() { &package.name } else { &package.version };
        (!package.group.is_empty()).then(|| format!("{}/{version}", package.group))
    }

    /// The API of the only definition that has the kind, in the version that the package is named after.
    fn defined(&self, import: &str, name: &str) -> Option<String> {
        let version = import.rsplit('/').next()?;
        let mut found = self.definitions.iter().filter(|definition| {
            let spec = &definition["spec"];
            let mut versions = spec["versions"].as_array().into_iter().flatten();
            spec["names"]["kind"] == name && versions.any(|it| it["name"] == version)
        });
        let group = found.next()?["spec"]["group"].as_str()?;
        found.next().is_none().then(|| format!("{group}/{version}"))
    }
}

fn built_in(import: &str) -> Option<String> {
    if let Some((_, api_version)) = BUILT_IN_PACKAGES.iter().find(|(package, _)| *package == import) {
        return Some((*api_version).to_owned());
    }
    let (folder, version) = import.strip_prefix("k8s.io/api/")?.split_once('/')?;
    let group = BUILT_IN_GROUPS.iter().find(|(name, _)| *name == folder).map_or(folder, |(_, group)| group);
    Some(if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_is_known_from_the_package_the_project_file_or_a_definition() {
        let package = |folder: &str, name: &str, group: &str, version: &str| SourcePackage {
            folder: folder.into(),
            name: name.into(),
            group: group.into(),
            version: version.into(),
            ..SourcePackage::default()
        };
        let packages = [
            package("api/v1", "v1", "shops.example.com", "v1"),
            package("api/v2beta1", "v2beta1", "shops.example.com", ""),
            package("internal/controller", "controller", "", ""),
        ];
        let project = json!({"domain": "example.com", "resources": [
            {"group": "cert-manager", "domain": "io", "external": true, "kind": "Certificate", "version": "v1",
             "path": "example.org/certmanager/v1"},
            {"group": "apps", "core": true, "kind": "Deployment", "version": "v1", "path": "example.org/apps/v1"},
        ]});
        let project = ProjectFile::of(&project);
        let definition = |group: &str, kind: &str| json!({"spec": {"group": group, "names": {"kind": kind}, "versions": [{"name": "v1"}]}});
        let definitions = [
            definition("a.example.org", "Cart"),
            definition("a.example.org", "Till"),
            definition("b.example.org", "Till"),
        ];
        let kinds =
            GoKinds { module: "example.com/shop", packages: &packages, project: &project, definitions: &definitions };
        for (import, name, expected) in [
            ("example.com/shop/api/v1", "Shop", Some("shops.example.com/v1 Shop")),
            ("example.com/shop/api/v2beta1", "Shop", Some("shops.example.com/v2beta1 Shop")),
            ("example.com/shop/internal/controller", "Shop", None),
            ("example.org/certmanager/v1", "Certificate", Some("cert-manager.io/v1 Certificate")),
            ("example.org/apps/v1", "Deployment", Some("apps/v1 Deployment")),
            ("k8s.io/api/core/v1", "Pod", Some("v1 Pod")),
            ("k8s.io/api/networking/v1", "Ingress", Some("networking.k8s.io/v1 Ingress")),
            ("k8s.io/api/batch/v1", "Job", Some("batch/v1 Job")),
            (
                "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
                "CustomResourceDefinition",
                Some("apiextensions.k8s.io/v1 CustomResourceDefinition"),
            ),
            ("other.example.org/v1", "Cart", Some("a.example.org/v1 Cart")),
            ("other.example.org/v1", "Till", None),
            ("other.example.org/v2", "Cart", None),
            ("k8s.io/apimachinery/pkg/apis/meta/v1/unstructured", "Unstructured", None),
            ("", "obj", None),
        ] {
            assert_eq!(kinds.of(import, name).map(|kind| kind.to_string()).as_deref(), expected, "{import} {name}");
        }
    }
}
