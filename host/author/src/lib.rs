//! For authors of plugins: creates a plugin's folder ([`new`]), generates types ([`types`]), and builds its plugin
//! ([`build`]). The commands `new`, `types`, `build` and `dev` use this crate; the code that runs plugins does not.
//!
//! A build proceeds as follows: `file` (the author's description) → `facts` (about the folder) → `language` (a
//! `BuildPlan` with tools and commands) → `tools` (are they installed?) → `run` (the compiler) → `finish` (checks the
//! component and moves it to its destination).
//!
//! `windlass dev` builds Python plugins in another way, `edits`: it joins a kept component with the sources.

mod base;
pub mod build;
mod bundle;
pub mod documents;
mod edits;
mod facts;
pub mod file;
mod finish;
pub mod follow;
mod hints;
mod language;
mod lock;
pub mod new;
mod objects;
mod plan;
mod run;
mod sources;
mod starlark;
mod tools;
pub mod types;
mod versions;

/// The working directory of a build, below the author's folder.
pub const WORK: &str = "build/.windlass";
