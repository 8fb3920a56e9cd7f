//! Reads files that people name: only regular files, and only up to a limit. Replaces a file in one step.
//!
//! Opening a named pipe waits until a process writes to it, and a device may have no end. Both are refused with a
//! reason. Links are followed, because the kubelet mounts files as links. The kind of a file is checked before it is
//! opened, because opening some devices has an effect, and again afterwards, because the file may have been replaced in
//! between.

#[cfg(feature = "follow")]
mod follow;

use std::fs::{File, FileType, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

#[cfg(feature = "follow")]
pub use crate::follow::DirectoryWatcher;

/// Why an existing file is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {0} and not a regular file: write its content to a file and use the path of that file")]
struct IrregularFile(&'static str);

/// Whether `error` says that a file is not a regular file.
#[must_use]
pub fn is_irregular(error: &Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<IrregularFile>)
}

/// The pipes that are accepted instead of a regular file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pipes {
    Refused,
    /// Pipes that this process has open: `/dev/stdin`, and `/dev/fd/63`, which a shell passes for `<(…)`.
    OwnOnes,
}

/// Opens the regular file at `path`, without ever waiting.
pub fn open(path: &Path) -> Result<File> {
    open_with(path, Pipes::Refused)
}

/// Opens a file that a command reads once: a regular file, or a pipe that the shell has given to the command, such as
/// `/dev/stdin` or `<(…)`. The reader should limit how much it reads.
pub fn open_argument(path: &Path) -> Result<File> {
    open_with(path, Pipes::OwnOnes)
}

/// The content of the regular file at `path`, if it has at most `most` bytes.
pub fn read_whole(path: &Path, most: u64) -> Result<Vec<u8>> {
    read(open(path)?, most)
}

/// The content of a file that a command reads once, opened by [`open_argument`].
pub fn read_argument(path: &Path, most: u64) -> Result<Vec<u8>> {
    read(open_argument(path)?, most)
}

/// As [`read_whole`], for text.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    text(read_whole(path, most)?)
}

/// As [`read_argument`], for text.
pub fn read_argument_text(path: &Path, most: u64) -> Result<String> {
    text(read_argument(path, most)?)
}

/// Checks that `path` may be passed to a library that opens the file itself and reads all of it.
pub fn check_argument(path: &Path, most: u64) -> Result<()> {
    let metadata = std::fs::metadata(path)?;
    judge(path, metadata.file_type(), Pipes::OwnOnes)?;
    if metadata.len() > most { Err(too_large(most)) } else { Ok(()) }
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

fn read(file: File, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large(most)) } else { Ok(bytes) }
}

fn too_large(most: u64) -> Error {
    let problem = format!("it has more than {most} bytes, the limit for such a file: check that it is the right file");
    Error::new(ErrorKind::FileTooLarge, problem)
}

fn open_with(path: &Path, pipes: Pipes) -> Result<File> {
    judge(path, std::fs::metadata(path)?.file_type(), pipes)?;
    let file = OpenOptions::new().read(true).custom_flags(without_waiting()).open(path)?;
    let opened = file.metadata()?.file_type();
    judge(path, opened, pipes)?;
    if !opened.is_file() {
        // Reads from the pipe should wait for its content.
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    }
    Ok(file)
}

fn without_waiting() -> i32 {
    (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed()
}

fn judge(path: &Path, it: FileType, pipes: Pipes) -> Result<()> {
    if it.is_file() || (it.is_fifo() && pipes == Pipes::OwnOnes && is_own(path)) {
        return Ok(());
    }
    let what = if it.is_dir() {
        "a directory"
    } else if it.is_fifo() {
        "a named pipe"
    } else if it.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(Error::other(IrregularFile(what)))
}

/// Whether `path` names a file that this process has open.
fn is_own(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Writes the file at `path` in one step, because a host may be reading it.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let name = path.file_name().ok_or_else(|| Error::other("the path names no file"))?.to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = std::fs::write(&new, content).and_then(|()| std::fs::rename(&new, path));
    written.inspect_err(|_| {
        // Do not leave an incomplete file behind.
        let _ = std::fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType as Kind, Mode, mknodat};

    use super::*;

    /// A named pipe that no process writes to.
    fn pipe(directory: &Path) -> PathBuf {
        let path = directory.join("pipe");
        mknodat(CWD, &path, Kind::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        path
    }

    fn refused(path: &Path) -> String {
        let error = open(path).expect_err("it is no regular file");
        assert!(is_irregular(&error), "{error}");
        assert_eq!(open_argument(path).expect_err("the same").to_string(), error.to_string());
        assert_eq!(check_argument(path, 4).expect_err("the same").to_string(), error.to_string());
        error.to_string()
    }

    #[test]
    fn a_file_that_is_not_regular_is_refused_with_its_kind() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).expect("a socket");
        let link = directory.path().join("link");
        symlink("/dev/zero", &link).expect("linked");
        for (path, what) in [
            (pipe(directory.path()), "a named pipe"),
            (socket, "a socket"),
            (link, "a device"),
            ("/dev/null".into(), "a device"),
            ("/".into(), "a directory"),
        ] {
            let error = refused(&path);
            assert!(error.contains(what) && error.contains("not a regular file"), "{error}");
        }
        assert!(!is_irregular(&open(&directory.path().join("none")).expect_err("it is not there")));
    }

    #[test]
    fn a_pipe_that_replaced_a_file_is_not_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let opened = OpenOptions::new().read(true).custom_flags(without_waiting()).open(pipe(directory.path()));
        let opened = opened.expect("at once").metadata().expect("metadata").file_type();
        assert!(judge(Path::new("a"), opened, Pipes::OwnOnes).is_err_and(|error| is_irregular(&error)));
    }

    #[test]
    fn a_file_is_read_only_up_to_the_limit() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.txt");
        std::fs::write(&path, "1234").expect("it can be written");
        let link = directory.path().join("link");
        symlink(&path, &link).expect("linked");
        assert_eq!(read_whole(&link, 4).expect("it fits"), b"1234");
        assert_eq!(read_text(&path, 4).expect("it fits"), "1234");
        let error = read_whole(&path, 3).expect_err("it does not fit");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("more than 3 bytes"), "{error}");
        assert!(check_argument(&path, 4).is_ok() && check_argument(&path, 3).is_err());
    }

    #[test]
    fn a_shell_pipe_as_an_argument_is_read_to_its_end_within_the_limit() {
        let (from, mut to) = std::io::pipe().expect("a pipe");
        let path = PathBuf::from(format!("/dev/fd/{}", from.as_raw_fd()));
        assert!(open(&path).is_err_and(|error| is_irregular(&error)));
        let reading = path.clone();
        // The reader waits for content.
        let reader = std::thread::spawn(move || read_argument_text(&reading, 4));
        to.write_all(b"1234").expect("written");
        drop(to);
        assert_eq!(reader.join().expect("no panic").expect("read"), "1234");
        let (from, mut to) = std::io::pipe().expect("a pipe");
        to.write_all(b"12345").expect("written");
        let path = PathBuf::from(format!("/dev/fd/{}", from.as_raw_fd()));
        assert!(read_argument(&path, 4).is_err_and(|error| error.kind() == ErrorKind::FileTooLarge));
    }
}
