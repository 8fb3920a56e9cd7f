//! JavaScript and TypeScript: esbuild makes one module of the plugin and its packages, componentize-qjs puts it and the interpreter into
//! a component.

use super::{component, paths, wit};
use crate::WORK;
use crate::facts::Facts;
use crate::plan::{Asked, Need, Output, Plan, Step, Tool};

static NODE: Tool = Tool {
    name: "node",
    ways: &[&["node"]],
    version: Asked::Argument("--version"),
    least: "20.0",
    tried: "20.19",
    get: &[("anywhere", "https://nodejs.org"), ("Debian", "apt install nodejs npm"), ("macOS", "brew install node")],
};

static ESBUILD: Tool = Tool {
    name: "esbuild",
    ways: &[&["esbuild"]],
    version: Asked::Argument("--version"),
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
    version: Asked::NpmPackage("componentize-qjs"),
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
    version: Asked::Argument("--version"),
    least: "5.0",
    tried: "5.9",
    get: &[("npm", "npm install --save-dev typescript")],
};

pub(super) fn plan(facts: &Facts, source: &str, is_typed: bool) -> Plan {
    let mut needs = paths(facts, &[source, "package.json"]);
    needs.extend([Need::Tool(&NODE), Need::Tool(&ESBUILD), Need::Tool(&COMPONENTIZE_QJS)]);
    let bundle = format!("{WORK}/plugin.js");
    let mut steps = Vec::new();
    // What takes the types away does not check them.
    if is_typed && facts.has_typescript {
        needs.push(Need::Tool(&TSC));
        steps.push(Step::of(&TSC, ["--noEmit"]));
    }
    steps.push(Step::of(
        &ESBUILD,
        [
            source,
            "--bundle",
            "--format=esm",
            "--target=es2022",
            "--external:windlass:*",
            "--log-level=warning",
            &format!("--outfile={bundle}"),
        ],
    ));
    let (wit, component) = (wit(), component());
    steps.push(Step::of(
        &COMPONENTIZE_QJS,
        ["-w", &wit, "-j", &bundle, "-n", facts.kind().world(), "--sync", "--stub-wasi", "-o", &component],
    ));
    Plan { needs, steps, output: Output::File(component.into()) }
}
