//! The operator's configuration of a plugin: reads `NAME.config.yaml`, checks it against the manifest's schema, and
//! builds the document for the plugin, with the values of Secrets filled in. [`follow`] keeps it up to date.
//!
//! The schema comes from the plugin's author. It is compiled without resolvers, so that it fetches nothing; its
//! patterns run in linear time; and the size to which its references [`unfold`] is bounded.

mod files;
mod follow;
mod unfold;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jsonschema::{PatternOptions, Validator};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use windlass_core::secret::confidential::Confidential;
use windlass_kube::SecretError;
use windlass_manifest::{ConfiguredKinds, Controller, Manifest};
use windlass_policy::SecretKeyRef;

use windlass_files::read_whole;

pub(crate) use files::ConfigFiles;
pub(crate) use follow::ConfigFollower;
pub use follow::SECRET_READ_INTERVAL_MAX;
#[cfg(test)]
use follow::SecretSource;

const API_VERSION: &str = "windlass.dev/v1alpha1";
const KIND: &str = "PluginConfig";
/// The suffix of its files.
pub const SUFFIX: &str = ".config.yaml";
/// Larger than any configuration; a larger file is a mistake.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// The most steps in a pointer to where a Secret's value goes. Unbounded nesting would overflow the stack.
const SECRET_PLACE_DEPTH_MAX: usize = 32;
/// How long checking a document may take. A schema can be made to take for ever.
const CONFIG_CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The most patterns in a schema, and the limit for compiling each: a short pattern such as `(.{99}){99}` can take
/// megabytes.
const SCHEMA_PATTERNS_MAX: usize = 100;
const PATTERN_BYTES: usize = 1 << 20;
/// The most problems that a message lists.
const LISTED_PROBLEMS_MAX: usize = 10;

/// Why a configuration is not taken. No variant holds the value of a Secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: it has more than the {CONFIG_BYTES_MAX} bytes that a configuration may have: is it the right file?", path.display())]
    TooLarge { path: PathBuf },
    #[error("{}: {message}", path.display())]
    Wrong { path: PathBuf, message: String },
    #[error("{}: {}", path.display(), problems.join("; "))]
    Misfit { path: PathBuf, problems: Vec<String> },
    #[error("{} does not exist, but the plugin needs it: {}", path.display(), problems.join("; "))]
    Missing { path: PathBuf, problems: Vec<String> },
    #[error("{}: the value for {at}: {source}", path.display())]
    Secret { path: PathBuf, at: String, source: SecretError },
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigFile {
    api_version: String,
    kind: String,
    /// The plugin that this configuration is for. So a file that was renamed or copied does not configure another
    /// plugin by accident.
    plugin: String,
    #[serde(default)]
    config: Map<String, Value>,
    #[serde(default)]
    secrets: Vec<FromSecret>,
}

/// A value that is read from a Secret, and its place in the document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FromSecret {
    /// A JSON pointer.
    path: String,
    secret_key_ref: SecretKeyRef,
}

/// The file of the plugin `name` in `directory`.
pub(crate) fn path_in(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{SUFFIX}"))
}

/// Reads the file at `path` for `plugin`. `None` if there is no file.
async fn read(path: &Path, plugin: &str) -> Result<Option<ConfigFile>, ConfigError> {
    let path = path.to_owned();
    let file = path.clone();
    let read = windlass_world::spawn_blocking(move || read_whole(&file, CONFIG_BYTES_MAX)).await;
    parsed(path, plugin, read.unwrap_or_else(|error| Err(error.into())))
}

/// The file at `path` for `plugin`, of which the bytes were `read`. `None` if there is no file.
fn parsed(path: PathBuf, plugin: &str, read: io::Result<Vec<u8>>) -> Result<Option<ConfigFile>, ConfigError> {
    let text = read.and_then(|bytes| {
        String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error.utf8_error()))
    });
    match text {
        Ok(text) => parse(&text, plugin).map(Some).map_err(|message| ConfigError::Wrong { path, message }),
        Err(error) => match error.kind() {
            ErrorKind::NotFound => Ok(None),
            ErrorKind::FileTooLarge => Err(ConfigError::TooLarge { path }),
            _ => Err(ConfigError::Unreadable { path, source: error }),
        },
    }
}

/// The Secrets, as namespace and name, from which the configuration of `plugin` in `directory` takes values. The error
/// says what is wrong with its file.
pub async fn named_secrets(directory: &Path, plugin: &str) -> Result<BTreeSet<(String, String)>, String> {
    let file = read(&path_in(directory, plugin), plugin).await.map_err(|error| error.to_string())?;
    let secrets = file.into_iter().flat_map(|file| file.secrets).map(|secret| secret.secret_key_ref);
    Ok(secrets.map(|secret| (secret.namespace, secret.name)).collect())
}

/// The configuration of `plugin` in `directory`, without the values of Secrets. `None` if there is none. The error says
/// what is wrong with its file.
pub async fn written_config(directory: &Path, plugin: &str) -> Result<Option<Map<String, Value>>, String> {
    let file = read(&path_in(directory, plugin), plugin).await.map_err(|error| error.to_string())?;
    Ok(file.map(|file| file.config))
}

/// The kinds that the configuration in `directory` names for the plugin with this `manifest`. `None` if the manifest
/// takes kinds from a configuration, and there is none. The error says what is wrong with its file.
pub fn configured_kinds(directory: &Path, manifest: &Manifest) -> Result<Option<ConfiguredKinds>, String> {
    if manifest.kind_pointers().is_empty() {
        return Ok(Some(ConfiguredKinds::default()));
    }
    let path = path_in(directory, &manifest.name);
    let read = read_whole(&path, CONFIG_BYTES_MAX);
    let Some(file) = parsed(path.clone(), &manifest.name, read).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    match ConfiguredKinds::read(&manifest.controllers, &Value::Object(file.config)) {
        Ok(kinds) => Ok(Some(kinds)),
        Err(problems) => Err(ConfigError::Misfit { path, problems }.to_string()),
    }
}

fn parse(text: &str, plugin: &str) -> Result<ConfigFile, String> {
    let file: ConfigFile = serde_saphyr::from_str(text).map_err(|error| one_line(&error.to_string()))?;
    if (&*file.api_version, &*file.kind) != (API_VERSION, KIND) {
        return Err(format!(
            "it is a {} of {}, and should be `kind: {KIND}` of `apiVersion: {API_VERSION}`",
            file.kind, file.api_version
        ));
    }
    if file.plugin != plugin {
        return Err(format!("it says `plugin: {}`, but it is where the configuration of {plugin} is", file.plugin));
    }
    Ok(file)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Puts `value` at `pointer`, creating the objects on the way. A value that is already there is an error, as one of the
/// two must be a mistake.
fn put(document: &mut Value, pointer: &str, value: &Confidential) -> Result<(), String> {
    let Some(steps) = pointer.strip_prefix('/') else {
        return Err(format!("{pointer:?} is not a JSON pointer: use one like `/smtp/password`"));
    };
    let mut place = document;
    let mut passed = String::new();
    if steps.split('/').count() > SECRET_PLACE_DEPTH_MAX {
        return Err(format!("a pointer of a Secret's value has more than {SECRET_PLACE_DEPTH_MAX} steps"));
    }
    for step in steps.split('/') {
        let key = step.replace("~1", "/").replace("~0", "~");
        let _ = write!(passed, "/{step}");
        place = match place {
            Value::Object(fields) => fields.entry(key).or_insert(Value::Null),
            Value::Array(items) => key
                .parse()
                .ok()
                .and_then(|index: usize| items.get_mut(index))
                .ok_or_else(|| format!("{pointer} leads to no item of the list before {passed}"))?,
            _ => return Err(format!("{pointer} leads through a value that is neither an object nor a list")),
        };
        if place.is_null() && passed.len() < pointer.len() {
            *place = Value::Object(Map::new());
        }
    }
    if !place.is_null() {
        return Err(format!("{pointer} has a value in `config` already"));
    }
    *place = Value::from(&**value);
    Ok(())
}

/// The schema of a plugin's configuration. Clones share it.
#[derive(Clone)]
pub(crate) struct Schema {
    validator: Option<Arc<Validator>>,
    /// The controllers for which the configuration may name kinds.
    controllers: Arc<[Controller]>,
    /// Held by a running check, even if its result is no longer awaited.
    checking: Arc<Semaphore>,
}

impl Schema {
    /// The schema of `manifest`. Without one, a plugin takes no configuration.
    pub(crate) fn of(manifest: &Manifest) -> Result<Self, String> {
        let checking = Arc::new(Semaphore::new(1));
        let controllers = manifest.controllers.as_slice().into();
        let Some(config) = &manifest.config else { return Ok(Self { validator: None, controllers, checking }) };
        let schema = Value::Object(config.schema.clone());
        // Check this first, because the code below follows references.
        if let Some(problem) = unfold::problem(&schema) {
            return Err(format!("config.schema: {problem}"));
        }
        let patterns = patterns(&schema);
        if patterns > SCHEMA_PATTERNS_MAX {
            return Err(format!(
                "config.schema: it has {patterns} patterns: at most {SCHEMA_PATTERNS_MAX} are compiled"
            ));
        }
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
        let options = jsonschema::options().with_pattern_options(patterns);
        let validator = options.build(&schema);
        let validator =
            validator.map_err(|error| format!("config.schema{}: {}", error.instance_path(), error.masked()))?;
        Ok(Self { validator: Some(Arc::new(validator)), controllers, checking })
    }

    /// Like [`Self::problems`], but on a separate thread and with a time limit.
    async fn check(&self, document: Value, confidential: bool) -> Vec<String> {
        let endless = || {
            vec![format!("config.schema: checking a document against it takes longer than {CONFIG_CHECK_TIMEOUT:?}")]
        };
        // A check that never ends keeps its thread for ever, so a changed file must not start another one.
        let Ok(permit) = self.checking.clone().try_acquire_owned() else { return endless() };
        let schema = self.clone();
        let check = windlass_world::spawn_blocking(move || {
            let _permit = permit;
            schema.problems(&document, confidential)
        });
        match tokio::time::timeout(CONFIG_CHECK_TIMEOUT, check).await {
            Ok(Ok(problems)) => problems,
            Ok(Err(_)) => vec!["config.schema: the host panicked when it checked the configuration".to_owned()],
            Err(_) => endless(),
        }
    }

    /// The places where `document` does not fit. If it is `confidential`, no values are quoted.
    fn problems(&self, document: &Value, confidential: bool) -> Vec<String> {
        let Some(validator) = &self.validator else {
            let empty = document.as_object().is_some_and(Map::is_empty);
            let what = "the plugin takes no configuration: its manifest has no config.schema";
            return if empty { vec![] } else { vec![what.to_owned()] };
        };
        let mut problems = Vec::new();
        for error in validator.iter_errors(document).take(LISTED_PROBLEMS_MAX) {
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { "config".to_owned() } else { format!("config{at}") };
            let what = if confidential { error.masked().to_string() } else { error.to_string() };
            problems.push(format!("{at}: {what}"));
        }
        problems.extend(ConfiguredKinds::read(&self.controllers, document).err().into_iter().flatten());
        problems
    }

    /// Why no Secret's value may be at `pointer`: the host shows the kinds that it watches.
    fn shown_at(&self, pointer: &str) -> Option<String> {
        let is_at =
            |kinds: &&str| pointer.strip_prefix(kinds).is_some_and(|below| below.is_empty() || below.starts_with('/'));
        let watches = self.controllers.iter().flat_map(Controller::all_watches);
        let kinds = watches.filter_map(|watch| watch.kinds_from.as_deref()).find(is_at)?;
        Some(format!(
            "{pointer} is in the list of kinds at {kinds}, which no Secret can hold: the host shows what it watches"
        ))
    }
}

/// An upper bound of the number of patterns in `schema`: members that only look like patterns count too.
fn patterns(schema: &Value) -> usize {
    match schema {
        Value::Object(fields) => {
            let of_names = fields.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
            let own = usize::from(fields.get("pattern").is_some_and(Value::is_string)) + of_names;
            own + fields.values().map(patterns).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(patterns).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
