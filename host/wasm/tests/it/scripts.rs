//! Components that contain a script: the interpreter's code is compiled once, and each component has its own script.

use crate::support;

use support::guests::{Core, MANIFEST};
use support::ports::quiet;
use support::{PluginDir, load, options, reconcile, sandbox};
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{Limits, LoadProblem, Sandbox, SandboxOptions, joined};

const WORLD: &str = "package test:guest;
world wasi { include windlass:plugin/reconciler-plugin@0.3.0; import windlass:plugin/script@0.3.0; }";

/// An interpreter whose scripts are manifests: it returns its script from `describe`, and reads it in each call.
fn interpreter() -> Vec<u8> {
    let ask = "(call $script (i32.const 16))".to_owned();
    let imports = r#"(import "windlass:plugin/script@0.3.0" "text" (func $script (param i32)))"#.to_owned();
    Core { imports, describe: ask.clone(), reconcile: ask, ..Core::default() }.with_wasi(WORLD)
}

/// A plugin of the interpreter, in this version.
fn plugin(version: &str) -> Vec<u8> {
    joined(&interpreter(), &MANIFEST.replace("0.1.0", version))
}

fn keeping(cache: &PluginDir) -> Sandbox {
    let cache = Some(cache.path().join("cache"));
    Sandbox::new(SandboxOptions { cache, ..options(Limits::default()) }).expect("a sandbox")
}

fn kept(cache: &PluginDir, ending: &str) -> usize {
    let files = std::fs::read_dir(cache.path().join("cache")).expect("readable");
    files.filter(|file| file.as_ref().is_ok_and(|file| file.file_name().to_string_lossy().ends_with(ending))).count()
}

#[tokio::test]
async fn an_edited_script_compiles_nothing_and_is_another_plugin() {
    let cache = PluginDir::new();
    let sandbox = keeping(&cache);
    let first = load(&sandbox, "guest", &plugin("1.0.0")).await.expect("it loads");
    let second = load(&sandbox, "guest", &plugin("2.0.0")).await.expect("it loads");
    assert_eq!((first.was_cached(), second.was_cached()), (false, true));
    assert_eq!((kept(&cache, ".code"), kept(&cache, ".script")), (1, 2));
    assert_ne!(first.digest(), second.digest());
    for (plugin, version) in [(&first, "1.0.0"), (&second, "2.0.0")] {
        assert_eq!(plugin.manifest().version, version);
        assert_eq!(reconcile(plugin, &quiet()).await, CallResult::Done);
    }
}

#[tokio::test]
async fn a_script_comes_back_from_the_cache_when_its_file_has_another() {
    let cache = PluginDir::new();
    let sandbox = keeping(&cache);
    let directory = PluginDir::new();
    let path = directory.write("guest.wasm", &plugin("1.0.0"));
    let first = sandbox.load(&path).await.expect("it loads");
    directory.write("guest.wasm", &plugin("2.0.0"));
    sandbox.load(&path).await.expect("it loads");
    for sandbox in [sandbox, keeping(&cache)] {
        let back = sandbox.load_digest("guest", &path, first.digest()).await.expect("the cache is well");
        let back = back.expect("it is there");
        assert_eq!((&*back.manifest().version, back.size()), ("1.0.0", first.size()));
        assert_eq!(reconcile(&back, &quiet()).await, CallResult::Done);
    }
}

#[tokio::test]
async fn scripts_run_without_a_cache() {
    let plugin = load(&sandbox(Limits::default()), "guest", &plugin("1.0.0")).await.expect("it loads");
    assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
}

#[tokio::test]
async fn an_interpreter_without_a_script_is_refused_with_the_remedy() {
    let alone = load(&sandbox(Limits::default()), "guest", &interpreter()).await.expect_err("it has no script");
    let LoadProblem::Describe { reason, message } = alone.problem else { panic!("{alone}") };
    assert_eq!(reason, "no-script");
    assert!(message.contains("contains none") && message.contains("windlass build"), "{message}");
}
