//! Plugins are compiled in a process of their own, within limits, and what came out is kept.

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::guests::{Core, chameleon, webapp};
use support::ports::quiet;
use support::{PluginDir, load, options, reconcile};
use windlass_core::outcome::CallResult;
use windlass_wasm::{Compiler, Limits, LoadError, Plugin, Sandbox, SandboxOptions};

/// The host's own program: `WINDLASS_BIN`, else where cargo puts it.
fn windlass() -> PathBuf {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/windlass");
    let program = std::env::var_os("WINDLASS_BIN").map_or_else(beside, PathBuf::from);
    assert!(program.is_file(), "{} is not there: run `make build`, or set WINDLASS_BIN", program.display());
    program
}

/// A sandbox that compiles in a process of the host's program.
fn sandbox(limits: Limits) -> Sandbox {
    let compiler = Compiler::Process { program: windlass(), arguments: vec!["compile-component".into()] };
    Sandbox::new(SandboxOptions { compiler, ..options(limits) }).expect("a sandbox")
}

/// A sandbox that keeps what it compiles in `cache`.
fn keeping(cache: &PluginDir) -> Sandbox {
    let cache = Some(cache.path().join("cache"));
    Sandbox::new(SandboxOptions { cache, ..options(Limits::default()) }).expect("a sandbox")
}

/// The class and the message of loading `bytes` in a process within `limits`, which must fail.
async fn refused(limits: Limits, bytes: &[u8]) -> (&'static str, String) {
    let LoadError { problem, .. } = load(&sandbox(limits), "guest", bytes).await.expect_err("it must not load");
    (problem.reason(), problem.to_string())
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {text})")).expect("well-formed")
}

/// Many functions that take a while each.
fn laborious(functions: usize) -> Vec<u8> {
    let body = "(local.set 0 (i32.mul (local.get 0) (i32.add (local.get 0) (i32.const 3))))".repeat(50);
    component(&format!("(core module {})", format!("(func (param i32) {body})").repeat(functions)))
}

#[tokio::test]
async fn what_another_process_compiled_runs_here() {
    let plugin = load(&sandbox(Limits::default()), "chameleon", &chameleon("good")).await.expect("it loads");
    assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
}

#[tokio::test]
async fn what_is_no_component_is_told_as_ever() {
    let (reason, message) = refused(Limits::default(), b"\0asm\x0d\0\x01\0garbage").await;
    assert_eq!(reason, "compile");
    assert!(message.starts_with("it does not compile: "), "{message}");
}

#[tokio::test]
async fn a_compiler_that_needs_too_much_memory_is_ended() {
    let limits = Limits { compile_memory_bytes: 16 << 20, ..Limits::default() };
    let (reason, message) = refused(limits, &laborious(3000)).await;
    assert_eq!(reason, "compile-memory", "{message}");
    assert!(message.contains("more than 16 MiB of memory (`compile_memory_bytes`"), "{message}");
}

#[tokio::test]
async fn a_compiler_that_needs_too_much_time_is_ended() {
    let limits = Limits { compile_cpu: Duration::from_secs(1), ..Limits::default() };
    let (reason, message) = refused(limits, &laborious(20_000)).await;
    assert_eq!(reason, "compile-cpu", "{message}");
    assert!(message.contains("more than 1s of processor time (`compile_cpu`"), "{message}");
    let limits = Limits { compile_deadline: Duration::from_millis(50), ..Limits::default() };
    let (reason, message) = refused(limits, &laborious(20_000)).await;
    assert_eq!(reason, "compile-deadline", "{message}");
    assert!(message.contains("not ended after 50ms (`compile_deadline`"), "{message}");
}

/// What is refused by its count. What is packed is no way in: a component is not compressed, so
/// its file is as large as what is read.
#[tokio::test]
async fn bombs_for_the_compiler_are_refused_by_what_they_are_made_of() {
    let many = |what: &str, count: usize| component(&what.repeat(count));
    let module = |content: &str| component(&format!("(core module {content})"));
    let deep = |open: &str, close: &str, depth: usize| format!("(func {}{})", open.repeat(depth), close.repeat(depth));
    let imports: String = (0..60_000).map(|index| format!(r#"(import "i{index}" (func))"#)).collect();
    let exports: String = (0..60_000).map(|index| format!(r#"(export "e{index}" (func $f))"#)).collect();
    let cases = [
        ("functions", module(&"(func)".repeat(100_000)), "more than 80000 functions (`functions`"),
        ("one function", module(&format!("(func {})", "nop ".repeat(100_000))), "(`function_bytes`"),
        (
            "a jump table",
            module(&format!("(func (br_table {} (i32.const 0)))", "0 ".repeat(100_000))),
            "`function_bytes`",
        ),
        ("nested blocks", module(&deep("block ", "end ", 40_000)), "(`function_bytes`"),
        ("types", many("(type u32)", 60_000), "more than 50000 types, imports, exports"),
        ("core types", module(&"(type (func))".repeat(60_000)), "more than 50000 types, imports, exports"),
        ("imports", component(&imports), "more than 50000 types, imports, exports"),
        ("exports", module(&format!("(func $f) {exports}")), "more than 50000 types, imports, exports"),
    ];
    for (what, bytes, expected) in cases {
        let began = Instant::now();
        // The default is two mebibytes, of which the text would take seconds to read.
        let limits = Limits { function_bytes: 64 << 10, ..Limits::default() };
        let (reason, message) = refused(limits, &bytes).await;
        assert_eq!(reason, "too-much", "{what}: {message}");
        assert!(message.contains(expected), "{what}: {message}");
        assert!(began.elapsed() < Duration::from_secs(30), "{what}: {:?}", began.elapsed());
    }
}

/// What is within the counts, and made to take long or to nest deep: it compiles, or a limit ends it; either is an answer.
#[tokio::test]
async fn bombs_within_the_counts_end_within_the_limits() {
    let module = |content: &str| component(&format!("(core module {content})"));
    let nested = |depth: usize| format!("{}{}", "(component ".repeat(depth), ")".repeat(depth));
    let tuples = {
        let deeper = |index: usize| format!("(type (tuple {index} {index} {index} {index}))");
        // Each four times the one before it: 4⁵⁰ fields, were they ever counted out.
        format!("(type u32) {}", (0..50).map(deeper).collect::<String>())
    };
    let cases = [
        ("blocks", module(&format!("(func {}{})", "block ".repeat(50_000), "end ".repeat(50_000)))),
        ("loops", module(&format!("(func {}{})", "loop ".repeat(10_000), "end ".repeat(10_000)))),
        ("a jump table", module(&format!("(func (br_table {} (i32.const 0)))", "0 ".repeat(65_000)))),
        ("locals", module(&"(func (local i64 i64 i64 i64 i64 i64 i64 i64) (local f64))".repeat(2000))),
        ("components", nested(90)),
        ("too many levels", nested(900)),
        ("types of types", component(&tuples)),
    ];
    let limits = Limits { compile_cpu: Duration::from_secs(2), compile_memory_bytes: 1 << 30, ..Limits::default() };
    let sandbox = sandbox(limits);
    for (what, bytes) in cases {
        let began = Instant::now();
        let error = load(&sandbox, "guest", &bytes).await.expect_err("none is a plugin").problem;
        let reason = error.reason();
        assert!(
            ["component", "compile", "compile-cpu", "compile-memory"].contains(&reason),
            "{what}: {reason}: {error}"
        );
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_compiler_that_cannot_be_started_is_the_hosts_problem_and_not_the_files() {
    let compiler = Compiler::Process { program: "/no/such/program".into(), arguments: vec![] };
    let sandbox = Sandbox::new(SandboxOptions { compiler, ..options(Limits::default()) }).expect("a sandbox");
    let error = load(&sandbox, "webapp", &webapp()).await.expect_err("nobody compiles it").problem;
    assert_eq!(error.reason(), "host");
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[tokio::test]
async fn a_load_that_nobody_waits_for_makes_room_for_the_next() {
    let sandbox = sandbox(Limits::default());
    let directory = PluginDir::new();
    let path = directory.write("guest.wasm", &laborious(20_000));
    let abandoned = tokio::time::timeout(Duration::from_millis(50), sandbox.load(&path)).await;
    assert!(abandoned.is_err(), "it takes longer");
    load(&sandbox, "chameleon", &chameleon("good")).await.expect("it loads");
}

#[tokio::test]
async fn a_plugin_is_compiled_and_described_once_for_all_runs_of_the_host() {
    let cache = PluginDir::new();
    let first = load(&keeping(&cache), "webapp", &webapp()).await.expect("it loads");
    assert!(!first.was_cached() && first.is_cached());
    // It could not be compiled nor answer any more.
    let nobody = Compiler::Process { program: "/no/such/program".into(), arguments: vec![] };
    let limits = Limits { describe_deadline: Duration::ZERO, ..Limits::default() };
    let restarted = SandboxOptions { compiler: nobody, cache: Some(cache.path().join("cache")), ..options(limits) };
    let again = load(&Sandbox::new(restarted).expect("a sandbox"), "webapp", &webapp()).await.expect("it loads");
    assert!(again.was_cached());
    assert_eq!((again.digest(), again.size(), again.imports()), (first.digest(), first.size(), first.imports()));
    assert_eq!(again.manifest(), first.manifest());
    assert!(matches!(reconcile(&again, &quiet()).await, CallResult::Done | CallResult::Failed(_)));
}

#[tokio::test]
async fn a_generation_whose_file_is_gone_is_loaded_by_its_digest() {
    let cache = PluginDir::new();
    let first = load(&keeping(&cache), "webapp", &webapp()).await.expect("it loads");
    let sandbox = keeping(&cache);
    let by_digest = async |digest: &str| -> Option<Arc<Plugin>> {
        sandbox.load_digest("webapp", first.path(), digest).await.expect("no error")
    };
    let again = by_digest(first.digest()).await.expect("it is kept");
    assert_eq!((again.name(), again.path(), again.manifest()), (first.name(), first.path(), first.manifest()));
    for unknown in [&"0".repeat(64), "../../../etc/passwd", ""] {
        assert!(by_digest(unknown).await.is_none(), "{unknown:?}");
    }
    let other = sandbox.load_digest("other", first.path(), first.digest()).await;
    assert_eq!(other.expect_err("it is not its name").problem.reason(), "name");
}

#[tokio::test]
async fn a_corrupted_cache_costs_a_compilation_and_nothing_else() {
    let cache = PluginDir::new();
    let first = load(&keeping(&cache), "webapp", &webapp()).await.expect("it loads");
    for file in std::fs::read_dir(cache.path().join("cache")).expect("readable") {
        let path = file.expect("readable").path();
        if path.extension().is_some() {
            let mut bytes = std::fs::read(&path).expect("readable");
            let half = bytes.len() / 2;
            bytes.truncate(half);
            std::fs::remove_file(&path).expect("removed");
            std::fs::write(&path, bytes).expect("written");
        }
    }
    let sandbox = keeping(&cache);
    assert!(sandbox.load_digest("webapp", first.path(), first.digest()).await.expect("no error").is_none());
    let again = load(&sandbox, "webapp", &webapp()).await.expect("it loads");
    assert!(!again.was_cached());
    assert!(load(&keeping(&cache), "webapp", &webapp()).await.expect("it loads").was_cached(), "it is kept anew");
}

#[tokio::test]
async fn without_a_place_for_the_cache_plugins_run_all_the_same() {
    let cache = PluginDir::new();
    cache.write("cache", b"a file where the directory should be");
    let plugin = load(&keeping(&cache), "webapp", &webapp()).await.expect("it loads");
    assert!(!plugin.is_cached());
}

#[tokio::test]
async fn what_calls_may_not_have_is_refused_from_the_cache_too() {
    let cache = PluginDir::new();
    let greedy = Core { pages: 3000, ..Core::default() }.component();
    for _ in 0..2 {
        let error = load(&keeping(&cache), "guest", &greedy).await.expect_err("too much memory").problem;
        assert_eq!(error.reason(), "compile", "{error}");
    }
}
