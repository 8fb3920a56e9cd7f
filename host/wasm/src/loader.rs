//! Turns a file into a [`Plugin`]: obtains its code, links it, calls `describe` twice, and validates the manifest. The
//! plugin has no effect until all of this has succeeded.

use std::path::Path;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;
use windlass_manifest::{Manifest, ManifestError, OptionalExports, is_dns_label};

use crate::abi::linked::LinkedPlugin;
use crate::call_fields::CallFields;
use crate::component::{check_imports, entry, functions, imports};
use crate::counters::PluginCounters;
use crate::load_error::{LoadError, LoadProblem, explained};
use crate::obtain::{Obtained, cached, obtain};
use crate::plugin::{Code, Plugin};
use crate::sandbox::{Sandbox, Shared, TaskError};
use crate::state::DescribeWorld;
use crate::text::single_line;
use crate::trap::Stopped;
use crate::{call, digest};

/// The clocks and seeds of the two runs of `describe`. They differ between the runs, so that an answer that depends on
/// them is detected.
const WORLDS: [(Duration, u64); 2] =
    [(Duration::from_secs(1_000_000_000), 1), (Duration::new(1_234_567_890, 987_654_321), 2)];

impl Sandbox {
    /// Loads the plugin in the file `path`. Reading and compiling run outside of the runtime's threads; `describe` is
    /// called in this task.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub async fn load(&self, path: &Path) -> Result<Arc<Plugin>, LoadError> {
        let loaded = Box::pin(load(&self.shared, plugin_name(path), path)).await;
        loaded.map_err(|problem| LoadError { path: path.to_owned(), problem })
    }

    /// As [`Self::load`], for a plugin `name` whose file has another name.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub async fn load_as(&self, name: &str, path: &Path) -> Result<Arc<Plugin>, LoadError> {
        let loaded = Box::pin(load(&self.shared, Ok(name.to_owned()), path)).await;
        loaded.map_err(|problem| LoadError { path: path.to_owned(), problem })
    }

    /// Loads the plugin `name` from the cache of compiled plugins: the component with `digest`, whatever the file
    /// `path` contains by now. The path is only used for display. `None` if the cache does not have the component,
    /// which may happen at any time: the cache may have been emptied, or the host may have another version.
    pub async fn load_digest(&self, name: &str, path: &Path, digest: &str) -> Result<Option<Arc<Plugin>>, LoadError> {
        let loaded = Box::pin(load_cached(&self.shared, name, path, digest)).await;
        loaded.map_err(|problem| LoadError { path: path.to_owned(), problem })
    }
}

async fn load(
    shared: &Arc<Shared>,
    name: Result<String, LoadProblem>,
    path: &Path,
) -> Result<Arc<Plugin>, LoadProblem> {
    let name = name?;
    let obtained = obtain(shared, path).await?;
    plugin(shared, name, path, obtained).await
}

async fn load_cached(
    shared: &Arc<Shared>,
    name: &str,
    path: &Path,
    digest: &str,
) -> Result<Option<Arc<Plugin>>, LoadProblem> {
    if !digest::is_sha256(digest) {
        return Ok(None);
    }
    match cached(shared, digest).await? {
        Some(obtained) => plugin(shared, name.to_owned(), path, obtained).await.map(Some),
        None => Ok(None),
    }
}

/// The plugin `name` with the code that was obtained.
async fn plugin(
    shared: &Arc<Shared>,
    name: String,
    path: &Path,
    obtained: Obtained,
) -> Result<Arc<Plugin>, LoadProblem> {
    let Obtained { component, digest, script, size, manifest: known, kept, unimproved } = obtained;
    let (entry, abi) = entry(&shared.engine, &component)?;
    check_imports(&shared.engine, &component, entry, abi)?;
    let linked = shared.linker.link(&component, entry, abi, script);
    let code = Arc::new(linked.map_err(|error| LoadProblem::Link { abi, reason: explained(&error) })?);
    let answer = match &known {
        Some(text) => serde_json::from_str(text).map_err(ManifestError::NotJson)?,
        None => describe(shared, &code).await?,
    };
    let text = (known.is_none() && kept.pinned.is_some()).then(|| answer.to_string());
    let manifest = Manifest::from_value(answer)?;
    let optional = code.has_optional();
    let exports =
        OptionalExports { version: abi.as_str(), relations: optional, matches: optional && abi.has_matches() };
    manifest.check_entry(entry, exports)?;
    if let Some(text) = text {
        keep_manifest(shared, &digest, text).await?;
    }
    if *manifest.name != *name {
        return Err(LoadProblem::OtherName { manifest: manifest.name, file: name });
    }
    let plugin = Arc::new(Plugin {
        name: name.into(),
        digest: digest.into(),
        path: path.to_owned(),
        size,
        abi,
        entry,
        imports: imports(&shared.engine, &component),
        functions: functions(&shared.engine, &component),
        call_fields: CallFields::of(&manifest),
        manifest,
        counters: Arc::new(PluginCounters::new(&shared.limits)),
        code: RwLock::new(Code { linked: code, pinned: kept.pinned }),
        was_cached: kept.found,
        improvement: OnceLock::new(),
        shared: shared.clone(),
    });
    if let Some(unimproved) = unimproved {
        plugin.improve(unimproved);
    }
    Ok(plugin)
}

/// Stores the answer of `describe`, so that it need not be called again for the same bytes.
async fn keep_manifest(shared: &Arc<Shared>, digest: &str, manifest: String) -> Result<(), TaskError> {
    let Some(artefacts) = shared.artefacts.clone() else { return Ok(()) };
    let digest = digest.to_owned();
    let keep = move || artefacts.keep_manifest(&digest, &manifest);
    shared.run_blocking(shared.limits.compile_deadline, keep).await.map(drop)
}

fn plugin_name(path: &Path) -> Result<String, LoadProblem> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if is_dns_label(&stem) {
        Ok(stem.into_owned())
    } else {
        Err(LoadProblem::FileName { stem: single_line(&stem, 80) })
    }
}

impl Plugin {
    /// Asks the plugin for its manifest again, and returns the whole answer. The host itself uses the manifest that it
    /// read when it loaded the plugin.
    pub async fn describe(&self) -> Result<Value, LoadError> {
        let answer = describe(&self.shared, &self.code()).await;
        answer.map_err(|problem| LoadError { path: self.path.clone(), problem })
    }
}

/// Calls `describe` in both worlds, and returns the answer if it is the same in both.
async fn describe(shared: &Arc<Shared>, code: &Arc<LinkedPlugin>) -> Result<Value, LoadProblem> {
    let mut answers = Vec::with_capacity(WORLDS.len());
    for (now, seed) in WORLDS {
        let world = DescribeWorld { now, random: StdRng::seed_from_u64(seed) };
        let answer =
            shared.run(&windlass_core::budget::fair::CpuPermit::default(), call::describe(shared, code, world)).await?;
        let answer = answer.map_err(|Stopped { reason, message }| LoadProblem::Describe { reason, message })?;
        answers.push(serde_json::from_str(&answer).map_err(ManifestError::NotJson)?);
    }
    let (first, second): (&Value, &Value) = (&answers[0], &answers[1]);
    match first_difference(first, second) {
        None => Ok(answers.swap_remove(0)),
        Some(at) => Err(LoadProblem::Unstable { at: single_line(&at, 200) }),
    }
}

/// The JSON pointer of the first difference between `a` and `b`. The order of fields does not matter.
fn first_difference(a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let missing = || b.keys().find(|key| !a.contains_key(*key)).map(|key| format!("/{key}"));
            let differs = a.iter().find_map(|(key, value)| {
                let deeper = b.get(key).map_or(Some(String::new()), |other| first_difference(value, other));
                deeper.map(|rest| format!("/{key}{rest}"))
            });
            differs.or_else(missing)
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(index, (a, b))| first_difference(a, b).map(|rest| format!("/{index}{rest}")))
        }
        _ => (a != b).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_is_a_pointer() {
        let a = json!({"name": "a", "controllers": [{"name": "x", "options": {"workers": 1}}]});
        let mut b = a.clone();
        assert_eq!(first_difference(&a, &b), None);
        b["controllers"][0]["options"]["workers"] = json!(2);
        assert_eq!(first_difference(&a, &b).as_deref(), Some("/controllers/0/options/workers"));
    }

    #[test]
    fn a_field_that_only_one_answer_has_is_a_difference() {
        let (less, more) = (json!({"name": "a"}), json!({"name": "a", "version": "1.0.0"}));
        assert_eq!(first_difference(&less, &more).as_deref(), Some("/version"));
        assert_eq!(first_difference(&more, &less).as_deref(), Some("/version"));
    }

    #[test]
    fn the_name_of_a_file_is_a_dns_label() {
        assert_eq!(plugin_name(Path::new("plugins/webapp.wasm")).ok().as_deref(), Some("webapp"));
        for name in ["Web.wasm", "web app.wasm", ".wasm", "-a.wasm", "a\nb.wasm"] {
            assert!(plugin_name(Path::new(name)).is_err(), "{name:?}");
        }
    }
}
