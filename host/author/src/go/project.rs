//! The parts of a plugin's go.mod and go.sum that decide which copies it needs. Nothing here does I/O.

use serde::Deserialize;

use super::rules::{CONTROLLER_RUNTIME, GO_LINE, GUEST_MODULES, GuestModule, IndirectNeed, SDK};
use crate::new;
use crate::versions::ToolVersion;

/// The version of the SDK in go.mod. Its code is the embedded one.
const SDK_VERSION: &str = "v0.0.0";

/// A go.mod, as `go mod edit -json` prints it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ModFile {
    go: Option<String>,
    require: Option<Vec<Requirement>>,
    replace: Option<Vec<Replacement>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Requirement {
    path: String,
    version: String,
    #[serde(default)]
    indirect: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Replacement {
    old: ReplacedModule,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReplacedModule {
    path: String,
}

/// A module that the plugin gets as a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChosenModule {
    pub(super) module: &'static GuestModule,
    pub(super) version: String,
    /// The module's checksum in go.sum. Empty if the copy contains no files of the module itself.
    pub(super) sum: String,
}

impl ModFile {
    fn requirement(&self, path: &str) -> Option<&Requirement> {
        self.require.iter().flatten().find(|requirement| requirement.path == path)
    }

    fn replaces(&self, path: &str) -> bool {
        self.replace.iter().flatten().any(|replacement| replacement.old.path == path)
    }

    fn has_facade(&self) -> bool {
        self.requirement(CONTROLLER_RUNTIME).is_some()
    }

    /// The modules that the plugin gets as copies. A module that go.mod replaces is the author's choice. One that
    /// go.sum lacks is left to the go command, which reports it.
    pub(super) fn chosen(&self, sums: &str) -> Vec<ChosenModule> {
        let modules = GUEST_MODULES.iter().filter(|module| !self.replaces(module.path));
        modules.filter_map(|module| self.choose(module, sums)).collect()
    }

    fn choose(&self, module: &'static GuestModule, sums: &str) -> Option<ChosenModule> {
        let requirement = self.requirement(module.path);
        let is_needed = match (requirement, module.indirect) {
            (None, _) => module.path == SDK && self.has_facade(),
            (Some(Requirement { indirect: false, .. }), _) | (Some(_), IndirectNeed::Always) => true,
            (Some(_), IndirectNeed::ByFacade) => self.has_facade(),
            (Some(_), IndirectNeed::Never) => false,
        };
        if !is_needed {
            return None;
        }
        let version = requirement.map_or(SDK_VERSION, |requirement| &requirement.version);
        let sum = if module.has_original() { sum_in(sums, module.path, version)? } else { "" };
        Some(ChosenModule { module, version: version.to_owned(), sum: sum.to_owned() })
    }

    /// The arguments of `go mod edit` that make the build's own go.mod from the author's. `replaced` are the copies.
    pub(super) fn edits<'c>(&self, replaced: impl IntoIterator<Item = (&'c ChosenModule, String)>) -> Vec<String> {
        let mut edits = Vec::new();
        let mut has_embedded = false;
        for (ChosenModule { module, version, .. }, folder) in replaced {
            edits.push(format!("-replace={}@{version}={folder}", module.path));
            has_embedded |= !module.has_original();
            if module.path == SDK && self.requirement(SDK).is_none() {
                edits.push(format!("-require={SDK}@{version}"));
            }
        }
        if has_embedded {
            for (path, version) in requirements_of_sdk() {
                if self.requirement(path).is_none() {
                    edits.push(format!("-require={path}@{version}"));
                }
            }
        }
        let is_old = |go: &String| ToolVersion::find(go) < ToolVersion::find(GO_LINE);
        if has_embedded && self.go.as_ref().is_none_or(is_old) {
            edits.push(format!("-go={GO_LINE}"));
        }
        edits
    }
}

/// Whether the plugin cannot be built without copies: the embedded modules are in no module proxy.
pub(super) fn needs_copies(chosen: &[ChosenModule]) -> bool {
    chosen.iter().any(|chosen| chosen.module.is_embedded())
}

/// The checksum of a module's files in a go.sum.
fn sum_in<'s>(sums: &'s str, path: &str, version: &str) -> Option<&'s str> {
    sums.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(path) && words.next() == Some(version)).then(|| words.next()).flatten()
    })
}

/// The modules that the SDK requires, with their versions.
fn requirements_of_sdk() -> impl Iterator<Item = (&'static str, &'static str)> {
    text_of_sdk("go.mod").lines().filter_map(|line| {
        let line = line.trim().strip_prefix("require ")?;
        line.split_once(' ').map(|(path, version)| (path, version.split(' ').next().unwrap_or(version)))
    })
}

/// The author's go.sum with the checksums of the modules that the SDK requires.
pub(super) fn sums_with_sdk(sums: &str) -> String {
    let mut all = sums.to_owned();
    if !all.is_empty() && !all.ends_with('\n') {
        all.push('\n');
    }
    for line in text_of_sdk("go.sum").lines() {
        if !sums.lines().any(|there| there == line) {
            all += line;
            all.push('\n');
        }
    }
    all
}

fn text_of_sdk(name: &str) -> &'static str {
    let files = new::embedded_files("go").unwrap_or_default();
    let content = files.iter().find(|(path, _)| *path == name).map(|(_, content)| *content);
    content.and_then(|content| std::str::from_utf8(content).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMS: &str = "\
k8s.io/api v0.36.3 h1:api=
k8s.io/api v0.36.3/go.mod h1:mod=
k8s.io/apimachinery v0.36.3 h1:machinery=
k8s.io/client-go v0.36.3 h1:client=
";

    fn file(require: &[(&str, bool)], replace: &[&str], go: &str) -> ModFile {
        let require: Vec<_> = require
            .iter()
            .map(|(path, indirect)| serde_json::json!({"Path": path, "Version": "v0.36.3", "Indirect": indirect}))
            .collect();
        let replace: Vec<_> = replace.iter().map(|path| serde_json::json!({"Old": {"Path": path}})).collect();
        let text = serde_json::json!({"Module": {"Path": "x"}, "Go": go, "Require": require, "Replace": replace});
        serde_json::from_value(text).expect("a go.mod")
    }

    fn paths(chosen: &[ChosenModule]) -> Vec<&'static str> {
        chosen.iter().map(|chosen| chosen.module.path).collect()
    }

    #[test]
    fn a_plugin_with_kubernetes_types_gets_copies_of_their_modules() {
        let requires = [("k8s.io/api", false), ("k8s.io/apimachinery", true), ("k8s.io/client-go", true)];
        let chosen = file(&requires, &[], "1.26").chosen(SUMS);
        assert_eq!(paths(&chosen), ["k8s.io/api", "k8s.io/apimachinery"]);
        assert_eq!((&*chosen[0].version, &*chosen[0].sum), ("v0.36.3", "h1:api="));
    }

    #[test]
    fn modules_that_are_replaced_or_lack_a_checksum_are_left_alone() {
        let requires = [("k8s.io/api", false), ("k8s.io/apimachinery", false), ("k8s.io/client-go", false)];
        assert_eq!(
            paths(&file(&requires, &["k8s.io/api"], "1.26").chosen(SUMS)),
            ["k8s.io/apimachinery", "k8s.io/client-go"]
        );
        let sums = SUMS.replace("k8s.io/apimachinery v0.36.3", "k8s.io/apimachinery v0.36.4");
        assert_eq!(paths(&file(&requires, &[], "1.26").chosen(&sums)), ["k8s.io/api", "k8s.io/client-go"]);
        assert_eq!(
            paths(&file(&requires[..1], &[], "1.26").chosen("k8s.io/api v0.36.3/go.mod h1:mod=\n")),
            Vec::<&str>::new()
        );
    }

    #[test]
    fn embedded_modules_exist_only_as_copies() {
        let chosen = file(&[("k8s.io/api", false), ("k8s.io/apimachinery", false)], &[], "1.26").chosen(SUMS);
        assert!(!chosen.is_empty() && !needs_copies(&chosen));
        for path in [SDK, CONTROLLER_RUNTIME] {
            assert!(needs_copies(&file(&[("k8s.io/api", false), (path, false)], &[], "1.26").chosen(SUMS)), "{path}");
        }
    }

    #[test]
    fn the_sdk_is_required_with_its_own_requirements() {
        let author = file(&[(SDK, false)], &[], "1.24");
        let chosen = author.chosen("");
        assert_eq!(paths(&chosen), [SDK]);
        let edits = author.edits(chosen.iter().map(|chosen| (chosen, "/cache/sdk".to_owned())));
        assert_eq!(edits[0], "-replace=windlass.dev/sdk@v0.36.3=/cache/sdk");
        assert!(edits[1].starts_with("-require=go.bytecodealliance.org/pkg@v"), "{edits:?}");
        assert_eq!(edits[2..], ["-go=1.26"]);
        let sums = sums_with_sdk("a v1 h1:x=");
        assert!(sums.starts_with("a v1 h1:x=\ngo.bytecodealliance.org/pkg v"), "{sums}");
        assert_eq!(sums_with_sdk(&sums), sums);
    }

    #[test]
    fn copies_of_kubernetes_leave_the_rest_of_go_mod_alone() {
        let author = file(&[("k8s.io/api", false)], &[], "1.24");
        let chosen = author.chosen(SUMS);
        let edits = author.edits(chosen.iter().map(|chosen| (chosen, "/cache/api".to_owned())));
        assert_eq!(edits, ["-replace=k8s.io/api@v0.36.3=/cache/api"]);
    }
}
