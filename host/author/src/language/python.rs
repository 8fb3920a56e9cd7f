//! Python: componentize-py puts the interpreter, the SDK and the plugin into a component, all imported already.

use super::{PACKAGES, component, paths, wit};
use crate::facts::Facts;
use crate::plan::{Asked, Need, Output, Plan, Step, Tool};

static COMPONENTIZE_PY: Tool = Tool {
    name: "componentize-py",
    ways: &[&["componentize-py"]],
    version: Asked::Argument("--version"),
    least: "0.25",
    tried: "0.25.1",
    get: &[
        ("pip", "pip install componentize-py==0.25.1"),
        ("in this folder", "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1"),
    ],
};

pub(super) fn plan(facts: &Facts) -> Plan {
    let mut needs = paths(facts, &["app.py"]);
    needs.push(Need::Tool(&COMPONENTIZE_PY));
    let (wit, sdk, component) = (wit(), facts.sdk(), component());
    let mut arguments =
        vec!["-d", &wit, "-w", facts.kind().world(), "componentize", "--stub-wasi", "-p", ".", "-p", &sdk];
    if facts.has_packages {
        arguments.extend(["-p", PACKAGES]);
    }
    arguments.extend(["app", "-o", &component]);
    Plan { needs, steps: vec![Step::of(&COMPONENTIZE_PY, arguments)], output: Output::File(component.clone().into()) }
}
