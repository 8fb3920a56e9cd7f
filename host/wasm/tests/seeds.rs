//! The seeds of the fuzz targets of `fuzz/`: small components, and manifests of this project's own guests.
//!
//! With `WINDLASS_FUZZ_SEEDS=DIR` the tests write them to DIR/loader and DIR/manifest, as `tools/fuzz` does; otherwise
//! they only try each seed once.

mod support;

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use support::guests::{Core, chameleon, composer, webapp};
use support::{PluginDir, load, options, sandbox};
use windlass_manifest::Manifest;
use windlass_wasm::{Limits, Sandbox, SandboxOptions};

/// Larger components are compiled too slowly to be useful.
const SEED_BYTES_MAX: usize = 32 << 10;

/// Writes a seed of `target`, if the variable is set.
fn write(target: &str, name: &str, bytes: &[u8]) {
    let Some(directory) = std::env::var_os("WINDLASS_FUZZ_SEEDS").map(|root| PathBuf::from(root).join(target)) else {
        return;
    };
    std::fs::create_dir_all(&directory).expect("made");
    std::fs::write(directory.join(format!("seed-{name}")), bytes).expect("written");
}

#[tokio::test]
async fn the_components_that_fuzzing_begins_with_are_small_plugins() {
    let import = r#"(import "windlass:plugin/log@0.3.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;
    let items = "(table $t 4 funcref) (elem (i32.const 0) func $f $f) (global $g (mut i64) (i64.const 7))
        (func $f (param i32) (result i32)
          (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 1)) (else
            (block $out (loop $again (br_table $out $again $out (i32.and (local.get 0) (i32.const 1)))))
            (i32.const 5))))";
    let numbers = "(func (param f64 f32) (result i64)
        (i64.trunc_sat_f64_s (f64.add (local.get 0) (f64.promote_f32 (f32.sqrt (local.get 1))))))
        (func (param i32) (result v128) (i32x4.add (i32x4.splat (local.get 0)) (v128.const i32x4 1 2 3 4)))";
    let guests = [
        ("smallest", Core::default()),
        ("table", Core { imports: import.to_owned(), items: items.to_owned(), ..Core::default() }),
        ("numbers", Core { items: numbers.to_owned(), ..Core::default() }),
        ("spins", Core { describe: "(loop $again (br $again))".to_owned(), ..Core::default() }),
        ("grows", Core { describe: "(drop (memory.grow (i32.const 100)))".to_owned(), ..Core::default() }),
    ];
    for (name, guest) in guests {
        let bytes = guest.component();
        assert!(bytes.len() <= SEED_BYTES_MAX, "{name} has {} bytes", bytes.len());
        // A short deadline is for components that do not end by themselves. On a busy machine, other components may
        // take longer.
        let short = Limits { describe_deadline: std::time::Duration::from_millis(100), ..Limits::default() };
        let (limits, expected) = if name == "spins" { (short, Err("describe")) } else { (Limits::default(), Ok(())) };
        let loaded = load(&sandbox(limits), "guest", &bytes).await.map(drop).map_err(|error| error.problem.reason());
        assert_eq!(loaded, expected, "{name}");
        write("loader", name, &bytes);
    }
    write("loader", "empty", &wat::parse_str("(component)").expect("well-formed"));
}

#[tokio::test]
async fn the_manifests_that_fuzzing_begins_with_are_those_of_real_guests() {
    for (name, bytes) in [("webapp", webapp()), ("chameleon", chameleon("good")), ("composer", composer())] {
        let cache = PluginDir::new();
        let options = SandboxOptions { cache: Some(cache.path().to_owned()), ..options(Limits::default()) };
        let plugin = load(&Sandbox::new(options).expect("a sandbox"), name, &bytes).await.expect("it loads");
        let text = answered(cache.path());
        assert_eq!(&Manifest::from_json(&text).expect("it was valid before"), plugin.manifest(), "{name}");
        write("manifest", name, text.as_bytes());
    }
}

/// The manifest of the only plugin of a cache.
fn answered(cache: &Path) -> String {
    let files = std::fs::read_dir(cache).expect("readable").map(|entry| entry.expect("readable").path());
    let kept = files.into_iter().find(|path| path.extension().is_some_and(|it| it == "manifest")).expect("it is kept");
    let bytes = std::fs::read(kept).expect("readable");
    // A seal follows it.
    let mut texts = serde_json::Deserializer::from_slice(&bytes).into_iter::<Box<RawValue>>();
    texts.next().expect("a text").expect("JSON").get().to_owned()
}
