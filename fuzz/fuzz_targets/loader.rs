//! Feeds any bytes to the loader as a plugin's file. The loader must load or refuse them within its limits. The target
//! calls no plugin that loads.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};
use windlass_wasm::{Limits, LoadProblem, Sandbox, SandboxOptions};

static HOST: LazyLock<(Runtime, Sandbox, tempfile::TempDir)> = LazyLock::new(|| {
    let limits = Limits { describe_deadline: Duration::from_millis(100), ..Limits::default() };
    let options = SandboxOptions { limits, threads: 1, concurrent_calls: 1, ..SandboxOptions::default() };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    (runtime, Sandbox::new(options).expect("a sandbox"), tempfile::tempdir().expect("a directory"))
});

fuzz_target!(|bytes: &[u8]| {
    let (runtime, sandbox, directory) = &*HOST;
    let path = directory.path().join("guest.wasm");
    std::fs::write(&path, bytes).expect("written");
    if let Err(error) = runtime.block_on(sandbox.load(&path)) {
        assert!(!matches!(error.problem, LoadProblem::Host(_)), "loading failed through the host's fault: {error}");
    }
});
