//! Rust. cargo writes a core module, with the section that describes its world.

use super::paths;
use crate::facts::Facts;
use crate::plan::{BuildNeed, BuildOutput, BuildPlan, BuildStep, Tool, VersionQuery};

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// One page for the first allocations: the SDK's allocator takes it, so a small call need not grow the memory.
const INITIAL_HEAP: &str = "link-arg=--initial-heap=65536";

pub(super) static CARGO: Tool = Tool {
    name: "cargo",
    ways: &[&["cargo"]],
    version: VersionQuery::Argument("--version"),
    least: "1.95",
    tried: "1.95.0",
    get: &[
        ("anywhere", "https://rustup.rs, then rustup toolchain install stable"),
        ("Debian", "apt install rustup && rustup default stable"),
        ("macOS", "brew install rustup && rustup default stable"),
    ],
};

pub(super) fn plan(facts: &Facts, traceable: bool) -> BuildPlan {
    let mut needs = paths(facts, &["Cargo.toml"]);
    needs.extend([BuildNeed::Tool(&CARGO), BuildNeed::RustTarget]);
    // The workspace and the environment determine where cargo puts the module, so read the path from cargo's messages.
    let mut arguments = vec!["rustc", "--lib", "--release", "--target", TARGET];
    arguments.extend(["--message-format", "json-render-diagnostics", "--", "-C", INITIAL_HEAP]);
    if traceable {
        // The profile of a new folder strips names too, so this must override it. It does so by an argument for the
        // plugin's own crate only: with another profile, cargo would compile all dependencies again.
        arguments.extend(["-C", "strip=debuginfo"]);
    }
    let step = BuildStep::of(&CARGO, arguments);
    BuildPlan { needs, steps: vec![step], output: BuildOutput::ReportedByCargo, source_map: None }
}

/// Runs the program of the author that prints the definitions, on this machine.
pub(super) fn definitions_step() -> BuildStep {
    BuildStep::of(&CARGO, ["run", "--quiet", "--example", "crd"])
}
