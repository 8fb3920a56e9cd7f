//! Windlass's sandbox: loads plugins, which are WebAssembly components, and calls them.
//!
//! A plugin is untrusted code. It gets a fresh instance for each call, the imports of `wit/` and nothing else, and it
//! is stopped at each of the [`Limits`]. Its requests to Kubernetes go through `windlass_core::call::ports`; this crate
//! knows neither the API server nor the workqueue.
//!
//! A plugin is loaded as follows: [`Sandbox::load`] → `obtain` (its machine code: from `artefacts`, the private cache,
//! or else from `compile`, a process of its own) → `loader` (link, describe, validate).
//!
//! A call proceeds as follows, all in the caller's task: [`Plugin::reconcile`] or [`Plugin::compose`] → `sandbox` (a
//! permit) → `call` (store, instance, deadline) → `abi` (the WIT types of one version) → `imports` (one file per WIT
//! import) → the ports.

mod abi;
mod another;
mod artefacts;
mod call;
mod call_fields;
mod called;
mod compile;
mod component;
mod contents;
mod counters;
mod cpu;
mod digest;
mod engine;
mod entry;
mod frames;
mod imports;
mod limits;
mod lines;
mod load_error;
mod loader;
mod machine;
mod memory;
mod meter;
mod obtain;
mod parked;
mod plugin;
mod refusals;
mod request;
mod sandbox;
mod script;
mod seeding;
mod spoils;
mod state;
mod text;
mod ticker;
mod timing;
mod trap;
mod wasi;
mod wasi_http_state;
mod wasi_state;

pub use abi::AbiVersion;
pub use artefacts::{CacheError, default_cache_dir};
pub use called::{Called, Composed, Customized, Mapped, Matched};
pub use compile::{CompileFailure, Compiler, TooMuch, compile_child};
pub use component::ComponentError;
pub use contents::{FileContents, FileKind, MadeWith, Need};
pub use counters::PluginStats;
pub use cpu::CpuTime;
pub use engine::EngineError;
pub use limits::{Limit, Limits, Metering, SetLimitError, Setting, Unit};
pub use load_error::{LoadError, LoadProblem};
pub use memory::Held;
pub use plugin::Plugin;
pub use request::{CallLimits, ChangeBatch, CompositionRequest, ObjectChange, Replay, Request};
pub use sandbox::{Sandbox, SandboxError, SandboxOptions, SandboxStats};
pub use script::{SCRIPT_BYTES_MAX, joined};
pub use wasi::met_at as wasi_met_at;
