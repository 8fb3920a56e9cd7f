//! `windlass check` as a library: tests a plugin against faults and reports where it goes wrong.
//!
//! The host's own engine runs against the embedded API server, in one thread, with simulated time and without sockets.
//! Data flows one way. A `scenario` defines what happens, and a `world` runs it with `fault`s. `trace` and `outcome`
//! hold the results, and `verdict` judges them. `plan` chooses the faults to try, and `checker` drives the whole.
//! `report` and `story` present the findings to people, and a `reproduction` is a file to repeat a run.

mod baseline;
mod checker;
mod effort;
mod fault;
mod fault_class;
mod findings;
mod imports;
mod logs;
mod normalizer;
mod outcome;
mod plan;
mod report;
mod reproduction;
mod request_line;
mod rule;
mod saving;
pub mod scenario;
mod shrink;
mod story;
mod trace;
mod verdict;
mod world;

pub use baseline::{AcceptedFinding, Baseline};
pub use checker::{RunAgain, again, check};
pub use effort::Effort;
pub use fault::{AtRest, Deed, Failover, Fault, SetClock, WritePoint};
pub use fault_class::FAULT_CLASSES;
pub use imports::ImportUse;
pub use report::{Coverage, Finding, Report, Tried};
pub use reproduction::{Reproduction, ReproductionError};
pub use request_line::RequestLine;
pub use rule::RunRule;
pub use saving::{SavingComparison, compare_saving};
pub use story::story_of;
pub use trace::{CreatedObject, Entry, Happening, RequestNote};
pub use world::{CheckSubject, WorldError, without_refused};
