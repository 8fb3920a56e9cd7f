//! The life of a plugin, from the appearance of its file in the directory to its leftovers in the cluster.
//!
//! `directory` decides what to do, as a value, and `reload` carries it out. `serve` runs one plugin, and `swap`
//! replaces its running generation by a new one.

mod announce;
pub(crate) mod attention;
pub(crate) mod config;
pub(crate) mod current_files;
pub(crate) mod directory;
pub(crate) mod install;
pub(crate) mod leftovers;
pub(crate) mod prepare;
pub(crate) mod reload;
mod replicas;
pub(crate) mod reports;
pub(crate) mod rollout;
pub(crate) mod serve;
pub(crate) mod supplies;
mod swap;
mod swap_wait;
mod unload;
