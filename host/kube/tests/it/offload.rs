//! Tests that large texts are parsed on separate threads, so that other tasks can continue.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::{LiveGet, Written, ask};
use windlass_core::object::{Object, ObjectKey, ObjectKind, ObjectRef};
use windlass_core::write::{Operation, PatchType, WriteOptions};
use windlass_kube::{Discovery, Followed, Informers, LiveBudget, LiveReader, Readable, Writer};

use crate::script::{Reply, Script, call};

fn kind() -> ObjectKind {
    ObjectKind::new("v1", "ConfigMap")
}

fn large() -> Value {
    let metadata = json!({"name": "a", "namespace": "prod", "uid": "u", "resourceVersion": "7"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "x".repeat(1 << 20)}})
}

fn target() -> ObjectRef {
    ObjectRef { kind: kind(), key: ObjectKey::namespaced("prod", "a"), uid: None }
}

fn patch(patch: &str) -> Operation {
    let (patch_type, options) = (PatchType::Merge, WriteOptions::default());
    Operation::Patch { target: target(), patch_type, patch: patch.to_owned(), options }
}

/// Calls `ask` while the only separate thread is busy, and checks that it waits for that thread and for nothing else.
fn waits_for_a_thread<F: Future<Output = Written> + Send + 'static>(ask: impl FnOnce(&Runtime) -> F) {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build().expect("a runtime");
    let asking = {
        let _entered = runtime.enter();
        ask(&runtime)
    };
    runtime.block_on(async {
        let (release, busy) = channel::<()>();
        let busy = tokio::task::spawn_blocking(move || busy.recv());
        let asking = tokio::spawn(asking);
        // This is far more often than the write needs.
        for _ in 0..1_000 {
            yield_now().await;
        }
        assert!(!asking.is_finished(), "it was done where leases are renewed");
        drop(release);
        assert!(busy.await.expect("no panic").is_err());
        let answer = timeout(Duration::from_secs(20), asking).await.expect("it goes on").expect("no panic");
        assert!(answer.expect("it is well").is_some_and(|text| text.len() > 1 << 20));
    });
}

#[test]
fn a_large_answer_to_a_small_write_waits_for_a_thread() {
    waits_for_a_thread(|_| {
        let script = Script::default().mutations([Reply::Json(200, large())]);
        let writer = Writer::new(script.client(), Discovery::new(script.client()));
        writer.write(Arc::new(call()), patch(r#"{"data":{"y":"1"}}"#))
    });
}

#[test]
fn a_small_write_compared_with_a_large_object_waits_for_a_thread() {
    waits_for_a_thread(|runtime| {
        let script = Script::default().lists([Reply::Json(
            200,
            json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [large()]}),
        )]);
        let informers = Informers::new(script.client(), Discovery::new(script.client()));
        let spec = WatchSpec::all(kind());
        let subscription = informers.subscribe(spec.clone());
        runtime.block_on(timeout(Duration::from_secs(20), subscription.when(|status| status.synced))).expect("synced");
        let readable = Readable { spec, store: subscription.store().clone(), indexes: vec![] };
        let runs = |_: &Object, _: &ObjectKey| true;
        let writer = Writer::new(script.client(), Discovery::new(script.client()));
        let writer =
            writer.of_controller(vec![Followed { readable, runs: Some(Arc::new(runs)), maps_by_object: true }]);
        let written = writer.write(Arc::new(call()), patch(r#"{"metadata":{"name":"a"}}"#));
        async move {
            let _kept = (informers, subscription);
            written.await
        }
    });
}

#[test]
fn a_live_read_of_a_large_object_waits_for_a_thread() {
    waits_for_a_thread(|_| {
        let script = Script::default().lists([Reply::Json(200, large())]);
        let live = LiveReader::new(script.client(), Discovery::new(script.client()), LiveBudget::default());
        ask(&live, Arc::new(call()), LiveGet::whole(target()))
    });
}
