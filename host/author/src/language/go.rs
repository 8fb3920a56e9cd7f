//! Go, built by its own compiler.

use super::{core_module, paths, source};
use crate::facts::Facts;
use crate::plan::{BuildNeed, BuildOutput, BuildPlan, BuildStep, Tool, VersionQuery};

pub(crate) static GO: Tool = Tool {
    name: "go",
    ways: &[&["go"]],
    version: VersionQuery::Argument("version"),
    // This is the version in the SDK's go.mod. An older toolchain would download another one.
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

/// The generator of definitions from Go types. It is a Go module, which the go command builds once for each version.
const CONTROLLER_GEN: &str = "sigs.k8s.io/controller-tools/cmd/controller-gen";

pub(super) fn plan(facts: &Facts, traceable: bool) -> BuildPlan {
    let mut needs = if facts.places_go_sdk { paths(facts, &["go.mod"]) } else { vec![source("go.mod")] };
    needs.push(BuildNeed::Tool(&GO));
    let mut step = BuildStep::of(
        &GO,
        [
            "build",
            "-buildmode=c-shared",
            "-trimpath",
            // Otherwise Go would write the state of the repository into the component, which would then differ from
            // commit to commit.
            "-buildvcs=false",
            // `-checklinkname=0` lets the bindings access the runtime, for memory that the host writes to. `-s` also
            // removes the symbol table, which has the names of functions; debug information is left out in any case.
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

/// Runs controller-gen on packages, and prints the definitions of their types.
pub(super) fn definitions_step(paths: &[String], version: &str) -> BuildStep {
    let paths = paths.iter().map(|path| format!("paths={path}"));
    let arguments = ["run".to_owned(), format!("{CONTROLLER_GEN}@{version}"), "crd".to_owned()];
    BuildStep::of(&GO, arguments.into_iter().chain(paths).chain(["output:stdout".to_owned()]))
}
