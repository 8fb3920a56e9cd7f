//! Starlark. This binary contains the interpreter, so only the script is needed.

use super::source;
use crate::plan::{BuildNeed, BuildOutput, BuildPlan};
use crate::starlark::SCRIPT;

pub(super) fn plan() -> BuildPlan {
    BuildPlan {
        needs: vec![source(SCRIPT), BuildNeed::Interpreter],
        steps: vec![],
        output: BuildOutput::Joined(SCRIPT.into()),
        source_map: None,
    }
}
