//! `windlass config print`: each setting of a host, and where it comes from.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::Error;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, CommandFactory as _, FromArgMatches};
use serde_json::{Value, json};
use windlass_core::deceptive;
use windlass_core::error::explained;

use super::keys::{self, ConfigKey, KeyForm};
use super::schema::typed;
use super::{HostConfig, SettingOrigin, entries};
use crate::cli::Cli;
use crate::cli::run::RunArgs;
use crate::cli::view::{self, ViewFormat};

/// The exit code if a host would refuse the settings.
const WRONG: u8 = 2;

/// Arguments of `windlass config print`.
#[derive(Debug, Args)]
pub(super) struct ConfigPrintArgs {
    #[command(flatten)]
    host: HostFlags,
    /// The output format. The wide table also shows the flag and the environment variable of each key.
    #[arg(long, short, value_enum, default_value = "table")]
    output: ViewFormat,
}

/// The flags of a host, parsed and raw.
#[derive(Debug)]
struct HostFlags {
    read: RunArgs,
    given: Vec<GivenFlag>,
}

/// A flag that has a value, possibly the default.
#[derive(Debug)]
struct GivenFlag {
    id: String,
    values: Vec<String>,
    source: Option<ValueSource>,
}

/// A line of the table.
#[derive(Debug)]
struct SettingRow<'a> {
    key: &'a ConfigKey,
    /// The key. For an entry of a map, the key and the entry's name.
    name: String,
    /// Null if it is not set.
    value: Value,
    origin: SettingOrigin,
}

impl Args for HostFlags {
    fn augment_args(command: Command) -> Command {
        let command = RunArgs::augment_args(command);
        // Incomplete settings can be shown too. The help of `windlass run` lists the limits.
        let command = command.mut_arg("plugins", |plugins| plugins.required(false));
        command.mut_arg("limits", |limits| limits.long_help(None::<&'static str>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for HostFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = matches.ids().filter_map(|id| {
            let values = matches.get_raw(id.as_str())?.map(|value| value.to_string_lossy().into_owned()).collect();
            Some(GivenFlag { id: id.to_string(), values, source: matches.value_source(id.as_str()) })
        });
        let given = given.collect();
        Ok(Self { read: RunArgs::from_arg_matches(matches)?, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ConfigPrintArgs {
    pub(super) fn run(self, config: Option<&HostConfig>) -> anyhow::Result<ExitCode> {
        let keys = keys::all(&Cli::command());
        let rows: Vec<_> = keys.iter().flat_map(|key| rows(key, &self.host.given, config)).collect();
        let file = config.map(|config| config.file.path.display().to_string());
        let settings: Value = rows.iter().map(|row| row.document(file.as_deref())).collect();
        let is_printed = view::print_document(self.output, &json!({"file": file, "settings": settings}));
        if !is_printed.context("cannot write to standard output")? {
            let text = table(&rows, file.as_deref(), self.output == ViewFormat::Wide);
            crate::cli::print(&text).context("cannot write to standard output")?;
        }
        if let Err(error) = self.host.read.check() {
            eprintln!("windlass: {}", deceptive::escape(&explained(&*error)));
            return Ok(ExitCode::from(WRONG));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl SettingRow<'_> {
    /// The setting as JSON, for programs. `file` is the path of the configuration file.
    fn document(&self, file: Option<&str>) -> Value {
        let (source, from) = match &self.origin {
            SettingOrigin::Default => ("default", self.key.default_in_words()),
            SettingOrigin::Flag(flag) => ("flag", Some(flag.clone())),
            SettingOrigin::Environment(name) => ("environment", Some(name.clone())),
            SettingOrigin::File(line) => ("file", Some(format!("{}:{line}", file.unwrap_or_default()))),
        };
        json!({"key": self.name, "value": self.value, "source": source, "from": from})
    }

    /// The setting as cells of a table, for people.
    fn cells(&self, file: Option<&str>, is_wide: bool) -> Vec<String> {
        let value = match &self.value {
            Value::Null => self.key.default_in_words().map_or_else(|| "-".to_owned(), |words| format!("({words})")),
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().map(Value::to_string).collect::<Vec<_>>().join(", "),
            value => value.to_string(),
        };
        let source = match &self.origin {
            SettingOrigin::Default => "default".to_owned(),
            SettingOrigin::Flag(flag) => format!("flag {flag}"),
            SettingOrigin::Environment(name) => format!("environment {name}"),
            SettingOrigin::File(line) => format!("{}:{line}", file.unwrap_or_default()),
        };
        let mut cells = vec![self.name.clone(), value, source];
        if is_wide {
            cells.extend([self.key.flag(), self.key.environment().unwrap_or_else(|| "-".to_owned())]);
        }
        cells
    }
}

fn table(rows: &[SettingRow<'_>], file: Option<&str>, is_wide: bool) -> String {
    let headings = ["KEY", "VALUE", "SOURCE", "FLAG", "ENVIRONMENT"];
    let shown = if is_wide { &headings[..] } else { &headings[..3] };
    view::table(shown, rows.iter().map(|row| row.cells(file, is_wide)))
}

/// The lines of one key.
fn rows<'a>(key: &'a ConfigKey, given: &[GivenFlag], config: Option<&HostConfig>) -> Vec<SettingRow<'a>> {
    let row = |name: String, value: Value, origin: SettingOrigin| SettingRow { key, name, value, origin };
    let unset = || vec![row(key.name.clone(), Value::Null, SettingOrigin::Default)];
    let Some(flag) = given.iter().find(|flag| flag.id == key.id()) else { return unset() };
    let origin = |value: &str| {
        let added = config.into_iter().flat_map(|config| &config.added);
        let added = added.into_iter().find(|added| added.id == flag.id && added.value == value);
        added.map_or_else(|| of_source(key, flag.source), |added| added.origin.clone())
    };
    let (Some(first), values) = (flag.values.first(), &flag.values) else { return unset() };
    match key.form {
        KeyForm::One => vec![row(key.name.clone(), typed(key.kind, first), origin(first))],
        KeyForm::List => {
            let list = values.iter().map(|value| typed(key.kind, value)).collect();
            vec![row(key.name.clone(), list, origin(first))]
        }
        KeyForm::Map => {
            let mut rows: Vec<SettingRow<'a>> = Vec::new();
            for value in values {
                for (name, entry) in entries(value) {
                    let name = format!("{}.{name}", key.name);
                    // The last one wins.
                    rows.retain(|row| row.name != name);
                    rows.push(row(name, entry.into(), origin(value)));
                }
            }
            rows.sort_by(|one, other| one.name.cmp(&other.name));
            rows
        }
    }
}

fn of_source(key: &ConfigKey, source: Option<ValueSource>) -> SettingOrigin {
    match source {
        Some(ValueSource::CommandLine) => SettingOrigin::Flag(key.flag()),
        Some(ValueSource::EnvVariable) => SettingOrigin::Environment(key.environment().unwrap_or_default()),
        _ => SettingOrigin::Default,
    }
}
