//! Makes the next version of a plugin the current one, in the plugin directory. The host that follows the directory
//! does the rest, as for any replaced file. `windlass rollout` and a policy's `promoteAfter` both do this.
//!
//! The next version is `NAME.next.wasm`, or `NAME.wasm` if the host keeps the running version in `NAME.current.wasm`.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::directory::hexadecimal;
use super::directory::plugin_files::FileRole;
use crate::rejections::Digest;

/// Why a next version does not become the current one.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// There is no next version.
    #[error("{} does not exist: there is no next version to roll out", .0.display())]
    NoNext(PathBuf),
    /// There is no current version that the next one could replace.
    #[error("{} does not exist: to start a new plugin, rename the next version yourself", .0.display())]
    NoCurrent(PathBuf),
    /// The two files are the same.
    #[error("{} is the same as {}: there is no next version to roll out", next.display(), current.display())]
    SameAsCurrent {
        /// The file of the next version.
        next: PathBuf,
        /// The file of the current version.
        current: PathBuf,
    },
    /// The file has another digest.
    #[error("{} has the digest {is}, and not {wanted}: the file was replaced", path.display())]
    OtherDigest {
        /// The file.
        path: PathBuf,
        /// The actual digest of the file.
        is: String,
        /// The requested digest.
        wanted: String,
    },
    /// A current version was kept meanwhile. It stays.
    #[error("{} already exists", .0.display())]
    IsThere(PathBuf),
    /// A file operation failed.
    #[error("cannot change {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
}

/// A copy that was begun this long ago has ended, or never will.
const COPY_ENDED_AFTER: Duration = Duration::from_mins(10);

/// A version that was promoted or aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledOut {
    /// The file in which the version was.
    pub next: PathBuf,
    /// The file of the running version.
    pub current: PathBuf,
    /// The digest of the new running version, if one was promoted.
    pub promoted: Option<String>,
}

/// Replaces the current version of `plugin` by the next one, at once. If `wanted` is set, the next version's digest
/// must begin with it, or nothing changes. Blocks.
pub fn promote(directory: &Path, plugin: &str, wanted: Option<&str>) -> Result<RolledOut, RolloutError> {
    let [own, current, next] =
        [FileRole::Own, FileRole::Current, FileRole::Next].map(|role| role.path(directory, plugin));
    let (next, current, digest) = if current.exists() {
        differ(&own, &current)?;
        let digest = copy(&own, &current, wanted, replace)?;
        (own, current, digest)
    } else {
        let digest = rename(&next, &own, wanted)?;
        (next, own, digest)
    };
    Ok(RolledOut { next, current, promoted: Some(digest.to_string()) })
}

/// Keeps `NAME.wasm`, which has this `digest`, as the current version of `plugin`, even if that file changes later. An
/// existing current version stays. Returns false if it is the same version. Blocks.
pub(crate) fn keep_as_current(directory: &Path, plugin: &str, digest: &str) -> Result<bool, RolloutError> {
    let [own, current] = [FileRole::Own, FileRole::Current].map(|role| role.path(directory, plugin));
    match copy(&own, &current, Some(digest), put_first) {
        Err(RolloutError::IsThere(_)) if checked(&current, &current, Some(digest)).is_ok() => Ok(false),
        kept => kept.map(|_| true),
    }
}

fn rename(next: &Path, own: &Path, wanted: Option<&str>) -> Result<Digest, RolloutError> {
    if next.exists() && !own.exists() {
        return Err(RolloutError::NoCurrent(own.to_owned()));
    }
    // Check the file after the rename, so that no other process can write to it between the check and its use.
    let taken = hidden(next, "promoted");
    std::fs::rename(next, &taken).map_err(|source| failed(next, source))?;
    let promoted = checked(&taken, next, wanted).and_then(|is| {
        std::fs::rename(&taken, own).map_err(|source| failed(&taken, source))?;
        Ok(is)
    });
    if promoted.is_err() {
        std::fs::rename(&taken, next).map_err(|source| failed(&taken, source))?;
    }
    promoted
}

/// Moves a complete copy to its place.
type TakePlace = fn(&Path, &Path) -> Result<(), RolloutError>;

fn replace(whole: &Path, to: &Path) -> Result<(), RolloutError> {
    std::fs::rename(whole, to).map_err(|source| failed(to, source))
}

/// Moves a complete copy to its place, only if the place is free.
fn put_first(whole: &Path, to: &Path) -> Result<(), RolloutError> {
    match std::fs::hard_link(whole, to) {
        Ok(()) => std::fs::remove_file(whole).map_err(|source| failed(whole, source)),
        Err(_) if to.is_file() => Err(RolloutError::IsThere(to.to_owned())),
        // Not every file system has links.
        Err(_) => replace(whole, to),
    }
}

/// Replaces `to` by a copy of `from`, or does nothing. Returns the digest.
fn copy(from: &Path, to: &Path, wanted: Option<&str>, take_place: TakePlace) -> Result<Digest, RolloutError> {
    sweep(to.parent().unwrap_or(Path::new("")));
    // Another replica may be copying the same file.
    let taken = hidden(to, &format!("{:016x}", windlass_world::random::<u64>()));
    let whole = copied(from, &taken);
    let whole = whole.map_err(|source| failed(if from.exists() { to } else { from }, source));
    let is = whole.and_then(|()| checked(&taken, from, wanted)).and_then(|is| {
        take_place(&taken, to)?;
        Ok(is)
    });
    if is.is_err() {
        // The file may not exist.
        let _ = std::fs::remove_file(&taken);
    }
    is
}

/// Copies the regular file `from` to a new file, and syncs it to disk.
fn copied(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut from = windlass_files::open(from)?;
    let mut new = std::fs::File::create_new(to)?;
    std::io::copy(&mut from, &mut new)?;
    new.set_permissions(from.metadata()?.permissions())?;
    new.sync_all()
}

/// Deletes incomplete copies whose process was killed. They are hidden files that nothing uses.
fn sweep(directory: &Path) {
    let is_old = |path: &Path| {
        let written = std::fs::metadata(path).and_then(|it| it.modified());
        written.ok().and_then(|written| written.elapsed().ok()).is_some_and(|age| age > COPY_ENDED_AFTER)
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    for path in entries.map(|entry| entry.path()).filter(|path| is_copy(path) && is_old(path)) {
        // Another replica may have deleted it. If the directory is not writable, the copy will report that.
        let _ = std::fs::remove_file(&path);
    }
}

/// Whether a file is named like an incomplete copy: `.shop.current.wasm.0123456789abcdef`.
fn is_copy(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parts = name.strip_prefix('.').and_then(|name| name.rsplit_once(".wasm."));
    parts.is_some_and(|(_, number)| number.len() == 16 && number.chars().all(|it| it.is_ascii_hexdigit()))
}

/// A file beside `path` that hosts ignore.
fn hidden(path: &Path, suffix: &str) -> PathBuf {
    path.with_file_name(format!(".{}.{suffix}", path.file_name().unwrap_or_default().to_string_lossy()))
}

fn differ(next: &Path, current: &Path) -> Result<(), RolloutError> {
    let [of_next, of_current] = [checked(next, next, None)?, checked(current, current, None)?];
    if of_next == of_current {
        return Err(RolloutError::SameAsCurrent { next: next.to_owned(), current: current.to_owned() });
    }
    Ok(())
}

/// The digest of the file `path`, if it is the wanted one. In errors, the file has the path `named`, which the operator
/// knows.
fn checked(path: &Path, named: &Path, wanted: Option<&str>) -> Result<Digest, RolloutError> {
    let is = digest(path).map_err(|source| failed(path, source))?;
    match wanted.filter(|wanted| !is.starts_with(*wanted)) {
        Some(wanted) => {
            Err(RolloutError::OtherDigest { path: named.to_owned(), is: is.to_string(), wanted: wanted.to_owned() })
        }
        None => Ok(is),
    }
}

/// The digest of the file at `path`. Blocks.
pub(crate) fn digest(path: &Path) -> std::io::Result<Digest> {
    let mut file = windlass_files::open(path)?;
    let (mut hash, mut block) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hexadecimal(&hash.finalize().into())),
            read => hash.update(&block[..read]),
        }
    }
}

/// Aborts the rollout of `plugin`: deletes `NAME.next.wasm`, or makes `NAME.wasm` the running version again. Blocks.
pub fn abort(directory: &Path, plugin: &str) -> Result<RolledOut, RolloutError> {
    let [own, current, next] =
        [FileRole::Own, FileRole::Current, FileRole::Next].map(|role| role.path(directory, plugin));
    if current.exists() {
        differ(&own, &current)?;
        copy(&current, &own, None, replace)?;
        return Ok(RolledOut { next: own, current, promoted: None });
    }
    std::fs::remove_file(&next).map_err(|source| failed(&next, source))?;
    Ok(RolledOut { next, current: own, promoted: None })
}

fn failed(path: &Path, source: io::Error) -> RolloutError {
    let path = path.to_owned();
    if source.kind() == io::ErrorKind::NotFound {
        RolloutError::NoNext(path)
    } else {
        RolloutError::Io { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_current_version_kept_by_another_process_is_not_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        std::fs::write(path.join("shop.wasm"), "new").expect("it can be written");
        let digest = hexadecimal(&Sha256::digest("new").into());
        keep_as_current(path, "shop", &digest).expect("nothing is there");
        std::fs::write(path.join("shop.current.wasm"), "old").expect("it can be written");
        assert!(matches!(keep_as_current(path, "shop", &digest), Err(RolloutError::IsThere(_))));
        std::fs::write(path.join("shop.wasm"), "old").expect("it can be written");
        let of_old = hexadecimal(&Sha256::digest("old").into());
        assert!(!keep_as_current(path, "shop", &of_old).expect("it is the same"));
        assert_eq!(std::fs::read(path.join("shop.current.wasm")).expect("it is there"), b"old");
        assert_eq!(std::fs::read_dir(path).expect("a directory").count(), 2, "no copy is left behind");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_plugin_is_not_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = directory.path().join("shop.wasm");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .expect("a pipe");
        let kept = keep_as_current(directory.path(), "shop", &hexadecimal(&Sha256::digest("").into()));
        assert!(kept.is_err_and(|error| format!("{error:?}").contains("a named pipe")));
        assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 1, "no copy is left");
    }

    #[test]
    fn a_copy_that_was_never_ended_is_deleted_by_the_next_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let names = [".shop.current.wasm.0123456789abcdef", ".shop.wasm.0123456789abcdef", ".shop.next.wasm.promoted"];
        for name in names.into_iter().chain([".api.current.wasm.fedcba9876543210", "shop.wasm"]) {
            let file = std::fs::File::create(path.join(name)).expect("it can be made");
            if !name.starts_with(".api") {
                file.set_modified(std::time::UNIX_EPOCH).expect("it can be said");
            }
        }
        let digest = hexadecimal(&Sha256::digest("").into());
        assert!(keep_as_current(path, "shop", &digest).expect("nothing is there"));
        let left = std::fs::read_dir(path).expect("a directory").map(|it| it.expect("a file").file_name());
        let mut left: Vec<_> = left.map(|name| name.to_string_lossy().into_owned()).collect();
        left.sort();
        // The first copy is still being made. The second file was taken by a promotion, and is not a copy.
        let expected = [".api.current.wasm.fedcba9876543210", names[2], "shop.current.wasm", "shop.wasm"];
        assert_eq!(left, expected);
    }

    #[test]
    fn promoting_replaces_the_current_version_only_with_the_expected_digest() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, put) =
            (directory.path(), |name: &str, text: &str| std::fs::write(directory.path().join(name), text));
        assert!(matches!(promote(path, "shop", None), Err(RolloutError::NoNext(_))));
        put("shop.next.wasm", "new").expect("written");
        assert!(matches!(promote(path, "shop", None), Err(RolloutError::NoCurrent(_))));
        put("shop.wasm", "old").expect("written");
        let other = promote(path, "shop", Some("0000")).expect_err("another").to_string();
        assert!(other.contains("and not 0000"), "{other}");
        let digest = promote(path, "shop", None).expect("it is there").promoted;
        assert!(digest.as_ref().is_some_and(|it| it.starts_with("11507a0e2f5e69d5")), "{digest:?}");
        assert_eq!(std::fs::read_to_string(path.join("shop.wasm")).expect("there"), "new");
        assert!(matches!(abort(path, "shop"), Err(RolloutError::NoNext(_))));
        put("shop.next.wasm", "newer").expect("written");
        abort(path, "shop").expect("it is there");
        assert!(!path.join("shop.next.wasm").exists());
    }

    #[test]
    fn promote_updates_the_current_file_and_abort_restores_the_plugins_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let put = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
        let texts = || {
            ["shop.wasm", "shop.current.wasm"].map(|name| std::fs::read_to_string(path.join(name)).unwrap_or_default())
        };
        put("shop.wasm", "old");
        let of_old = hexadecimal(&Sha256::digest("old").into());
        assert!(keep_as_current(path, "shop", "0000").is_err(), "the file has changed by now");
        keep_as_current(path, "shop", &of_old).expect("it can be copied");
        let same = promote(path, "shop", None).expect_err("nothing waits").to_string();
        assert!(same.contains("is the same as"), "{same}");
        put("shop.wasm", "new");
        assert!(matches!(promote(path, "shop", Some("0000")), Err(RolloutError::OtherDigest { .. })));
        assert_eq!(texts(), ["new", "old"]);
        abort(path, "shop").expect("one waits");
        assert_eq!(texts(), ["old", "old"]);
        put("shop.wasm", "new");
        let done = promote(path, "shop", None).expect("one waits");
        assert_eq!(texts(), ["new", "new"]);
        assert_eq!((done.next, done.current), (path.join("shop.wasm"), path.join("shop.current.wasm")));
        std::fs::remove_file(path.join("shop.wasm")).expect("it is there");
        assert!(matches!(abort(path, "shop"), Err(RolloutError::NoNext(_))), "that would start it again");
        assert_eq!(std::fs::read_dir(path).expect("a directory").count(), 1, "no copy is left");
    }
}
