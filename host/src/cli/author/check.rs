//! `windlass check`: tries a plugin against faults before production does.

mod finding_files;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use serde_json::Value;
use windlass_author::build::{self, BuildRequest};
use windlass_author::documents;
use windlass_check::scenario::{self, RecordedScenario, Scenario};
use windlass_check::{Baseline, CheckSubject, Effort, FAULT_CLASSES, Report, Reproduction, RunAgain, WorldError};
use windlass_core::error::explained;
use windlass_files::read_argument_text;
use windlass_wasm::{Limits, Metering, Plugin, Sandbox, SandboxOptions};

use self::finding_files::FindingFiles;
use crate::cli::author::check_recorded;
use crate::cli::author::check_report::{self, junit};
use crate::cli::features::FeatureGateArgs;
use crate::cli::flags::limits::LimitArgs;

/// Exit code: nothing was found.
const PASSED: u8 = 0;
/// Exit code: something was found.
const FOUND: u8 = 1;
/// Exit code: the check could not be made.
const FAILED: u8 = 2;

/// The folder of scenarios in a plugin's folder.
const SCENARIOS: &str = "scenarios";
/// Where the findings are, below the plugin's folder or the current directory.
const FINDINGS: &str = ".windlass/findings";
/// The largest size of a finding's file, in bytes.
const FINDING_BYTES_MAX: u64 = 64 << 20;

/// Try a plugin against faults: crashes, errors, stale caches, missed events, other people's edits.
///
/// Runs the host's own engine with the plugin on an embedded API server, in one thread and on a simulated clock, so
/// that hours pass in milliseconds and the same seed gives the same run. The first run has no faults. Then come runs
/// with one fault at each place: at each write, the host crashes, or the write is lost or refused; each watch misses
/// events, expires, or is late. Then come pairs of faults, until the budget is spent. A plugin should end in the same
/// state each time, write no more than it needs, and then be quiet.
///
/// In a plugin's folder, `check` needs only crd.yaml and sample.yaml. A scenario gives more control: see
/// docs/checking.md.
///
/// Exit codes: 0, nothing was found; 1, something was found; 2, the check could not be made, or could not compare
/// anything.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass check                              # in the plugin's folder, which is built first\n  \
    windlass check shop.wasm --load crd.yaml --load sample.yaml\n  \
    windlass check --scenario scenarios/sale.yaml --budget 10m --output junit > check.xml\n  \
    windlass check --again .windlass/findings/my-shop-1-converges.json"
)]
pub(crate) struct CheckArgs {
    /// The plugin: its folder, which has a windlass.yaml and is built first, or its file.
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    plugin: PathBuf,
    /// A scenario, or a directory of them (*.yaml). Default: the directory `scenarios` of the plugin's folder; without
    /// it, a scenario is made of crd.yaml and sample.yaml. A scenario may switch off rules and faults that do not fit
    /// the plugin, each with a reason: `rules: {history: {off: REASON}}`.
    #[arg(long, value_name = "FILE|DIR")]
    scenario: Option<PathBuf>,
    /// Start from what production has shown: a recording, or a directory of them, as `windlass run --record DIR` writes
    /// them. Each recorded object becomes a scenario, up to 8; the definition is that of crd.yaml or --load.
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "scenario")]
    from_recording: Option<PathBuf>,
    /// Manifests for a scenario, instead of crd.yaml and sample.yaml in the plugin's folder or beside its file:
    /// definitions, a sample of the plugin's kind, and other objects that must exist. May be repeated.
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    load: Vec<PathBuf>,
    /// Stop after this time, for each scenario.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::cli::flags::duration::time)]
    budget: Duration,
    /// Stop after this many runs, for each scenario. Default: as many as there is time for.
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// Try only faults of these classes, such as crash,hidden-events. Default: all.
    #[arg(long, value_name = "CLASSES", value_delimiter = ',', value_parser = PossibleValuesParser::new(FAULT_CLASSES))]
    faults: Vec<String>,
    /// The seed of all random choices. The same seed and plugin give the same runs; another seed begins with other
    /// faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The format of the report.
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
    /// Repeat the run of a finding, from a file that an earlier check has written, and show it in full.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "from_recording", "load", "runs", "budget", "faults", "seed"])]
    again: Option<PathBuf>,
    /// A file of accepted findings, which are not reported and do not fail the check.
    #[arg(long, value_name = "FILE", conflicts_with = "again")]
    baseline: Option<PathBuf>,
    /// Write all findings to a file for --baseline, and exit with 0.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["again", "baseline"])]
    write_baseline: Option<PathBuf>,
    /// The directory for compiled plugins, private to this user. Default: `XDG_CACHE_HOME`/windlass, else
    /// ~/.cache/windlass.
    #[arg(long, value_name = "DIR", env = "WINDLASS_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    feature_gates: FeatureGateArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    Text,
    Json,
    Junit,
}

/// A plugin's file, and the manifests that belong to it.
struct CheckedPlugin {
    plugin: PathBuf,
    /// The folder of its scenarios and findings.
    folder: PathBuf,
    load: Vec<Value>,
    samples: Vec<Value>,
}

impl CheckArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.checked().await {
            Ok(code) => Ok(code),
            Err(error) => {
                eprintln!("windlass: {}", explained(&*error));
                Ok(ExitCode::from(FAILED))
            }
        }
    }

    async fn checked(self) -> anyhow::Result<ExitCode> {
        let checked = self.checked_plugin().await?;
        // A check runs on its own thread, with a simulated clock.
        tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let plugin = self.loaded(&checked.plugin).await?;
                let (configs, features) = (checked.folder.clone(), self.feature_gates.clone().features());
                let subject = CheckSubject { plugin, configs, features };
                tokio::time::pause();
                match &self.again {
                    Some(file) => self.again(subject, file).await,
                    None => self.check(subject, &checked).await,
                }
            })
        })
        .await?
    }

    async fn checked_plugin(&self) -> anyhow::Result<CheckedPlugin> {
        let named = &self.plugin;
        if !named.is_dir() {
            ensure!(named.exists(), "no plugin {}", named.display());
            let beside = named.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let folder = documents::authors_folder(named).unwrap_or_else(|| beside.to_owned());
            return self.with_manifests(named.clone(), folder);
        }
        let sandbox = crate::cli::author::build::sandbox_within(self.limits()?, self.cache_dir.clone(), None)?;
        let wish = BuildRequest { folder: named.clone(), out: None, verbose: false, traceable: true, for_edits: false };
        let built = build::build(&wish, &sandbox).await?;
        self.with_manifests(built.path, named.clone())
    }

    fn with_manifests(&self, plugin: PathBuf, folder: PathBuf) -> anyhow::Result<CheckedPlugin> {
        let files = if self.load.is_empty() {
            let usual = ["crd.yaml", "sample.yaml"].map(|name| folder.join(name));
            usual.into_iter().filter(|file| file.exists()).collect()
        } else {
            self.load.clone()
        };
        let mut objects = Vec::new();
        for file in &files {
            objects.extend(scenario::manifests(file)?);
        }
        let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
        let (load, samples) = objects.into_iter().partition(is_definition);
        Ok(CheckedPlugin { plugin, folder, load, samples })
    }

    /// Limits CPU time by fuel, so that the same seed gives the same run, whatever else the machine does.
    fn limits(&self) -> anyhow::Result<Limits> {
        Ok(Limits { metering: Metering::Fuel, ..self.limits.limits()? })
    }

    async fn loaded(&self, path: &Path) -> anyhow::Result<Arc<Plugin>> {
        let options = SandboxOptions {
            limits: self.limits()?,
            compiler: crate::cli::compiler()?,
            cache: crate::cli::flags::settings::cache_dir(self.cache_dir.clone()),
            ..SandboxOptions::in_one_thread()
        };
        crate::cli::rights::examine::load_into(&Sandbox::new(options)?, path).await
    }

    fn scenarios(&self, subject: &CheckSubject, checked: &CheckedPlugin) -> anyhow::Result<Vec<RecordedScenario>> {
        if let Some(path) = &self.from_recording {
            let load: Vec<_> = checked.load.iter().chain(&checked.samples).cloned().collect();
            return check_recorded::scenarios(path, subject.plugin.name(), &load);
        }
        let without_redactions = |scenario| RecordedScenario { scenario, redacted: vec![] };
        Ok(self.simulated_scenarios(subject, checked)?.into_iter().map(without_redactions).collect())
    }

    /// The scenarios from files, or one made from a sample.
    fn simulated_scenarios(&self, subject: &CheckSubject, checked: &CheckedPlugin) -> anyhow::Result<Vec<Scenario>> {
        let own = checked.folder.join(SCENARIOS);
        let named = self.scenario.clone().or_else(|| (self.load.is_empty() && own.is_dir()).then_some(own));
        if let Some(named) = named {
            let read: Result<Vec<_>, _> = files(&named)?.iter().map(|file| scenario::read(file)).collect();
            return Ok(read?);
        }
        let (name, primaries) = (subject.plugin.name(), subject.primaries());
        let no_kind = || {
            let folder = subject.configs.display();
            format!("{name} takes its kinds from its configuration, and {folder}/{name}.config.yaml names none")
        };
        let kind = primaries.first().with_context(no_kind)?;
        let of = (&*kind.api_version, &*kind.kind);
        let drafted = scenario::draft(name, of, checked.load.clone(), checked.samples.clone());
        Ok(vec![drafted.with_context(|| format!("cannot make a scenario for {}", checked.plugin.display()))?])
    }

    async fn check(&self, subject: CheckSubject, checked: &CheckedPlugin) -> anyhow::Result<ExitCode> {
        let baseline = self.baseline.as_deref().map(Baseline::read).transpose()?;
        let mut kept = FindingFiles::of(checked.folder.join(FINDINGS));
        let mut reports = Vec::new();
        let scenarios = self.scenarios(&subject, checked)?;
        if self.output == ReportFormat::Text {
            eprintln!("{}", announcement(scenarios.len(), self.budget, self.runs));
        }
        for RecordedScenario { scenario, redacted } in scenarios {
            let impossible = |error: WorldError| match self.from_recording {
                Some(_) => check_recorded::refused(&error.to_string(), &redacted),
                None => error.into(),
            };
            let scenario = windlass_check::without_refused(scenario).await.map_err(impossible)?;
            let began = Instant::now();
            let mut progress = |done: usize, of: usize| show_progress(&scenario.name, done, of);
            let effort = Effort {
                seed: self.seed,
                runs: self.runs.unwrap_or(usize::MAX),
                classes: self.faults.clone(),
                spent: &|| began.elapsed().div_duration_f64(self.budget),
                progress: &mut progress,
            };
            let checking = windlass_check::check(subject.clone(), scenario.clone(), effort).await;
            clear_progress();
            let mut report = checking.map_err(impossible)?;
            if self.from_recording.is_some() {
                check_recorded::usable(&report, &redacted)?;
            }
            let not_met = baseline.as_ref().map(|it| it.take_out(&mut report)).unwrap_or_default();
            let files = kept.keep(&report, &scenario)?;
            if self.output == ReportFormat::Text {
                crate::cli::print(&check_report::text(&report, began.elapsed(), &files))?;
                crate::cli::print(&check_report::not_met(&not_met))?;
            }
            reports.push(report);
        }
        match self.output {
            ReportFormat::Text => {}
            ReportFormat::Json => crate::cli::print_json(&serde_json::to_value(&reports)?)?,
            ReportFormat::Junit => crate::cli::print(&junit(&reports))?,
        }
        if let Some(file) = &self.write_baseline {
            let text = serde_json::to_string_pretty(&Baseline::of(&reports))? + "\n";
            std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(ExitCode::from(exit_code(&reports)))
    }

    async fn again(&self, subject: CheckSubject, file: &Path) -> anyhow::Result<ExitCode> {
        if self.output != ReportFormat::Text {
            bail!("--again prints only text: leave out --output");
        }
        let read = || format!("cannot read {}", file.display());
        let text = read_argument_text(file, FINDING_BYTES_MAX).with_context(read)?;
        let reproduction =
            Reproduction::parse(&text).with_context(|| format!("cannot repeat the run of {}", file.display()))?;
        let is_same = reproduction.digest == **subject.plugin.digest();
        let RunAgain { findings, missed } = windlass_check::again(subject, reproduction).await?;
        if !is_same {
            crate::cli::print("This is not the plugin version of the finding.\n")?;
        }
        for fault in missed {
            crate::cli::print(&format!("This fault did not occur: {fault}\n"))?;
        }
        if findings.is_empty() {
            crate::cli::print("The run shows nothing wrong.\n")?;
            return Ok(ExitCode::SUCCESS);
        }
        for finding in &findings {
            crate::cli::print(&check_report::finding(finding, None, usize::MAX))?;
        }
        Ok(ExitCode::from(FOUND))
    }
}

/// The exit code after these reports. A check that compared nothing has not passed, even if a baseline accepts the
/// reason.
fn exit_code(reports: &[Report]) -> u8 {
    if reports.iter().any(|report| !report.findings.is_empty()) {
        return FOUND;
    }
    if reports.iter().any(|report| report.incomplete.is_some()) { FAILED } else { PASSED }
}

/// The file itself, or all files of a directory.
fn files(named: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !named.is_dir() {
        return Ok(vec![named.to_owned()]);
    }
    let read = || format!("cannot read {}", named.display());
    let entries = std::fs::read_dir(named).with_context(read)?.collect::<Result<Vec<_>, _>>().with_context(read)?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|it| it == "yaml" || it == "yml"));
    files.sort();
    ensure!(!files.is_empty(), "{} has no scenario (*.yaml)", named.display());
    Ok(files)
}

/// Announces how long the check will take.
fn announcement(scenarios: usize, budget: Duration, runs: Option<usize>) -> String {
    let (each, s) = if scenarios == 1 { ("", "") } else { (" each", "s") };
    let runs = runs.map(|runs| format!(", {runs} runs at most")).unwrap_or_default();
    format!("trying {scenarios} scenario{s} for {budget:?}{each}{runs}: --budget TIME sets another time")
}

fn show_progress(scenario: &str, done: usize, of: usize) {
    const WIDTH: usize = 30;
    if !std::io::stderr().is_terminal() {
        return;
    }
    let full = WIDTH * done.min(of) / of.max(1);
    let pairs = if done > of { format!(", and {} pairs", done - of) } else { String::new() };
    let bar = format!("{}{}", "=".repeat(full), " ".repeat(WIDTH - full));
    // Ignore an error: if standard error cannot be written to, the progress cannot be shown anyway.
    let _ = write!(std::io::stderr(), "\r{scenario} [{bar}] {} of {of} runs{pairs}\x1b[K", done.min(of));
}

fn clear_progress() {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use windlass_check::{ImportUse, Tried};

    use super::*;

    #[test]
    fn a_check_that_compared_nothing_has_not_passed() {
        let report = |incomplete: Option<&str>| Report {
            plugin: String::new(),
            version: String::new(),
            digest: String::new(),
            scenario: String::new(),
            seed: 1,
            runs: 1,
            calls: 1,
            writes: 1,
            tried: Tried::default(),
            rules_off: BTreeMap::new(),
            faults_off: BTreeMap::new(),
            imports: ImportUse::default(),
            incomplete: incomplete.map(str::to_owned),
            accepted: 1,
            findings: vec![],
        };
        assert_eq!(exit_code(&[report(None)]), PASSED);
        assert_eq!(exit_code(&[report(None), report(Some("step 1 failed"))]), FAILED);
    }

    #[test]
    fn the_duration_of_a_check_is_announced() {
        let minute = Duration::from_mins(1);
        assert_eq!(announcement(1, minute, None), "trying 1 scenario for 60s: --budget TIME sets another time");
        assert_eq!(
            announcement(3, minute, Some(12)),
            "trying 3 scenarios for 60s each, 12 runs at most: --budget TIME sets another time"
        );
    }
}
