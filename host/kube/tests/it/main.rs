//! What this crate does to an API server and what it makes of the answers: against scripted answers on a paused clock,
//! and against the embedded API server.

mod apart;
mod claim;
mod cluster;
mod definitions;
mod discovery;
mod events;
mod expecting;
mod freshness;
mod hostile;
mod informer;
mod informers;
mod keeping;
mod live;
mod reachability;
mod reader;
mod review;
mod script;
mod settling;
mod sweep;
mod write_budget;
mod writer;
