//! The configuration file of a host, `windlass run --config FILE`, and `windlass config`, which shows what comes of it.
//!
//! The file becomes flags: what neither the command line nor the environment sets is added to the command line before
//! that is read. So clap decides, checks and explains, and whatever `windlass run` takes as a flag, the file has as a
//! key.

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

/// `windlass config`, and its subcommand that has the flags of a host.
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
    /// Exit codes: 0, shown; 2, a host would refuse these settings. Whether the files are right that they name, the
    /// host finds out when it starts.
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

/// The configuration file that a command line names, and what it adds to that line.
#[derive(Debug)]
pub(crate) struct HostConfig {
    file: HostConfigFile,
    keys: Vec<ConfigKey>,
    /// The command line without it.
    words: Vec<OsString>,
    overriding: OverridingFlags,
    added: Vec<AddedFlag>,
}

/// The flags that are set by themselves or by the environment, by their ids.
#[derive(Debug, Default)]
struct OverridingFlags {
    flags: BTreeSet<String>,
    /// The names that they set of maps.
    names: BTreeMap<String, BTreeSet<String>>,
}

/// A flag that the command line does not have, and now gets.
#[derive(Debug)]
struct AddedFlag {
    id: String,
    value: String,
    word: Option<String>,
    origin: SettingOrigin,
}

/// The place that a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SettingOrigin {
    /// It is built in.
    Default,
    /// This flag.
    Flag(String),
    /// This environment variable.
    Environment(String),
    /// This line of the file.
    File(u64),
}

impl HostConfig {
    /// The file that the command line `words` of `command` names by `--config` or by the environment, if it is for a
    /// host.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or something in it is wrong.
    pub(crate) fn of(command: &clap::Command, words: &[OsString]) -> Result<Option<Self>, PolicyError> {
        // What is wrong with the line is told once the file's flags are there, which may be those that are missing.
        // What asks for help needs no file.
        let Ok(matches) = command.clone().ignore_errors(true).try_get_matches_from(words) else { return Ok(None) };
        let Some(given) = of_host(&matches) else { return Ok(None) };
        let Some(path) = given.get_one::<PathBuf>(FILE) else { return Ok(None) };
        let keys = keys::all(command);
        let file = HostConfigFile::read(path, command, &keys)?;
        let overriding = OverridingFlags::of(&keys, given);
        let added = keys.iter().flat_map(|key| added(key, &overriding.left(key, &file), given)).collect();
        Ok(Some(Self { file, keys, words: words.to_vec(), overriding, added }))
    }

    /// The command line with what the file adds.
    pub(crate) fn completed(&self) -> Vec<OsString> {
        let mut words = self.words.clone();
        // Nothing behind it would be a flag.
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.splice(end..end, self.added.iter().filter_map(|flag| flag.word.clone()).map(OsString::from));
        words
    }

    /// Tells, where a command line is wrong that the file was added to, that it may be the file.
    pub(crate) fn hint(&self) -> String {
        format!("windlass: flags also come from {}", self.file.path.display())
    }
}

/// The matches of the command that has the flags of a host.
fn of_host(matches: &ArgMatches) -> Option<&ArgMatches> {
    match matches.subcommand()? {
        (HOST, host) => Some(host),
        (CONFIG, config) => config.subcommand().filter(|(name, _)| *name == PRINT).map(|(_, print)| print),
        _ => None,
    }
}

/// Whether the command line or the environment says something of this flag.
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

/// The flags that the file adds, which has these values `left` for `key`, to what is `given`.
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
        // With a flag on the line, the variable does not count any more.
        let values = given.get_raw(key.id()).into_iter().flatten().map(OsStr::to_string_lossy);
        added.extend(values.map(|value| flag(&value, SettingOrigin::Environment(name.clone()))));
    }
    added
}

/// The names and values in one value of a map, as its flag takes them: `A=true, B=false`.
fn entries(value: &str) -> impl Iterator<Item = (&str, &str)> {
    let entries = value.split(',').map(|entry| entry.split_once('=').unwrap_or((entry, "")));
    entries.map(|(name, value)| (name.trim(), value.trim())).filter(|(name, _)| !name.is_empty())
}
