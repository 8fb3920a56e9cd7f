//! `windlass build`: builds a plugin from an author's folder.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use windlass_core::error::explained;
use windlass_manifest::{EntryPoint, Manifest, Watch};
use windlass_wasm::{Limits, Plugin, Sandbox, SandboxOptions};

use crate::cli::flags::limits::LimitArgs;
use crate::cli::rights::examine::{self, ConfiguredManifest};
use windlass_author::build::{self, BuildRequest, Built};
use windlass_author::documents;
use windlass_policy::asks::{self, ClusterNames};
use windlass_policy::draft::push_rule;
use windlass_policy::review::review;
use windlass_policy::superfluous;
use windlass_runtime::{POLICY_SUFFIX, read_policy};

/// Exit code: the sources do not make a plugin.
const BROKEN: u8 = 1;
/// Exit code: the build could not be tried.
const FAILED: u8 = 2;

/// The compile deadline without `--limit`.
const COMPILE_DEADLINE: Duration = Duration::from_mins(10);

/// Build a plugin from the sources in a folder.
///
/// The folder has a windlass.yaml, which names the plugin and its language. `build` runs that language's compiler,
/// turns the output into a component, loads it as a host would, and writes build/NAME.wasm in one step, so a `windlass
/// dev` that follows the file never sees half of it. If a tool is missing on this machine, `build` says how to get it.
///
/// Exit codes: 0, built; 1, the sources are wrong; 2, the build could not be tried.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass build                 # in the plugin's folder\n  \
    windlass build plugins/shop --out target/plugins/shop.wasm")]
pub(crate) struct BuildArgs {
    /// The plugin's folder, which has a windlass.yaml.
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Write the plugin to this file. Default: build/NAME.wasm in the folder.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Show each command that runs.
    #[arg(long, short)]
    verbose: bool,
    /// The directory for compiled plugins, private to this user. Default: `XDG_CACHE_HOME`/windlass, else
    /// ~/.cache/windlass.
    #[arg(long, value_name = "DIR", env = "WINDLASS_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
}

impl BuildArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let sandbox = match sandbox(&self.limits, self.cache_dir, None) {
            Ok(sandbox) => sandbox,
            Err(error) => {
                eprintln!("windlass: {}", explained(&*error));
                return Ok(ExitCode::from(FAILED));
            }
        };
        let wish = BuildRequest {
            folder: self.folder,
            out: self.out,
            verbose: self.verbose,
            traceable: false,
            for_edits: false,
        };
        match build::build(&wish, &sandbox).await {
            Ok(built) => {
                let text = summary(&built, &wish.folder);
                crate::cli::print(&text).context("cannot write to standard output")?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                eprintln!("windlass: {error}");
                Ok(ExitCode::from(if error.is_of_the_sources() { BROKEN } else { FAILED }))
            }
        }
    }
}

/// The sandbox that loads the built plugin. It caches the compiled code for the host that will run the plugin. A plugin
/// of at least `quick_from` bytes is compiled quickly.
pub(crate) fn sandbox(limits: &LimitArgs, cache: Option<PathBuf>, quick_from: Option<u64>) -> anyhow::Result<Sandbox> {
    sandbox_within(limits.limits()?, cache, quick_from)
}

/// A sandbox with these limits.
pub(crate) fn sandbox_within(
    mut limits: Limits,
    cache: Option<PathBuf>,
    quick_from: Option<u64>,
) -> anyhow::Result<Sandbox> {
    let compiler = crate::cli::compiler()?;
    if limits.compile_deadline == Limits::default().compile_deadline {
        // The author's own plugin gets a long deadline, as this machine has just compiled it.
        limits.compile_deadline = COMPILE_DEADLINE;
    }
    let cache = crate::cli::flags::settings::cache_dir(cache);
    Ok(Sandbox::new(SandboxOptions { compiler, limits, cache, quick_from, ..SandboxOptions::default() })?)
}

/// A summary of the built plugin, in a few lines.
pub(crate) fn summary(built: &Built, folder: &Path) -> String {
    let Built { plugin, path, changed, took } = built;
    let path = crate::cli::author::dev::shortened(path);
    let mut text = format!(
        "{} {} ({}) in {:.1} s\n",
        if *changed { "built" } else { "built, and the same as before:" },
        path.display(),
        size(plugin.size()),
        took.as_secs_f64()
    );
    let manifest = plugin.manifest();
    let kind = if plugin.entry() == EntryPoint::Composer { "a composer" } else { "a reconciler" };
    let _ = writeln!(text, "  plugin      {} {}, {kind} of ABI {}", manifest.name, manifest.version, plugin.abi());
    for line in controllers(manifest) {
        let _ = writeln!(text, "  controller  {line}");
    }
    let _ = writeln!(text, "  imports     {}", imports(plugin));
    for warning in unserved(plugin, folder) {
        let _ = writeln!(text, "  warning     {warning}");
    }
    let _ = writeln!(text, "  rights      {}", rights(plugin, folder));
    text
}

#[expect(clippy::cast_precision_loss, reason = "a digit behind the point is shown")]
fn size(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{:.1} KiB", bytes as f64 / 1024.0)
    } else {
        format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
    }
}

fn controllers(manifest: &Manifest) -> Vec<String> {
    let kinds = |watches: &[Watch]| -> String { watches.iter().map(kind_of).collect::<Vec<_>>().join(", ") };
    let line = |controller: &windlass_manifest::Controller| {
        let mut line = format!("{}: {}", controller.name, kind_of(&controller.primary));
        for (what, watches) in [("owns", &controller.owns), ("watches", &controller.watches)] {
            if !watches.is_empty() {
                let _ = write!(line, "; {what} {}", kinds(watches));
            }
        }
        line
    };
    manifest.controllers.iter().map(line).collect()
}

fn kind_of(watch: &Watch) -> String {
    if let Some(timer) = &watch.timer {
        return timer.in_words();
    }
    match watch.lacks_kind() {
        Some(pointer) => format!("kinds that its configuration names at {pointer:?}"),
        None => watch.object_kind().to_string(),
    }
}

/// The short names of the imports, without package and version.
fn imports(plugin: &Plugin) -> String {
    let short = |import: &String| {
        let name = import.rsplit_once('/').map_or(&**import, |(_, name)| name);
        name.split('@').next().unwrap_or(name).to_owned()
    };
    let names: Vec<_> = plugin.imports().iter().map(short).filter(|name| name != "types").collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Warns about subresources that the plugin may write but the folder's definitions lack.
fn unserved(plugin: &Plugin, folder: &Path) -> Vec<String> {
    match documents::definitions(folder) {
        Ok(definitions) => {
            let unserved = examine::unserved(plugin.manifest(), plugin.writes(), &definitions);
            unserved.iter().map(ToString::to_string).collect()
        }
        Err(error) => {
            vec![format!("cannot check whether the API server serves what the plugin writes: {error}")]
        }
    }
}

/// Says whether the folder's policy grants all that the plugin asks for, and what else it grants.
fn rights(plugin: &Plugin, folder: &Path) -> String {
    let name = plugin.name();
    let file = format!("{name}{POLICY_SUFFIX}");
    let path = folder.join(&file);
    if !path.exists() {
        return format!("there is no {file}: `windlass grant` writes one for review");
    }
    let policy = match read_policy(&path, name) {
        Ok(policy) => policy,
        Err(error) => return error,
    };
    let definitions = match documents::definitions(folder) {
        Ok(definitions) => definitions,
        Err(error) => return format!("cannot find out what {file} must grant the plugin: {error}"),
    };
    let ConfiguredManifest { manifest, unknown, .. } = examine::configured_manifest(plugin.manifest(), folder);
    if let Some(unknown) = unknown {
        return unknown;
    }
    let asks = asks::asks(&manifest, &ClusterNames::default().with_definitions(definitions));
    let mut superfluous = String::new();
    for rule in superfluous::of_policy(&policy.allowance, &asks) {
        push_rule(&mut superfluous, &rule);
    }
    let review = review(&manifest, asks, &[&policy.allowance]);
    let mut text = match review.missing() {
        missing if !missing.is_empty() => {
            format!("{file} lacks these rights that the plugin asks for:{}", indented(&missing))
        }
        _ if review.is_narrowed() => {
            format!("{file} grants what the plugin asks for, narrowed to fewer namespaces or names")
        }
        _ => format!("{file} grants all that the plugin asks for"),
    };
    if !superfluous.is_empty() {
        let rules = indented(&superfluous);
        let _ =
            write!(text, "\n  warning     {file} grants rights that the plugin does not ask for; remove them:{rules}");
    }
    text
}

/// Puts each line on its own line, indented, below the preceding text.
fn indented(lines: &str) -> String {
    lines.lines().fold(String::new(), |text, line| text + "\n    " + line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        assert_eq!((size(512), size(36_000), size(3_300_000)), ("0.5 KiB".into(), "35.2 KiB".into(), "3.1 MiB".into()));
    }
}
