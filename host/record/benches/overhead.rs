//! Measures how much time recording adds to a call: `make bench`. It times only the host's side: the decision whether
//! to record, and the capture of one import. The guest's own time would hide these costs. Compare figures only within
//! one run, not between machines.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::call::ports::{Absent, CallContext};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::queue::outcome::CallResult;
use windlass_core::rights::principal::Principal;
use windlass_record::{PluginRecorder, RecordOptions, Recordings};
use windlass_wasm::{CallLimits, Called, Plugin, Request, Sandbox, SandboxOptions};

const RECORDED_CALLS: u32 = 20_000;
const IMPORTS_OF_CALL: usize = 4;

fn context(plugin: &Plugin) -> Arc<CallContext> {
    Arc::new(CallContext {
        trace_id: "0".into(),
        ..CallContext::detached(
            Principal::of_plugin(plugin.name().clone(), plugin.short_digest(), "bench"),
            "webapp",
            ObjectKind::new("v1", "ConfigMap"),
            ObjectKey::namespaced("prod", "shop"),
        )
    })
}

/// Does the host's part of one call. Its imports are answered at once.
fn call(recorder: Option<&PluginRecorder>, context: &Arc<CallContext>, object: &Arc<str>) {
    let request = Request {
        controller: context.controller.clone(),
        key: context.primary_key.clone(),
        uid: None,
        object: Some(object.clone()),
        deleting: false,
        attempt: 0,
        trace_id: context.trace_id.clone(),
    };
    let ports = Absent::ports();
    let limits = CallLimits::default();
    let recording = recorder.and_then(|it| it.reconcile(&request, context, &limits));
    let ports = recording.as_ref().map_or_else(|| ports.clone(), |recording| recording.ports(&ports));
    let target = ObjectRef { kind: context.primary_kind.clone(), key: context.primary_key.clone(), uid: None };
    for _ in 0..IMPORTS_OF_CALL {
        drop(ports.reads.get(context, &target, None));
    }
    if let Some(recording) = recording {
        recording.reconciled(&Called::made(CallResult::Done, Duration::ZERO));
    }
}

#[tokio::main]
async fn main() {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins");
    let path = std::env::var_os("WINDLASS_PLUGIN_DIR").map_or_else(default, PathBuf::from).join("webapp.wasm");
    let sandbox = Sandbox::new(SandboxOptions { threads: 1, concurrent_calls: 1, ..SandboxOptions::default() });
    let plugin = sandbox.expect("a sandbox").load(&path).await.expect("it loads");
    let (context, object) = (context(&plugin), Arc::from("x".repeat(2_000)));
    for sample in [None, Some(0.0), Some(0.01), Some(1.0)] {
        let directory = std::env::temp_dir().join(format!("windlass-record-{:016x}", windlass_world::random::<u64>()));
        let options = |sample| RecordOptions { directory: directory.clone(), sample, limit: 64 << 20, redact: vec![] };
        let recordings = sample.map(|sample| Recordings::start(options(sample), "0").expect("a thread"));
        let recorder = recordings.as_ref().map(|recordings| recordings.of(&plugin));
        #[allow(clippy::disallowed_methods, reason = "a benchmark measures the time of the world")]
        let began = Instant::now();
        for _ in 0..RECORDED_CALLS {
            call(recorder.as_ref(), &context, &object);
        }
        let each = began.elapsed() / RECORDED_CALLS;
        let (mut written, mut dropped) = (0, 0);
        if let Some(recordings) = recordings {
            recordings.end().await;
            (written, dropped) = recordings.counts().first().map_or((0, 0), |(_, it)| (it.recorded(), it.dropped()));
        }
        let sample = sample.map_or_else(|| "not recording".to_owned(), |sample| format!("sample {sample}"));
        println!("{sample:>14}: {each:?} a call of {IMPORTS_OF_CALL} imports ({written} recorded, {dropped} dropped)");
        let _ = std::fs::remove_dir_all(&directory);
    }
}
