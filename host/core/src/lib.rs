//! Windlass's decisions, apart from its actions: keys, the workqueue, the outcome of a call, ownership, grants, and the
//! [`ports`] through which the sandbox asks for what the edge to Kubernetes carries out.
//!
//! Nothing here does I/O, reads a clock or draws a random number: time and randomness are passed in, so that each
//! decision is a value that a test can compare. `windlass-kube` and `windlass-wasm` depend on this crate and not on each
//! other; `windlass` wires them.

mod accounts;
pub mod aggregate;
mod annotation;
pub mod batch;
pub mod breaker;
pub mod call_lines;
pub mod clock;
pub mod compact;
pub mod compose;
pub mod conditions;
pub mod confidential;
pub mod credentials;
pub mod deceptive;
pub mod defect;
pub mod difference;
pub mod egress;
pub mod error;
pub mod expectations;
pub mod fair;
pub mod features;
pub mod fence;
pub mod finalizer;
pub mod freshness;
pub mod gate;
pub mod grants;
pub mod hot_loop;
pub mod http;
pub mod index;
pub mod instances;
pub mod intent;
pub mod key_state;
pub mod known_secrets;
pub mod labels;
pub mod lease;
pub mod mapping;
pub mod no_op;
pub mod object;
pub mod outcome;
pub mod overlay;
pub mod owner;
pub mod panics;
pub mod path_segment;
pub mod pause;
pub mod plugin_state;
pub mod pointer;
pub mod ports;
pub mod predicate;
pub mod principal;
pub mod probation;
pub mod progress;
pub mod queue;
pub mod reference;
pub mod related;
pub mod repeats;
pub mod retry;
pub mod run_request;
pub mod selector;
pub mod server_history;
pub mod settle;
pub mod shared_budget;
pub mod sharing;
pub mod text;
pub mod trace;
pub mod trigger;
pub mod watch;
pub mod withheld;
pub mod write;
