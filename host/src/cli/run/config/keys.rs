//! The keys of a configuration file, one for each flag of `windlass run`. There is no other list of them: the name,
//! type, help and default come from the flag.

use std::any::TypeId;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};
use windlass_core::life::features::Features;
use windlass_wasm::Setting;

use crate::cli::flags::duration::DurationArg;
use crate::cli::flags::size::ByteSize;

/// The command whose flags the file sets.
pub(super) const HOST: &str = "run";
/// The flag that names the file.
pub(super) const FILE: &str = "config";
/// The key that a running host applies.
pub(super) const LOG_LEVEL: &str = "log_level";
/// The flags that make sense only on a command line.
const COMMAND_LINE_ONLY: [&str; 3] = [FILE, "help", "version"];

/// A key of the file, and its flag.
#[derive(Clone, Debug)]
pub(super) struct ConfigKey {
    /// The name in the file, such as `pluginCacheLimit`.
    pub(super) name: String,
    /// Whether the key has one value, a list or a map.
    pub(super) form: KeyForm,
    /// The type of each value.
    pub(super) kind: KeyKind,
    arg: Arg,
}

/// The number of values that a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyForm {
    /// One.
    One,
    /// A list: the flag is repeatable.
    List,
    /// A map: each value of the flag is NAME=VALUE.
    Map,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    Bool,
    Integer,
    Number,
    /// Bytes, such as `512Mi`.
    Size,
    /// A duration, such as `15s`.
    Time,
    /// The path of a file or directory. A relative one is resolved against the directory of the configuration file.
    Path,
    Text,
}

/// All keys, by name. `command` is the whole program's command.
pub(super) fn all(command: &Command) -> Vec<ConfigKey> {
    let mut host = of_host(command);
    host.build();
    let flags = host.get_arguments();
    let flags = flags.filter(|flag| !flag.is_hide_set() && !COMMAND_LINE_ONLY.contains(&flag.get_id().as_str()));
    let mut keys: Vec<_> = flags.map(ConfigKey::of).collect();
    keys.sort_by(|one, other| one.name.cmp(&other.name));
    keys
}

/// The host's command alone, with the global flags.
pub(super) fn of_host(command: &Command) -> Command {
    let common = command.get_arguments().filter(|flag| flag.is_global_set()).cloned();
    command.find_subcommand(HOST).cloned().unwrap_or_default().args(common)
}

impl ConfigKey {
    fn of(arg: &Arg) -> Self {
        let is_repeated = matches!(arg.get_action(), ArgAction::Append);
        let names_values = arg.get_value_names().unwrap_or_default().iter().any(|name| name.contains('='));
        let form = match (is_repeated, names_values) {
            (false, _) => KeyForm::One,
            (true, false) => KeyForm::List,
            (true, true) => KeyForm::Map,
        };
        Self { name: camel(arg.get_id().as_str()), form, kind: KeyKind::of(arg.get_value_parser()), arg: arg.clone() }
    }

    /// The flag's id in clap.
    pub(super) fn id(&self) -> &str {
        self.arg.get_id().as_str()
    }

    /// The flag, such as `--plugin-cache-limit`.
    pub(super) fn flag(&self) -> String {
        format!("--{}", self.arg.get_long().unwrap_or_default())
    }

    /// The flag as clap's messages show it, such as `--plugin-cache-limit <SIZE>`.
    pub(super) fn usage(&self) -> String {
        self.arg.to_string()
    }

    /// The word of a command line that gives the flag this value. `None` if the flag has that value by default.
    pub(super) fn word(&self, value: &str) -> Option<String> {
        match self.arg.get_action() {
            ArgAction::SetTrue => (value == "true").then(|| self.flag()),
            _ => Some(format!("{}={value}", self.flag())),
        }
    }

    /// The environment variable that also sets the flag.
    pub(super) fn environment(&self) -> Option<String> {
        self.arg.get_env().map(|name| name.to_string_lossy().into_owned())
    }

    /// The text of its help.
    pub(super) fn help(&self) -> String {
        let help = self.arg.get_long_help().or(self.arg.get_help());
        help.map(ToString::to_string).unwrap_or_default()
    }

    /// The default as a value.
    pub(super) fn default(&self) -> Option<String> {
        self.arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned())
    }

    /// The default in words, where it is not a value, such as `twice the processors`.
    pub(super) fn default_in_words(&self) -> Option<String> {
        let help = self.help();
        let (_, rest) = help.split_once("Default: ")?;
        let end = rest.find(". ").unwrap_or_else(|| rest.trim_end_matches('.').len());
        Some(rest[..end].to_owned())
    }

    /// The possible values, if they are few.
    pub(super) fn choices(&self) -> Vec<String> {
        if self.kind != KeyKind::Text {
            return Vec::new();
        }
        self.arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
    }

    /// The names that a map may have.
    pub(super) fn names(&self) -> Vec<&'static str> {
        match self.id() {
            "limits" => Setting::ALL.iter().map(|setting| setting.name).collect(),
            "feature_gates" => {
                let features = Features::default();
                let gates = features.states().iter().map(|state| state.gate.name);
                ["AllAlpha", "AllBeta"].into_iter().chain(gates).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl KeyKind {
    fn of(parser: &ValueParser) -> Self {
        let id = parser.type_id();
        let is_one_of = |types: &[TypeId]| types.iter().any(|it| id == *it);
        if is_one_of(&[TypeId::of::<bool>()]) {
            Self::Bool
        } else if is_one_of(&[TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>()]) {
            Self::Integer
        } else if is_one_of(&[TypeId::of::<f64>()]) {
            Self::Number
        } else if is_one_of(&[TypeId::of::<ByteSize>()]) {
            Self::Size
        } else if is_one_of(&[TypeId::of::<Duration>(), TypeId::of::<DurationArg>()]) {
            Self::Time
        } else if is_one_of(&[TypeId::of::<PathBuf>()]) {
            Self::Path
        } else {
            Self::Text
        }
    }
}

/// `plugin_cache_limit` as `pluginCacheLimit`.
fn camel(id: &str) -> String {
    let mut words = id.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        name + &initial.to_uppercase() + rest
    })
}
