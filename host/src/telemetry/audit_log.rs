//! The audit log: a separate file with a JSON line for each mutation, whatever `--log-level` shows of them.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use tracing_subscriber::fmt::MakeWriter;

/// The target of the audit log's lines.
pub(super) const TARGET: &str = "windlass::audit";

/// The file of the audit log. If a line cannot be written, it is lost and the loss is logged; the host goes on.
#[derive(Clone)]
pub(super) struct AuditLog {
    path: Arc<Path>,
    lines: Arc<Mutex<AuditLines<File>>>,
}

impl AuditLog {
    /// Appends lines to the file at `path`, which is created if necessary, for this user only.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let is_pipe = std::fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo());
        // Opening a pipe would block until it has a reader.
        ensure!(!is_pipe, "the audit log {} (--audit-log) is a pipe: it must be a file", path.display());
        let file = appended(path).with_context(|| {
            let path = path.display();
            format!(
                "cannot open the audit log {path} (--audit-log): is its directory there, and may this user write it?"
            )
        })?;
        Ok(Self { path: path.into(), lines: Arc::new(Mutex::new(AuditLines::to(file))) })
    }
}

fn appended(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
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
        let news = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.follow(&self.path);
            lines.append(line)
        };
        let file = self.path.display();
        // Report without holding the lock, because this writes to the ordinary log.
        match news {
            None => {}
            Some(News::Fails(error)) => tracing::error!(
                %file, %error, "the audit log cannot be written: lines are lost until that works again; is the disk full?"
            ),
            Some(News::Goes { lost }) => {
                tracing::warn!(%file, lost, "the audit log works again: lines of the time before are missing");
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A change of the file's state to report.
#[derive(Debug)]
enum News {
    Fails(io::Error),
    Goes { lost: u64 },
}

/// The destination of the lines.
struct AuditLines<W> {
    file: W,
    /// Number of lines that could not be written since the last written one.
    lost: u64,
    /// True if the last line may be incomplete.
    is_torn: bool,
}

impl<W: Write> AuditLines<W> {
    fn to(file: W) -> Self {
        Self { file, lost: 0, is_torn: false }
    }

    fn append(&mut self, line: &[u8]) -> Option<News> {
        // End an incomplete line, so that the new line begins on a line of its own.
        let torn: &[u8] = if self.is_torn { b"\n" } else { b"" };
        if let Err(error) = self.file.write_all(&[torn, line].concat()) {
            let is_first = self.lost == 0;
            (self.lost, self.is_torn) = (self.lost + 1, true);
            return is_first.then_some(News::Fails(error));
        }
        self.is_torn = false;
        let lost = std::mem::take(&mut self.lost);
        (lost > 0).then_some(News::Goes { lost })
    }
}

impl AuditLines<File> {
    /// Continues in a new file if the old one was moved or removed, as log rotation does.
    fn follow(&mut self, path: &Path) {
        let identity = |it: Metadata| (it.dev(), it.ino());
        let there = std::fs::metadata(path).map(identity);
        if there.ok() == self.file.metadata().map(identity).ok() {
            return;
        }
        // If the new file cannot be created, the old one still takes lines.
        if let Ok(file) = appended(path) {
            (self.file, self.is_torn) = (file, false);
        }
    }
}

#[cfg(test)]
mod tests;
