//! Python. componentize-py combines the interpreter, the SDK and the plugin into a component. It imports all modules
//! during the build, so that no call has to.

use super::{PACKAGES, component, paths, wit};
use crate::facts::Facts;
use crate::plan::{BuildNeed, BuildOutput, BuildPlan, BuildStep, Tool, VersionQuery};

static COMPONENTIZE_PY: Tool = Tool {
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

pub(super) fn plan(facts: &Facts) -> BuildPlan {
    let mut needs = paths(facts, &["app.py"]);
    needs.push(BuildNeed::Tool(&COMPONENTIZE_PY));
    let (wit, sdk, component) = (wit(), facts.sdk(), component());
    let mut arguments =
        vec!["-d", &wit, "-w", facts.kind().world(), "componentize", "--stub-wasi", "-p", ".", "-p", &sdk];
    if facts.has_packages {
        arguments.extend(["-p", PACKAGES]);
    }
    arguments.extend(["app", "-o", &component]);
    BuildPlan {
        needs,
        steps: vec![BuildStep::of(&COMPONENTIZE_PY, arguments)],
        output: BuildOutput::File(component.clone().into()),
        source_map: None,
    }
}
