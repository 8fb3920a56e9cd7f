//! `windlass check` as a library: it tries a plugin against faults, and says where it goes wrong.
//!
//! The host's own engine runs on the embedded API server in one thread, on told time, without a socket. Data flows one way:
//! a `scenario` says what happens, a `world` runs it under `fault`s, `trace` and `outcome` are what came of it, `verdict` says
//! what is wrong with that, `plan` which faults to try, `checker` drives all of it, `report` and `story` are for people, and by a
//! `reproduction` a run is had again.

mod baseline;
mod checker;
mod effort;
mod fault;
mod findings;
mod imports;
mod logs;
mod outcome;
mod plan;
mod report;
mod reproduction;
mod request_line;
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
pub use imports::ImportUse;
pub use plan::FAULT_CLASSES;
pub use report::{Coverage, Finding, Report, Tried};
pub use reproduction::{Reproduction, ReproductionError};
pub use request_line::RequestLine;
pub use story::told;
pub use trace::{Entry, Happening, RequestNote};
pub use verdict::Rule;
pub use world::{CheckSubject, WorldError};
