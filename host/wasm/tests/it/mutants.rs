//! Hostile bytes for the loader: components mutated at random, and random components. Each is refused with a message or
//! loads; nothing panics, and nothing hangs.
//!
//! `WINDLASS_MUTANTS=10000` tries more components, and `WINDLASS_MUTANTS_SEED=N` tries different ones; `make soak
//! STORIES=mutants` uses both. With many files the test also checks that memory does not grow with their number.

use crate::support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use support::bytes::{CORE_MODULE, around};
use support::guests::{Core, chameleon, webapp};
use support::ports::quiet;
use support::{PluginDir, load, options, reconcile, sandbox};
use windlass_wasm::{Limits, LoadProblem, Sandbox};

/// The time limit of a single file, even on a very busy machine.
const FILE_TIMEOUT: Duration = Duration::from_mins(1);
/// The number of files in the warm-up, in which heaps, pools and caches reach their size.
const WARM_UP_FILES: usize = 1_000;
/// How much memory may grow after the warm-up, whatever the number of files. If each file leaked as much as a small
/// file takes, memory would grow more.
const MEMORY_GROWTH_MAX: u64 = 48 << 20;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

/// The files tried, and their results.
#[derive(Debug, Default)]
struct Tried {
    /// The number of each result.
    became: BTreeMap<&'static str, u32>,
    /// Memory of this process after the warm-up and at the end. `None` with too few files for a meaningful result.
    memory: Option<(u64, u64)>,
    slowest: Duration,
    took: Duration,
}

impl Tried {
    /// Printed for people, and for `tools/soak`.
    fn report(&self, what: &str, seed: u64) {
        let Self { became, memory, slowest, took } = self;
        let memory = memory.map_or_else(String::new, |(before, after)| {
            format!(", memory {} KiB after {WARM_UP_FILES} of them and {} KiB at the end", before >> 10, after >> 10)
        });
        println!("figures: {what}, seed {seed}: {became:?} in {took:.0?}, slowest {slowest:.1?}{memory}");
    }

    fn assert_no_growth(&self) {
        if let Some((before, after)) = self.memory {
            assert!(after < before + MEMORY_GROWTH_MAX, "memory grew from {before} to {after} bytes");
        }
    }
}

/// The memory of this process. `None` if the system does not report it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Loads each of `files`.
async fn try_all(files: impl Iterator<Item = Vec<u8>>) -> Tried {
    let limits = Limits {
        compile_deadline: FILE_TIMEOUT,
        describe_deadline: Duration::from_millis(100),
        deadline: Duration::from_millis(100),
        ..Limits::default()
    };
    let sandbox = Sandbox::new(options(limits)).expect("a sandbox");
    let directory = PluginDir::new();
    let (mut tried, began) = (Tried::default(), Instant::now());
    let mut warm = None;
    for (index, bytes) in files.enumerate() {
        if index == WARM_UP_FILES {
            warm = resident();
        }
        let path = directory.write("guest.wasm", &bytes);
        let this = Instant::now();
        let what = match sandbox.load(&path).await {
            Ok(plugin) => {
                // Any result is fine; the call must end.
                let _ = reconcile(&plugin, &quiet()).await;
                "loaded"
            }
            Err(error) => {
                assert!(!error.to_string().contains('\n'), "{index}: more than one line: {error}");
                if let LoadProblem::Host(why) = &error.problem {
                    panic!("{index}: the file is at fault, but the host blames itself: {why}");
                }
                error.problem.reason()
            }
        };
        assert!(this.elapsed() < FILE_TIMEOUT, "{index}: {:?}", this.elapsed());
        tried.slowest = tried.slowest.max(this.elapsed());
        *tried.became.entry(what).or_default() += 1;
    }
    tried.memory = warm.zip(resident());
    tried.took = began.elapsed();
    tried
}

/// `original` with a few of its bytes changed, removed, doubled or moved.
fn mutant(original: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..random.random_range(1..=3) {
        let at = random.random_range(0..bytes.len());
        let length = random.random_range(1..=16).min(bytes.len() - at);
        // Mostly changes that keep all lengths, so that not only the reader of sections is tested.
        match random.random_range(0..12) {
            0..4 => bytes[at] = random.random(),
            4..8 => bytes[at] ^= 1 << random.random_range(0..8),
            8 => drop(bytes.drain(at..at + length)),
            9 => {
                let again = bytes[at..at + length].to_vec();
                bytes.splice(at..at, again);
            }
            // A length, a count or an index of maximum size.
            10 => drop(bytes.splice(at..at + length.min(5), [0xff, 0xff, 0xff, 0xff, 0x0f])),
            _ => bytes.truncate(at.max(8)),
        }
        if bytes.len() < 16 {
            break;
        }
    }
    bytes
}

/// A component that contains most things components can have, and compiles quickly.
fn small() -> Vec<u8> {
    let import = r#"(import "windlass:plugin/log@0.3.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;
    let items = "(table $t 4 funcref) (elem (i32.const 0) func $f $f) (global $g (mut i64) (i64.const 7))
        (func $f (param i32) (result i32)
          (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 1)) (else
            (block $out
              (loop $again (br_table $out $again $out (i32.and (local.get 0) (i32.const 1)))))
            (i32.const 5))))";
    let reconcile = "(drop (call_indirect $t (param i32) (result i32) (i32.const 0) (i32.const 1)))";
    let (imports, items, reconcile) = (import.to_owned(), items.to_owned(), reconcile.to_owned());
    Core { imports, items, reconcile, ..Core::default() }.component()
}

#[tokio::test]
async fn mutated_components_neither_panic_nor_hang() {
    let count = setting("WINDLASS_MUTANTS", 200);
    let seed = setting("WINDLASS_MUTANTS_SEED", 1);
    let mut random = StdRng::seed_from_u64(seed);
    let (small, large) = (small(), [chameleon("good"), webapp()]);
    // Without the mutants' time limit, which a busy machine may exceed.
    load(&sandbox(Limits::default()), "guest", &small).await.expect("it loads");
    let files = (0..count).map(|index| {
        // A large mutant that is still valid takes seconds to compile; most are not valid.
        let original = if index % 20 == 19 { &large[random.random_range(0..large.len())] } else { &small };
        mutant(original, &mut random)
    });
    let tried = try_all(files).await;
    tried.report("mutants", seed);
    tried.assert_no_growth();
    let became = tried.became;
    assert!(became.contains_key("compile") && became.contains_key("loaded"), "they are too much alike: {became:?}");
}

#[tokio::test]
async fn random_components_neither_panic_nor_hang() {
    let count = setting("WINDLASS_MUTANTS", 200);
    let seed = setting("WINDLASS_MUTANTS_SEED", 1);
    let mut random = StdRng::seed_from_u64(seed);
    let files = (0..count).map(|index| smith(index % 2 == 0, &mut random));
    let tried = try_all(files).await;
    tried.report("random components", seed);
    tried.assert_no_growth();
    let became = tried.became;
    assert!(became.contains_key("component"), "none of them is valid: {became:?}");
}

/// A random component of `wasm-smith`, or one around a random module.
fn smith(whole: bool, random: &mut StdRng) -> Vec<u8> {
    use wasm_smith::{Component, Config, Module};
    let mut seed = vec![0; 2048];
    loop {
        random.fill_bytes(&mut seed);
        let mut input = arbitrary_input(&seed);
        if whole {
            if let Ok(component) = Component::new(Config::default(), &mut input) {
                return component.to_bytes();
            }
        } else if let Ok(module) = Module::new(Config::default(), &mut input) {
            return around(CORE_MODULE, &module.to_bytes());
        }
    }
}

fn arbitrary_input(seed: &[u8]) -> arbitrary::Unstructured<'_> {
    arbitrary::Unstructured::new(seed)
}
