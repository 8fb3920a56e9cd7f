//! For authors of plugins: creates a plugin's folder ([`new`]), or one for a kubebuilder project ([`import`]),
//! generates types ([`types`]) and definitions ([`definitions`]), and builds the plugin ([`build`]). The commands
//! `new`, `import`, `types`, `crd`, `build` and `dev` use this crate; the code that runs plugins does not.
//!
//! A build proceeds as follows: `file` (the author's description) → `facts` (about the folder) → `language` (a
//! `BuildPlan` with tools and commands) → `tools` (are they installed?) → `run` (the compiler) → `finish` (checks the
//! component and moves it to its destination).
//!
//! For Go, [`go`] changes the plan, so that the plugin compiles smaller forms of the Kubernetes modules.
//!
//! Where `crd.yaml` is generated from types, `definitions` runs the generator before a build, and `drift` compares.
//!
//! `windlass dev` builds Python plugins in another way, `edits`: it joins a kept component with the sources.

mod base;
pub mod build;
mod bundle;
pub mod definitions;
pub mod documents;
mod drift;
mod edits;
mod facts;
pub mod file;
mod finish;
pub mod follow;
pub mod go;
mod hints;
pub mod import;
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
