//! Follows one file beside a host, for the program that runs the host.

use std::path::Path;

use crate::files::Files;

/// A file that is followed by content, such as the program's own configuration.
pub struct FollowedFile {
    files: Files,
}

impl FollowedFile {
    /// Follows the file at `path`, which may have at most `most` bytes.
    #[must_use]
    pub fn follow(path: &Path, most: u64) -> Self {
        Self { files: Files::follow_one(path, most) }
    }

    /// Waits until the file is another. The first time it returns at once, as the file may have changed before. Nothing
    /// is lost when the future is dropped.
    pub async fn changed(&mut self) {
        self.files.changes().await;
    }
}
