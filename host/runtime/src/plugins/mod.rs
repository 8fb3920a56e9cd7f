//! The life of a plugin's file, from its drop into the directory to what it leaves behind.
//!
//! `directory` decides what is to be done as a value, `reload` carries it out. `serve` runs one plugin, `swap` puts a
//! new generation into the place of the one that runs.

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
mod tell;
mod unload;
