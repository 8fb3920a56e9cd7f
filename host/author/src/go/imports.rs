//! The packages that a plugin imports, as `go list` prints them. Finds imports that cannot work in a plugin, and the
//! API groups of Kubernetes. Nothing here does I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;

use serde::Deserialize;

use super::rules::{CLIENT_GO, CONTROLLER_RUNTIME};

/// The fields of a package that [`PackageGraph::read`] needs, for `go list -json`.
pub(super) const FIELDS: &str = "ImportPath,GoFiles,Imports,Error";
/// The package whose registry of metrics exports nothing.
const METRICS: &str = "sigs.k8s.io/controller-runtime/pkg/metrics";
/// The package whose scheme has the API groups that the plugin imports.
const SCHEME: &str = "k8s.io/client-go/kubernetes/scheme";
const API: &str = "k8s.io/api/";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Package {
    import_path: String,
    #[serde(default)]
    go_files: Vec<String>,
    #[serde(default)]
    imports: Vec<String>,
    error: Option<PackageError>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PackageError {
    #[serde(default)]
    import_stack: Vec<String>,
    #[serde(default)]
    pos: String,
}

/// All packages of a plugin.
#[derive(Debug)]
pub(super) struct PackageGraph(BTreeMap<String, Package>);

impl PackageGraph {
    pub(super) fn read(output: &[u8]) -> serde_json::Result<Self> {
        let packages = serde_json::Deserializer::from_slice(output).into_iter::<Package>();
        let named = packages.map(|package| package.map(|package| (package.import_path.clone(), package)));
        named.collect::<Result<_, _>>().map(Self)
    }

    /// The imports that cannot work in a plugin.
    pub(super) fn refused(&self) -> Vec<RefusedImport> {
        let refused = self.0.values().filter_map(|package| {
            let error = package.error.as_ref()?;
            let reason = reason(&package.import_path)?;
            let importer = error.import_stack.last().cloned().unwrap_or_default();
            Some(RefusedImport { package: package.import_path.clone(), position: error.pos.clone(), importer, reason })
        });
        refused.collect()
    }

    /// The packages that use the registry of Prometheus collectors, sorted.
    pub(super) fn with_collectors(&self) -> Vec<&str> {
        let uses = |package: &&Package| package.imports.iter().any(|import| import == METRICS);
        self.0.values().filter(uses).map(|package| &*package.import_path).collect()
    }

    /// The source file that adds the plugin's API groups to the scheme of client-go. `None` if the plugin does not use
    /// that scheme.
    pub(super) fn groups(&self) -> Option<String> {
        self.0.get(SCHEME).map(|_| scheme_groups(&self.group_packages()))
    }

    /// The packages of API groups that are imported by a package outside of Kubernetes' own modules.
    fn group_packages(&self) -> BTreeSet<&str> {
        let importers = self.0.values().filter(|package| !package.import_path.starts_with(API));
        let imported = importers.flat_map(|package| &package.imports).filter(|path| path.starts_with(API));
        let registers = |path: &&String| {
            self.0.get(*path).is_some_and(|package| package.go_files.iter().any(|file| file == "register.go"))
        };
        imported.filter(registers).map(String::as_str).collect()
    }
}

fn scheme_groups(packages: &BTreeSet<&str>) -> String {
    let mut text = "package scheme\n\nimport (\n\t\"k8s.io/apimachinery/pkg/runtime\"\n\n".to_owned();
    for (index, path) in packages.iter().enumerate() {
        let _ = writeln!(text, "\tgroup{index} {path:?}");
    }
    text += ")\n\nvar groups = runtime.SchemeBuilder{\n";
    for index in 0..packages.len() {
        let _ = writeln!(text, "\tgroup{index}.AddToScheme,");
    }
    text + "}\n"
}

/// An import of a package that does not exist for plugins.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusedImport {
    package: String,
    /// The file with line and column.
    position: String,
    /// The package that imports it.
    importer: String,
    reason: &'static str,
}

impl fmt::Display for RefusedImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { package, position, importer, reason } = self;
        if position.is_empty() {
            write!(f, "{importer}: ")?;
        } else {
            write!(f, "{position}: ")?;
        }
        write!(f, "a plugin cannot import {package}: {reason}")
    }
}

/// The reasons why a plugin cannot import a package of client-go, and what to do instead. The first that fits is used.
const CLIENT_GO_REASONS: &[(&[&str], &str)] = &[
    (
        &["informers", "listers", "tools/cache", "tools/watch"],
        "the host has the informers and their caches. Declare the kind with Owns or Watches of the controller, or with \
         windlass.Reads, and read it with the manager's client (mgr.GetClient())",
    ),
    (&["tools/leaderelection"], "the host elects a leader for each plugin. Delete the election"),
    (
        &["kubernetes/fake", "dynamic/fake", "testing", "util/testing"],
        "it is for tests. Import it only in files named *_test.go",
    ),
    (
        &["kubernetes", "dynamic", "metadata", "gentype", "scale"],
        "it opens connections, and a plugin has none. Read and write with the manager's client (mgr.GetClient()), which \
         also takes unstructured.Unstructured and metav1.PartialObjectMetadata",
    ),
    (
        &["discovery", "restmapper", "openapi", "openapi3"],
        "it opens connections, and a plugin has none. The manager's client knows the kinds of its scheme \
         (mgr.GetClient().RESTMapper())",
    ),
    (
        &["tools/clientcmd", "plugin", "tools/auth", "pkg/apis/clientauthentication", "util/certificate"],
        "the host has the connection and its credentials. Delete the code that makes a configuration",
    ),
    (
        &["tools/remotecommand", "tools/portforward", "transport", "util/connrotation"],
        "it opens connections, and a plugin has none. For HTTP that the policy grants there is windlass.dev/sdk/http",
    ),
];
const CLIENT_GO_REASON: &str = "this package of client-go needs a connection, and a plugin has none. Read and write \
     with the manager's client (mgr.GetClient())";

/// As [`CLIENT_GO_REASONS`], for controller-runtime.
const CONTROLLER_RUNTIME_REASONS: &[(&[&str], &str)] = &[
    (
        &["pkg/webhook", "pkg/certwatcher"],
        "the host serves no webhooks of plugins. Put the rules into the definition (x-kubernetes-validations), or leave \
         the webhooks in a program of their own",
    ),
    (
        &["pkg/metrics/server", "pkg/metrics/filters", "pkg/internal"],
        "the host serves the metrics. Delete the server's options; windlass.dev/sdk/metrics has a plugin's own metrics",
    ),
    (&["pkg/leaderelection"], "the host elects a leader for each plugin. Delete the election"),
    (
        &["pkg/envtest", "pkg/client/fake", "pkg/client/interceptor"],
        "it is for tests. Import it only in files named *_test.go",
    ),
];
const CONTROLLER_RUNTIME_REASON: &str = "the stand-in for controller-runtime has no such package. \
     docs/coming-from-controller-runtime.md lists the differences";

/// The reason why a plugin cannot import a package that does not exist. `None` if only go knows.
fn reason(import_path: &str) -> Option<&'static str> {
    let within = |path: &str| import_path.strip_prefix(path).and_then(|rest| rest.strip_prefix('/'));
    let (package, reasons, otherwise) = match (within(CLIENT_GO), within(CONTROLLER_RUNTIME)) {
        (Some(package), _) => (package, CLIENT_GO_REASONS, CLIENT_GO_REASON),
        (None, Some(package)) => (package, CONTROLLER_RUNTIME_REASONS, CONTROLLER_RUNTIME_REASON),
        (None, None) => return None,
    };
    let is_of =
        |prefix: &&str| package.strip_prefix(*prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let fitting = reasons.iter().find(|(prefixes, _)| prefixes.iter().any(is_of));
    Some(fitting.map_or(otherwise, |(_, reason)| reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(packages: &[serde_json::Value]) -> PackageGraph {
        let output: String = packages.iter().map(ToString::to_string).collect();
        PackageGraph::read(output.as_bytes()).expect("it is read")
    }

    fn missing(path: &str) -> serde_json::Value {
        let error =
            serde_json::json!({"ImportStack": ["example.com/shop"], "Pos": "main.go:7:2", "Err": "cannot find module"});
        serde_json::json!({"ImportPath": path, "Error": error})
    }

    #[test]
    fn an_import_that_cannot_work_is_refused_with_line_and_alternative() {
        for (path, says) in [
            ("k8s.io/client-go/informers/core/v1", "windlass.Reads"),
            ("k8s.io/client-go/kubernetes", "mgr.GetClient()"),
            ("k8s.io/client-go/kubernetes/fake", "*_test.go"),
            ("k8s.io/client-go/tools/leaderelection/resourcelock", "elects a leader"),
            ("k8s.io/client-go/unheard/of", "needs a connection"),
            ("sigs.k8s.io/controller-runtime/pkg/webhook/admission", "x-kubernetes-validations"),
            ("sigs.k8s.io/controller-runtime/pkg/unheard", "has no such package"),
        ] {
            let refused = graph(&[missing(path)]).refused();
            let text = refused.iter().map(ToString::to_string).collect::<String>();
            assert!(
                text.starts_with(&format!("main.go:7:2: a plugin cannot import {path}: ")) && text.contains(says),
                "{text}"
            );
        }
    }

    #[test]
    fn other_missing_packages_are_left_to_go() {
        let found = serde_json::json!({"ImportPath": "k8s.io/client-go/util/retry", "GoFiles": ["util.go"]});
        let graph = graph(&[missing("github.com/acme/shop"), missing("k8s.io/client-gone"), found]);
        assert_eq!(graph.refused(), []);
    }

    #[test]
    fn packages_with_prometheus_collectors_are_found() {
        let package = |path: &str, import: &str| serde_json::json!({"ImportPath": path, "Imports": [import]});
        let facade = "sigs.k8s.io/controller-runtime/pkg/manager";
        let packages = [package("example.com/b", METRICS), package("example.com/a", METRICS), package(facade, "io")];
        assert_eq!(graph(&packages).with_collectors(), ["example.com/a", "example.com/b"]);
    }

    #[test]
    fn a_scheme_has_the_groups_that_the_plugin_imports() {
        let package = |path: &str, imports: &[&str], file: &str| serde_json::json!({"ImportPath": path, "Imports": imports, "GoFiles": [file]});
        let apps = package("k8s.io/api/apps/v1", &["k8s.io/api/core/v1"], "register.go");
        let core = package("k8s.io/api/core/v1", &["k8s.io/api/other/v1"], "register.go");
        let other = package("k8s.io/api/other/v1", &[], "register.go");
        let helper = package("k8s.io/api/helper", &[], "helper.go");
        let main = package("example.com/shop", &["k8s.io/api/apps/v1", "k8s.io/api/helper", SCHEME], "main.go");
        let packages = [apps, core, other, helper, main];
        assert_eq!(graph(&packages).groups(), None, "the scheme is not used");
        let scheme = package(SCHEME, &["k8s.io/apimachinery/pkg/runtime"], "scheme.go");
        let facade = package("sigs.k8s.io/controller-runtime", &["k8s.io/api/core/v1"], "alias.go");
        let groups = graph(&[&packages[..], &[scheme, facade]].concat()).groups().expect("the scheme is used");
        assert_eq!(
            groups,
            "package scheme\n\nimport (\n\t\"k8s.io/apimachinery/pkg/runtime\"\n\n\tgroup0 \"k8s.io/api/apps/v1\"\n\
             \tgroup1 \"k8s.io/api/core/v1\"\n)\n\nvar groups = runtime.SchemeBuilder{\n\tgroup0.AddToScheme,\n\
             \tgroup1.AddToScheme,\n}\n"
        );
    }
}
