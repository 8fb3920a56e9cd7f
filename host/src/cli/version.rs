//! `windlass version`: what this program is, and what it was built from.

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use windlass_core::life::features::Features;
use windlass_wasm::AbiVersion;

use super::OutputFormat;

/// Show the version of this program, and what it was built from.
#[derive(Debug, Args)]
pub(super) struct VersionArgs {
    /// The output format.
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
}

impl VersionArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.output {
            OutputFormat::Text => super::print(&text()),
            OutputFormat::Json => super::print_json(&json()),
        }
        .context("cannot write to standard output")
    }
}

/// The commit, with `-dirty` if `tools/release-build` found uncommitted changes; `unknown` if the sources were not a
/// Git repository and no commit was given.
const COMMIT: &str = env!("WINDLASS_COMMIT");
const TARGET: &str = env!("WINDLASS_TARGET");
const WASMTIME: &str = env!("WINDLASS_WASMTIME");

fn wit() -> Vec<&'static str> {
    AbiVersion::ALL.into_iter().map(AbiVersion::as_str).collect()
}

/// The feature gates that are on without flags.
fn features() -> Vec<&'static str> {
    let features = Features::default();
    features.states().iter().filter(|state| state.enabled).map(|state| state.gate.name).collect()
}

fn text() -> String {
    format!(
        "windlass {}\n  commit    {COMMIT}\n  target    {TARGET}\n  wit       windlass:plugin {}\n  wasmtime  {WASMTIME}\n  \
         features  {}\n",
        env!("CARGO_PKG_VERSION"),
        wit().join(", "),
        features().join(", "),
    )
}

fn json() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"), "commit": COMMIT, "target": TARGET, "wit": wit(), "wasmtime": WASMTIME,
        "features": features(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_knows_its_version_commit_and_target() {
        let json = json();
        for field in ["version", "commit", "target", "wasmtime"] {
            assert!(json[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {json}");
        }
        let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
        assert!(
            json["wasmtime"].as_str().is_some_and(is_number) && json["wit"][0].as_str().is_some_and(is_number),
            "{json}"
        );
        let is_hash = |text: &str| text.len() >= 7 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_commit = |text: &str| is_hash(text.strip_suffix("-dirty").unwrap_or(text));
        assert!(COMMIT == "unknown" || is_commit(COMMIT), "{COMMIT}");
        assert!(text().contains(TARGET), "{}", text());
    }
}
