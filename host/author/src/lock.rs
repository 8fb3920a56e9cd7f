//! Lets only one build at a time run in a folder, because `windlass dev` may be building there.

use std::fs::{File, TryLockError};
use std::path::Path;

/// The right to build in a folder. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct BuildLock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

impl BuildLock {
    /// Waits until no other build uses this working directory.
    pub(crate) async fn take(work: &Path) -> std::io::Result<Self> {
        let file = File::options().create(true).truncate(false).write(true).open(work.join("lock"))?;
        match file.try_lock() {
            Ok(()) => return Ok(Self(file)),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        eprintln!("waiting for another build of this folder to end");
        let waited = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
        Ok(Self(waited.map_err(std::io::Error::other)??))
    }
}
