//! For authors of plugins: makes a folder ([`new`]), and a plugin of a folder ([`build`]). The commands `new`, `build` and `dev`
//! call it; what runs plugins knows nothing of it.
//!
//! The way of a build: `file` (what the author says) → `facts` (what is in the folder) → `language` (a `BuildPlan`: which tools,
//! which commands) → `tools` (are they there?) → `run` (the compiler) → `finish` (a component, checked, in its place).

pub mod build;
pub mod documents;
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
mod versions;

/// Where a build has its own files, below the author's folder.
pub const WORK: &str = "build/.windlass";
