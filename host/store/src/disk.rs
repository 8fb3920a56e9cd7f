//! The files of a store: the system's, or those of a test that fails at a chosen step.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::geteuid;

use crate::error::StoreError;

const OTHERS_MAY_WRITE: u32 = 0o022;

/// A file in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// When it was last written or touched, since 1970.
    pub(crate) used: Duration,
}

/// A file that is being written.
pub(crate) trait NewFile: Write + Send {
    /// Waits until the contents are on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// The operations of a store on files.
pub(crate) trait Disk: Send + Sync {
    /// Creates a file that must not exist, and holds a lock on it until it is dropped.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;
    /// Moves a file, over another one if that is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Waits until the names in `folder` are on the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Removes a file. Succeeds if there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Marks a file as used now. Succeeds if there is none.
    fn touch(&self, path: &Path) -> io::Result<()>;
    /// The files of `folder`, of any kind, but no folders.
    fn list(&self, folder: &Path) -> io::Result<Vec<FoundFile>>;
    /// Whether a process is writing the file.
    fn is_locked(&self, path: &Path) -> io::Result<bool>;
}

/// The system's disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemDisk;

struct LockedFile(File);

impl Write for LockedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl NewFile for LockedFile {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl Disk for SystemDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        match file.try_lock() {
            // Some network file systems have no locks. Then another host that opens the store may remove the file, and
            // the plugin is fetched again.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Box::new(LockedFile(file))),
            Err(TryLockError::WouldBlock) => Err(io::Error::other("another process has taken the new file")),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        let now = UNIX_EPOCH + windlass_world::now();
        match File::options().write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => opened?.set_modified(now),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<FoundFile>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Another host has removed the file in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // Names of the store are ASCII.
            if let Ok(name) = entry.file_name().into_string()
                && !metadata.is_dir()
            {
                files.push(FoundFile { name, bytes: metadata.len(), used: since_1970(metadata.modified()?) });
            }
        }
        Ok(files)
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        match windlass_files::open(path)?.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Creates `directory` if it is not there, and checks that only this user may write to it.
pub(crate) fn private(directory: &Path) -> Result<(), StoreError> {
    let wrong = |source| StoreError::Use { directory: directory.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(wrong)?;
    let metadata = std::fs::metadata(directory).map_err(wrong)?;
    let refuse = |why| Err(StoreError::Unsafe { directory: directory.to_owned(), why });
    if metadata.uid() != geteuid().as_raw() {
        return refuse("belongs to another user");
    }
    if metadata.mode() & OTHERS_MAY_WRITE != 0 {
        return refuse("may be written to by other users");
    }
    Ok(())
}

/// A new file that is removed unless it is moved to its final place.
pub(crate) struct UnfinishedFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn NewFile>,
    is_placed: bool,
}

impl UnfinishedFile {
    /// A new file in `folder`, with a name that no other has.
    pub(crate) fn new(disk: &Arc<dyn Disk>, folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!("{:032x}", windlass_world::random::<u128>()));
        let file = disk.create(&path)?;
        Ok(Self { disk: disk.clone(), path, file, is_placed: false })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Waits until the contents are on the disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    /// Moves the file, which was synced, into `folder`, and waits until its name there is on the disk.
    pub(crate) fn place(mut self, folder: &Path, name: &str) -> io::Result<()> {
        self.disk.rename(&self.path, &folder.join(name))?;
        self.is_placed = true;
        self.disk.sync_folder(folder)
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if self.is_placed {
            return;
        }
        if let Err(error) = self.disk.remove(&self.path) {
            let file = self.path.display();
            tracing::warn!(%file, %error, "cannot remove an unfinished file: the next start of the host removes it");
        }
    }
}
