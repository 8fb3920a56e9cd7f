//! Which languages there are, and their components: loaded once for all tests of this program.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use windlass_manifest::Manifest;
use windlass_wasm::{Limits, Plugin, Sandbox, SandboxOptions};

/// Every language with a probe, and whether it has a composing one.
const LANGUAGES: [(&str, bool); 7] =
    [("rust", true), ("go", true), ("python", true), ("js", true), ("c", true), ("zig", false), ("starlark", true)];

/// Steps for which a language may have nothing.
const LACKING: [(&str, &[&str]); 5] = [
    // Without WASI there is nothing to print to or to open.
    ("rust", &["stdout", "stderr", "open-file", "connect", "sleep"]),
    // It prints by its console, which is the logger, and modules of Node.js do not exist.
    ("js", &["stdout", "stderr", "open-file"]),
    // Their library for WebAssembly declares no sockets.
    ("c", &["connect"]),
    ("zig", &["connect"]),
    // It prints whole lines, and has nothing else of an operating system's.
    ("starlark", &["stdout", "stderr", "open-file", "connect", "sleep"]),
];

/// Languages whose scripts are frozen once they are read: `state` counts within a call, and each call is as the first.
const FROZEN: [&str; 1] = ["starlark"];

/// Where plugins are loaded and called. All tests share it, as they share the plugins.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
});

/// Which of a language's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Of the world `mapping-reconciler-plugin`.
    Reconciler,
    /// Of the world `customizing-composer-plugin`.
    Composer,
}

/// A language's probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Language {
    pub(crate) name: &'static str,
    part: Part,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Part::Reconciler => f.write_str(self.name),
            Part::Composer => write!(f, "{}-composer", self.name),
        }
    }
}

/// Whether a language is to be tested: one that `WINDLASS_CONFORMANCE` names, without it each.
///
/// # Panics
/// If `WINDLASS_CONFORMANCE` names a language that there is not.
pub(crate) fn is_selected(language: &str) -> bool {
    let wanted = std::env::var("WINDLASS_CONFORMANCE").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    for name in &wanted {
        let known: Vec<_> = LANGUAGES.iter().map(|(name, _)| *name).collect();
        assert!(known.contains(name), "WINDLASS_CONFORMANCE names `{name}`; there are: {}", known.join(", "));
    }
    wanted.is_empty() || wanted.contains(&language)
}

/// The probes of this kind that are to be tested.
pub(crate) fn selected(part: Part) -> Vec<Language> {
    let all = LANGUAGES.into_iter().filter(|(_, composes)| part == Part::Reconciler || *composes);
    let all = all.map(|(name, _)| Language { name, part });
    all.filter(|language| is_selected(language.name)).collect()
}

/// Limits that calls have in clusters, but for those on what a test is about or on how fast a test may go.
pub(crate) fn limits() -> Limits {
    Limits {
        calls_per_instance: u32::MAX,
        log_lines_per_second: u32::MAX,
        log_bytes_per_second: usize::MAX,
        // The machine may be busy, and the program that calls is no release.
        describe_deadline: Duration::from_mins(1),
        cpu: Duration::from_secs(3),
        ..Limits::default()
    }
}

/// A sandbox that keeps what it has compiled, so that each test program compiles a component once.
pub(crate) fn sandbox(limits: Limits) -> Sandbox {
    let cache = Some(directory().join(".compiled"));
    let options = SandboxOptions { limits, threads: 2, concurrent_calls: 4, cache, ..SandboxOptions::default() };
    Sandbox::new(options).expect("a sandbox")
}

fn directory() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/conformance");
    std::env::var_os("WINDLASS_CONFORMANCE_DIR").map_or_else(default, PathBuf::from)
}

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| sandbox(limits()));

type Loaded = Result<Arc<Plugin>, String>;
static PLUGINS: LazyLock<Mutex<HashMap<PathBuf, Loaded>>> = LazyLock::new(Mutex::default);

/// The plugin of a file, loaded at most once.
pub(crate) fn plugin_of(path: &Path, how_to_build: &str) -> Loaded {
    // Whoever comes second waits: to compile is parallel in itself.
    let mut plugins = PLUGINS.lock().expect("not poisoned");
    let load = || load(&SANDBOX, path, how_to_build);
    plugins.entry(path.to_owned()).or_insert_with(load).clone()
}

fn load(sandbox: &Sandbox, path: &Path, how_to_build: &str) -> Loaded {
    if !path.exists() {
        return Err(format!("there is no {}: {how_to_build}", path.display()));
    }
    RUNTIME.block_on(sandbox.load(path)).map_err(|error| format!("it does not load: {error}"))
}

impl Language {
    /// Whether it may say of this step that it has no such thing.
    pub(crate) fn may_lack(&self, call: &str) -> bool {
        LACKING.iter().any(|(name, steps)| *name == self.name && steps.contains(&call))
    }

    /// The first answer of `state` in a call that is the instance's `served`th.
    pub(crate) fn counts(&self, served: u64) -> u64 {
        if FROZEN.contains(&self.name) { 1 } else { served }
    }

    /// Whether this step may come out otherwise in an instance that has served other calls: the language's own runtime
    /// draws chance too, for what it makes in the first call that needs it.
    pub(crate) fn draws_otherwise_when_used(&self, call: &str) -> bool {
        self.name == "go" && ["language.random", "language.order"].contains(&call)
    }

    fn file(&self) -> (PathBuf, String) {
        let name = if self.part == Part::Reconciler { "conformance" } else { "conformance-composer" };
        let advice = format!("`make conformance` builds all of them, `tools/build-conformance {self}` only this one");
        (directory().join(self.to_string()).join(format!("{name}.wasm")), advice)
    }

    /// Its probe.
    pub(crate) fn plugin(&self) -> Loaded {
        let (path, advice) = self.file();
        plugin_of(&path, &advice)
    }

    /// Its probe, in a sandbox of the caller's.
    pub(crate) fn plugin_in(&self, sandbox: &Sandbox) -> Loaded {
        let (path, advice) = self.file();
        load(sandbox, &path, &advice)
    }

    /// Compares what the component says of itself with what all must say.
    pub(crate) fn check_manifest(&self) -> Result<(), String> {
        let expected = match self.part {
            Part::Reconciler => include_str!("../../../../tests/conformance/manifest.json"),
            Part::Composer => include_str!("../../../../tests/conformance/composer-manifest.json"),
        };
        let expected = Manifest::from_json(expected).map_err(|error| format!("the suite's own manifest: {error}"))?;
        let plugin = self.plugin()?;
        if *plugin.manifest() == expected {
            return Ok(());
        }
        Err(first_difference(&format!("{expected:#?}"), &format!("{:#?}", plugin.manifest())))
    }
}

/// Where two texts begin to differ, with what stands before.
fn first_difference(expected: &str, got: &str) -> String {
    const AROUND: usize = 8;
    let (expected, got): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    let at = expected.iter().zip(&got).take_while(|(expected, got)| expected == got).count();
    let part = |of: &[&str]| of[at.saturating_sub(AROUND)..(at + 4).min(of.len())].join("\n        ");
    format!("expected, in the end of this part of it:\n        {}\n      got:\n        {}", part(&expected), part(&got))
}
