//! Plugins are compiled in a separate process, within limits, and the result is cached.

use crate::support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::bytes::{COMPONENT_SECTION, TYPES_SECTION, around, around_functions, around_module, list, number};
use support::guests::{Core, chameleon, webapp};
use support::ports::quiet;
use support::{PluginDir, load, options, reconcile};
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{Compiler, Limits, LoadError, Plugin, Sandbox, SandboxOptions};

/// The host's program: `WINDLASS_BIN`, or else the file that cargo builds.
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

/// A sandbox that caches compiled code in `cache`.
fn keeping(cache: &PluginDir) -> Sandbox {
    let cache = Some(cache.path().join("cache"));
    Sandbox::new(SandboxOptions { cache, ..options(Limits::default()) }).expect("a sandbox")
}

/// The class and the message of the error when a process within `limits` loads `bytes`.
async fn refused(limits: Limits, bytes: &[u8]) -> (&'static str, String) {
    let LoadError { problem, .. } = load(&sandbox(limits), "guest", bytes).await.expect_err("it must not load");
    (problem.reason(), problem.to_string())
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {text})")).expect("well-formed")
}

/// Many functions that each take a while to compile.
fn laborious(functions: usize) -> Vec<u8> {
    // $0 = $0 * ($0 + 3)
    let step = b"\x20\x00\x20\x00\x41\x03\x6a\x6c\x21\x00".repeat(50);
    around_functions(&vec![function(&step); functions])
}

/// The body of a function without locals.
fn function(code: &[u8]) -> Vec<u8> {
    [b"\x00", code, b"\x0b"].concat()
}

/// The body of a function that repeats `begin` this many times, followed by as many ends.
fn nested(begin: &[u8], depth: usize) -> Vec<u8> {
    function(&[begin.repeat(depth), b"\x0b".repeat(depth)].concat())
}

/// The body of a function that jumps to one of this many targets, all of which are the same.
fn jump(places: usize) -> Vec<u8> {
    function(&[b"\x41\x00\x0e", number(places).as_slice(), &vec![0; places], b"\x00"].concat())
}

#[tokio::test]
async fn code_that_the_compiler_process_compiled_runs_in_the_host() {
    let plugin = load(&sandbox(Limits::default()), "chameleon", &chameleon("good")).await.expect("it loads");
    assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
}

#[tokio::test]
async fn an_invalid_component_is_refused_as_not_compiling() {
    let (reason, message) = refused(Limits::default(), b"\0asm\x0d\0\x01\0garbage").await;
    assert_eq!(reason, "compile");
    assert!(message.starts_with("it does not compile: "), "{message}");
}

#[tokio::test]
async fn a_compiler_that_needs_too_much_memory_is_ended() {
    let limits = Limits { compile_memory_bytes: 16 << 20, ..Limits::default() };
    let (reason, message) = refused(limits, &laborious(3000)).await;
    assert_eq!(reason, "compile-memory", "{message}");
    assert!(message.contains("more than 16 MiB of memory (raise it with `--limit compile-memory=SIZE`"), "{message}");
}

#[tokio::test]
async fn a_compiler_that_needs_too_much_time_is_ended() {
    let limits = Limits { compile_cpu: Duration::from_secs(1), ..Limits::default() };
    let (reason, message) = refused(limits, &laborious(20_000)).await;
    assert_eq!(reason, "compile-cpu", "{message}");
    assert!(message.contains("more than 1s of processor time (raise it with `--limit compile-cpu=TIME`"), "{message}");
    let limits = Limits { compile_deadline: Duration::from_millis(50), ..Limits::default() };
    let (reason, message) = refused(limits, &laborious(20_000)).await;
    assert_eq!(reason, "compile-deadline", "{message}");
    assert!(message.contains("not ended after 50ms") && message.contains("`--limit compile-deadline="), "{message}");
}

/// Components that are refused by their counts. A compressed bomb is not possible: components are not compressed, so
/// the host reads no more than the size of the file.
#[tokio::test]
async fn compiler_bombs_are_refused_by_their_counts() {
    let one = |body: Vec<u8>| around_functions(&[body]);
    let imports = vec![b"\x01m\x01n\x00\x00".to_vec(); 60_000];
    let exports: Vec<_> = (0..60_000).map(|index| format!("\x08{index:08}\0\0").into_bytes()).collect();
    let definitions = "more than 50000 types, imports, exports";
    let cases = [
        (
            "functions",
            around_functions(&vec![function(b""); 100_000]),
            "more than 80000 functions (raise it with `--limit functions=N`",
        ),
        ("one function", one(function(&b"\x01".repeat(3 << 20))), "but only 2 MiB are allowed"),
        ("a jump table", one(jump(3 << 20)), "`--limit function=SIZE`"),
        ("nested blocks", one(nested(b"\x02\x40", 1 << 20)), "`--limit function=SIZE`"),
        ("types", around(TYPES_SECTION, &list(&vec![b"\x79".to_vec(); 60_000])), definitions),
        ("core types", around_module(&[(1, list(&vec![b"\x60\0\0".to_vec(); 60_000]))]), definitions),
        ("imports", around_module(&[(2, list(&imports))]), definitions),
        ("exports", around_module(&[(7, list(&exports))]), definitions),
    ];
    for (what, bytes, expected) in cases {
        let began = Instant::now();
        let (reason, message) = refused(Limits::default(), &bytes).await;
        assert_eq!(reason, "too-much", "{what}: {message}");
        assert!(message.contains(expected), "{what}: {message}");
        assert!(began.elapsed() < Duration::from_secs(30), "{what}: {:?}", began.elapsed());
    }
}

/// Components within the counts, made to take long to compile or to nest deeply: each one compiles, or a limit stops
/// it. Both are accepted.
#[tokio::test]
async fn bombs_within_the_counts_end_within_the_limits() {
    let one = |body: Vec<u8>| around_functions(&[body]);
    let components = |depth: usize| (0..depth).fold(component(""), |inner, _| around(COMPONENT_SECTION, &inner));
    let tuples = {
        let deeper = |index: usize| format!("(type (tuple {index} {index} {index} {index}))");
        // Each type has four fields of the type before it: 4⁵⁰ fields, if they were counted out.
        format!("(type u32) {}", (0..50).map(deeper).collect::<String>())
    };
    let cases = [
        ("blocks", one(nested(b"\x02\x40", 50_000))),
        ("loops", one(nested(b"\x03\x40", 10_000))),
        ("a jump table", one(jump(65_000))),
        ("a larger jump table", one(jump(1 << 20))),
        ("locals", around_functions(&vec![b"\x01\xd0\x86\x03\x7e\x0b".to_vec(); 200])),
        ("components", components(90)),
        ("many levels", components(900)),
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
        assert!(began.elapsed() < Duration::from_mins(1), "{what}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_compiler_that_cannot_start_is_the_hosts_problem_not_the_files() {
    let compiler = Compiler::Process { program: "/no/such/program".into(), arguments: vec![] };
    let sandbox = Sandbox::new(SandboxOptions { compiler, ..options(Limits::default()) }).expect("a sandbox");
    let error = load(&sandbox, "webapp", &webapp()).await.expect_err("there is no compiler").problem;
    assert_eq!(error.reason(), "host");
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[tokio::test]
async fn an_abandoned_load_makes_room_for_the_next() {
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
    // This sandbox could neither compile the plugin nor call it.
    let no_compiler = Compiler::Process { program: "/no/such/program".into(), arguments: vec![] };
    let limits = Limits { describe_deadline: Duration::ZERO, ..Limits::default() };
    let restarted =
        SandboxOptions { compiler: no_compiler, cache: Some(cache.path().join("cache")), ..options(limits) };
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
        if path.extension().is_some_and(|extension| extension != "key") {
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
async fn plugins_run_without_a_usable_cache_directory() {
    let cache = PluginDir::new();
    cache.write("cache", b"a file where the directory should be");
    let plugin = load(&keeping(&cache), "webapp", &webapp()).await.expect("it loads");
    assert!(!plugin.is_cached());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn plugins_run_with_an_unwritable_cache_directory() {
    // Permissions do not stop root, and tests often run as root. But in this directory not even root can create a file.
    let cache = Some("/proc/self/fdinfo".into());
    let sandbox = Sandbox::new(SandboxOptions { cache, ..options(Limits::default()) }).expect("a sandbox");
    let plugin = load(&sandbox, "webapp", &webapp()).await.expect("it loads");
    assert!(!plugin.is_cached());
    assert!(matches!(reconcile(&plugin, &quiet()).await, CallResult::Done | CallResult::Failed(_)));
}

/// The folder with the files that the test needs when it runs itself again.
const FULL_DISK: &str = "WINDLASS_TEST_FULL_DISK";

/// For a process that may not write more than 200 KiB into a file, the disk is as good as full.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_costs_a_compilation_at_each_start_but_no_kept_files() {
    if let Some(directory) = std::env::var_os(FULL_DISK) {
        return on_a_full_disk(&PathBuf::from(directory)).await;
    }
    let directory = PluginDir::new();
    let files = || {
        let files = std::fs::read_dir(directory.path().join("cache")).expect("readable");
        let mut names: Vec<_> = files.map(|file| file.expect("readable").file_name()).collect();
        names.sort();
        names
    };
    let (new, known) =
        (directory.write("webapp.wasm", &webapp()), directory.write("chameleon.wasm", &chameleon("good")));
    keeping(&directory).load(&known).await.expect("it loads");
    let before = files();
    let name = concat!(module_path!(), "::a_full_disk_costs_a_compilation_at_each_start_but_no_kept_files");
    // The name as the test program lists it: without the crate.
    let (_, name) = name.split_once("::").expect("a crate");
    // A process over the limit also gets a signal. The signal is ignored here, as it is in the host.
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 400; exec "$0" "$@""#])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture"])
        .env(FULL_DISK, directory.path())
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // Logged once for all plugins, with the reason.
    assert_eq!(said.matches("compiled plugins cannot be kept").count(), 1, "{said}");
    assert!(said.contains("File too large"), "{said}");
    assert_eq!(files(), before, "nothing has gone, and nothing was left behind");
    let sandbox = keeping(&directory);
    assert!(sandbox.load(&known).await.expect("it loads").was_cached());
    assert!(sandbox.load(&new).await.expect("it loads").is_cached(), "with room again it is kept");
}

#[cfg(target_os = "linux")]
async fn on_a_full_disk(directory: &std::path::Path) {
    tracing_subscriber::fmt().with_writer(std::io::stdout).with_ansi(false).init();
    let cache = Some(directory.join("cache"));
    let sandbox = Sandbox::new(SandboxOptions { cache, ..options(Limits::default()) }).expect("a sandbox");
    for _ in 0..2 {
        let plugin = sandbox.load(&directory.join("webapp.wasm")).await.expect("it loads");
        assert!(!plugin.is_cached());
        assert!(matches!(reconcile(&plugin, &quiet()).await, CallResult::Done | CallResult::Failed(_)));
    }
    assert!(sandbox.load(&directory.join("chameleon.wasm")).await.expect("it loads").was_cached());
}

#[tokio::test]
async fn a_component_over_a_lowered_limit_is_refused_from_the_cache_too() {
    let cache = PluginDir::new();
    let (guest, lowered) = (Core::default().component(), Limits { memory_bytes: 64 << 10, ..Limits::default() });
    let within = |limits: Limits| {
        let cache = Some(cache.path().join("cache"));
        Sandbox::new(SandboxOptions { cache, ..options(limits) }).expect("a sandbox")
    };
    load(&within(Limits::default()), "guest", &guest).await.expect("it loads");
    for _ in 0..2 {
        let problem = load(&within(lowered.clone()), "guest", &guest).await.expect_err("too much memory").problem;
        assert_eq!(problem.reason(), "too-much", "{problem}");
        assert!(
            problem.to_string().contains("131072 bytes, but only 64 KiB are allowed (raise it with `--limit memory=")
        );
    }
    load(&within(Limits::default()), "guest", &guest).await.expect("it loads again");
}

#[tokio::test]
async fn more_instances_than_a_call_has_room_for_are_refused_with_the_limit() {
    let instances = "(core instance (instantiate $m))".repeat(41);
    let bytes = component(&format!("(core module $m) {instances}"));
    let problem = load(&keeping(&PluginDir::new()), "guest", &bytes).await.expect_err("too many").problem;
    assert_eq!(problem.reason(), "too-much", "{problem}");
    assert!(problem.to_string().contains("`--limit instances=N`"), "{problem}");
}

/// A sandbox that first compiles every file quickly, by `script`, whose first argument is the host's program.
fn hasty(cache: &PluginDir, script: &str) -> Sandbox {
    let arguments = ["-c".into(), script.into(), windlass().into()];
    let compiler = Compiler::Process { program: "/bin/sh".into(), arguments: arguments.to_vec() };
    let cache = Some(cache.path().join("cache"));
    let options = SandboxOptions { compiler, cache, quick_from: Some(0), ..options(Limits::default()) };
    Sandbox::new(options).expect("a sandbox")
}

/// The number of files in the cache whose names end like this.
fn kept(cache: &PluginDir, ending: &str) -> usize {
    let files = std::fs::read_dir(cache.path().join("cache")).expect("readable");
    files.filter(|file| file.as_ref().is_ok_and(|file| file.file_name().to_string_lossy().ends_with(ending))).count()
}

/// Lets the compiler run for quick code, and makes it fail for full code.
const QUICK_ONLY: &str = r#"IFS= read -r order
case "$order" in *'"effort":"full"'*) exit 7;; esac
{ printf '%s\n' "$order"; exec cat; } | "$0" compile-component"#;

#[tokio::test]
async fn quickly_compiled_code_runs_while_better_code_replaces_it() {
    let cache = PluginDir::new();
    let sandbox = hasty(&cache, r#"exec "$0" compile-component"#);
    let plugin = load(&sandbox, "webapp", &webapp()).await.expect("it loads");
    let first = plugin.compiled_size();
    assert!(matches!(reconcile(&plugin, &quiet()).await, CallResult::Done | CallResult::Failed(_)));
    plugin.improved().await;
    assert_ne!(plugin.compiled_size(), first);
    assert!(matches!(reconcile(&plugin, &quiet()).await, CallResult::Done | CallResult::Failed(_)));
    assert_eq!((kept(&cache, ".quick.code"), kept(&cache, ".code")), (0, 1), "only the better code is kept");
    let again = load(&keeping(&cache), "webapp", &webapp()).await.expect("it loads");
    assert!(again.was_cached());
    assert_eq!(again.compiled_size(), plugin.compiled_size());
}

#[tokio::test]
async fn a_plugin_keeps_its_quick_code_if_better_code_is_unavailable() {
    let cache = PluginDir::new();
    let sandbox = hasty(&cache, QUICK_ONLY);
    let plugin = load(&sandbox, "webapp", &webapp()).await.expect("it loads");
    plugin.improved().await;
    assert!(matches!(reconcile(&plugin, &quiet()).await, CallResult::Done | CallResult::Failed(_)));
    assert_eq!(kept(&cache, ".quick.code"), 1, "a restart need not compile it again");
    let again = load(&sandbox, "webapp", &webapp()).await.expect("it loads");
    assert!(again.was_cached());
    // A sandbox that needs optimised code does not use quick code, and there is no other code.
    let thorough = load(&keeping(&cache), "webapp", &webapp()).await.expect_err("the failed compilation is remembered");
    assert_eq!(thorough.problem.reason(), "compile-crash");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn optimised_compilation_stops_when_its_plugin_is_gone() {
    let cache = PluginDir::new();
    let process = cache.path().join("process");
    let script = QUICK_ONLY.replace("exit 7", &format!("echo $$ >{}; exec sleep 600", process.display()));
    let plugin = load(&hasty(&cache, &script), "webapp", &webapp()).await.expect("it loads");
    let number = || std::fs::read_to_string(&process).unwrap_or_default().trim().to_owned();
    support::until(|| !number().is_empty()).await;
    let running = PathBuf::from("/proc").join(number());
    assert!(running.exists());
    drop(plugin);
    support::until(|| !running.exists()).await;
}

/// The host's compiler, and the number of times that it was started.
struct Counted {
    directory: PluginDir,
    cache: Option<PathBuf>,
}

impl Counted {
    fn new() -> Self {
        Self { directory: PluginDir::new(), cache: None }
    }

    /// A host that has just started.
    fn sandbox(&self, limits: Limits) -> Sandbox {
        let script = r#"echo >>"$1"; exec "$0" compile-component"#;
        let arguments = ["-c".into(), script.into(), windlass().into(), self.count_file().into()];
        let compiler = Compiler::Process { program: "/bin/sh".into(), arguments: arguments.to_vec() };
        Sandbox::new(SandboxOptions { compiler, cache: self.cache.clone(), ..options(limits) }).expect("a sandbox")
    }

    fn count_file(&self) -> PathBuf {
        self.directory.path().join("count")
    }

    fn started(&self) -> usize {
        std::fs::read(self.count_file()).map_or(0, |lines| lines.len())
    }
}

#[tokio::test]
async fn a_file_that_was_refused_is_not_compiled_again_by_the_same_host() {
    let compiler = Counted::new();
    let sandbox = compiler.sandbox(Limits { compile_cpu: Duration::from_secs(1), ..Limits::default() });
    let garbage = b"\0asm\x0d\0\x01\0garbage".to_vec();
    let cases = [("compile-cpu", laborious(20_000)), ("compile", garbage), ("component", component(""))];
    for (index, (reason, bytes)) in cases.into_iter().enumerate() {
        // The same bytes are refused as another plugin, too.
        for name in ["guest", "guest", "other"] {
            let problem = load(&sandbox, name, &bytes).await.expect_err("it must not load").problem;
            assert_eq!(problem.reason(), reason, "{problem}");
            assert_eq!(compiler.started(), index + 1, "{reason}");
        }
    }
}

#[tokio::test]
async fn a_refused_file_is_recompiled_after_a_restart_only_if_limits_changed() {
    let mut compiler = Counted::new();
    compiler.cache = Some(compiler.directory.path().join("cache"));
    let mut limits = Limits { functions: 1, ..Limits::default() };
    for _ in 0..3 {
        let problem = load(&compiler.sandbox(limits.clone()), "webapp", &webapp()).await.expect_err("refused").problem;
        assert_eq!(problem.reason(), "too-much", "{problem}");
        assert_eq!(compiler.started(), 1);
    }
    limits.functions = 80_000;
    load(&compiler.sandbox(limits), "webapp", &webapp()).await.expect("it loads");
    assert_eq!(compiler.started(), 2);
}
