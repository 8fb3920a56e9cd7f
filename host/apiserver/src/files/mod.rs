//! The state on disk: manifests that a server begins with, and a file that keeps the state over restarts.

mod manifests;
mod reactors_file;
mod state_file;

pub use manifests::LoadError;
pub use reactors_file::ReactorFileError;
pub use state_file::StateFileError;

pub(crate) use manifests::load;
pub(crate) use reactors_file::{follow as follow_reactors, use_file as use_reactors};
pub(crate) use state_file::{keep, read, write};
