//! The languages and their components, which are loaded once for all tests of this program.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use windlass_manifest::Manifest;
use windlass_wasm::{AbiVersion, Limits, Plugin, Sandbox, SandboxOptions};

/// Every language with a probe, and whether it also has a composing probe.
const LANGUAGES: [(&str, bool); 7] =
    [("rust", true), ("go", true), ("python", true), ("js", true), ("c", true), ("zig", false), ("starlark", true)];

/// Steps that a language may be unable to do.
const LACKING: [(&str, &[&str]); 5] = [
    // Without WASI, the language can neither print nor open files.
    ("rust", &["stdout", "stderr", "open-file", "connect", "sleep"]),
    // JavaScript prints only to its console, which is the logger, and has no modules of Node.js.
    ("js", &["stdout", "stderr", "open-file"]),
    // The C library for WebAssembly declares no sockets.
    ("c", &["connect"]),
    ("zig", &["connect"]),
    // Starlark prints whole lines, and has no other access to an operating system.
    ("starlark", &["stdout", "stderr", "open-file", "connect", "sleep"]),
];

/// Languages whose scripts are frozen after they are read. Their `state` counts only within a call, and each call
/// starts again.
const FROZEN: [&str; 1] = ["starlark"];

/// The sandbox in which plugins are loaded and called. All tests share it and its plugins.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
});

/// The kind of a language's probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// A probe of the world `mapping-reconciler-plugin`.
    Reconciler,
    /// A probe of the world `customizing-composer-plugin`.
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

/// Whether a language is tested. `WINDLASS_CONFORMANCE` lists the languages to test. If it is not set, all are tested.
///
/// # Panics
/// If `WINDLASS_CONFORMANCE` names an unknown language.
pub(crate) fn is_selected(language: &str) -> bool {
    let wanted = std::env::var("WINDLASS_CONFORMANCE").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    for name in &wanted {
        let known: Vec<_> = LANGUAGES.iter().map(|(name, _)| *name).collect();
        assert!(known.contains(name), "WINDLASS_CONFORMANCE names `{name}`; there are: {}", known.join(", "));
    }
    wanted.is_empty() || wanted.contains(&language)
}

/// The probes of this kind that are tested.
pub(crate) fn selected(part: Part) -> Vec<Language> {
    let all = LANGUAGES.into_iter().filter(|(_, composes)| part == Part::Reconciler || *composes);
    let all = all.map(|(name, _)| Language { name, part });
    all.filter(|language| is_selected(language.name)).collect()
}

/// The limits that calls have in clusters, except for limits that a test is about, and limits that depend on how fast a
/// test runs.
pub(crate) fn limits() -> Limits {
    Limits {
        calls_per_instance: u32::MAX,
        log_lines_per_second: u32::MAX,
        log_bytes_per_second: usize::MAX,
        // The machine may be busy, and the calling program is a debug build.
        describe_deadline: Duration::from_mins(1),
        cpu: Duration::from_secs(3),
        ..Limits::default()
    }
}

/// A sandbox that caches compiled code, so that each test program compiles a component only once.
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
    // A second caller waits, because compilation already uses all processors.
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
    /// Whether the language may report that it does not support this step.
    pub(crate) fn may_lack(&self, call: &str) -> bool {
        LACKING.iter().any(|(name, steps)| *name == self.name && steps.contains(&call))
    }

    /// The first answer of `state` in the call number `served` of an instance.
    pub(crate) fn counts(&self, served: u64) -> u64 {
        if FROZEN.contains(&self.name) { 1 } else { served }
    }

    /// Whether the outcome of this step may differ in an instance that has served other calls, because the language's
    /// runtime draws random values in the first call that needs them.
    pub(crate) fn draws_otherwise_when_used(&self, call: &str) -> bool {
        self.name == "go" && ["language.random", "language.order"].contains(&call)
    }

    /// Whether each call of the language's probe gets random data, because the probe links a generator that its runtime
    /// seeds at the start of a call.
    pub(crate) fn draws_in_each_call(&self) -> bool {
        ["go", "python"].contains(&self.name)
    }

    fn file(&self) -> (PathBuf, String) {
        let name = if self.part == Part::Reconciler { "conformance" } else { "conformance-composer" };
        let advice = format!("`make conformance` builds all of them, `tools/build-conformance {self}` only this one");
        (directory().join(self.to_string()).join(format!("{name}.wasm")), advice)
    }

    /// The language's probe.
    pub(crate) fn plugin(&self) -> Loaded {
        let (path, advice) = self.file();
        plugin_of(&path, &advice)
    }

    /// The language's probe in the caller's sandbox.
    pub(crate) fn plugin_in(&self, sandbox: &Sandbox) -> Loaded {
        let (path, advice) = self.file();
        load(sandbox, &path, &advice)
    }

    /// Compares the component's manifest with the manifest that all components must have.
    pub(crate) fn check_manifest(&self) -> Result<(), String> {
        let expected = match self.part {
            Part::Reconciler => include_str!("../../../../tests/conformance/manifest.json"),
            Part::Composer => include_str!("../../../../tests/conformance/composer-manifest.json"),
        };
        let expected = Manifest::from_json(expected).map_err(|error| format!("the suite's own manifest: {error}"))?;
        let plugin = self.plugin()?;
        if plugin.abi() != AbiVersion::NEWEST {
            return Err(format!("it is of the interface {}, and not of {}", plugin.abi(), AbiVersion::NEWEST));
        }
        if *plugin.manifest() == expected {
            return Ok(());
        }
        Err(first_difference(&format!("{expected:#?}"), &format!("{:#?}", plugin.manifest())))
    }
}

/// The first difference of two texts, with the text before it.
fn first_difference(expected: &str, got: &str) -> String {
    const AROUND: usize = 8;
    let (expected, got): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    let at = expected.iter().zip(&got).take_while(|(expected, got)| expected == got).count();
    let part = |of: &[&str]| of[at.saturating_sub(AROUND)..(at + 4).min(of.len())].join("\n        ");
    format!("expected, at the end of this excerpt:\n        {}\n      got:\n        {}", part(&expected), part(&got))
}
