//! The directory of the cache. It checks who may access it, and writes each file completely or not at all.
//!
//! All accesses use the directory's handle, which was checked when it was opened. Later changes to its path have no
//! effect.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fsync, linkat, open, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::bounds::CachedFile;
use super::seal::{KEY_BYTES, SealKey};
use crate::digest;

/// The name of the key's file, which no other program uses.
const KEY: &str = "windlass-cache.key";
const UNFINISHED: &str = ".unfinished-";
const OURS: [&str; 4] = [".code", ".manifest", ".refusal", ".script"];
const OTHERS_MAY_WRITE: u32 = 0o022;
const ANYBODY_MAY_WRITE: u32 = 0o222;
const OTHERS_MAY_ANYTHING: u32 = 0o077;

/// The reason why there is no cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The directory does not exist and cannot be created.
    #[error("cannot use {}: {source}", .path.display())]
    Use { path: PathBuf, source: io::Error },
    /// Other users could place files there, which the host would run as code.
    #[error(
        "{} {why}: anyone who can write there can run code in the host; name a directory that only this user may write \
         to, such as a new one within it, which the host creates", .path.display()
    )]
    Unsafe {
        path: PathBuf,
        /// The reason why other users could place files there.
        why: &'static str,
    },
    /// The key cannot be read or created.
    #[error("cannot read or create the key of the cache directory {}: {source}", .path.display())]
    Key { path: PathBuf, source: io::Error },
}

/// An open directory that only this user may write to.
#[derive(Debug)]
pub(super) struct Directory {
    open: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Opens `path`. If it does not exist, it is created with access for this user only.
    pub(super) fn open(path: &Path) -> Result<Self, CacheError> {
        let wrong = |source| CacheError::Use { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(wrong)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty()).map_err(|error| wrong(error.into()))?);
        let metadata = file.metadata().map_err(wrong)?;
        let refuse = |why| Err(CacheError::Unsafe { path: path.to_owned(), why });
        if metadata.uid() != geteuid().as_raw() {
            return refuse("belongs to another user");
        }
        if metadata.mode() & OTHERS_MAY_WRITE != 0 {
            return refuse("may be written to by other users");
        }
        Ok(Self { open: file.into(), path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory's key. The first host that opens the directory creates it.
    pub(super) fn key(&self) -> Result<SealKey, CacheError> {
        self.read_or_make_key().map_err(|source| CacheError::Key { path: self.path.clone(), source })
    }

    fn read_or_make_key(&self) -> io::Result<SealKey> {
        if let Some(key) = self.read_key()? {
            return Ok(key);
        }
        let unfinished = unfinished_name();
        let mut file = self.create(&unfinished, Mode::RUSR | Mode::WUSR)?;
        let made = file.write_all(&rand::random::<[u8; KEY_BYTES]>()).and_then(|()| file.sync_all()).and_then(|()| {
            // Unlike a rename, this does not replace a key that another host has created in the meantime.
            match linkat(&self.open, &*unfinished, &self.open, KEY, AtFlags::empty()) {
                Ok(()) | Err(Errno::EXIST) => Ok(fsync(&self.open)?),
                Err(error) => Err(error.into()),
            }
        });
        let removed = self.remove(&unfinished);
        made.and(removed)?;
        self.read_key()?.ok_or_else(|| io::Error::other("another process removed the key while the host created it"))
    }

    /// The directory's key, if it has a valid one. Removes a key that other users can read. Fails if the file is not a
    /// key: a host writes its key atomically, so such a file belongs to another program.
    fn read_key(&self) -> io::Result<Option<SealKey>> {
        let Some(mut file) = self.open_file(KEY)? else { return Ok(None) };
        let metadata = file.metadata()?;
        let private = metadata.uid() == geteuid().as_raw() && metadata.mode() & OTHERS_MAY_ANYTHING == 0;
        let mut bytes = [0; KEY_BYTES];
        if metadata.is_file() && private && metadata.len() == KEY_BYTES as u64 {
            file.read_exact(&mut bytes)?;
            return Ok(Some(SealKey::new(bytes)));
        }
        if !metadata.is_file() || metadata.len() != KEY_BYTES as u64 {
            let problem = format!("{KEY} is not a key of this program; remove it, or use another directory");
            return Err(io::Error::other(problem));
        }
        tracing::warn!(
            file = %self.path.join(KEY).display(),
            "other users may read the key of the cache: a new one is created, and all plugins are compiled again"
        );
        self.remove(KEY)?;
        Ok(None)
    }

    /// The file `name`. `None` if it does not exist. Fails if a host cannot have written it.
    pub(super) fn read(&self, name: &str) -> io::Result<Option<File>> {
        let Some(file) = self.open_file(name)? else { return Ok(None) };
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.uid() != geteuid().as_raw() || metadata.mode() & ANYBODY_MAY_WRITE != 0 {
            return Err(io::Error::other("it is not a regular, read-only file of this user"));
        }
        Ok(Some(file))
    }

    fn open_file(&self, name: &str) -> io::Result<Option<File>> {
        // Opening a pipe would block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(&self.open, name, flags, Mode::empty()) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn create(&self, name: &str, mode: Mode) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.open, name, flags, mode)?.into())
    }

    /// Writes the file `name` atomically. Its content is `parts`, one after the other. The finished file is read-only.
    pub(super) fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let unfinished = unfinished_name();
        let mut file = self.create(&unfinished, Mode::RUSR)?;
        let written = parts.iter().try_for_each(|part| file.write_all(part));
        let finished = written.and_then(|()| file.sync_all()).and_then(|()| {
            renameat(&self.open, &*unfinished, &self.open, name)?;
            Ok(fsync(&self.open)?)
        });
        if finished.is_err() {
            // A failure to remove the temporary file is harmless, because its name shows that it is unfinished. The
            // caller gets the error that came first.
            let _ = self.remove(&unfinished);
        }
        finished
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.open, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The files that hosts have written here, without the key.
    pub(super) fn entries(&self) -> io::Result<Vec<CachedFile>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(self.open.as_fd())? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let unfinished = name.starts_with(UNFINISHED);
            if !unfinished && !is_ours(name) {
                continue;
            }
            // Another host may have removed the file in the meantime.
            let Ok(stat) = statat(&self.open, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
            entries.push(CachedFile {
                name: name.to_owned(),
                bytes: u64::try_from(stat.st_size).unwrap_or_default(),
                used: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
                unfinished,
            });
        }
        Ok(entries)
    }
}

/// Whether a host may have written the file `name`. The user's other programs may share the directory.
fn is_ours(name: &str) -> bool {
    OURS.iter().any(|ending| name.ends_with(ending)) && name.split('.').next().is_some_and(digest::is_sha256)
}

fn unfinished_name() -> String {
    format!("{UNFINISHED}{:032x}", rand::random::<u128>())
}
