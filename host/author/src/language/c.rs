//! C, built by zig's clang, which includes a C library for WebAssembly.

use super::{core_module, paths};
use crate::facts::Facts;
use crate::plan::{BuildNeed, BuildOutput, BuildPlan, BuildStep, Tool, VersionQuery};

static ZIG: Tool = Tool {
    name: "zig",
    ways: &[&["zig"], &["python3", "-m", "ziglang"], &["python", "-m", "ziglang"]],
    version: VersionQuery::Argument("version"),
    least: "0.15",
    tried: "0.17.0",
    get: &[
        ("pip", "pip install ziglang==0.17.0"),
        ("macOS", "brew install zig"),
        ("anywhere", "https://ziglang.org/download"),
    ],
};

pub(super) fn plan(facts: &Facts, traceable: bool) -> BuildPlan {
    let mut needs = paths(facts, &[]);
    needs.push(BuildNeed::Tool(&ZIG));
    // One MiB of stack, as for Rust plugins. With zig's default of 16 MiB, each instance would need much more memory.
    let stack = "-Wl,-z,stack-size=1048576";
    // `-g1` keeps names and lines of functions, but nothing about variables. (zig takes `-Wl,--strip-debug` for `-s`.)
    let strip = if traceable { "-g1" } else { "-s" };
    let fixed = [
        "cc",
        "--target=wasm32-wasi",
        "-mexec-model=reactor",
        "-Os",
        strip,
        stack,
        "-I",
        &facts.sdk(),
        "-o",
        &core_module(),
    ];
    let arguments = fixed.into_iter().map(str::to_owned).chain(facts.c_sources.iter().cloned());
    BuildPlan {
        needs,
        steps: vec![BuildStep::of(&ZIG, arguments)],
        output: BuildOutput::File(core_module().into()),
        source_map: None,
    }
}
