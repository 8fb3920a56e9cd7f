//! Finds facts in Go sources, by a Go program in `scanner/`: Go's own parser is right where a pattern would guess, and
//! an author of a plugin in Go has the toolchain (ADR 41).
//!
//! The program receives the sources and opens no file. It does not build or run the project.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::folder::GoFile;
use crate::language::GO;
use crate::plan::BuildNeed;
use crate::tools::{Missing, ToolPaths, Toolbox};

/// The scanner's files.
const PROGRAM: [(&str, &str); 4] = [
    ("main.go", include_str!("scanner/main.go")),
    ("controllers.go", include_str!("scanner/controllers.go")),
    ("setups.go", include_str!("scanner/setups.go")),
    ("uses.go", include_str!("scanner/uses.go")),
];
/// The time for compiling and running the scanner. Compiling Go's library takes long on a slow machine.
const SCAN_TIMEOUT: Duration = Duration::from_mins(5);
/// The maximum size of the facts.
const FACTS_BYTES_MAX: u64 = 64 << 20;
/// The maximum number of syntax errors that a message has.
const SHOWN_ERRORS_MAX: usize = 5;

/// The reason why there are no facts.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error("`windlass import` reads Go sources with Go's own parser, and something is missing:\n  {0}")]
    Missing(Missing),
    #[error("cannot run the program that reads Go sources: {0}")]
    Run(std::io::Error),
    #[error("the program that reads Go sources failed: {0}")]
    Failed(String),
    #[error("the program that reads Go sources did not end within {SCAN_TIMEOUT:?}")]
    Timeout,
    #[error("the project's Go sources have errors; see what `go vet ./...` says:{0}")]
    Broken(String),
}

/// A line of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct SourcePlace {
    pub file: String,
    pub line: u32,
}

impl std::fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Broken {
    #[serde(flatten)]
    place: SourcePlace,
    message: String,
}

/// A folder with Go files.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SourcePackage {
    pub folder: String,
    pub name: String,
    #[serde(default, deserialize_with = "list")]
    pub imports: Vec<String>,
    /// The group and version of the API that the package defines. Empty if it defines none.
    #[serde(default)]
    pub group: String,
    #[serde(default)]
    pub version: String,
}

/// A comment that begins with `+kubebuilder:rbac` or `+kubebuilder:webhook`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Marker {
    #[serde(flatten)]
    pub place: SourcePlace,
    pub text: String,
}

/// A use of something that a plugin may not have. `import` is an import path, or one of `manager`, `options`,
/// `builder`, `go`, `state`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Use {
    #[serde(flatten)]
    pub place: SourcePlace,
    pub folder: String,
    pub import: String,
    pub name: String,
    /// The first argument, if it is a constant text. For an option, the source of its value.
    #[serde(default)]
    pub text: String,
}

/// A kind that a builder names by its Go type.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct GoWatch {
    #[serde(flatten)]
    pub place: SourcePlace,
    /// `For`, `Owns` or `Watches`.
    pub role: String,
    /// Empty if the type could not be found. Then `type` is the source text.
    pub import: String,
    #[serde(rename = "type")]
    pub go_type: String,
}

/// A chain of calls that begins with `NewControllerManagedBy`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct GoController {
    #[serde(flatten)]
    pub place: SourcePlace,
    pub folder: String,
    pub receiver: String,
    pub function: String,
    /// Empty if `Named` is not called with a constant.
    pub name: String,
    pub named: bool,
    #[serde(deserialize_with = "list")]
    pub watches: Vec<GoWatch>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Import {
    pub name: String,
    pub path: String,
}

/// A field of a reconciler that the new main.go cannot set.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Dropped {
    #[serde(flatten)]
    pub place: SourcePlace,
    pub field: String,
    pub text: String,
}

/// A call that sets up controllers, as Go source for the new main.go.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Setup {
    #[serde(flatten)]
    pub place: SourcePlace,
    pub folder: String,
    /// Empty if the call needs names that main.go does not have. `reason` has these names then.
    pub source: String,
    pub original: String,
    #[serde(default)]
    pub reason: String,
    #[serde(deserialize_with = "list")]
    pub imports: Vec<Import>,
    #[serde(deserialize_with = "list")]
    pub dropped: Vec<Dropped>,
    pub import: String,
    #[serde(rename = "type")]
    pub go_type: String,
    /// `error`, `none` or `other`.
    #[serde(default)]
    pub returns: String,
}

/// A call such as `v1.AddToScheme(scheme)`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SchemeCall {
    pub folder: String,
    pub import: Import,
    pub call: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct GoStruct {
    pub folder: String,
    pub name: String,
    #[serde(default, deserialize_with = "list")]
    pub fields: Vec<String>,
}

/// A type of another package that a literal or a variable names.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct TypeUse {
    pub folder: String,
    pub import: String,
    pub name: String,
}

/// A finalizer that the project adds or removes. The name is empty if it is not a constant.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Finalizer {
    #[serde(flatten)]
    pub place: SourcePlace,
    pub name: String,
}

/// The facts about a project's sources.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SourceFacts {
    #[serde(deserialize_with = "list")]
    pub broken: Vec<Broken>,
    #[serde(deserialize_with = "list")]
    pub packages: Vec<SourcePackage>,
    #[serde(deserialize_with = "list")]
    pub markers: Vec<Marker>,
    #[serde(deserialize_with = "list")]
    pub uses: Vec<Use>,
    #[serde(deserialize_with = "list")]
    pub controllers: Vec<GoController>,
    #[serde(deserialize_with = "list")]
    pub setups: Vec<Setup>,
    #[serde(deserialize_with = "list")]
    pub schemes: Vec<SchemeCall>,
    #[serde(deserialize_with = "list")]
    pub structs: Vec<GoStruct>,
    #[serde(deserialize_with = "list")]
    pub finalizers: Vec<Finalizer>,
    #[serde(rename = "typeUses", deserialize_with = "list")]
    pub type_uses: Vec<TypeUse>,
}

/// Go writes an empty list as null.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Serialize)]
struct Sources<'a> {
    module: &'a str,
    imports: &'a [&'a str],
    files: &'a [GoFile],
}

/// Scans the sources of `module`. Uses of `imports` are reported.
pub(super) async fn scan(module: &str, imports: &[&str], files: &[GoFile]) -> Result<SourceFacts, ScanError> {
    let at = tempfile::tempdir().map_err(ScanError::Run)?;
    for (name, text) in PROGRAM {
        std::fs::write(at.path().join(name), text).map_err(ScanError::Run)?;
    }
    let places = ToolPaths::of(at.path(), std::env::var_os("PATH").as_deref());
    let tools = Toolbox::gather(&[BuildNeed::Tool(&GO)], &places).await;
    let tools = tools.map_err(|mut missing| ScanError::Missing(missing.remove(0)))?;
    let sources = serde_json::to_vec(&Sources { module, imports, files });
    let sources = sources.map_err(|error| ScanError::Run(error.into()))?;
    let go = tools.command(&GO).0;
    let scanned = run(&go, at.path(), sources);
    let output = timeout(SCAN_TIMEOUT, scanned).await.map_err(|_| ScanError::Timeout)??;
    let facts: SourceFacts = serde_json::from_slice(&output).map_err(|error| ScanError::Failed(error.to_string()))?;
    if facts.broken.is_empty() { Ok(facts) } else { Err(ScanError::Broken(shown(&facts.broken))) }
}

/// The command that builds and runs the scanner in the folder `at`.
fn scanner(go: &Path, at: &Path) -> Command {
    let mut command = Command::new(go);
    command.arg("run").args(PROGRAM.map(|(name, _)| name)).current_dir(at);
    // Settings of the project and of the user must not change how our own program is built.
    command.env_remove("GOOS").env_remove("GOARCH");
    command.envs([
        // The file that `go env -w` writes also counts for variables that are empty.
        ("GOENV", "off"),
        ("GO111MODULE", "off"),
        ("GOFLAGS", ""),
        ("GOWORK", "off"),
        ("GOTOOLCHAIN", "local"),
        ("CGO_ENABLED", "0"),
    ]);
    command
}

async fn run(go: &Path, at: &Path, sources: Vec<u8>) -> Result<Vec<u8>, ScanError> {
    let mut command = scanner(go, at);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn().map_err(ScanError::Run)?;
    let (mut stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin.take() {
            // If the program fails, its own message says more than this error.
            let _ = stdin.write_all(&sources).await;
        }
    };
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let read = async {
        match stdout {
            Some(stdout) => stdout.take(FACTS_BYTES_MAX).read_to_end(&mut output).await,
            None => Ok(0),
        }
    };
    let complain = async {
        match stderr {
            Some(stderr) => stderr.take(FACTS_BYTES_MAX).read_to_end(&mut errors).await,
            None => Ok(0),
        }
    };
    let ((), read, complained) = tokio::join!(feed, read, complain);
    read.and(complained).map_err(ScanError::Run)?;
    let status = process.wait().await.map_err(ScanError::Run)?;
    if status.success() {
        return Ok(output);
    }
    Err(ScanError::Failed(String::from_utf8_lossy(&errors).trim().chars().take(2_000).collect()))
}

fn shown(broken: &[Broken]) -> String {
    let lines = broken.iter().take(SHOWN_ERRORS_MAX).map(|it| format!("\n  {}: {}", it.place, it.message));
    let more = broken.len().saturating_sub(SHOWN_ERRORS_MAX);
    let more = if more > 0 { format!("\n  and {more} more files") } else { String::new() };
    lines.chain([more]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_user_do_not_change_how_the_scanner_is_built() {
        let command = scanner(Path::new("go"), Path::new("."));
        let value = |name: &str| command.as_std().get_envs().find(|(it, _)| *it == name).map(|(_, value)| value);
        assert_eq!(value("GOENV"), Some(Some("off".as_ref())), "it is the file of `go env -w`");
        for removed in ["GOOS", "GOARCH"] {
            assert_eq!(value(removed), Some(None), "{removed}");
        }
    }
}
