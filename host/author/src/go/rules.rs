//! The Go modules that a plugin compiles in another form, and what each form lacks. Nothing here does I/O.

use std::borrow::Cow;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::source;
use crate::base::hexadecimal;
use crate::new;

/// A Go module of which plugins get a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GuestModule {
    /// The module's path.
    pub(super) path: &'static str,
    /// The packages of the module that are copied, with the packages below them. An empty text stands for all. Without
    /// any, the module itself is not needed.
    packages: &'static [&'static str],
    /// The embedded module whose packages replace the module's packages of the same path.
    embedded: Option<&'static str>,
    /// Whether a plugin that has the module only for its dependencies needs it.
    pub(super) indirect: IndirectNeed,
}

/// Whether a module that go.mod marks as `// indirect` is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndirectNeed {
    Always,
    /// Only by the facade of controller-runtime.
    ByFacade,
    Never,
}

/// The facade. A plugin that uses it also needs the SDK and client-go.
pub(super) const CONTROLLER_RUNTIME: &str = "sigs.k8s.io/controller-runtime";
pub(super) const SDK: &str = "windlass.dev/sdk";

const STRUCTURED_MERGE_DIFF: &str = "sigs.k8s.io/structured-merge-diff/v6";

pub(super) const CLIENT_GO: &str = "k8s.io/client-go";

/// The packages of client-go that need no connection.
const CLIENT_GO_PACKAGES: &[&str] = &[
    "applyconfigurations",
    "features",
    "pkg/version",
    "third_party/forked/golang",
    "tools/clientcmd/api",
    "tools/pager",
    "tools/reference",
    "util/apply",
    "util/cert",
    "util/csaupgrade",
    "util/exec",
    "util/flowcontrol",
    "util/homedir",
    "util/jsonpath",
    "util/keyutil",
    "util/retry",
    "util/workqueue",
];

pub(super) static GUEST_MODULES: [GuestModule; 7] = [
    GuestModule { path: "k8s.io/api", packages: &[""], embedded: None, indirect: IndirectNeed::Always },
    GuestModule { path: "k8s.io/apimachinery", packages: &[""], embedded: None, indirect: IndirectNeed::Always },
    GuestModule { path: STRUCTURED_MERGE_DIFF, packages: &[""], embedded: None, indirect: IndirectNeed::Always },
    GuestModule {
        path: "k8s.io/apiextensions-apiserver",
        packages: &[""],
        embedded: None,
        indirect: IndirectNeed::Never,
    },
    GuestModule {
        path: CLIENT_GO,
        packages: CLIENT_GO_PACKAGES,
        embedded: Some("clientgo"),
        indirect: IndirectNeed::ByFacade,
    },
    GuestModule {
        path: CONTROLLER_RUNTIME,
        packages: &[],
        embedded: Some("ctrlruntime"),
        indirect: IndirectNeed::ByFacade,
    },
    GuestModule { path: SDK, packages: &[], embedded: Some("go"), indirect: IndirectNeed::ByFacade },
];

/// Whether plugins can import this package of client-go, such as `util/retry`: copies contain it, or there is a
/// stand-in.
pub(crate) fn serves_client_go(package: &str) -> bool {
    let folder = Some(Path::new(package));
    let serves =
        |module: &GuestModule| module.has_folder(package) || module.embedded().any(|path| path.parent() == folder);
    GUEST_MODULES.iter().any(|module| module.path == CLIENT_GO && serves(module))
}

/// A file of a copy: its path in the module, and its content.
pub(super) type CopiedFile<'t> = (Cow<'t, Path>, Cow<'t, [u8]>);

impl GuestModule {
    /// The module with this path.
    #[cfg(test)]
    pub(super) fn named(path: &str) -> Option<&'static Self> {
        GUEST_MODULES.iter().find(|module| module.path == path)
    }

    /// Whether a copy contains files of the module itself.
    pub(super) fn has_original(&self) -> bool {
        !self.packages.is_empty()
    }

    /// Whether a copy contains files that only Windlass has.
    pub(super) fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Whether a copy contains files of this folder of the module. `folder` uses slashes.
    pub(super) fn has_folder(&self, folder: &str) -> bool {
        let is_within = |folder: &str, package: &str| {
            package.is_empty()
                || folder.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_test_data = folder.split('/').any(|part| part == "testdata");
        let is_replaced = self.embedded().any(|path| path.parent() == Some(Path::new(folder)) && !folder.is_empty());
        !is_test_data && !is_replaced && self.packages.iter().any(|package| is_within(folder, package))
    }

    /// Whether the walk through the module must enter this folder.
    pub(super) fn leads_to_folder(&self, folder: &str) -> bool {
        let is_above = |package: &str| folder.is_empty() || package.starts_with(&format!("{folder}/"));
        self.has_folder(folder) || self.packages.iter().any(|package| is_above(package))
    }

    /// The content that a file of the module has in the copy. `None` if the copy lacks the file.
    pub(super) fn copied<'t>(&self, path: &str, text: &'t [u8]) -> Option<Cow<'t, [u8]>> {
        let name = path.rsplit('/').next().unwrap_or(path);
        if !((is_code(name) && !name.ends_with("_test.go")) || name == "go.mod" || name == "LICENSE")
            || name == "types_swagger_doc_generated.go"
        {
            return None;
        }
        let Ok(source) = std::str::from_utf8(text) else { return Some(text.into()) };
        let edited = match (self.path, path) {
            (STRUCTURED_MERGE_DIFF, "value/value.go") => source::json_values(source),
            (_, _) if name == "generated.pb.go" => Some(source::protobuf(source)),
            ("k8s.io/apimachinery", "pkg/util/net/http.go") => Some(include_str!("utilnet.go").to_owned()),
            ("k8s.io/apimachinery", "pkg/runtime/serializer/cbor/direct/direct.go") => {
                Some(include_str!("cbordirect.go").to_owned())
            }
            ("k8s.io/apimachinery", _) => source::without_net_http(source),
            _ => None,
        };
        Some(edited.map_or(Cow::Borrowed(text), |text| Cow::Owned(text.into_bytes())))
    }

    /// The files that a copy has besides those of the module.
    pub(super) fn added(&self) -> Vec<CopiedFile<'static>> {
        let mut added: Vec<CopiedFile<'static>> = Vec::new();
        if self.path == "k8s.io/apimachinery" {
            let path = Path::new("pkg/util/windlasshttp/constants.go");
            added.push((path.into(), include_bytes!("constants.go").as_slice().into()));
        }
        for (path, content) in self.embedded.and_then(new::embedded_files).unwrap_or_default() {
            if is_code(path) {
                added.push((Path::new(path).into(), (*content).into()));
            }
        }
        if !self.has_original() {
            // The requirements of the main module suffice, and its versions are the ones to use.
            let text = format!("module {}\n\ngo {GO_LINE}\n", self.path);
            added.push((Path::new("go.mod").into(), text.into_bytes().into()));
        }
        added
    }

    fn embedded(&self) -> impl Iterator<Item = &'static Path> + use<> {
        self.embedded.and_then(new::embedded_files).unwrap_or_default().iter().map(|(path, _)| Path::new(path))
    }

    /// A text that changes with the content of copies. `sum` is the checksum of the module.
    pub(super) fn key(&self, sum: &str) -> String {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        for rules in [
            include_bytes!("rules.rs").as_slice(),
            include_bytes!("source.rs"),
            include_bytes!("utilnet.go"),
            include_bytes!("cbordirect.go"),
        ] {
            add(rules);
        }
        add(sum.as_bytes());
        for (path, content) in self.added() {
            add(path.as_os_str().as_encoded_bytes());
            add(&content);
        }
        hexadecimal(hash)[..16].to_owned()
    }
}

/// Whether the go command compiles the file.
fn is_code(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "go" || extension == "s")
}

/// The `go` line of modules that this binary embeds. A plugin's `go` line must be at least this.
pub(super) const GO_LINE: &str = "1.26";

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> &'static GuestModule {
        GuestModule::named(path).expect("it is listed")
    }

    fn has(path: &str, file: &str) -> bool {
        module(path).copied(file, b"package x\n").is_some()
    }

    #[test]
    fn copies_lack_tests_documentation_and_data() {
        for (file, expected) in [
            ("core/v1/types.go", true),
            ("core/v1/generated.pb.go", true),
            ("core/v1/zz_generated.deepcopy.go", true),
            ("go.mod", true),
            ("core/v1/types_swagger_doc_generated.go", false),
            ("core/v1/types_test.go", false),
            ("core/v1/generated.proto", false),
            ("README.md", false),
        ] {
            assert_eq!(has("k8s.io/api", file), expected, "{file}");
        }
        assert!(!module("k8s.io/api").has_folder("testdata/HEAD"));
        assert!(module("k8s.io/api").has_folder("core/v1"));
    }

    #[test]
    fn only_packages_of_client_go_without_a_connection_are_copied() {
        let client_go = module("k8s.io/client-go");
        for (folder, is_copied, is_entered) in [
            ("", false, true),
            ("util", false, true),
            ("util/retry", true, true),
            ("util/certificate", false, false),
            ("applyconfigurations/core/v1", true, true),
            ("informers", false, false),
            ("kubernetes/scheme", false, false),
            ("tools", false, true),
            ("tools/cache", false, false),
        ] {
            assert_eq!(
                (client_go.has_folder(folder), client_go.leads_to_folder(folder)),
                (is_copied, is_entered),
                "{folder}"
            );
        }
        let added: Vec<_> = client_go.added().into_iter().map(|(path, _)| path.display().to_string()).collect();
        for package in ["kubernetes/scheme/groups.go", "rest/config.go", "tools/record/record.go"] {
            assert!(added.iter().any(|path| path == package), "{package} is missing: {added:?}");
        }
        assert!(!added.iter().any(|path| path == "go.mod" || path.ends_with("_test.go")), "{added:?}");
    }

    #[test]
    fn apimachinery_is_copied_without_http_and_cbor() {
        let module = module("k8s.io/apimachinery");
        let text = |path, text: &str| {
            let copied = module.copied(path, text.as_bytes()).expect("it is copied");
            String::from_utf8(copied.into_owned()).expect("text")
        };
        let errors = "import (\n\t\"net/http\"\n)\n\nvar Code = http.StatusGone\n";
        assert!(text("pkg/api/errors/errors.go", errors).contains("windlasshttp"));
        let transport = "import (\n\t\"net/http\"\n)\n\nvar T http.Transport\n";
        assert_eq!(text("pkg/util/proxy/transport.go", transport), transport);
        assert!(!text("pkg/util/net/http.go", transport).contains("Transport"));
        let direct = "package direct\n\nimport \"k8s.io/apimachinery/pkg/runtime/serializer/cbor/internal/modes\"\n";
        assert!(!text("pkg/runtime/serializer/cbor/direct/direct.go", direct).contains("modes"));
        assert!(module.added().iter().any(|(path, _)| path.ends_with("windlasshttp/constants.go")));
    }

    #[test]
    fn a_key_changes_with_the_module_and_with_what_is_added() {
        let keys = ["k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"].map(|path| module(path).key("h1:a"));
        assert!(keys[0] != keys[1] && keys[1] != keys[2], "{keys:?}");
        assert_ne!(module("k8s.io/api").key("h1:b"), keys[0]);
        assert_eq!(module("k8s.io/api").key("h1:a"), keys[0]);
    }
}
