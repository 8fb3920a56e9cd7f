//! The configuration file of a host, `windlass run --config FILE`, and `windlass config`, which shows the resulting
//! settings.
//!
//! The file becomes flags: its values are added to the command line before that is parsed, unless the command line or
//! the environment sets them. So clap decides, checks and explains, and the file has a key for each flag of `windlass
//! run`.

mod file;
mod follow;
mod keys;
mod print;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory as _, Subcommand};
use windlass_policy::PolicyError;

use self::file::{FileValue, HostConfigFile};
use self::keys::{ConfigKey, FILE, HOST, KeyForm};
use self::print::ConfigPrintArgs;
use crate::cli::Cli;

/// `windlass config`, whose subcommand `print` has the flags of a host.
const CONFIG: &str = "config";
const PRINT: &str = "print";

/// Show the settings of a host and where they come from, or the schema of its configuration file.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show each setting of a host, and where it comes from: a flag, an environment variable, the file, or the default.
    ///
    /// Takes the flags of `windlass run`, reads the same environment, and starts nothing. In the table, a default in
    /// parentheses is one that the host works out when it starts.
    ///
    /// Exit codes: 0, shown; 2, a host would refuse these settings. The host checks the files that they name only when
    /// it starts.
    #[command(after_help = "Examples:\n  windlass config print --config windlass.yaml\n  \
        windlass config print --config windlass.yaml --instance blue -o json")]
    Print(Box<ConfigPrintArgs>),
    /// Print the JSON schema of the file, for editors and pipelines.
    #[command(after_help = "Examples:\n  windlass config schema > windlass.schema.json")]
    Schema,
}

impl ConfigArgs {
    /// `config` is the file that the command line names.
    pub(crate) fn run(self, config: Option<&HostConfig>) -> anyhow::Result<ExitCode> {
        match self.command {
            ConfigCommand::Print(args) => args.run(config),
            ConfigCommand::Schema => {
                crate::cli::print_json(&schema::schema(&keys::all(&Cli::command())))
                    .context("cannot write to standard output")?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// The configuration file that a command line names, and the flags that it adds to the command line.
#[derive(Debug)]
pub(crate) struct HostConfig {
    file: HostConfigFile,
    keys: Vec<ConfigKey>,
    /// The command line without the file's flags.
    words: Vec<OsString>,
    overriding: OverridingFlags,
    added: Vec<AddedFlag>,
}

/// The flags that the command line or the environment sets, by their IDs.
#[derive(Debug, Default)]
struct OverridingFlags {
    flags: BTreeSet<String>,
    /// For flags that are maps, the names of the entries that are set.
    names: BTreeMap<String, BTreeSet<String>>,
}

/// A flag that the file adds to the command line.
#[derive(Debug)]
struct AddedFlag {
    id: String,
    value: String,
    word: Option<String>,
    origin: SettingOrigin,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SettingOrigin {
    /// The built-in default.
    Default,
    /// This flag.
    Flag(String),
    /// This environment variable.
    Environment(String),
    /// This line of the file.
    File(u64),
}

impl HostConfig {
    /// The configuration file that the command line `words` of `command` names, by `--config` or by the environment, if
    /// the command is a host's.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or something in it is wrong.
    pub(crate) fn of(command: &clap::Command, words: &[OsString]) -> Result<Option<Self>, PolicyError> {
        // Other errors in the command line are reported later, once the file's flags are added, because these may be
        // the missing flags. A request for help needs no file.
        let Ok(matches) = command.clone().ignore_errors(true).try_get_matches_from(words) else { return Ok(None) };
        let Some(given) = of_host(&matches) else { return Ok(None) };
        let Some(path) = given.get_one::<PathBuf>(FILE) else { return Ok(None) };
        let keys = keys::all(command);
        let file = HostConfigFile::read(path, command, &keys)?;
        let overriding = OverridingFlags::of(&keys, given);
        let added = keys.iter().flat_map(|key| added(key, &overriding.left(key, &file), given)).collect();
        Ok(Some(Self { file, keys, words: words.to_vec(), overriding, added }))
    }

    /// The command line with the file's flags.
    pub(crate) fn completed(&self) -> Vec<OsString> {
        let mut words = self.words.clone();
        // Flags after `--` would not be recognized.
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.splice(end..end, self.added.iter().filter_map(|flag| flag.word.clone()).map(OsString::from));
        words
    }

    /// A hint for errors in a command line to which the file was added: the file may be the cause.
    pub(crate) fn hint(&self) -> String {
        format!("windlass: flags also come from {}", self.file.path.display())
    }
}

/// The matches of the host's command.
fn of_host(matches: &ArgMatches) -> Option<&ArgMatches> {
    match matches.subcommand()? {
        (HOST, host) => Some(host),
        (CONFIG, config) => config.subcommand().filter(|(name, _)| *name == PRINT).map(|(_, print)| print),
        _ => None,
    }
}

/// Whether the command line or the environment sets this flag.
fn is_set(given: &ArgMatches, id: &str) -> bool {
    matches!(given.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

impl OverridingFlags {
    fn of(keys: &[ConfigKey], given: &ArgMatches) -> Self {
        let set: Vec<_> = keys.iter().filter(|key| is_set(given, key.id())).collect();
        let names = |key: &ConfigKey| {
            let values = given.get_raw(key.id()).into_iter().flatten().map(OsStr::to_string_lossy);
            values.flat_map(|value| entries(&value).map(|(name, _)| name.to_owned()).collect::<Vec<_>>()).collect()
        };
        let maps = set.iter().filter(|key| key.form == KeyForm::Map);
        Self {
            names: maps.map(|key| (key.id().to_owned(), names(key))).collect(),
            flags: set.iter().map(|key| key.id().to_owned()).collect(),
        }
    }

    fn has(&self, key: &ConfigKey) -> bool {
        self.flags.contains(key.id())
    }

    /// The values of `file` that are not overridden. A map is overridden name by name.
    fn left<'a>(&self, key: &ConfigKey, file: &'a HostConfigFile) -> Vec<&'a FileValue> {
        let values = file.values(key).iter();
        if !self.has(key) {
            return values.collect();
        }
        let Some(names) = self.names.get(key.id()) else { return Vec::new() };
        values.filter(|it| entries(&it.value).all(|(name, _)| !names.contains(name))).collect()
    }
}

/// The flags that the file adds to `given`, for the values `left` of `key`.
fn added(key: &ConfigKey, left: &[&FileValue], given: &ArgMatches) -> Vec<AddedFlag> {
    let flag = |value: &str, origin| AddedFlag {
        id: key.id().to_owned(),
        value: value.to_owned(),
        word: key.word(value),
        origin,
    };
    let mut added: Vec<_> = left.iter().map(|it| flag(&it.value, SettingOrigin::File(it.line))).collect();
    let environment = key.environment().filter(|_| given.value_source(key.id()) == Some(ValueSource::EnvVariable));
    if let (Some(name), false) = (environment, added.is_empty()) {
        // With a flag on the command line, clap ignores the variable.
        let values = given.get_raw(key.id()).into_iter().flatten().map(OsStr::to_string_lossy);
        added.extend(values.map(|value| flag(&value, SettingOrigin::Environment(name.clone()))));
    }
    added
}

/// The names and values within one value of a map flag: `A=true, B=false`.
fn entries(value: &str) -> impl Iterator<Item = (&str, &str)> {
    let entries = value.split(',').map(|entry| entry.split_once('=').unwrap_or((entry, "")));
    entries.map(|(name, value)| (name.trim(), value.trim())).filter(|(name, _)| !name.is_empty())
}
