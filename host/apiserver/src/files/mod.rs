//! Files of the server: manifests, a file that keeps the state across restarts, and a file of reactors.

mod manifests;
mod reactors_file;
mod state_file;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

pub use manifests::LoadError;
pub use reactors_file::ReactorFileError;
pub use state_file::StateFileError;

pub(crate) use manifests::load;
pub(crate) use reactors_file::{follow as follow_reactors, use_file as use_reactors};
pub(crate) use state_file::{keep, read, write};

/// Replaces a file atomically: readers see either the old or the new file, even after a crash. Creates the folder if it
/// is missing. Only the current user can read the file, because it may contain Secrets or an administrator's token.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    // A path without a folder means the current folder.
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    // An old temporary file is removed: it may be left from a crash, be readable by others, or be a link.
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    // The new name survives a crash only after the folder was synced.
    File::open(folder)?.sync_all()
}
