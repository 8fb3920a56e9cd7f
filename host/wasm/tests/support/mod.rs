//! The common parts of the tests: guests, a sandbox, and ports that answer from memory.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod bytes;
pub(crate) mod guests;
pub(crate) mod ports;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::call::ports::{CallContext, Ports};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::outcome::CallResult;
use windlass_core::rights::principal::Principal;
use windlass_wasm::{CallLimits, Called, Limits, LoadError, Plugin, Request, Sandbox, SandboxOptions};

/// A sandbox of the smallest size that shows the tested behaviour, with `limits`.
pub(crate) fn sandbox(limits: Limits) -> Sandbox {
    Sandbox::new(options(limits)).expect("a sandbox")
}

/// The options of [`sandbox`]: it compiles in the test's process and caches nothing.
pub(crate) fn options(limits: Limits) -> SandboxOptions {
    SandboxOptions { limits, threads: 2, concurrent_calls: 4, ..SandboxOptions::default() }
}

/// A short deadline, for calls that do not end; all other limits are as usual.
pub(crate) fn limits() -> Limits {
    Limits { deadline: Duration::from_millis(300), ..Limits::default() }
}

/// A deadline so long that a call begins to wait before half of it has passed.
pub(crate) fn patient() -> Limits {
    Limits { deadline: Duration::from_secs(3), ..Limits::default() }
}

/// A directory for plugins.
pub(crate) struct PluginDir(tempfile::TempDir);

impl PluginDir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }
}

/// Loads `bytes` as the file `name`.wasm.
pub(crate) async fn load(sandbox: &Sandbox, name: &str, bytes: &[u8]) -> Result<Arc<Plugin>, LoadError> {
    let directory = PluginDir::new();
    sandbox.load(&directory.write(&format!("{name}.wasm"), bytes)).await
}

/// The error message of loading `bytes`.
pub(crate) async fn load_error(name: &str, bytes: &[u8]) -> String {
    let loaded = load(&sandbox(limits()), name, bytes).await;
    loaded.expect_err("it must not load").to_string()
}

/// A call about the object `key` of `plugin`'s first controller, without grants and with an empty cache.
pub(crate) fn call_of(plugin: &Plugin, key: &ObjectKey) -> Arc<CallContext> {
    let controller = &plugin.manifest().controllers[0];
    Arc::new(CallContext {
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        ..CallContext::detached(
            Principal::of_plugin(plugin.name().clone(), plugin.short_digest(), "test"),
            controller.name.as_str(),
            ObjectKind::new(&*controller.primary.api_version, &*controller.primary.kind),
            key.clone(),
        )
    })
}

/// Calls `reconcile` for `prod/shop`, whose text is `object`.
pub(crate) async fn reconcile_object(plugin: &Arc<Plugin>, ports: &Ports, object: Option<&str>) -> CallResult {
    called(plugin, ports, object).await.result
}

/// As [`reconcile_object`], and also returns the cost of the call.
pub(crate) async fn called(plugin: &Arc<Plugin>, ports: &Ports, object: Option<&str>) -> Called {
    let call = call_of(plugin, &ObjectKey::namespaced("prod", "shop"));
    call_with(plugin, ports, call, object, CallLimits::default()).await
}

/// As [`called`], with its own limits, and with a context that the test also uses.
pub(crate) async fn call_with(
    plugin: &Arc<Plugin>,
    ports: &Ports,
    call: Arc<CallContext>,
    object: Option<&str>,
    limits: CallLimits,
) -> Called {
    let request = Request {
        controller: call.controller.clone(),
        key: call.primary_key.clone(),
        uid: None,
        object: object.map(Arc::from),
        deleting: false,
        attempt: 0,
        trace_id: call.trace_id.clone(),
    };
    plugin.reconcile(request, ports, call, limits).await
}

/// Calls `reconcile` for a deleted object.
pub(crate) async fn reconcile(plugin: &Arc<Plugin>, ports: &Ports) -> CallResult {
    reconcile_object(plugin, ports, None).await
}

/// The class and the message of a stopped call.
pub(crate) fn trapped(result: CallResult) -> (&'static str, String) {
    match result {
        CallResult::Trapped { reason, message } => (reason, message),
        other => panic!("the call should have been stopped, but it ended with {other:?}"),
    }
}

/// Waits until `done` returns true, which must happen soon.
pub(crate) async fn until(done: impl Fn() -> bool) {
    let waited = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited).await.expect("it comes soon");
}
