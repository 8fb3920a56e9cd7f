//! JavaScript and TypeScript. esbuild bundles the plugin and its packages into one module, and componentize-qjs
//! combines it with the interpreter into a component.

use super::{component, paths, wit};
use crate::WORK;
use crate::facts::Facts;
use crate::plan::{BuildNeed, BuildOutput, BuildPlan, BuildStep, Tool, VersionQuery};

static NODE: Tool = Tool {
    name: "node",
    ways: &[&["node"]],
    version: VersionQuery::Argument("--version"),
    least: "20.0",
    tried: "20.19",
    get: &[("anywhere", "https://nodejs.org"), ("Debian", "apt install nodejs npm"), ("macOS", "brew install node")],
};

static ESBUILD: Tool = Tool {
    name: "esbuild",
    ways: &[&["esbuild"]],
    version: VersionQuery::Argument("--version"),
    least: "0.20",
    tried: "0.28",
    get: &[
        ("npm", "npm install, in this folder (its package.json names it)"),
        ("npm", "npm install --save-dev esbuild, if it does not"),
    ],
};

static COMPONENTIZE_QJS: Tool = Tool {
    name: "componentize-qjs",
    ways: &[&["componentize-qjs"]],
    version: VersionQuery::NpmPackage("componentize-qjs"),
    least: "0.4.5",
    tried: "0.4.5",
    get: &[
        ("npm", "npm install, in this folder (its package.json names it)"),
        ("npm", "npm install --save-dev componentize-qjs@0.4.5, if it does not"),
    ],
};

static TSC: Tool = Tool {
    name: "tsc",
    ways: &[&["tsc"]],
    version: VersionQuery::Argument("--version"),
    least: "5.0",
    tried: "5.9",
    get: &[("npm", "npm install --save-dev typescript")],
};

pub(super) fn plan(facts: &Facts, source: &str, is_typed: bool, traceable: bool) -> BuildPlan {
    let kind = facts.kind();
    // This module of the SDK exports all functions of the plugin's world. It imports the plugin's own code by the
    // alias.
    let entry = format!("{}/src/component/{}.js", facts.sdk(), kind.as_str());
    let alias = format!("--alias:windlass-plugin=./{source}");
    let mut needs = paths(facts, &[source, "package.json"]);
    needs.extend([BuildNeed::Tool(&NODE), BuildNeed::Tool(&ESBUILD), BuildNeed::Tool(&COMPONENTIZE_QJS)]);
    let bundle = format!("{WORK}/plugin.js");
    let mut steps = Vec::new();
    // esbuild removes types without checking them.
    if is_typed && facts.has_typescript {
        needs.push(BuildNeed::Tool(&TSC));
        steps.push(BuildStep::of(&TSC, ["--noEmit"]));
    }
    let outfile = format!("--outfile={bundle}");
    let mut arguments = vec![
        entry.as_str(),
        &alias,
        "--bundle",
        "--format=esm",
        "--target=es2022",
        "--external:windlass:*",
        "--log-level=warning",
        &outfile,
    ];
    if traceable {
        // The source map is a separate file, so the bundle does not change.
        arguments.extend(["--sourcemap=external", "--sources-content=false"]);
    }
    steps.push(BuildStep::of(&ESBUILD, arguments));
    let (wit, component) = (wit(), component());
    steps.push(BuildStep::of(
        &COMPONENTIZE_QJS,
        ["-w", &wit, "-j", &bundle, "-n", kind.world(), "--sync", "--stub-wasi", "-o", &component],
    ));
    let source_map = traceable.then(|| format!("{bundle}.map").into());
    BuildPlan { needs, steps, output: BuildOutput::File(component.into()), source_map }
}
