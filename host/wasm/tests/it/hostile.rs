//! Components that attack their host, each through the sandbox. Each attack ends in its class and within its limits,
//! and a well-behaved neighbour is called during the attack and right after it.
//!
//! There are two kinds of attackers: the guest `hostile`, whose README has the table of all attacks, and guests made
//! here directly in the canonical ABI, which no compiler would emit. The tests are tables of cases; a message names the
//! case. Attacks in `reconcile` share one component that the text of its primary controls: compiling one component for
//! each would take longer than all attacks.

mod wasi;
mod wasi_http;

use crate::support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use support::guests::{Core, MANIFEST, hostile};
use support::ports::{FakePorts, WriteMode, quiet};
use support::{called, load, reconcile, sandbox};
use windlass_core::call::ports::{Ask, Ports, port_fn};
use windlass_core::error::ApiReason;
use windlass_core::object::path_segment;
use windlass_core::object::{ObjectKey, ObjectRef};
use windlass_core::queue::outcome::CallResult;
use windlass_core::write::Operation;
use windlass_wasm::{Limits, Plugin, Sandbox};

/// The time limit of a neighbour's call during an attack: far more than it needs, and far less than if it were starved.
const NEIGHBOUR_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for compiling a component here, where several tests compile at once: as long as for any component.
const COMPILE_TIMEOUT: Duration = Duration::from_mins(2);

/// The deadline of endless calls, and the limit of processor time for calls that use all of it.
const ENDLESS_CALL_DEADLINE: Duration = Duration::from_millis(1500);
const WORKING_CALL_CPU: Duration = Duration::from_millis(100);

/// A sandbox with low limits, and the neighbour.
struct Scene {
    sandbox: Sandbox,
    neighbour: Arc<Plugin>,
}

/// The result of an attack: how the call ended, or the class and the message of the load error.
type Attack = Result<CallResult, (&'static str, String)>;

/// The required result of an attack.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// The call is stopped with this class.
    Stopped(&'static str),
    /// The guest ends by itself: the host has refused, dropped or ignored what it tried.
    ByItself,
    /// The component does not load: the class of the refusal, and words of its message.
    NotLoaded(&'static str, &'static [&'static str]),
}

impl Scene {
    /// A scene in which an endless call is stopped after `deadline`. If the deadline is short, so is the limit of
    /// processor time.
    async fn new(deadline: Duration) -> Self {
        let cpu = if deadline < NEIGHBOUR_CALL_TIMEOUT { WORKING_CALL_CPU } else { Limits::default().cpu };
        let limits = Limits {
            memory_bytes: 64 << 20,
            deadline,
            cpu,
            describe_deadline: deadline,
            compile_deadline: COMPILE_TIMEOUT,
            host_calls: 200,
            writes: 100,
            metric_values: 1_000,
            ..Limits::default()
        };
        let sandbox = sandbox(limits);
        let neighbour = load(&sandbox, "guest", &Core::default().component()).await.expect("it loads");
        Self { sandbox, neighbour }
    }

    /// Calls the neighbour.
    async fn neighbour(&self, case: &str) {
        let ports = quiet();
        let called =
            tokio::time::timeout(NEIGHBOUR_CALL_TIMEOUT, reconcile(&self.neighbour, &ports).boxed_local()).await;
        assert_eq!(called, Ok(CallResult::Done), "the neighbour of {case}");
    }

    /// Loads `component` as `name` and calls it.
    async fn loaded_and_called(&self, name: &str, component: &[u8]) -> Attack {
        let plugin = load(&self.sandbox, name, component).await;
        let plugin = plugin.map_err(|error| (error.problem.reason(), error.to_string()))?;
        Ok(called(&plugin, &ports(), Some("{}")).await.result)
    }

    /// Runs an attack, calls the neighbour again and again until the attack ends, and once more. `Err` if the result is
    /// wrong.
    async fn withstands(&self, case: &str, ends: Ends, mut attack: LocalBoxFuture<'_, Attack>) -> Result<(), String> {
        let began = Instant::now();
        let attack = {
            // There is a pause in between, because compiling the attackers needs the processors' time.
            let mut pace = tokio::time::interval(Duration::from_millis(20));
            loop {
                tokio::select! {
                    biased;
                    attack = &mut attack => break attack,
                    () = async { pace.tick().await; self.neighbour(case).await } => {}
                }
            }
        };
        // A compiler bomb ends at the latest at its time limit; calls have their own limits.
        assert!(began.elapsed() < COMPILE_TIMEOUT + 2 * NEIGHBOUR_CALL_TIMEOUT, "{case} took {:?}", began.elapsed());
        self.neighbour(case).await;
        if ends.are_those_of(&attack) {
            Ok(())
        } else {
            Err(format!("{case} should end as {ends:?}, and ended with {attack:?}"))
        }
    }

    /// Runs an attack in each of these modes. One guest `hostile` makes all attacks, and its primary names the mode.
    async fn withstands_calls(&self, modes: &[(&str, Ends)]) {
        let steered = load(&self.sandbox, "steered", &hostile("steered")).await.expect("it loads");
        let (mut misfits, ports) = (Vec::new(), ports());
        for (mode, ends) in modes {
            let attack = async { Ok(called(&steered, &ports, Some(mode)).await.result) }.boxed_local();
            misfits.extend(self.withstands(mode, *ends, attack).await.err());
        }
        assert!(misfits.is_empty(), "{}", misfits.join("\n"));
    }

    /// Runs an attack in each of these modes, each with its own component of the guest `hostile`.
    async fn withstands_modes(&self, modes: &[(&str, Ends)]) {
        let mut misfits = Vec::new();
        for (mode, ends) in modes {
            let component = hostile(mode);
            misfits.extend(
                self.withstands(mode, *ends, self.loaded_and_called(mode, &component).boxed_local()).await.err(),
            );
        }
        assert!(misfits.is_empty(), "{}", misfits.join("\n"));
    }

    /// Runs the attack of each of these guests.
    async fn withstands_guests(&self, guests: Vec<(&str, Core, Ends)>) {
        let guests = guests.into_iter().map(|(case, guest, ends)| (case, guest.component(), ends));
        self.withstands_components(guests.collect()).await;
    }

    /// Runs the attack of each of these components.
    async fn withstands_components(&self, components: Vec<(&str, Vec<u8>, Ends)>) {
        let mut misfits = Vec::new();
        for (case, component, ends) in components {
            misfits.extend(
                self.withstands(case, ends, self.loaded_and_called("guest", &component).boxed_local()).await.err(),
            );
        }
        assert!(misfits.is_empty(), "{}", misfits.join("\n"));
    }
}

impl Ends {
    fn are_those_of(self, attack: &Attack) -> bool {
        // A message for people is one line of reasonable length, whoever wrote its words.
        let is_a_line = |message: &str| !message.contains('\n') && message.len() < 8 << 10;
        match (self, attack) {
            (Self::Stopped(class), Ok(CallResult::Trapped { reason, message })) => {
                *reason == class && is_a_line(message)
            }
            (Self::ByItself, Ok(result)) => !matches!(result, CallResult::Trapped { .. }),
            (Self::NotLoaded(class, words), Err((reason, message))) => {
                *reason == class && is_a_line(message) && words.iter().all(|word| message.contains(word))
            }
            _ => false,
        }
    }
}

/// Ports that find nothing and echo every write, with an HTTP server that does not respond.
fn ports() -> Ports {
    let quiet = quiet();
    let others = quiet.outside;
    let outside = port_fn(move |call, ask| {
        let Ask::Fetch(request) = &ask else { return others.ask(call, ask) };
        let waits = request.url.contains("waits");
        async move {
            if waits {
                std::future::pending::<()>().await;
            }
            ask.refused(ApiReason::NotGranted, "no port answers this")
        }
        .boxed()
    });
    Ports { outside, ..quiet }
}

#[tokio::test]
async fn a_guest_that_uses_up_its_time_is_stopped_alone() {
    let cases = [
        ("loops", Ends::Stopped("cpu")),
        ("recurses", Ends::Stopped("stack")),
        ("fills", Ends::Stopped("cpu")),
        ("asks-the-time", Ends::Stopped("cpu")),
        ("draws-randomness", Ends::Stopped("cpu")),
        ("waits", Ends::Stopped("waited")),
        ("traps", Ends::Stopped("trap")),
    ];
    Scene::new(ENDLESS_CALL_DEADLINE).await.withstands_calls(&cases).await;
}

#[tokio::test]
async fn a_guest_that_uses_up_memory_or_transfer_is_stopped_alone() {
    let cases = [
        ("devours", Ends::Stopped("memory")),
        ("draws-much-randomness", Ends::Stopped("random-bytes")),
        ("logs-much", Ends::Stopped("transfer")),
        ("logs-many-fields", Ends::Stopped("transfer")),
        ("names-much", Ends::Stopped("transfer")),
        ("answers-much", Ends::Stopped("transfer")),
        ("answers-many", Ends::Stopped("transfer")),
        ("reads-many", Ends::Stopped("host-calls")),
        ("batches-much", Ends::Stopped("writes")),
        ("selects-much", Ends::ByItself),
        ("writes-much", Ends::ByItself),
        ("nests-deeply", Ends::ByItself),
        ("forges-outage", Ends::ByItself),
        ("requeues", Ends::ByItself),
    ];
    Scene::new(NEIGHBOUR_CALL_TIMEOUT).await.withstands_calls(&cases).await;
}

#[tokio::test]
async fn floods_run_dry() {
    let cases = [
        ("floods-reads", Ends::Stopped("host-calls")),
        ("floods-lists", Ends::Stopped("host-calls")),
        ("floods-live-reads", Ends::Stopped("host-calls")),
        ("floods-live-lists", Ends::Stopped("host-calls")),
        ("floods-writes", Ends::Stopped("writes")),
        ("floods-claims", Ends::Stopped("host-calls")),
        ("floods-fetches", Ends::Stopped("host-calls")),
        ("floods-events", Ends::Stopped("host-calls")),
        ("floods-logs", Ends::ByItself),
        ("floods-metrics", Ends::ByItself),
    ];
    Scene::new(NEIGHBOUR_CALL_TIMEOUT).await.withstands_calls(&cases).await;
}

#[tokio::test]
async fn a_describe_that_attacks_is_not_loaded() {
    let cases = [
        ("describe-traps", Ends::NotLoaded("describe", &["(trap)"])),
        ("describe-loops", Ends::NotLoaded("describe", &["(cpu)"])),
        ("describe-reads", Ends::NotLoaded("describe", &["(forbidden-import)", "live.get"])),
        ("describe-fetches", Ends::NotLoaded("describe", &["(forbidden-import)", "http.fetch"])),
        (
            "describe-logs",
            Ends::NotLoaded("describe", &["(forbidden-import)", "log.log", "it had logged: one word, and another"]),
        ),
        ("describe-unstable", Ends::NotLoaded("describe", &["/description"])),
        ("describe-path", Ends::NotLoaded("manifest", &["not a DNS label"])),
        ("describe-other", Ends::NotLoaded("name", &["\"webapp\"", "describe-other"])),
    ];
    Scene::new(ENDLESS_CALL_DEADLINE).await.withstands_modes(&cases).await;
    let cases = [("describe-devours", Ends::NotLoaded("describe", &["(memory)"]))];
    Scene::new(NEIGHBOUR_CALL_TIMEOUT).await.withstands_modes(&cases).await;
}

/// A guest whose manifest is `text`.
fn saying(text: impl Into<String>) -> Core {
    let manifest = text.into();
    let pages = 2 + u32::try_from(manifest.len() >> 16).expect("a few MiB");
    Core { manifest, pages, ..Core::default() }
}

/// A manifest with `more` in the primary of its only controller, and `rest` at its end.
fn manifest(more: &str, rest: &str) -> Core {
    let said = MANIFEST.replace(r#""kind":"ConfigMap""#, &format!(r#""kind":"ConfigMap"{more}"#));
    let said = said.strip_suffix('}').expect("an object");
    saying(format!("{said}{rest}}}"))
}

#[tokio::test]
async fn a_manifest_that_attacks_is_refused() {
    let refused = |words| Ends::NotLoaded("manifest", words);
    let namespaces = (0..200).map(|at| format!(r#""n{at}""#)).collect::<Vec<_>>().join(",");
    let watch =
        format!(r#"{{"apiVersion":"v1","kind":"Secret","namespaces":[{namespaces}],"mapping":{{"type":"all"}}}}"#);
    let watches = vec![watch; 50].join(",");
    let wide = MANIFEST.replace(r#""primary":"#, &format!(r#""watches":[{watches}],"primary":"#));
    let capitals = vec![r#""NO""#; 50_000].join(",");
    let guests = vec![
        ("nothing", saying(""), refused(&["JSON"])),
        ("garbage", saying("\u{1b}[2J\u{202e}]}{\0".repeat(100)), refused(&["JSON"])),
        ("depth", saying("[".repeat(500_000)), refused(&["recursion limit"])),
        ("size", saying(" ".repeat(2 << 20)), Ends::NotLoaded("describe", &["(transfer)", "`--limit manifest=SIZE`"])),
        ("numbers", manifest("", r#","description":1e999"#), refused(&["out of range"])),
        (
            "another one's name",
            saying(MANIFEST.replacen("guest", "webapp", 1)),
            Ends::NotLoaded("name", &["\"webapp\""]),
        ),
        ("two names", manifest("", r#","name":"webapp""#), Ends::NotLoaded("name", &["\"webapp\""])),
        ("a name that is a path", saying(MANIFEST.replacen("guest", "../../etc/cron.d/x", 1)), refused(&["DNS label"])),
        ("a name with a line", saying(MANIFEST.replacen("guest", "a\\nERROR b\\u001b[2J", 1)), refused(&["DNS label"])),
        ("ten thousand watches", saying(wide), refused(&["10001 watches"])),
        ("all kinds", saying(MANIFEST.replace("ConfigMap", "*")), refused(&["`*`"])),
        ("all groups", saying(MANIFEST.replace(r#""v1""#, r#""*/*""#)), refused(&["`*/*`"])),
        ("a kind that is a path", saying(MANIFEST.replace("ConfigMap", "../secrets")), refused(&["`../secrets`"])),
        (
            "a selector that no server reads",
            manifest(r#","labelSelector":"app in front""#, ""),
            refused(&["controllers[0].primary.labelSelector: ", "expected '('"]),
        ),
        (
            "fifty thousand problems",
            manifest(&format!(r#","namespaces":[{capitals}]"#), ""),
            refused(&["more problems"]),
        ),
    ];
    Scene::new(NEIGHBOUR_CALL_TIMEOUT).await.withstands_guests(guests).await;
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_reaches_no_port() {
    let scene = Scene::new(NEIGHBOUR_CALL_TIMEOUT).await;
    let ports = FakePorts::with_writes(WriteMode::Echo);
    let attacker = load(&scene.sandbox, "steered", &hostile("steered")).await.expect("it loads");
    let result = called(&attacker, &ports.ports(), Some("crafts-names")).await.result;
    assert_eq!(result, CallResult::Done);
    let written = std::mem::take(&mut *ports.written.lock().expect("not poisoned"));
    let targets = written.into_iter().filter_map(|operation| match operation {
        Operation::Patch { target, .. } | Operation::Delete { target, .. } => Some(target),
        // The writer checks the names in a body.
        Operation::Create { .. } | Operation::Update { .. } | Operation::Apply { .. } => None,
    });
    let mut named: Vec<ObjectRef> = ports.reads.lock().expect("not poisoned").clone();
    named.extend(targets);
    let odd = ObjectKey::cluster("a?watch=true");
    assert!(named.iter().any(|target| target.key == odd), "Kubernetes allows such a name: {named:?}");
    for ObjectRef { key, .. } in named {
        assert_eq!(path_segment::flaw(&key.name), None, "{key:?}");
        assert_eq!(key.namespace.as_deref().and_then(path_segment::flaw), None, "{key:?}");
    }
    scene.neighbour("crafts-names").await;
}

/// A guest with minimal memory that runs `reconcile`.
fn acting(reconcile: &str) -> Core {
    Core { reconcile: reconcile.to_owned(), ..Core::default() }
}

fn allocating(realloc: &str) -> Core {
    Core { realloc: realloc.to_owned(), ..Core::default() }
}

fn describing(describe: &str) -> Core {
    Core { describe: describe.to_owned(), ..Core::default() }
}

fn with_items(items: &str) -> Core {
    Core { items: items.to_owned(), ..Core::default() }
}

fn logging(arguments: [i64; 5]) -> Core {
    let import = r#"(import "windlass:plugin/log@0.3.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;
    let arguments = arguments.map(|argument| format!("(i32.const {argument})")).join(" ");
    Core { imports: import.to_owned(), reconcile: format!("(call $log {arguments})"), ..Core::default() }
}

/// A guest that returns these bytes from `reconcile`.
fn answering(bytes: &str) -> Core {
    Core {
        items: format!(r#"(data (i32.const 1024) "{bytes}")"#),
        reconcile: "(return (i32.const 1024))".to_owned(),
        ..Core::default()
    }
}

/// A guest whose `describe` returns a string of this address and length.
fn describing_at(at: u32, length: u32) -> Core {
    describing(&format!(
        "(i32.store (i32.const 1024) (i32.const {at})) (i32.store (i32.const 1028) (i32.const {length}))
         (return (i32.const 1024))"
    ))
}

const SPIN: &str = "(loop $again (br $again))";
const GROW: &str = "(loop $again (drop (memory.grow (i32.const 16))) (br $again))";
const POST_DESCRIBE: &str = r#"(func (export "cabi_post_windlass:plugin/reconciler@0.3.0#describe") (param i32)"#;
const POST_RECONCILE: &str = r#"(func (export "cabi_post_windlass:plugin/reconciler@0.3.0#reconcile") (param i32)"#;

#[tokio::test]
async fn an_allocator_that_lies_hurts_its_own_call() {
    let import = r#"(import "windlass:plugin/log@0.3.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;
    let calls_out = "(call $log (i32.const 2) (i32.const 2048) (i32.const 2) (i32.const 0) (i32.const 0))";
    let guests = vec![
        ("realloc traps", allocating("unreachable"), Ends::Stopped("trap")),
        ("realloc spins", allocating(SPIN), Ends::Stopped("cpu")),
        ("realloc devours", allocating(GROW), Ends::Stopped("memory")),
        ("realloc gives what is beyond memory", allocating("(return (i32.const -16))"), Ends::Stopped("abi")),
        ("realloc gives what ends beyond memory", allocating("(return (i32.const 131071))"), Ends::Stopped("abi")),
        ("realloc gives the same address to all", allocating("(return (i32.const 70000))"), Ends::ByItself),
        ("realloc gives its own answer's address", allocating("(return (i32.const 512))"), Ends::Stopped("abi")),
        (
            "realloc calls the host",
            Core { imports: import.to_owned(), realloc: calls_out.to_owned(), ..Core::default() },
            Ends::Stopped("trap"),
        ),
    ];
    Scene::new(ENDLESS_CALL_DEADLINE).await.withstands_guests(guests).await;
}

#[tokio::test]
async fn answers_that_break_the_abi_hurt_their_own_call() {
    let guests = vec![
        ("an answer beyond memory", acting("(return (i32.const -8))"), Ends::Stopped("abi")),
        ("an answer that is not aligned", acting("(return (i32.const 513))"), Ends::Stopped("abi")),
        ("neither ok nor error", answering(r"\07"), Ends::Stopped("abi")),
        ("an outcome that is none", answering(r"\00\00\00\00\09"), Ends::Stopped("abi")),
        ("failures beyond memory", answering(r"\01\00\00\00\00\00\ff\ff\01\00\00\00"), Ends::Stopped("abi")),
        ("failures without end", answering(r"\01\00\00\00\00\00\00\00\ff\ff\ff\ff"), Ends::Stopped("abi")),
        ("failures that are not aligned", answering(r"\01\00\00\00\01\08\00\00\01\00\00\00"), Ends::Stopped("abi")),
        ("a failure that is none", answering(r"\01\00\00\00\00\08\00\00\01\00\00\00"), Ends::Stopped("abi")),
    ];
    let scene = Scene::new(ENDLESS_CALL_DEADLINE).await;
    scene.withstands_guests(guests).await;
    let refused = |words| Ends::NotLoaded("describe", words);
    let guests = vec![
        ("a manifest beyond memory", describing_at(0xffff_ff00, 16), refused(&["(abi)"])),
        ("a manifest that ends beyond memory", describing_at(4096, 0x7fff_ffff), refused(&["(abi)"])),
        ("a manifest that goes around", describing_at(0xffff_fff0, 0xffff_fff0), refused(&["(abi)"])),
        ("an answer to describe beyond memory", describing("(return (i32.const -4))"), refused(&["(abi)"])),
        ("an answer to describe not aligned", describing("(return (i32.const 17))"), refused(&["(abi)"])),
        (
            "a manifest that is not UTF-8",
            Core { items: r#"(data (i32.const 8192) "\ff\fe\c0\80")"#.to_owned(), ..describing_at(8192, 4) },
            refused(&["(abi)"]),
        ),
        ("a manifest of zeros", describing_at(70_000, 1000), Ends::NotLoaded("manifest", &["JSON"])),
    ];
    scene.withstands_guests(guests).await;
}

#[tokio::test]
async fn arguments_that_break_the_abi_hurt_their_own_call() {
    let guests = vec![
        ("a level that is none", logging([200, 2048, 2, 0, 0]), Ends::Stopped("abi")),
        ("a text beyond memory", logging([2, -16, 2, 0, 0]), Ends::Stopped("abi")),
        ("a text that ends beyond memory", logging([2, 131_070, 16, 0, 0]), Ends::Stopped("abi")),
        ("a text of four gigabytes", logging([2, 0, -1, 0, 0]), Ends::Stopped("abi")),
        ("a list beyond memory", logging([2, 2048, 2, -16, 1]), Ends::Stopped("abi")),
        ("a list that is not aligned", logging([2, 2048, 2, 1, 1]), Ends::Stopped("abi")),
        ("a list whose size overflows", logging([2, 2048, 2, 0, 0x1000_0001]), Ends::Stopped("abi")),
        ("a list within its own text", logging([2, 2048, 16, 2048, 1]), Ends::Stopped("abi")),
        (
            "a text that is not UTF-8",
            Core { items: r#"(data (i32.const 1024) "\f0\28\8c\bc")"#.to_owned(), ..logging([2, 1024, 4, 0, 0]) },
            Ends::Stopped("abi"),
        ),
    ];
    Scene::new(ENDLESS_CALL_DEADLINE).await.withstands_guests(guests).await;
}

#[tokio::test]
async fn code_that_runs_beside_the_calls_is_limited_like_them() {
    let starting = |body: &str| with_items(&format!("(func $first {body}) (start $first)"));
    let refused = |words| Ends::NotLoaded("describe", words);
    let after = |post: &str, body: &str| with_items(&format!("{post} {body})"));
    let deep = "(func $deep (result i32) (i32.add (call $deep) (i32.const 1)))";
    let guests = vec![
        ("its start traps", starting("unreachable"), refused(&["(trap)"])),
        ("its start spins", starting(SPIN), refused(&["(cpu)"])),
        ("its start devours", starting(GROW), refused(&["(memory)"])),
        (
            "its start recurses",
            with_items(&format!("{deep} (func $first (drop (call $deep))) (start $first)")),
            refused(&["(stack)"]),
        ),
        ("its clean-up of describe traps", after(POST_DESCRIBE, "unreachable"), refused(&["(trap)"])),
        ("its clean-up of describe spins", after(POST_DESCRIBE, SPIN), refused(&["(cpu)"])),
        ("its clean-up traps", after(POST_RECONCILE, "unreachable"), Ends::Stopped("trap")),
        ("its clean-up spins", after(POST_RECONCILE, SPIN), Ends::Stopped("cpu")),
        (
            "its data does not fit its memory",
            with_items(r#"(data (i32.const 131071) "far too long")"#),
            refused(&["(trap)"]),
        ),
    ];
    Scene::new(ENDLESS_CALL_DEADLINE).await.withstands_guests(guests).await;
}

#[tokio::test]
async fn bombs_of_tables_memories_and_instances_do_not_go_off() {
    let grows = |by: u32| format!("(drop (table.grow $t (ref.null func) (i32.const {by})))");
    let growing = |by: u32| Core { items: "(table $t 1 funcref)".to_owned(), ..acting(&grows(by)) };
    let filling = "(drop (table.grow $t (ref.null func) (i32.const 30000)))
        (loop $again (table.fill $t (i32.const 1) (ref.null func) (i32.const 30000)) (br $again))";
    let many = "(table 1 funcref)".repeat(50);
    let guests = vec![
        ("a table that grows", growing(300_000), Ends::Stopped("table")),
        ("a table that grows beyond numbers", growing(u32::MAX), Ends::Stopped("table")),
        (
            "a table that is filled for ever",
            Core { items: "(table $t 1 funcref)".to_owned(), ..acting(filling) },
            Ends::Stopped("cpu"),
        ),
        (
            "a table that is large at once",
            with_items("(table 3000000 funcref)"),
            Ends::NotLoaded("too-much", &["table"]),
        ),
        ("many tables", with_items(&many), Ends::NotLoaded("too-much", &["table"])),
        ("a large memory", Core { pages: 65_536, ..Core::default() }, Ends::NotLoaded("too-much", &["memory"])),
        (
            "more memories than a plugin has",
            with_items(&"(memory 1)".repeat(6)),
            Ends::NotLoaded("too-much", &["memor"]),
        ),
    ];
    let scene = Scene::new(ENDLESS_CALL_DEADLINE).await;
    scene.withstands_guests(guests).await;
    let nested = |levels: usize| format!("{}{}", "(component ".repeat(levels), ")".repeat(levels));
    let instances = format!(
        "(component (core module $m (memory 1)) {})",
        each(200, |at| format!("(core instance $i{at} (instantiate $m))"))
    );
    let doubling = format!(
        "(component (type $t0 u64) {} (import \"a\" (func (param \"x\" $t60))))",
        each(60, |at| format!("(type $t{} (tuple $t{at} $t{at}))", at + 1))
    );
    let deep_type =
        format!("(component (type $t0 u8) {})", each(5_000, |at| format!("(type $t{} (list $t{at}))", at + 1)));
    let texts = [
        ("two hundred instances", instances, "too-much"),
        ("ninety components in one another", nested(90), "component"),
        ("a type of 2^60 fields", doubling, "compile"),
        ("a list of lists of lists", deep_type, "compile"),
    ];
    let parsed = |text: &str| wat::parse_str(text).expect("well-formed");
    let components = texts.map(|(case, text, reason)| (case, parsed(&text), Ends::NotLoaded(reason, &[])));
    scene.withstands_components(components.into()).await;
}

/// The texts that `of` returns for each number, joined.
fn each(count: u32, of: impl Fn(u32) -> String) -> String {
    (0..count).map(of).collect::<Vec<_>>().concat()
}

/// An unsigned LEB128 number.
fn leb(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = u8::try_from(value & 0x7f).expect("seven bits");
        value >>= 7;
        bytes.push(if value == 0 { byte } else { byte | 0x80 });
        if value == 0 {
            return bytes;
        }
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(content.len()), content].concat()
}

/// A component that contains only this core module.
fn component_of(sections: &[Vec<u8>]) -> Vec<u8> {
    let module = [b"\0asm\x01\0\0\0".to_vec(), sections.concat()].concat();
    [b"\0asm\x0d\0\x01\0".to_vec(), section(1, &module)].concat()
}

/// A component with this many functions that have this body, including the locals.
fn functions(count: usize, body: &[u8]) -> Vec<u8> {
    let types = section(1, b"\x01\x60\0\0");
    let declared = section(3, &[leb(count), vec![0; count]].concat());
    let one = [leb(body.len()), body.to_vec()].concat();
    let code = section(10, &[leb(count), one.repeat(count)].concat());
    component_of(&[types, declared, code])
}

#[tokio::test]
async fn bombs_for_the_compiler_do_not_go_off() {
    let scene = Scene::new(ENDLESS_CALL_DEADLINE).await;
    let blocks = |depth: usize| [b"\0".to_vec(), b"\x02\x40".repeat(depth), b"\x0b".repeat(depth + 1)].concat();
    // A file declares 50,000 locals, which is the maximum, with one number.
    let locals = |count: usize| [b"\x01".to_vec(), leb(count), b"\x7e\x0b".to_vec()].concat();
    let jumps = [b"\0\x02\x40\x41\0\x0e".to_vec(), leb(60_000), vec![0; 60_001], b"\x0b\x0b".to_vec()].concat();
    let lies = [b"\0asm\x0d\0\x01\0\x01".to_vec(), leb(0xffff_fff0), b"\0asm\x01\0\0\0".to_vec()].concat();
    let many = [b"\0asm\x0d\0\x01\0".to_vec(), section(7, &leb(0xffff_ffff))].concat();
    let named = component_of(&[section(0, &[leb(4), b"name".to_vec(), vec![0xff; 100_000]].concat())]);
    let valid = Core::default().component();
    let cases = [
        ("packed", b"\x1f\x8b\x08\0\0\0\0\0\0\x03".repeat(1000), "component"),
        ("a preamble and zeros", [b"\0asm\x0d\0\x01\0".to_vec(), vec![0; 100_000]].concat(), "compile"),
        ("a preamble and noise", [b"\0asm\x0d\0\x01\0".to_vec(), noise(100_000)].concat(), "compile"),
        ("cut short", valid[..valid.len() - 100].to_vec(), "compile"),
        ("a section that lies about its length", lies, "compile"),
        ("four billion types", many, "too-much"),
        ("names that are none", named, "component"),
        ("twenty thousand functions", functions(20_000, b"\0\x0b"), "component"),
        ("blocks within blocks", functions(1, &blocks(50_000)), "component"),
        ("more locals than there may be", functions(1, &locals(50_001)), "compile"),
        ("many functions of many locals", functions(50, &locals(50_000)), "component"),
        ("a jump to sixty thousand places", functions(1, &jumps), "component"),
    ];
    let components = cases.map(|(case, bytes, reason)| (case, bytes, Ends::NotLoaded(reason, &[])));
    scene.withstands_components(components.into()).await;
}

/// Pseudorandom bytes, the same each time.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[tokio::test]
async fn unsupported_features_of_components_are_refused_by_name() {
    let wide = "(component (core module (memory i64 1)))";
    let shared = "(component (core module (memory 1 2 shared)))";
    let scene = Scene::new(ENDLESS_CALL_DEADLINE).await;
    let texts = [("64-bit memory", wide), ("shared memory", shared)];
    let parsed = |text: &str| wat::parse_str(text).expect("well-formed");
    let components = texts.map(|(case, text)| (case, parsed(text), Ends::NotLoaded("compile", &["memor"])));
    scene.withstands_components(components.into()).await;
}

#[tokio::test]
async fn many_attacks_at_once_leave_the_neighbour_its_turns() {
    let scene = Scene::new(ENDLESS_CALL_DEADLINE).await;
    let attacker = load(&scene.sandbox, "steered", &hostile("steered")).await.expect("it loads");
    let modes = ["loops", "devours", "fills", "waits", "floods-writes", "floods-logs", "asks-the-time", "traps"];
    let ports = ports();
    let attacks = futures::future::join_all(modes.map(|mode| async {
        for _ in 0..3 {
            let _ = called(&attacker, &ports, Some(mode)).await;
        }
    }));
    let neighbour = async {
        for _ in 0..20 {
            scene.neighbour("all of them").await;
        }
    };
    tokio::join!(attacks, neighbour);
}
