//! Go, by its own compiler.

use super::{core_module, paths};
use crate::facts::Facts;
use crate::plan::{BuildNeed, BuildOutput, BuildPlan, BuildStep, Tool, VersionQuery};

static GO: Tool = Tool {
    name: "go",
    ways: &[&["go"]],
    version: VersionQuery::Argument("version"),
    // As the SDK's go.mod says; an older one would fetch another.
    least: "1.26",
    tried: "1.26.8",
    get: &[
        ("anywhere", "https://go.dev/dl"),
        (
            "Debian",
            "apt install golang-go, if it is new enough (`apt policy golang-go`); else golang-1.26-go of backports",
        ),
        ("macOS", "brew install go"),
    ],
};

pub(super) fn plan(facts: &Facts, traceable: bool) -> BuildPlan {
    let mut needs = paths(facts, &["go.mod"]);
    needs.push(BuildNeed::Tool(&GO));
    let mut step = BuildStep::of(
        &GO,
        [
            "build",
            "-buildmode=c-shared",
            "-trimpath",
            // The state of the repository would change the component, and nobody reads it there.
            "-buildvcs=false",
            // The bindings reach into the runtime for the memory that the host writes to.
            // The names of functions are in the symbol table; what a debugger would need is left out in any case.
            if traceable {
                "-ldflags=-checklinkname=0 -w -buildid="
            } else {
                "-ldflags=-checklinkname=0 -s -w -buildid="
            },
            "-o",
            &core_module(),
            ".",
        ],
    );
    step.environment = vec![("GOOS", "wasip1"), ("GOARCH", "wasm"), ("CGO_ENABLED", "0")];
    BuildPlan { needs, steps: vec![step], output: BuildOutput::File(core_module().into()), source_map: None }
}
