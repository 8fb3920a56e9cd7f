//! Windlass's decisions, without the actions that follow from them: keys, the workqueue, the outcome of a call,
//! ownership, grants, and the [`ports`](call::ports) through which the sandbox asks the edge to Kubernetes.
//!
//! Nothing here does I/O, reads a clock or draws a random number. Time and randomness are passed in, so that each
//! decision is a value that a test can compare. `windlass-kube` and `windlass-wasm` depend on this crate and not on
//! each other; `windlass-runtime` wires them.

pub mod budget;
pub mod cache;
pub mod call;
pub mod clock;
pub mod deceptive;
pub mod defect;
pub mod error;
pub mod life;
pub mod object;
pub mod panics;
pub mod queue;
pub mod repeats;
pub mod retry;
pub mod rights;
pub mod secret;
pub mod timer;
pub mod write;
