//! The audit log: a file of its own for lines about mutations, as JSON, whatever `--log-level` shows of them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tracing_subscriber::fmt::MakeWriter;

/// The lines of the audit log.
pub(super) const TARGET: &str = "windlass::audit";

/// The file. A line that cannot be written is lost, and that is told: the host goes on, as nobody reads a log of what it did not do.
#[derive(Clone)]
pub(super) struct AuditLog(Arc<Mutex<AuditFile>>);

struct AuditFile<W = File> {
    path: PathBuf,
    file: W,
    /// The lines that could not be written since one could.
    lost: u64,
    /// The last line may be there in part.
    is_torn: bool,
}

impl AuditLog {
    /// Lines are appended to the file at `path`, which is made if it is not there, for this user alone.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).with_context(|| {
            format!(
                "cannot open the audit log {} (--audit-log): is its directory there, and may this user write it?",
                path.display()
            )
        })?;
        let file = AuditFile { path: path.to_owned(), file, lost: 0, is_torn: false };
        Ok(Self(Arc::new(Mutex::new(file))))
    }
}

impl<'a> MakeWriter<'a> for AuditLog {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// One write is one line.
impl Write for AuditLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let news = self.0.lock().unwrap_or_else(PoisonError::into_inner).append(line);
        // With nothing locked: this is written to the other log.
        match news {
            None => {}
            Some(News::Fails { path, error }) => tracing::error!(
                file = %path.display(), %error,
                "the audit log cannot be written: its lines are lost until it can; is the disk full?"
            ),
            Some(News::Goes { path, lost }) => {
                tracing::warn!(file = %path.display(), lost, "the audit log can be written again: lines are missing");
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What people are to hear of the file.
#[derive(Debug)]
enum News {
    Fails { path: PathBuf, error: io::Error },
    Goes { path: PathBuf, lost: u64 },
}

impl<W: Write> AuditFile<W> {
    fn append(&mut self, line: &[u8]) -> Option<News> {
        // What is left of a torn line stays on a line of its own.
        let torn: &[u8] = if self.is_torn { b"\n" } else { b"" };
        if let Err(error) = self.file.write_all(&[torn, line].concat()) {
            let is_first = self.lost == 0;
            (self.lost, self.is_torn) = (self.lost + 1, true);
            return is_first.then(|| News::Fails { path: self.path.clone(), error });
        }
        self.is_torn = false;
        let lost = std::mem::take(&mut self.lost);
        (lost > 0).then(|| News::Goes { path: self.path.clone(), lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file on a disk that has so much space.
    struct Disk {
        written: Vec<u8>,
        space: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.space);
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.extend(&bytes[..fits]);
            self.space -= fits;
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_once_and_no_line_is_mixed_with_another() {
        let disk = Disk { written: vec![], space: 6 };
        let mut log = AuditFile { path: "audit.log".into(), file: disk, lost: 0, is_torn: false };
        assert!(log.append(b"one\n").is_none());
        let Some(News::Fails { error, .. }) = log.append(b"two\n") else { panic!("it is told") };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(log.append(b"three\n").is_none(), "not again");
        log.file.space = 100;
        assert!(matches!(log.append(b"four\n"), Some(News::Goes { lost: 2, .. })));
        assert!(log.append(b"five\n").is_none());
        assert_eq!(String::from_utf8_lossy(&log.file.written), "one\ntw\nfour\nfive\n");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = AuditLog::open(Path::new("/nowhere/audit.log")).err().expect("there is no such directory");
        assert!(error.to_string().contains("/nowhere/audit.log (--audit-log)"), "{error}");
    }
}
