//! Fetches plugins from registries, and keeps them on disk. The host's plugin objects use it.
//!
//! A registry is not trusted, so `windlass-oci` bounds and checks everything that it sends. This crate decides which
//! server is asked for what ([`WantedPlugin`]), how often ([`FetchSchedule`]), how many pulls run at once, and what
//! stays on disk ([`PluginStore`]). Its own files are not trusted either: a digest is computed again before a file is
//! handed out.
//!
//! A digest proves what a plugin is, but not where it came from. A policy may allow a repository, so the store answers
//! only for the repository, and the tenant, for which it has really fetched a digest.

mod disk;
mod error;
mod fetch;
mod flights;
mod limits;
mod names;
mod reading;
mod room;
mod schedule;
mod shelf;
mod slots;
mod stored;
#[cfg(test)]
mod tests;
mod wanted;
mod words;

pub use error::{FetchError, MirrorFailure, MirrorFailures, StoreError};
pub use fetch::PluginStore;
pub use limits::StoreLimits;
pub use schedule::FetchSchedule;
pub use stored::{Collected, ResolvedTag, Stored};
pub use wanted::{AddressPolicy, FetchScope, Mirror, WantedPlugin};
