//! Lets only one build run in a folder at a time, because `windlass dev` may be building it.

use std::fs::{File, TryLockError};
use std::path::Path;

/// Held while a build works in a folder. Released on drop.
#[derive(Debug)]
pub(crate) struct BuildLock(#[expect(dead_code, reason = "closing it gives the lock back")] File);

impl BuildLock {
    /// Waits for other builds of the folder with this working directory.
    pub(crate) async fn take(work: &Path) -> std::io::Result<Self> {
        let file = File::options().create(true).truncate(false).write(true).open(work.join("lock"))?;
        match file.try_lock() {
            Ok(()) => return Ok(Self(file)),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        eprintln!("another build of this folder is at work: waiting for it");
        let waited = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
        Ok(Self(waited.map_err(std::io::Error::other)??))
    }
}
