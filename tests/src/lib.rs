//! Code that Windlass's end-to-end tests and its demo share: API servers, the host as a process, kubectl, and the story
//! of a `WebApp`, which must be the same on both servers.
//!
//! This crate is not part of the product. Everything runs on loopback.

pub mod admin;
pub mod altered;
pub mod busy;
pub mod chameleon;
pub mod children;
pub mod cluster;
pub mod delivery;
pub mod host;
pub mod hostile;
pub mod in_cluster;
pub mod kubectl;
pub mod markdown;
pub mod marker;
pub mod objects;
pub mod originals;
pub mod paths;
pub mod probe;
pub mod process;
pub mod proxied;
pub mod server;
pub mod state;
pub mod story;
pub mod wait;
