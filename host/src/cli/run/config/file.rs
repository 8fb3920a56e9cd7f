//! Reads a configuration file strictly. Each problem is reported with its place, and each value must be one that its
//! flag accepts.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::{ContextKind, ContextValue};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;
use windlass_files::read_whole;
use windlass_manifest::{API_VERSION, nearest};
use windlass_policy::PolicyError;
use windlass_policy::document::problems::DocumentProblems;

use super::keys::{ConfigKey, HOST, KeyForm, KeyKind, of_host};

/// The `kind` of the document.
pub(super) const KIND: &str = "HostConfiguration";
/// The largest file, in bytes. Real files are far smaller.
pub(super) const HOST_CONFIG_BYTES_MAX: u64 = 1 << 20;

/// A valid configuration file.
#[derive(Clone, Debug)]
pub(super) struct HostConfigFile {
    pub(super) path: PathBuf,
    /// The values of each flag, by its ID.
    entries: BTreeMap<String, Vec<FileValue>>,
}

/// A value for a flag, and its place in the file.
#[derive(Clone, Debug)]
pub(super) struct FileValue {
    pub(super) line: u64,
    /// The value in the form for the flag.
    pub(super) value: String,
}

impl HostConfigFile {
    /// The values that the file has for a flag.
    pub(super) fn values(&self, key: &ConfigKey) -> &[FileValue] {
        self.entries.get(key.id()).map_or(&[], Vec::as_slice)
    }

    /// Reads the file at `path`. `command` is the whole program's command, and `keys` are its keys.
    pub(super) fn read(path: &Path, command: &Command, keys: &[ConfigKey]) -> Result<Self, PolicyError> {
        let mut problems = DocumentProblems::default();
        let text = read_whole(path, HOST_CONFIG_BYTES_MAX);
        let text = text.map_err(|error| problems.whole(format!("cannot be read: {error}"))).ok();
        let file = text.and_then(|text| ConfigReader::of(path, command, keys, &mut problems).file(&text));
        problems.or(path, file)
    }
}

/// Turns the document into values of flags.
struct ConfigReader<'a> {
    path: &'a Path,
    keys: &'a [ConfigKey],
    /// The host's command without its environment, for trying values.
    host: Command,
    problems: &'a mut DocumentProblems,
}

impl<'a> ConfigReader<'a> {
    fn of(path: &'a Path, command: &Command, keys: &'a [ConfigKey], problems: &'a mut DocumentProblems) -> Self {
        let mut host = of_host(command).mut_args(|flag| flag.env(None::<&'static str>));
        host.build();
        Self { path, keys, host, problems }
    }

    fn file(&mut self, text: &[u8]) -> Option<HostConfigFile> {
        let written: ConfigNode = self.problems.yaml(text)?;
        let fields = match written {
            ConfigNode::Map(fields) => fields,
            ConfigNode::One(Scalar::Nothing) => Vec::new(),
            _ => {
                self.problems.whole("it is not a map of keys and values".to_owned());
                return None;
            }
        };
        let text_of = |name: &str| match fields.iter().find(|(key, _)| key.value == name).map(|(_, it)| &it.value) {
            Some(ConfigNode::One(Scalar::Text(text))) => Some(text.as_str()),
            _ => None,
        };
        if (text_of("apiVersion"), text_of("kind")) != (Some(API_VERSION), Some(KIND)) {
            let what = format!("it must begin with `apiVersion: {API_VERSION}` and `kind: {KIND}`");
            let is_build_file = text_of("kind").is_none() && text_of("name").is_some();
            let hint = "; a plugin's folder has another windlass.yaml, which is for `windlass build`";
            self.problems.whole(what + if is_build_file { hint } else { "" });
            return None;
        }
        let mut entries = BTreeMap::new();
        for (name, written) in fields.iter().filter(|(name, _)| !["apiVersion", "kind"].contains(&&*name.value)) {
            let Some(key) = self.keys.iter().find(|key| key.name == name.value) else {
                let known = self.keys.iter().map(|key| key.name.as_str());
                let hint = nearest(&name.value, known);
                let hint = hint.unwrap_or_else(|| "`windlass config schema` describes all keys".to_owned());
                self.problems.at(name, format!("unknown key `{}`; {hint}", name.value));
                continue;
            };
            entries.insert(key.id().to_owned(), self.values(key, name, written));
        }
        Some(HostConfigFile { path: self.path.to_owned(), entries })
    }

    /// The valid values of `key`.
    fn values(&mut self, key: &ConfigKey, name: &Spanned<String>, written: &Spanned<ConfigNode>) -> Vec<FileValue> {
        let line = name.referenced.line();
        match (key.form, &written.value) {
            (KeyForm::One, ConfigNode::One(scalar)) => {
                self.value(key, &key.name, line, written, scalar).into_iter().collect()
            }
            (KeyForm::List, ConfigNode::List(items)) => {
                let values = items.iter().enumerate().filter_map(|(index, item)| {
                    let field = format!("{}[{index}]", key.name);
                    match &item.value {
                        ConfigNode::One(scalar) => self.value(key, &field, item.referenced.line(), item, scalar),
                        _ => self.wrong(item, &field, "it must be one value"),
                    }
                });
                values.collect()
            }
            (KeyForm::Map, ConfigNode::Map(fields)) => {
                let values = fields.iter().filter_map(|(name, item)| {
                    let field = format!("{}.{}", key.name, name.value);
                    match &item.value {
                        ConfigNode::One(scalar) => self.named(key, &field, name, item, scalar),
                        _ => self.wrong(item, &field, "it must be one value"),
                    }
                });
                values.collect()
            }
            (_, ConfigNode::One(Scalar::Nothing)) => self.wrong(written, &key.name, NO_VALUE).into_iter().collect(),
            (form, _) => {
                let expected = match form {
                    KeyForm::One => "it must be one value",
                    KeyForm::List => "it must be a list",
                    KeyForm::Map => "it must be a map of names and values",
                };
                self.wrong(written, &key.name, expected).into_iter().collect()
            }
        }
    }

    fn wrong<T>(&mut self, at: &Spanned<T>, field: &str, what: &str) -> Option<FileValue> {
        self.problems.at(at, format!("`{field}`: {what}"));
        None
    }

    fn value(
        &mut self,
        key: &ConfigKey,
        field: &str,
        line: u64,
        at: &Spanned<ConfigNode>,
        scalar: &Scalar,
    ) -> Option<FileValue> {
        match typed(key.kind, scalar).and_then(|text| self.placed(key, text)) {
            Ok(value) => self.tried(key, field, at, FileValue { line, value }),
            Err(what) => self.wrong(at, field, &what),
        }
    }

    fn named(
        &mut self,
        key: &ConfigKey,
        field: &str,
        name: &Spanned<String>,
        at: &Spanned<ConfigNode>,
        scalar: &Scalar,
    ) -> Option<FileValue> {
        if name.value.contains(['=', ',']) {
            return self.wrong(name, field, "it must be one name, without `=` and `,`");
        }
        let value = match scalar {
            Scalar::Nothing => return self.wrong(at, field, NO_VALUE),
            Scalar::Text(text) if text.contains(',') => {
                return self.wrong(at, field, "it must be one value, without `,`");
            }
            Scalar::Bool(value) => value.to_string(),
            Scalar::Integer(value) => value.to_string(),
            Scalar::Number(value) => value.to_string(),
            Scalar::Text(text) => text.clone(),
        };
        let value = FileValue { line: name.referenced.line(), value: format!("{}={value}", name.value) };
        self.tried(key, field, at, value)
    }

    /// Resolves a relative path against the file's directory, not the host's working directory.
    fn placed(&self, key: &ConfigKey, text: String) -> Result<String, String> {
        if key.kind != KeyKind::Path || text.is_empty() || (key.id() == AUDIT_LOG && text == NO_FILE) {
            return Ok(text);
        }
        if text.contains('\0') {
            return Err("a path cannot contain NUL".to_owned());
        }
        if text.starts_with(['~', '$']) {
            return Err(format!(
                "`{text}` is not expanded, as a shell would do: write the whole path, or begin it with `./`"
            ));
        }
        let path = self.path.parent().unwrap_or(Path::new("")).join(text);
        path.into_os_string().into_string().map_err(|_| "the path of this file is not in UTF-8".to_owned())
    }

    /// The value, if its flag accepts it.
    fn tried(&mut self, key: &ConfigKey, field: &str, at: &Spanned<ConfigNode>, value: FileValue) -> Option<FileValue> {
        let words = std::iter::once(HOST.to_owned()).chain(key.word(&value.value));
        let Err(error) = self.host.clone().try_get_matches_from(words) else { return Some(value) };
        // This command line has only the one flag, so an error about another flag does not concern the value.
        let is_about_it =
            matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(it)) if *it == key.usage());
        if !is_about_it {
            return Some(value);
        }
        self.wrong(at, field, &format!("it cannot be {:?}: {}", value.value, refusal(&error, &value.value)))
    }
}

/// The flag that accepts a word instead of a path, and the word.
const AUDIT_LOG: &str = "audit_log";
const NO_FILE: &str = "none";
const NO_VALUE: &str = "it has no value: give it one, or delete the line";

/// The text of a scalar, if it has the right type.
fn typed(kind: KeyKind, scalar: &Scalar) -> Result<String, String> {
    let expected = match (kind, scalar) {
        (_, Scalar::Nothing) => NO_VALUE,
        (KeyKind::Bool, Scalar::Bool(value)) => return Ok(value.to_string()),
        (KeyKind::Bool, _) => "it must be true or false",
        (KeyKind::Integer | KeyKind::Number | KeyKind::Size | KeyKind::Time, Scalar::Integer(value)) => {
            return Ok(value.to_string());
        }
        (KeyKind::Integer, _) => "it must be a whole number",
        (KeyKind::Number, Scalar::Number(value)) => return Ok(value.to_string()),
        (KeyKind::Number, _) => "it must be a number",
        (_, Scalar::Text(text)) => return Ok(text.clone()),
        _ => "it must be text: put it in quotes",
    };
    Err(expected.to_owned())
}

/// The reason why clap refuses a value.
fn refusal(error: &clap::Error, value: &str) -> String {
    if let Some(source) = error.source() {
        return source.to_string();
    }
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) if !valid.is_empty() => {
            let hint = nearest(value, valid.iter().map(String::as_str));
            let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("it must be one of {}{hint}", valid.join(", "))
        }
        _ => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    }
}

/// A node of the document.
#[derive(Debug)]
enum ConfigNode {
    One(Scalar),
    List(Vec<Spanned<ConfigNode>>),
    Map(Vec<(Spanned<String>, Spanned<ConfigNode>)>),
}

#[derive(Debug)]
enum Scalar {
    Nothing,
    Bool(bool),
    Integer(i128),
    Number(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for ConfigNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = ConfigNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list or a map")
    }

    fn visit_unit<E>(self) -> Result<ConfigNode, E> {
        Ok(ConfigNode::One(Scalar::Nothing))
    }

    fn visit_bool<E>(self, value: bool) -> Result<ConfigNode, E> {
        Ok(ConfigNode::One(Scalar::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ConfigNode, E> {
        Ok(ConfigNode::One(Scalar::Integer(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ConfigNode, E> {
        Ok(ConfigNode::One(Scalar::Integer(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ConfigNode, E> {
        Ok(ConfigNode::One(Scalar::Number(value)))
    }

    fn visit_str<E>(self, text: &str) -> Result<ConfigNode, E> {
        Ok(ConfigNode::One(Scalar::Text(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ConfigNode, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(ConfigNode::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<ConfigNode, A::Error> {
        let mut map = Vec::new();
        while let Some(field) = fields.next_entry()? {
            map.push(field);
        }
        Ok(ConfigNode::Map(map))
    }
}
