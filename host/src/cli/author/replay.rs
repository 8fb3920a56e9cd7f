//! `windlass replay`: repeats recorded calls without a cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use windlass_core::error::explained;
use windlass_record::{
    CallVerdict, CannotReplay, Comparison, RecordedCall, RecordedComponent, RecordingReader, Redactor, ReplayedCall,
};
use windlass_wasm::{Plugin, Sandbox, SandboxOptions};

use crate::cli::OutputFormat;
use crate::cli::author::replay_report::ReplayReport;
use crate::cli::flags::limits::LimitArgs;
use crate::cli::flags::settings::cache_dir;

/// Exit code: a call has diverged, or another version would act differently.
const DIFFERS: u8 = 1;
/// Exit code: nothing could be replayed.
const FAILED: u8 = 2;

/// The recorded plugins, each with the component of its last selected call. `None` if no selected call is about the
/// plugin.
type RecordedPlugins = BTreeMap<String, Option<RecordedComponent>>;

/// Repeat recorded calls without a cluster.
///
/// `windlass run --record DIR` records calls. `replay` calls the plugin with the same request, answers its imports from
/// the recording, and shows the first import at which the plugin does something else. With another version of the
/// plugin (--plugin), it shows which writes would differ, by object.
///
/// Exit codes: 0, all is the same; 1, something differs; 2, nothing could be replayed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass replay recordings                       # the recorded plugins\n  \
    windlass replay recordings/shop --plugin build/shop.wasm\n  \
    windlass replay recordings --key prod/web --trace")]
pub(crate) struct ReplayArgs {
    /// A recording, or a directory of them: what `windlass run --record DIR` has written.
    #[arg(value_name = "FILE|DIR")]
    recording: PathBuf,
    /// The plugin to call. Default: the file that was recorded, if it is still the same. With another version, the
    /// report shows which writes would differ.
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// Only the calls about this object: NAMESPACE/NAME, or NAME.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Show each call in full: its imports, their answers, and the CPU time up to each.
    #[arg(long)]
    trace: bool,
    /// The format of the report.
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
    /// The directory for compiled plugins, private to this user. Default: `XDG_CACHE_HOME`/windlass, else
    /// ~/.cache/windlass.
    #[arg(long, value_name = "DIR", env = "WINDLASS_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
}

impl ReplayArgs {
    pub(crate) async fn run(self) -> ExitCode {
        match self.replayed().await {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(DIFFERS),
            Err(error) => {
                eprintln!("windlass: {}", explained(&*error));
                ExitCode::from(FAILED)
            }
        }
    }

    /// Replays the calls. Returns true if nothing differs.
    async fn replayed(&self) -> anyhow::Result<bool> {
        let mut report = ReplayReport::new(self.trace);
        let files = windlass_record::files(&self.recording)?;
        let recorded = self.look_through(&files, &mut report)?;
        let of = self.key.as_ref().map(|key| format!(" about {key}")).unwrap_or_default();
        ensure!(recorded.values().any(Option::is_some), "{} has no recorded call{of}", self.recording.display());
        let plugins = self.plugins(&recorded, &mut report).await?;
        for file in &files {
            let Some(mut reader) = RecordingReader::open(file)? else { continue };
            let redacted = reader.header().redacted.clone();
            let plugin = plugins.iter().find(|plugin| **plugin.name() == reader.header().plugin).cloned();
            while let Some(call) = reader.next() {
                match &plugin {
                    _ if !self.is_meant(&call) => {}
                    Some(plugin) => self.replay_call(plugin, &call, &redacted, &mut report).await?,
                    None => report.leave_out(&reader.header().plugin, 1),
                }
            }
        }
        match self.output {
            OutputFormat::Text => crate::cli::print(&report.text())?,
            OutputFormat::Json => crate::cli::print_json(&report.json())?,
        }
        ensure!(report.has_calls(), "no call could be replayed");
        Ok(report.is_same())
    }

    fn is_meant(&self, call: &RecordedCall) -> bool {
        self.key.as_ref().is_none_or(|key| *key == call.request.key())
    }

    /// The recorded plugins, each with the component of its last selected call. A recording may be larger than the
    /// memory, so it is read twice and never kept.
    fn look_through(&self, files: &[PathBuf], report: &mut ReplayReport) -> anyhow::Result<RecordedPlugins> {
        let mut recorded = RecordedPlugins::new();
        for file in files {
            let Some(mut reader) = RecordingReader::open(file)? else { continue };
            let plugin = recorded.entry(reader.header().plugin.clone()).or_default();
            let mut calls = 0;
            for call in reader.by_ref() {
                calls += 1;
                if self.is_meant(&call) {
                    *plugin = Some(call.component);
                }
            }
            if let Some(torn) = reader.torn() {
                report.note(format!("{}: read up to call {calls}: {torn}", file.display()));
            }
        }
        Ok(recorded)
    }

    async fn replay_call(
        &self,
        plugin: &Arc<Plugin>,
        call: &RecordedCall,
        redacted: &[String],
        report: &mut ReplayReport,
    ) -> anyhow::Result<()> {
        let is_same_plugin = call.component.digest == **plugin.digest();
        if !is_same_plugin && self.plugin.is_none() {
            report.leave_out(&format!("{} {}", plugin.name(), short(&call.component.digest)), 1);
            return Ok(());
        }
        let comparison = if is_same_plugin { Comparison::EachImport } else { Comparison::Writes };
        let leave_out = |report: &mut ReplayReport| {
            let trace_id = &call.request.trace_id;
            report.note(format!("the call {trace_id} of {} is left out: {}", plugin.name(), CannotReplay::Secrets));
        };
        // Redact the recorded call as the replayed one is redacted, because an older version of the host may have
        // redacted less.
        let Some(recorded) = Redactor::of_replay(redacted.to_vec()).redact_again(call) else {
            leave_out(report);
            return Ok(());
        };
        let replayed: ReplayedCall = match windlass_record::replay(plugin, call, redacted).await {
            Err(CannotReplay::Secrets) => {
                leave_out(report);
                return Ok(());
            }
            replayed => replayed?,
        };
        let verdict: CallVerdict = windlass_record::compare(&recorded, &replayed, comparison);
        report.add(plugin, &recorded, &replayed, verdict);
        Ok(())
    }

    /// The plugins to call: the one that was named, or else the recorded ones.
    async fn plugins(&self, recorded: &RecordedPlugins, report: &mut ReplayReport) -> anyhow::Result<Vec<Arc<Plugin>>> {
        let sandbox = self.sandbox()?;
        if let Some(file) = &self.plugin {
            let names: Vec<&str> = recorded.keys().map(String::as_str).collect();
            return Ok(vec![load_as(&sandbox, file, &names).await?]);
        }
        let mut plugins = Vec::new();
        for (name, component) in recorded {
            let Some(component) = component else { continue };
            let file = Path::new(&component.file);
            let advice = "name the recorded file with --plugin, or another version of it";
            // The file may be NAME.current.wasm.
            match sandbox.load_as(name, file).await {
                Ok(plugin) if component.digest == **plugin.digest() => plugins.push(plugin),
                Ok(plugin) => report.note(format!(
                    "{} has changed since the recording: it is {}, and was {}; {advice}",
                    file.display(),
                    plugin.short_digest(),
                    short(&component.digest)
                )),
                Err(error) => report.note(format!("{name} cannot be called: {}; {advice}", explained(&error))),
            }
        }
        if plugins.is_empty() {
            bail!("{}", report.notes());
        }
        Ok(plugins)
    }

    fn sandbox(&self) -> anyhow::Result<Sandbox> {
        let options = SandboxOptions {
            limits: self.limits.limits()?,
            compiler: crate::cli::compiler()?,
            cache: cache_dir(self.cache_dir.clone()),
            ..SandboxOptions::default()
        };
        Ok(Sandbox::new(options)?)
    }
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// Loads the plugin in `file`, which may have another name than the recorded plugin, as `shop-new.wasm` beside
/// `shop.wasm` does.
async fn load_as(sandbox: &Sandbox, file: &Path, names: &[&str]) -> anyhow::Result<Arc<Plugin>> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    if names.contains(&&*stem) {
        return Ok(sandbox.load(file).await?);
    }
    let [name] = names else {
        bail!("{} is not one of the recorded plugins: {}", file.display(), names.join(", "));
    };
    let loaded = sandbox.load_as(name, file).await;
    loaded.with_context(|| format!("{} is not a version of {name}", file.display()))
}
