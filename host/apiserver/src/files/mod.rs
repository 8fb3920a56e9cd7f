//! The state on disk: manifests that a server begins with, and a file that keeps the state over restarts.

mod manifests;
mod state_file;

pub use manifests::LoadError;
pub use state_file::StateFileError;

pub(crate) use manifests::load;
pub(crate) use state_file::{read, write};
