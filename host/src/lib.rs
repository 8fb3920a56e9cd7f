//! A Kubernetes reconciler host whose reconcile logic runs as sandboxed WebAssembly components.
