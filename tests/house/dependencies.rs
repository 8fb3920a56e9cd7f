//! The dependencies of our crates: foreign crates must fit the lists in deny.toml, and our own crates the order in
//! docs/architecture.md. `tools/deny` checks security advisories, which need a network.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};
use toml_edit::{DocumentMut, Item};

/// The lower crates of the host. Each has the list of our own crates that it may depend on, directly or not.
const FOUNDATIONS: [(&str, &[&str]); 7] = [
    ("windlass-core", &[]),
    ("windlass-types", &["windlass-core"]),
    ("windlass-manifest", &["windlass-core"]),
    ("windlass-policy", &["windlass-core", "windlass-manifest"]),
    ("windlass-kube", &["windlass-core", "windlass-files", "windlass-world"]),
    ("windlass-wasm", &["windlass-core", "windlass-files", "windlass-manifest", "windlass-world"]),
    ("windlass-apiserver", &["windlass-files"]),
];

/// The lists of deny.toml.
pub(crate) struct Rules {
    licences: Vec<(String, Licensee)>,
    registries: Vec<String>,
    banned: Vec<String>,
}

impl Rules {
    /// Reads deny.toml. An error names the wrong entry.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let rules: DocumentMut = text.parse().map_err(|error| format!("deny.toml: {error}"))?;
        let licences = texts(&rules, "licenses", "allow").into_iter().map(|name| {
            let licence = Licensee::parse(&name).map_err(|error| format!("deny.toml: {name}: {error}"))?;
            Ok((name, licence))
        });
        let licences = licences.collect::<Result<Vec<_>, String>>()?;
        let registries = texts(&rules, "sources", "allow-registry");
        let banned = list(&rules, "bans", "deny");
        let banned = banned.filter_map(|it| Some(it.as_inline_table()?.get("crate")?.as_str()?.to_owned())).collect();
        Ok(Self { licences, registries, banned })
    }

    /// The packages of `cargo metadata` whose licence is not allowed.
    pub(crate) fn licences(&self, packages: &[Value]) -> Vec<String> {
        let breach = |package: &Value| {
            let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
            let Some(licence) = package["license"].as_str() else { return Some(format!("{name} names no licence")) };
            let is_allowed = Expression::parse_mode(licence, ParseMode::LAX)
                .map(|it| it.evaluate(|asked| self.licences.iter().any(|(_, allowed)| allowed.satisfies(asked))));
            match is_allowed {
                Ok(true) => None,
                Ok(false) => Some(format!("{name}: its licence {licence} is not allowed by deny.toml")),
                Err(error) => Some(format!("{name}: its licence {licence} cannot be read: {}", error.reason)),
            }
        };
        packages.iter().filter_map(breach).collect()
    }

    /// The allowed licences that no package needs.
    pub(crate) fn needless_licences(&self, packages: &[Value]) -> Vec<String> {
        let is_needless = |at: usize| {
            let mut others = self.licences.clone();
            others.remove(at);
            Self { licences: others, registries: vec![], banned: vec![] }.licences(packages).is_empty()
        };
        let needless = self.licences.iter().enumerate().filter(|(at, _)| is_needless(*at));
        needless.map(|(_, (name, _))| format!("deny.toml: no crate needs that {name} is allowed")).collect()
    }

    /// The packages of the Cargo.lock `text` at `path` that come from a registry that is not allowed, or are banned.
    pub(crate) fn locked(&self, path: &str, text: &str) -> Vec<String> {
        let lock: DocumentMut = match text.parse() {
            Ok(lock) => lock,
            Err(error) => return vec![format!("{path}: {error}")],
        };
        let mut found = Vec::new();
        for package in lock.get("package").and_then(Item::as_array_of_tables).into_iter().flatten() {
            let name = package.get("name").and_then(Item::as_str).unwrap_or_default();
            // A package without a source is a folder of this checkout.
            let source = package.get("source").and_then(Item::as_str);
            let is_ours = |source: &str| {
                source.strip_prefix("registry+").is_some_and(|it| self.registries.iter().any(|allowed| allowed == it))
            };
            if let Some(source) = source.filter(|it| !is_ours(it)) {
                found.push(format!("{path}: {name} comes from {source}, which deny.toml does not allow"));
            }
            if self.banned.iter().any(|banned| banned == name) {
                found.push(format!("{path}: {name} is banned by deny.toml"));
            }
        }
        found
    }
}

/// The packages that cargo resolves for `target` in the workspace of `manifest`, or cargo's error.
pub(crate) fn packages(manifest: &Path, target: &str) -> Result<Vec<Value>, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--locked", "--offline", "--format-version=1", "--filter-platform", target]);
    let answer = cargo.arg("--manifest-path").arg(manifest).output().map_err(|error| format!("cargo: {error}"))?;
    if !answer.status.success() {
        let complaint = String::from_utf8_lossy(&answer.stderr);
        return Err(format!("{}: {complaint}; `cargo fetch` brings what is not here", manifest.display()));
    }
    let mut metadata: Value =
        serde_json::from_slice(&answer.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    match metadata["packages"].take() {
        Value::Array(packages) if !packages.is_empty() => Ok(packages),
        _ => Err(format!("cargo metadata names no packages of {}", manifest.display())),
    }
}

/// The crates of [`FOUNDATIONS`] that depend on other crates of ours than those listed there. Tests may use any crate.
pub(crate) fn above_themselves(packages: &[Value]) -> Vec<String> {
    let breaches = |(name, allowed): &(&str, &[&str])| {
        let ours = built_on(packages, name);
        let others = ours.into_iter().filter(|it| !allowed.contains(it));
        others.map(|other| format!("{name} is built on {other}, which is not below it")).collect::<Vec<_>>()
    };
    FOUNDATIONS.iter().flat_map(breaches).collect()
}

/// Our own crates that `name` depends on, directly or not.
fn built_on<'a>(packages: &'a [Value], name: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![name]);
    while let Some(next) = waiting.pop() {
        let package = packages.iter().find(|package| package["name"] == next);
        let dependencies = package.and_then(|it| it["dependencies"].as_array()).into_iter().flatten();
        let built_upon = dependencies.filter(|it| it["kind"] != "dev").filter_map(|it| it["name"].as_str());
        waiting.extend(built_upon.filter(|it| it.starts_with("windlass-")).filter(|it| found.insert(*it)));
    }
    found
}

fn list<'a>(rules: &'a DocumentMut, table: &str, key: &str) -> impl Iterator<Item = &'a toml_edit::Value> {
    rules.get(table).and_then(|table| table.get(key)?.as_array()).into_iter().flatten()
}

fn texts(rules: &DocumentMut, table: &str, key: &str) -> Vec<String> {
    list(rules, table, key).filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RULES: &str = r#"
        licenses.allow = ["MIT", "Apache-2.0 WITH LLVM-exception", "ISC"]
        sources.allow-registry = ["https://example.com/index"]
        bans.deny = [{ crate = "openssl", use-instead = "rustls" }]
    "#;

    fn rules() -> Rules {
        Rules::read(RULES).expect("sound")
    }

    fn packages(licences: &[&str]) -> Vec<Value> {
        licences.iter().map(|licence| json!({"name": "a", "version": "1.0.0", "license": licence})).collect()
    }

    #[test]
    fn a_licence_is_allowed_if_one_of_its_alternatives_is() {
        let allowed =
            ["MIT", "MIT/GPL-3.0", "MIT AND ISC", "(GPL-3.0 OR MIT) AND ISC", "Apache-2.0 WITH LLVM-exception"];
        assert_eq!(rules().licences(&packages(&allowed)), [""; 0]);
        for refused in ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "no licence at all"] {
            assert_eq!(rules().licences(&packages(&[refused])).len(), 1, "{refused}");
        }
        let nameless = [json!({"name": "a", "version": "1.0.0", "license": null})];
        assert_eq!(rules().licences(&nameless), ["a 1.0.0 names no licence"]);
    }

    #[test]
    fn a_licence_that_no_crate_needs_is_reported() {
        let packages = packages(&["MIT OR ISC", "Apache-2.0 WITH LLVM-exception", "ISC"]);
        assert_eq!(rules().needless_licences(&packages), ["deny.toml: no crate needs that MIT is allowed"]);
    }

    #[test]
    fn foreign_sources_and_banned_crates_are_found_in_a_lock_file() {
        let lock = "[[package]]\nname = \"here\"\nversion = \"1.0.0\"\n\n\
            [[package]]\nname = \"b\"\nversion = \"1.0.0\"\nsource = \"registry+https://example.com/index\"\n\n\
            [[package]]\nname = \"c\"\nversion = \"1.0.0\"\nsource = \"git+https://example.com/index\"\n\n\
            [[package]]\nname = \"openssl\"\nversion = \"1.0.0\"\nsource = \"registry+https://example.com/index\"\n";
        let expected = [
            "Cargo.lock: c comes from git+https://example.com/index, which deny.toml does not allow",
            "Cargo.lock: openssl is banned by deny.toml",
        ];
        assert_eq!(rules().locked("Cargo.lock", lock), expected);
    }

    #[test]
    fn an_indirect_dependency_on_a_higher_crate_is_reported() {
        let package =
            |name: &str, on: &str, kind: &Value| json!({"name": name, "dependencies": [{"name": on, "kind": kind}]});
        let packages = |kind: Value| {
            [package("windlass-policy", "windlass-helper", &kind), package("windlass-helper", "windlass-kube", &kind)]
        };
        let expected = [
            "windlass-policy is built on windlass-helper, which is not below it",
            "windlass-policy is built on windlass-kube, which is not below it",
        ];
        assert_eq!(above_themselves(&packages(Value::Null)), expected);
        assert_eq!(above_themselves(&packages(json!("dev"))), [""; 0]);
    }

    #[test]
    fn a_list_with_a_licence_that_does_not_exist_is_refused() {
        assert!(Rules::read("licenses.allow = [\"MTI\"]").is_err_and(|error| error.contains("MTI")));
    }
}
