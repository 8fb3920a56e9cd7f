//! This crate against an API server: against scripted answers on a paused clock, and against the embedded API server.

mod claim;
mod cluster;
mod collection;
mod definitions;
mod discovery;
mod events;
mod expecting;
mod finalizer_guard;
mod freshness;
mod hostile;
mod informer;
mod informers;
mod live;
mod live_views;
mod offload;
mod owner_guard;
mod reachability;
mod reader;
mod review;
mod script;
mod settling;
mod sweep;
mod unstored;
mod withhold;
mod write_budget;
mod writer;
