//! Checks that the initial memory of a component is mapped copy-on-write, so that instances share the pages that no
//! instance has written. Covers each layout that the toolchains of plugins produce, with newly compiled code and with
//! code that is mapped from the cache.
//!
//! Linux only, because its kernel reports private memory. Runs alone in its process, because it measures the process.

#![cfg(target_os = "linux")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use support::guests::{CLAIM, CLAIM_IMPORT, Core};
use support::ports::meeting;
use support::{PluginDir, load, options, reconcile};
use tokio::sync::Barrier;
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{Limits, Plugin, Sandbox, SandboxOptions};

const MIB: usize = 1 << 20;
const CALLS_OF_IMAGE: usize = 4;

/// Memory that this process has written and does not share with other processes.
fn private_bytes() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel reports it");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).expect("it is there");
    line.trim().trim_end_matches("kB").trim().parse::<usize>().expect("a number") << 10
}

/// Measures the process when all calls are running.
async fn look(all: Arc<Barrier>, private: Arc<AtomicUsize>) {
    if all.wait().await.is_leader() {
        private.store(private_bytes(), Ordering::SeqCst);
    }
    all.wait().await;
}

/// How a toolchain lays out initial memory: segments of this many bytes, each at this distance from the previous
/// segment.
struct Shape {
    of: &'static str,
    segments: usize,
    bytes: usize,
    every: usize,
}

/// The shapes that the project's recipes produce. Only the toolchain of Rust is needed to reproduce them.
const SHAPES: [Shape; 3] = [
    // C, Zig, Rust and Go: one segment, or few.
    Shape { of: "one segment", segments: 1, bytes: 8 * MIB, every: 8 * MIB },
    // QuickJS and SpiderMonkey are snapshots of a memory: very many segments, which leave out zeros.
    Shape { of: "a snapshot in pieces", segments: 800, bytes: 8 << 10, every: 10 << 10 },
    // wasmtime accepts an image as large as Python's only if it is dense.
    Shape { of: "a large snapshot", segments: 10, bytes: 2 * MIB - 4096, every: 2 * MIB },
];

impl Shape {
    /// Where the image ends, relative to its beginning.
    fn image(&self) -> usize {
        self.segments * self.every
    }

    /// A guest that reads the whole image and then waits for the other calls.
    fn guest(&self) -> Vec<u8> {
        let (content, image) = ("x".repeat(self.bytes), self.image());
        let segment = |index: usize| format!(r#"(data (i32.const {}) "{content}")"#, MIB + index * self.every);
        let guest = Core {
            imports: CLAIM_IMPORT.to_owned(),
            items: (0..self.segments).map(segment).collect(),
            reconcile: format!(
                "(local $at i32) (local.set $at (i32.const {MIB})) (loop $again
                   (drop (i32.load8_u (local.get $at)))
                   (br_if $again (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4096)))
                     (i32.const {}))))
                 {CLAIM}",
                MIB + image
            ),
            pages: u32::try_from((2 * MIB + image) >> 16).expect("a few hundred"),
            ..Core::default()
        };
        guest.component()
    }
}

/// How much more memory the process has written while all calls are in the plugin than before.
async fn written_by_calls(plugin: &Arc<Plugin>) -> usize {
    let (all, private) = (Arc::new(Barrier::new(CALLS_OF_IMAGE)), Arc::new(AtomicUsize::new(0)));
    let seen = private.clone();
    let ports = meeting(move || look(all.clone(), seen.clone()));
    let before = private_bytes();
    let calls = join_all((0..CALLS_OF_IMAGE).map(|_| reconcile(plugin, &ports)));
    let results = tokio::time::timeout(Duration::from_mins(1), calls).await.expect("all come together");
    assert_eq!(results, vec![CallResult::Done; CALLS_OF_IMAGE]);
    private.load(Ordering::SeqCst).saturating_sub(before)
}

// Only one test, so that no other test writes memory at the same time.
#[tokio::test]
async fn instances_share_the_unwritten_part_of_their_image() {
    let cache = PluginDir::new();
    for shape in SHAPES {
        let (guest, of) = (shape.guest(), shape.of);
        for mapped in [false, true] {
            let kept = mapped.then(|| cache.path().join("cache"));
            let sandbox = SandboxOptions { cache: kept, ..options(Limits::default()) };
            let plugin = load(&Sandbox::new(sandbox).expect("a sandbox"), "guest", &guest).await.expect("it loads");
            assert_eq!(plugin.is_cached(), mapped);
            let more = written_by_calls(&plugin).await;
            // Less than one image. The other memory that a call needs is not subtracted.
            assert!(
                more < shape.image(),
                "{of}, mapped: {mapped}: {CALLS_OF_IMAGE} instances have written {more} bytes more, and read {} each",
                shape.image()
            );
        }
    }
}
