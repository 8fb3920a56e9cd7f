//! The files of one plugin's recording. They are compressed and rotated by size, and their total size is limited.
//!
//! The names have the form `DIR/PLUGIN/20261126T020305Z-1f2e3d4c-0001.jsonl.gz`: the start time, the process, and the
//! number of the file. Several hosts may therefore record into one directory, and sorting files by name sorts them by
//! time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;

/// The suffix of recordings.
pub(crate) const SUFFIX: &str = ".jsonl.gz";
/// The minimum number of files that share a plugin's limit. The oldest file is deleted first.
const SEGMENTS_MIN: u64 = 8;
/// The size at which a file is closed, in bytes. Only the last call may exceed it.
const SEGMENT_BYTES_MAX: u64 = 32 << 20;

/// Writes the files of one plugin.
pub(crate) struct Segments {
    directory: PathBuf,
    /// The maximum total size of the plugin's files, in bytes.
    limit: u64,
    /// An identifier of the process, with eight hexadecimal digits.
    process: String,
    number: u32,
    /// The first line of each file.
    header: String,
    open: Option<Segment>,
    /// Whether everything that was added has been passed to the operating system.
    is_flushed: bool,
}

struct Segment {
    path: PathBuf,
    file: GzEncoder<CountedFile>,
}

/// A file and its size.
struct CountedFile {
    file: File,
    bytes: u64,
}

impl Write for CountedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Segments {
    /// Creates the writer. `directory` is created with the first call.
    pub(crate) fn new(directory: PathBuf, limit: u64, process: u32, header: String) -> Self {
        Self { directory, limit, process: format!("{process:08x}"), number: 0, header, open: None, is_flushed: true }
    }

    /// Adds one call that was recorded at the time `at`. `line` has no line end.
    pub(crate) fn add(&mut self, line: &str, at: Timestamp) -> io::Result<()> {
        let largest = (self.limit / SEGMENTS_MIN).min(SEGMENT_BYTES_MAX);
        if self.open.as_ref().is_some_and(|open| open.file.get_ref().bytes >= largest) {
            self.close()?;
        }
        // The file may have been deleted to free disk space.
        self.open = self.open.take().filter(|open| open.path.exists());
        if self.open.is_none() {
            self.open = Some(self.begin(at)?);
        }
        self.is_flushed = false;
        let Some(open) = &mut self.open else { unreachable!("it was begun") };
        writeln!(open.file, "{line}")
    }

    /// Passes all added data to the operating system, and then deletes the oldest files until the total is within the
    /// limit.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(open) = self.open.as_mut().filter(|_| !self.is_flushed) else { return Ok(()) };
        open.file.flush()?;
        self.is_flushed = true;
        let path = open.path.clone();
        delete_oldest(&self.directory, self.limit, Some(&path))
    }

    pub(crate) fn close(&mut self) -> io::Result<()> {
        let Some(Segment { file, .. }) = self.open.take() else { return Ok(()) };
        file.finish()?.flush()?;
        delete_oldest(&self.directory, self.limit, None)
    }

    fn begin(&mut self, at: Timestamp) -> io::Result<Segment> {
        make_directory(&self.directory)?;
        delete_oldest(&self.directory, self.limit, None)?;
        self.number += 1;
        let name = format!("{}-{}-{:04}{SUFFIX}", at.strftime("%Y%m%dT%H%M%SZ"), self.process, self.number);
        let path = self.directory.join(name);
        let file = create(&path)?;
        let mut file = GzEncoder::new(CountedFile { file, bytes: 0 }, Compression::fast());
        writeln!(file, "{}", self.header)?;
        Ok(Segment { path, file })
    }
}

/// Creates a directory and its missing parents, accessible only to its owner.
fn make_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Creates a file that only its owner may read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Deletes the oldest recordings in `directory` until they have at most `limit` bytes in total. The file `open` is
/// kept.
fn delete_oldest(directory: &Path, limit: u64, open: Option<&Path>) -> io::Result<()> {
    let mut files = Vec::new();
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(SUFFIX) {
            // Another host that records here may have deleted the file.
            let size = fs::symlink_metadata(&path).map_or(0, |it| it.len());
            files.push((path, size));
        }
    }
    files.sort();
    let mut all: u64 = files.iter().map(|(_, size)| size).sum();
    for (path, size) in files {
        if all <= limit {
            break;
        }
        if Some(path.as_path()) == open {
            continue;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => all -= size,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).expect("a time")
    }

    fn line(number: u64) -> String {
        let numbers = (0..200_u64).map(|step| (number * 1000 + step).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        numbers.map(|number| format!("{number:016x}")).collect::<Vec<_>>().concat()
    }

    fn sizes(directory: &Path) -> Vec<u64> {
        let files = fs::read_dir(directory).expect("it is there").map(|entry| entry.expect("a file"));
        files.map(|it| it.metadata().expect("metadata").len()).collect()
    }

    #[test]
    fn the_files_stay_within_the_limit_and_keep_the_newest_calls() {
        let root = tempfile::tempdir().expect("a directory");
        let directory = root.path().join("shop");
        let limit = 64 << 10;
        let mut segments = Segments::new(directory.clone(), limit, 7, "{}".to_owned());
        for number in 0..200 {
            segments.add(&line(number), at(i64::try_from(number).expect("few"))).expect("added");
            segments.flush().expect("flushed");
            let all: u64 = sizes(&directory).iter().sum();
            assert!(all <= limit, "{all} bytes after {number}");
        }
        segments.close().expect("closed");
        assert!(sizes(&directory).len() > 3, "{:?}", sizes(&directory));
        let calls = crate::read::tests::lines(&directory);
        assert_eq!(calls.last(), Some(&line(199)));
        assert!(!calls.contains(&line(0)));
    }

    #[test]
    fn two_processes_write_different_files_and_share_the_limit() {
        let root = tempfile::tempdir().expect("a directory");
        let limit = 64 << 10;
        let mut all = [1, 2].map(|process| Segments::new(root.path().to_owned(), limit, process, "{}".to_owned()));
        for number in 0..100 {
            for segments in &mut all {
                segments.add(&line(number), at(0)).expect("added");
                segments.flush().expect("flushed");
            }
        }
        assert!(sizes(root.path()).iter().sum::<u64>() <= 2 * limit);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_a_recording() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().expect("a directory");
        let directory = root.path().join("a/b");
        let mut segments = Segments::new(directory.clone(), 1 << 20, 7, "{}".to_owned());
        segments.add("{}", at(0)).expect("added");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        let file = fs::read_dir(&directory).expect("it is there").next().expect("one").expect("a file").path();
        assert_eq!((mode(&directory), mode(&file)), (0o700, 0o600));
    }

    #[test]
    fn a_directory_that_cannot_be_created_is_an_error() {
        let root = tempfile::tempdir().expect("a directory");
        let file = root.path().join("file");
        fs::write(&file, "").expect("written");
        let mut segments = Segments::new(file.join("below"), 1 << 20, 7, "{}".to_owned());
        assert!(segments.add("{}", at(0)).is_err());
    }
}
