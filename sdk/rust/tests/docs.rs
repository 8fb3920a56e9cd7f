//! Checks the manifests that docs/authoring.md shows. Its Rust snippets are doc tests of the SDK.

mod support;

use std::fmt::Write as _;

use serde_json::Value;

use support::{misfits, schema};

const AUTHORING: &str = include_str!("../../../docs/authoring.md");

/// A fenced block: the info string after the fence, and the text.
struct Snippet {
    info: &'static str,
    text: String,
    line: usize,
}

fn snippets() -> Vec<Snippet> {
    let mut found = Vec::new();
    let mut open: Option<Snippet> = None;
    for (index, line) in AUTHORING.lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(info), None) => open = Some(Snippet { info, text: String::new(), line: index + 1 }),
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(snippet)) => writeln!(snippet.text, "{line}").unwrap(),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

#[test]
fn every_snippet_is_covered_by_a_test() {
    for Snippet { info, line, .. } in snippets() {
        // tests/docs checks the commands. The interpreter's tests check the Starlark scripts, whose fences say
        // `python`. tests/cases/author_definitions.rs builds a plugin with the snippets that say `toml` and
        // `rust ignore`.
        assert!(
            ["rust", "rust ignore", "toml", "json manifest", "json", "console", "python"].contains(&info),
            "line {line}: nothing checks ```{info}"
        );
    }
}

#[test]
fn the_manifests_fit_the_schema() {
    let schema = schema();
    let manifests: Vec<_> = snippets().into_iter().filter(|snippet| snippet.info == "json manifest").collect();
    assert!(!manifests.is_empty());
    for Snippet { text, line, .. } in manifests {
        let manifest: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("line {line}: {error}"));
        assert_eq!(misfits(&schema, &schema, &manifest, ""), [""; 0], "line {line}");
    }
}

#[test]
fn the_objects_are_of_kinds_that_the_host_makes() {
    let objects: Vec<_> = snippets().into_iter().filter(|snippet| snippet.info == "json").collect();
    let kinds: Vec<_> = objects
        .iter()
        .map(|Snippet { text, line, .. }| {
            let object: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("line {line}: {error}"));
            assert!(object["apiVersion"].as_str().is_some_and(|it| it.starts_with("windlass.dev/")), "line {line}");
            object["kind"].as_str().unwrap_or_default().to_owned()
        })
        .collect();
    assert_eq!(kinds, ["Timer", "HookDelivery"]);
}

/// Each SDK documents this default in its own words. When the host's default changes, all of them must follow.
#[test]
fn every_sdk_documents_the_default_of_workers() {
    let schema = schema();
    let default = &schema["$defs"]["options"]["properties"]["workers"]["default"];
    for (path, text) in [
        ("rust", include_str!("../src/manifest/mod.rs")),
        ("go", include_str!("../../go/manifest/manifest.go")),
        ("python", include_str!("../../python/windlass/manifest.py")),
        ("js", include_str!("../../js/src/manifest.d.ts")),
        ("c", include_str!("../../c/windlass_manifest.h")),
    ] {
        let line = text.lines().find(|line| line.contains("reconciled at once"));
        let line = line.unwrap_or_else(|| panic!("{path} does not document `workers`"));
        assert!(
            default.is_u64() && line.contains(&default.to_string()),
            "{path}: {line}, and the default is {default}"
        );
    }
}
