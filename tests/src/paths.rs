//! The paths of the binaries, plugins and guests under test. `make test` builds them first and sets environment
//! variables. Without these variables, the default paths of `make` apply.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};

/// The root of the checkout.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The `windlass` binary: `WINDLASS_BIN`, or else the one beside the running test.
pub fn windlass() -> anyhow::Result<PathBuf> {
    let beside =
        std::env::current_exe()?.ancestors().map(|directory| directory.join("windlass")).find(|path| path.is_file());
    let built = std::env::var_os("WINDLASS_BIN").map(PathBuf::from).or(beside);
    existing(built, "the windlass binary", "make build")
}

/// A `windlass` of another version: `WINDLASS_SKEW_BIN`, relative to the root. Without this variable it is the same
/// binary, and the story runs with one version.
pub fn other_windlass() -> anyhow::Result<PathBuf> {
    match std::env::var_os("WINDLASS_SKEW_BIN") {
        Some(binary) => {
            existing(Some(root().join(binary)), "the windlass of another version", "make soak STORIES=skew")
        }
        None => windlass(),
    }
}

/// The directory in which hosts under test keep compiled plugins. It is beside the binary, so that cleaning the build
/// cleans it too.
pub fn cache() -> anyhow::Result<PathBuf> {
    Ok(windlass()?.with_file_name("compiled-plugins"))
}

/// The directory of built plugins: `WINDLASS_PLUGIN_DIR`, or else `target/plugins`.
pub fn plugins() -> anyhow::Result<PathBuf> {
    let directory = from_environment("WINDLASS_PLUGIN_DIR", "target/plugins");
    existing(Some(directory), "the directory of plugins", "make plugins")
}

/// The test guest `name`, in `WINDLASS_GUEST_DIR` or else in `target/guests`.
pub fn guest(name: &str) -> anyhow::Result<PathBuf> {
    let file = from_environment("WINDLASS_GUEST_DIR", "target/guests").join(format!("{name}.wasm"));
    existing(Some(file), "a test guest", "make plugins")
}

/// The drop-in operator `name`, in `WINDLASS_DROPIN_DIR` or else in `target/dropins`.
pub fn dropin(name: &str) -> anyhow::Result<PathBuf> {
    let file = from_environment("WINDLASS_DROPIN_DIR", "target/dropins").join(format!("{name}.wasm"));
    existing(Some(file), "a drop-in operator", "make dropins")
}

/// The plugin `name` that a stock toolchain built, in `WINDLASS_STOCK_DIR` or else in `target/stock`.
pub fn stock(name: &str) -> anyhow::Result<PathBuf> {
    let file = from_environment("WINDLASS_STOCK_DIR", "target/stock").join(format!("{name}.wasm"));
    existing(Some(file), "a plugin of a stock toolchain", "make stock")
}

/// The binary of `tests/cluster`, which runs a real kube-apiserver: `WINDLASS_CLUSTER_BIN`.
pub fn cluster() -> anyhow::Result<PathBuf> {
    let built = std::env::var_os("WINDLASS_CLUSTER_BIN").map(PathBuf::from);
    existing(built, "the real kube-apiserver (WINDLASS_CLUSTER_BIN)", "make test, or tools/build-cluster")
}

/// The `PATH` with the tools of other languages: `WINDLASS_LANGUAGES`, or else the output of `tools/languages`.
pub fn languages() -> anyhow::Result<String> {
    if let Ok(path) = std::env::var("WINDLASS_LANGUAGES") {
        return Ok(path);
    }
    said_by("tools/languages", &[])
}

/// The `PATH` with Python and the official Kubernetes client: `WINDLASS_CLIENTS`, or else the output of
/// `tools/languages --clients`.
pub fn clients() -> anyhow::Result<String> {
    if let Ok(path) = std::env::var("WINDLASS_CLIENTS") {
        return Ok(path);
    }
    said_by("tools/languages", &["--clients"])
}

/// The path of helm: `WINDLASS_HELM`, or else the output of `tools/build-helm`.
pub fn helm() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("WINDLASS_HELM") {
        return Ok(path.into());
    }
    said_by("tools/build-helm", &[]).map(PathBuf::from)
}

/// The path of promlint: `WINDLASS_PROMLINT`, or else the output of `tools/build-promlint`.
pub fn promlint() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("WINDLASS_PROMLINT") {
        return Ok(path.into());
    }
    said_by("tools/build-promlint", &[]).map(PathBuf::from)
}

/// The path of crane: `WINDLASS_CRANE`, or else the output of `tools/build-crane`.
pub fn crane() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("WINDLASS_CRANE") {
        return Ok(path.into());
    }
    said_by("tools/build-crane", &[]).map(PathBuf::from)
}

/// The folder of npm's packages.
pub fn npm_packages() -> anyhow::Result<PathBuf> {
    said_by("tools/languages", &["--npm"]).map(PathBuf::from)
}

fn said_by(tool: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = std::process::Command::new(root().join(tool)).args(arguments).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("{tool} failed ({}): run `make setup TESTS=1`", output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// The path of a file of the example `webapp`.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    root().join("examples/webapp").join(name)
}

fn from_environment(variable: &str, otherwise: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| root().join(otherwise), PathBuf::from)
}

fn existing(path: Option<PathBuf>, what: &str, how: &str) -> anyhow::Result<PathBuf> {
    let path = path.with_context(|| format!("{what} is not built: run `{how}`"))?;
    if !path.exists() {
        bail!("{what} is not at {}: run `{how}`", path.display());
    }
    Ok(path)
}
