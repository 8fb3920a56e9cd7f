//! Finds the tools that a plan needs. Reports the tools that are missing, the versions found instead, and how to get
//! the right ones.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::facts::upwards;
use super::language::RUST_TARGET;
use super::plan::{BuildNeed, Tool, VersionQuery};
use super::sources::identity;
use super::starlark;
use super::versions::ToolVersion;

/// The time that a tool may take to print its version. The first start of an interpreter on a busy machine takes
/// seconds.
const TOOL_VERSION_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a failing tool's output that is shown.
const SHOWN_OUTPUT_BYTES_MAX: usize = 400;
/// The maximum size of an installed package's `package.json`.
const PACKAGE_JSON_BYTES_MAX: u64 = 1 << 20;

/// The installed tools, by name.
#[derive(Debug, Default)]
pub(crate) struct Toolbox(HashMap<&'static str, FoundTool>);

/// An installed tool.
#[derive(Clone, Debug)]
struct FoundTool {
    program: PathBuf,
    first: &'static [&'static str],
    /// `None` if the tool does not report it.
    version: Option<ToolVersion>,
}

/// A missing tool or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    what: String,
    lack: ToolLack,
    /// The accepted versions. Empty if the tool has no version.
    wanted: String,
    get: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ToolLack {
    Absent,
    Old { found: ToolVersion, program: PathBuf },
    Broken { program: PathBuf, output: String },
}

/// The places where tools are searched for.
#[derive(Clone, Debug)]
pub(crate) struct ToolPaths {
    folder: PathBuf,
    directories: Vec<PathBuf>,
}

impl ToolPaths {
    /// Searches the folders in which npm and Python install packages for `folder`, and then `path`.
    pub(crate) fn of(folder: &Path, path: Option<&std::ffi::OsStr>) -> Self {
        let mut directories = upwards(folder, "node_modules/.bin");
        directories.extend(upwards(folder, ".venv/bin"));
        directories.extend(path.iter().flat_map(|path| std::env::split_paths(path)));
        Self { folder: folder.to_owned(), directories }
    }

    fn find(&self, program: &str) -> Option<PathBuf> {
        self.directories.iter().map(|directory| directory.join(program)).find(|path| is_program(path))
    }

    /// A text that changes when another program takes the place of `tool`. The program is not run. `None` if there is
    /// no program.
    pub(crate) fn identity(&self, tool: &Tool) -> Option<String> {
        let program = tool.ways.iter().find_map(|way| self.find(way.first()?))?;
        let program = program.canonicalize().ok()?;
        Some(format!("{} {:?}", program.display(), identity(&std::fs::metadata(&program).ok()?)))
    }

    /// Runs the program and returns its output. If it fails, the error is its message.
    async fn ask(&self, program: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(program);
        // Do without backtraces: rustup's would fill the kept output, and does not help an author.
        command.env("RUST_BACKTRACE", "0").env("RUST_LIB_BACKTRACE", "0");
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null()).kill_on_drop(true);
        match tokio::time::timeout(TOOL_VERSION_TIMEOUT, command.output()).await {
            Err(_) => Err(format!("it did not answer within {TOOL_VERSION_TIMEOUT:?}")),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(output)) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Ok(Ok(output)) => {
                let errors = String::from_utf8_lossy(&output.stderr);
                let complaint: String = errors
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .chars()
                    .take(SHOWN_OUTPUT_BYTES_MAX)
                    .collect();
                Err(if complaint.is_empty() { output.status.to_string() } else { complaint })
            }
        }
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

impl Toolbox {
    /// Finds all that is needed. The error lists all that is missing.
    pub(crate) async fn gather(needs: &[BuildNeed], places: &ToolPaths) -> Result<Self, Vec<Missing>> {
        let (mut there, mut missing) = (Self::default(), Vec::new());
        for need in needs {
            match need {
                BuildNeed::Tool(tool) => match look(tool, places).await {
                    Ok(found) => drop(there.0.insert(tool.name, found)),
                    Err(lack) => missing.push(Missing::tool(tool, lack)),
                },
                // Only an installed cargo can answer this.
                BuildNeed::RustTarget if missing.is_empty() => missing.extend(rust_target(places).await),
                BuildNeed::Path { path, advice } if !places.folder.join(path).exists() => {
                    let get = vec![("why".to_owned(), advice.clone())];
                    let what = path.display().to_string();
                    missing.push(Missing { what, lack: ToolLack::Absent, wanted: String::new(), get });
                }
                BuildNeed::Interpreter if !starlark::has_interpreter() => missing.push(Missing::interpreter()),
                BuildNeed::RustTarget | BuildNeed::Interpreter | BuildNeed::Path { .. } => {}
            }
        }
        if missing.is_empty() { Ok(there) } else { Err(missing) }
    }

    /// The program of a tool, with its first arguments. The tool must have been gathered.
    pub(crate) fn command(&self, tool: &Tool) -> (PathBuf, &'static [&'static str]) {
        self.0.get(tool.name).map_or_else(|| (tool.name.into(), &[][..]), |found| (found.program.clone(), found.first))
    }

    /// The tool and its version, if Windlass was not tested with this version. The error of a failed build shows both.
    pub(crate) fn untried(&self, tool: &Tool) -> Option<String> {
        let version = self.0.get(tool.name)?.version.as_ref()?;
        let tried = version.to_string().starts_with(tool.tried);
        (!tried).then(|| format!("{} is {version} here; windlass was tested with {}", tool.name, tool.tried))
    }
}

async fn look(tool: &'static Tool, places: &ToolPaths) -> Result<FoundTool, ToolLack> {
    let mut lack = ToolLack::Absent;
    for way in tool.ways {
        let [name, first @ ..] = way else { continue };
        let Some(program) = places.find(name) else { continue };
        let output = match tool.version {
            VersionQuery::Argument(argument) => places.ask(&program, &[first, &[argument]].concat()).await,
            VersionQuery::NpmPackage(package) => Ok(npm_version(&places.folder, package)),
        };
        match output {
            Ok(output) => match ToolVersion::find(&output) {
                Some(found) if ToolVersion::find(tool.least).is_some_and(|least| found < least) => {
                    lack = ToolLack::Old { found, program };
                }
                version => return Ok(FoundTool { program, first, version }),
            },
            // With first arguments, the program is an interpreter, which may lack the package that is needed.
            Err(_) if !first.is_empty() => {}
            Err(output) => lack = ToolLack::Broken { program, output },
        }
    }
    Err(lack)
}

/// The version of an installed npm package. Empty if it is installed elsewhere.
fn npm_version(folder: &Path, package: &str) -> String {
    let files = upwards(folder, "node_modules").into_iter().map(|modules| modules.join(package).join("package.json"));
    let read =
        files.filter_map(|file| windlass_files::read_whole(&file, PACKAGE_JSON_BYTES_MAX).ok()).find_map(|text| {
            let text: serde_json::Value = serde_json::from_slice(&text).ok()?;
            Some(text["version"].as_str()?.to_owned())
        });
    read.unwrap_or_default()
}

/// Checks that rustc has the standard library for plugins, and otherwise returns what is missing. If rustc cannot be
/// asked, cargo will report the problem.
async fn rust_target(places: &ToolPaths) -> Option<Missing> {
    let rustc = places.find("rustc")?;
    let directory = places.ask(&rustc, &["--print", "target-libdir", "--target", RUST_TARGET]).await.ok()?;
    let there = std::fs::read_dir(directory.trim()).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().as_encoded_bytes().starts_with(b"libstd-")))
    });
    if there {
        return None;
    }
    let (of, get) = match toolchain_of(Path::new(directory.trim())) {
        // Name the toolchain, because the author may type the command in a folder that has another one.
        Some(name) => (
            format!("the toolchain {name}"),
            vec![("rustup", format!("rustup target add {RUST_TARGET} --toolchain {name}"))],
        ),
        None => (
            rustc.display().to_string(),
            vec![
                ("Debian", "apt install libstd-rust-dev-wasm32 (for Debian's own rustc)".to_owned()),
                ("anywhere", "https://rustup.rs, with its rustc before this one on PATH".to_owned()),
            ],
        ),
    };
    let get = get.into_iter().map(|(whence, how)| (whence.to_owned(), how)).collect();
    let what = format!("Rust's standard library for {RUST_TARGET}, of {of}");
    Some(Missing { what, lack: ToolLack::Absent, wanted: String::new(), get })
}

/// The name of the rustup toolchain with this library directory. `None` if it does not belong to rustup.
fn toolchain_of(directory: &Path) -> Option<String> {
    let mut parts = directory.components().map(|part| part.as_os_str().to_string_lossy());
    parts.find(|part| part == "toolchains")?;
    parts.next().map(Cow::into_owned)
}

/// The name of a toolchain that rustup reports as not installed.
fn absent_toolchain(output: &str) -> Option<&str> {
    let (name, rest) = output.split_once("toolchain '")?.1.split_once('\'')?;
    rest.trim_start().starts_with("is not installed").then_some(name)
}

impl Missing {
    fn interpreter() -> Self {
        let what = "the interpreter of Starlark, which this windlass was built without".to_owned();
        let get = vec![("Windlass's sources".to_owned(), "make build".to_owned())];
        Self { what, lack: ToolLack::Absent, wanted: String::new(), get }
    }

    fn tool(tool: &Tool, lack: ToolLack) -> Self {
        let toolchain = match &lack {
            ToolLack::Broken { output, .. } => absent_toolchain(output),
            ToolLack::Absent | ToolLack::Old { .. } => None,
        };
        let get = match toolchain {
            Some(name) => {
                vec![("rustup".to_owned(), format!("rustup toolchain install {name} --target {RUST_TARGET}"))]
            }
            None => tool.get.iter().map(|(whence, how)| ((*whence).to_owned(), (*how).to_owned())).collect(),
        };
        let wanted = format!("{} or newer, tested with {}", tool.least, tool.tried);
        Self { what: tool.name.to_owned(), lack, wanted, get }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, lack, wanted, get } = self;
        match lack {
            ToolLack::Absent => write!(f, "{what}: not found")?,
            ToolLack::Old { found, program } => {
                write!(f, "{what}: {} is {found}, which is too old", program.display())?;
            }
            ToolLack::Broken { program, output } => {
                write!(f, "{what}: {} exists but does not work: {output}", program.display())?;
            }
        }
        if !wanted.is_empty() {
            write!(f, "; needed is {wanted}")?;
        }
        for (whence, how) in get {
            write!(f, "\n    {whence}: {how}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
