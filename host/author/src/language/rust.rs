//! Rust. cargo writes a core module that contains its world.

use super::paths;
use crate::facts::Facts;
use crate::plan::{BuildNeed, BuildOutput, BuildPlan, BuildStep, Tool, VersionQuery};

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

static CARGO: Tool = Tool {
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
    // Workspace and environment determine where cargo puts the module, so cargo's messages are read.
    let arguments = ["--release", "--target", TARGET, "--message-format", "json-render-diagnostics"];
    let arguments = if traceable {
        // The profile of a new folder leaves out names too. An argument for the plugin's own crate, and not a setting
        // of the profile: with another profile Cargo would compile all that it depends on once more.
        [&["rustc", "--lib"], &arguments[..], &["--", "-C", "strip=debuginfo"]].concat()
    } else {
        [&["build"], &arguments[..]].concat()
    };
    let step = BuildStep::of(&CARGO, arguments);
    BuildPlan { needs, steps: vec![step], output: BuildOutput::SaidByCargo, source_map: None }
}
