//! Python. componentize-py combines the interpreter, the SDK and the plugin into a component. All modules in it are
//! already imported.
//!
//! A base is the same without the plugin, which it imports from its script (`sdk/python/windlass/_script.py`).

use std::collections::BTreeSet;

use super::{PACKAGES, component, paths, wit};
use crate::WORK;
use crate::facts::Facts;
use crate::plan::{BuildNeed, BuildOutput, BuildPlan, BuildStep, Tool, VersionQuery};

pub(crate) static COMPONENTIZE_PY: Tool = Tool {
    name: "componentize-py",
    ways: &[&["componentize-py"]],
    version: VersionQuery::Argument("--version"),
    least: "0.25",
    tried: "0.25.1",
    get: &[
        ("pip", "pip install componentize-py==0.25.1"),
        ("in this folder", "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1"),
    ],
};

/// The module that every plugin has.
pub(crate) const APP: &str = "app.py";
/// The module of a base, in its folder.
const BASE_APP: &str = "windlass_base";

pub(super) fn plan(facts: &Facts) -> BuildPlan {
    componentized(facts, facts.kind().world(), ".", "app")
}

/// The plan of a base. Its folder must have the [`base_files`].
pub(crate) fn base_plan(facts: &Facts) -> BuildPlan {
    componentized(facts, facts.kind().scripted_world(), &base_folder(), BASE_APP)
}

/// The folder with the files of a base, relative to the author's.
pub(crate) fn base_folder() -> String {
    format!("{WORK}/base")
}

/// The files of a base, by name. While it is built, the base imports the modules that the sources in `script` import
/// from elsewhere, and `more`, but not the modules in `without`.
pub(crate) fn base_files(script: &str, more: &BTreeSet<String>, without: &BTreeSet<String>) -> [(String, String); 2] {
    const SCRIPT: &str = "script.json";
    // A list of names is written in the same way in JSON and in Python.
    let [more, without] = [more, without].map(|names| serde_json::json!(names));
    // The base must not import modules, such as pathlib, that a whole build does not import: a call could import them.
    let app = format!(
        "from windlass import _script\n\n\
         with open(__file__.removesuffix(\"{BASE_APP}.py\") + \"{SCRIPT}\", encoding=\"utf-8\") as file:\n    \
         script = file.read()\n\
         globals().update(_script.exports(script, {more}, {without}))\n\
         del script, file\n"
    );
    [(format!("{BASE_APP}.py"), app), (SCRIPT.to_owned(), script.to_owned())]
}

fn componentized(facts: &Facts, world: &str, folder: &str, app: &str) -> BuildPlan {
    let mut needs = paths(facts, &[APP]);
    needs.push(BuildNeed::Tool(&COMPONENTIZE_PY));
    let (wit, sdk, component) = (wit(), facts.sdk(), component());
    let mut arguments = vec!["-d", &wit, "-w", world, "componentize", "--stub-wasi", "-p", folder, "-p", &sdk];
    if facts.has_packages {
        arguments.extend(["-p", PACKAGES]);
    }
    arguments.extend([app, "-o", &component]);
    BuildPlan {
        needs,
        steps: vec![BuildStep::of(&COMPONENTIZE_PY, arguments)],
        output: BuildOutput::File(component.clone().into()),
        source_map: None,
    }
}
