//! Reads the store's files, without trust.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use windlass_oci::ContentDigest;

/// The size of the parts in which a component is read to compute its digest.
const HASHED_PART_BYTES: usize = 64 << 10;

/// A file's state. It changes whenever the content may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    inode: u64,
    pub(crate) bytes: u64,
    modified: (i64, i64),
}

impl FileState {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Self { inode: metadata.ino(), bytes: metadata.len(), modified })
    }
}

/// Opens a file. `None` if it is not there.
pub(crate) fn opened(path: &Path) -> io::Result<Option<File>> {
    match windlass_files::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// The content that was read of a file. A file that cannot be read counts as one that is not there, because it can be
/// fetched again.
pub(crate) fn readable<T>(path: &Path, read: Option<io::Result<T>>) -> Option<T> {
    let read = read?;
    read.inspect_err(|error| {
        let file = path.display();
        tracing::warn!(%file, %error, "cannot read a stored plugin: it is fetched again");
    })
    .ok()
}

pub(crate) fn digest_of(file: &mut File) -> io::Result<ContentDigest> {
    let mut hash = Sha256::new();
    let mut part = vec![0; HASHED_PART_BYTES];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(ContentDigest::finished(hash)),
            read => hash.update(&part[..read]),
        }
    }
}
