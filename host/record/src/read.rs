//! Reads recordings from a file, or from all files below a directory. Only one call is in memory at a time. A line may
//! not exceed [`RecordingBounds`], however small it is when compressed, because the file may come from an untrusted
//! source.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Take};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::document::{FORMAT, RecordedCall, RecordingHeader};
use crate::json::{DOCUMENT_VALUES_MAX, values};

/// The first bytes of a compressed file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The limits for reading a file and for writing a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordingBounds {
    /// The size of a file, compressed and uncompressed, in bytes.
    file: u64,
    /// The size of a line, in bytes.
    line: u64,
    /// The number of JSON values in a line. Short values take much more memory than their bytes.
    values: usize,
}

impl RecordingBounds {
    /// The limits that a host's own files stay within: a host captures at most 32 MiB of a call, mostly text, and
    /// starts a new file once the compressed file has 32 MiB.
    pub(crate) const OF_HOSTS: Self = Self { file: 8 << 30, line: 128 << 20, values: DOCUMENT_VALUES_MAX };

    /// Whether a line, without its line end, may be written.
    pub(crate) fn allow(&self, line: &str) -> bool {
        (line.len() as u64) < self.line && values(line.as_bytes()) <= self.values
    }
}

/// The reason why a recording cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// There is no recording.
    #[error("{} has no recording: `windlass run --record DIR` writes recordings to DIR/PLUGIN/*.jsonl.gz", path.display())]
    None { path: PathBuf },
    #[error("{} is not a recording that this host can read: {reason}", path.display())]
    Other { path: PathBuf, reason: String },
}

#[derive(Debug)]
pub struct Recording {
    pub path: PathBuf,
    pub header: RecordingHeader,
    pub calls: Vec<RecordedCall>,
    /// The reason why the rest of the file was left out, for example because the host was killed while it wrote. `None`
    /// if nothing was left out.
    pub torn: Option<String>,
}

/// A recording that was not read completely.
#[derive(Debug)]
pub struct TornRecording {
    pub path: PathBuf,
    /// The number of calls that were read.
    pub calls: usize,
    /// The reason why the rest of the file was left out.
    pub torn: String,
}

/// Reads the recordings at `path`, sorted by name. This keeps all calls in memory; [`visit`] keeps only one.
pub fn read(path: &Path) -> Result<Vec<Recording>, ReadError> {
    let mut recordings = Vec::new();
    for path in files(path)? {
        let Some(mut reader) = RecordingReader::open(&path)? else { continue };
        let calls = reader.by_ref().collect();
        let RecordingReader { header, torn, .. } = reader;
        recordings.push(Recording { path, header, calls, torn });
    }
    Ok(recordings)
}

/// Visits the calls of the recordings at `path` one by one, with the files sorted by name. Only one call is in memory
/// at a time. Returns the files that were not read completely.
pub fn visit(path: &Path, mut each: impl FnMut(RecordedCall)) -> Result<Vec<TornRecording>, ReadError> {
    let mut torn_ones = Vec::new();
    for path in files(path)? {
        let Some(mut reader) = RecordingReader::open(&path)? else { continue };
        let mut calls = 0;
        for call in reader.by_ref() {
            calls += 1;
            each(call);
        }
        torn_ones.extend(reader.torn.map(|torn| TornRecording { path, calls, torn }));
    }
    Ok(torn_ones)
}

/// The files of recordings at `path`, sorted by name and thus by time.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = Vec::new();
    if path.is_dir() {
        find(path, &mut files, 3)?;
        files.sort_by_key(|file| file.file_name().map(ToOwned::to_owned));
    } else {
        files.push(path.to_owned());
    }
    if files.is_empty() {
        return Err(ReadError::None { path: path.to_owned() });
    }
    Ok(files)
}

fn find(directory: &Path, files: &mut Vec<PathBuf>, depth: usize) -> Result<(), ReadError> {
    let failed = |source| ReadError::Io { path: directory.to_owned(), source };
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.to_string_lossy();
        if path.is_dir() && depth > 0 {
            find(&path, files, depth - 1)?;
        } else if name.ends_with(crate::segments::SUFFIX) || name.ends_with(".jsonl") {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads one file, call by call.
pub struct RecordingReader {
    header: RecordingHeader,
    lines: RecordingLines,
    /// The reason why the rest after the last call was left out.
    torn: Option<String>,
}

impl RecordingReader {
    /// Opens the regular file at `path`. `None` if it is still empty, for example because the host was killed right
    /// after creating it.
    pub fn open(path: &Path) -> Result<Option<Self>, ReadError> {
        Self::open_within(path, RecordingBounds::OF_HOSTS)
    }

    fn open_within(path: &Path, bounds: RecordingBounds) -> Result<Option<Self>, ReadError> {
        let failed = |source| ReadError::Io { path: path.to_owned(), source };
        let file = windlass_files::open(path).map_err(failed)?;
        let mut file = BufReader::new(file.take(bounds.file));
        let is_compressed = file.fill_buf().map_err(failed)?.starts_with(&GZIP);
        let source: Box<dyn Read> = if is_compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        let mut lines = RecordingLines { source: BufReader::new(source).take(bounds.file), number: 0, bounds };
        let other = |reason: String| ReadError::Other { path: path.to_owned(), reason };
        let header: RecordingHeader = match lines.next() {
            RecordingLine::Whole(line) => serde_json::from_str(&line)
                .map_err(|error| other(format!("its first line is not the header of a recording ({error})")))?,
            RecordingLine::TooLarge(problem) => return Err(other(problem)),
            RecordingLine::End | RecordingLine::Torn(_) => return Ok(None),
        };
        if header.format != FORMAT {
            return Err(other(format!("its format is {}, but this host reads {FORMAT}", header.format)));
        }
        Ok(Some(Self { header, lines, torn: None }))
    }

    #[must_use]
    pub fn header(&self) -> &RecordingHeader {
        &self.header
    }

    /// The reason why the rest after the last call was left out, for example because the host was killed while it
    /// wrote. `None` if nothing was left out, or if there are calls left to read.
    #[must_use]
    pub fn torn(&self) -> Option<&str> {
        self.torn.as_deref()
    }
}

impl Iterator for RecordingReader {
    type Item = RecordedCall;

    fn next(&mut self) -> Option<RecordedCall> {
        if self.torn.is_some() {
            return None;
        }
        let problem = match self.lines.next() {
            RecordingLine::End => return None,
            RecordingLine::Torn(problem) | RecordingLine::TooLarge(problem) => problem,
            RecordingLine::Whole(line) => match serde_json::from_str::<RecordedCall>(&line) {
                Ok(call) => return Some(call),
                Err(error) => format!("line {} is not a call: {error}", self.lines.number),
            },
        };
        self.torn = Some(problem);
        None
    }
}

enum RecordingLine {
    Whole(String),
    /// The line is incomplete.
    Torn(String),
    /// The line is larger than any line that a host writes.
    TooLarge(String),
    End,
}

struct RecordingLines {
    source: Take<BufReader<Box<dyn Read>>>,
    /// The number of the last line, counted from 1.
    number: usize,
    bounds: RecordingBounds,
}

impl RecordingLines {
    fn next(&mut self) -> RecordingLine {
        self.number += 1;
        let (number, RecordingBounds { file, line: longest, values: most }) = (self.number, self.bounds);
        let mut line = Vec::new();
        match (&mut self.source).take(longest).read_until(b'\n', &mut line) {
            Err(error) => RecordingLine::Torn(format!("the file ends in the middle of a call ({error})")),
            _ if line.last() != Some(&b'\n') && self.source.limit() == 0 => RecordingLine::TooLarge(format!(
                "it has more than {file} bytes, compressed or uncompressed, which is more than any host writes"
            )),
            Ok(0) => RecordingLine::End,
            Ok(read) if line.last() != Some(&b'\n') && read as u64 == longest => RecordingLine::TooLarge(format!(
                "line {number} has more than {longest} bytes, which is more than any host writes"
            )),
            Ok(_) if line.last() != Some(&b'\n') => RecordingLine::Torn("the last line is incomplete".to_owned()),
            Ok(_) if values(&line) > most => RecordingLine::TooLarge(format!(
                "line {number} has more than {most} values, which is more than any host writes"
            )),
            Ok(_) => match String::from_utf8(line) {
                Ok(line) => RecordingLine::Whole(line),
                Err(error) => RecordingLine::Torn(format!("a line is not UTF-8: {error}")),
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::{Value, json};

    use super::*;

    /// All lines except the first ones, of all files in `directory`.
    pub(crate) fn lines(directory: &Path) -> Vec<String> {
        let mut files: Vec<_> =
            fs::read_dir(directory).expect("it is there").map(|it| it.expect("a file").path()).collect();
        files.sort();
        let texts = files.into_iter().map(|file| {
            let mut text = String::new();
            MultiGzDecoder::new(File::open(file).expect("a file")).read_to_string(&mut text).expect("a whole file");
            text
        });
        texts.flat_map(|text| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    pub(crate) fn header() -> Value {
        json!({"format": FORMAT, "plugin": "shop", "host": "0", "redacted": []})
    }

    pub(crate) fn call(name: &str) -> Value {
        json!({
            "component": {"plugin": "shop", "digest": "0", "interface": "0.2.0", "file": "shop.wasm"},
            "export": "reconcile", "began": "2026-11-26T02:00:00Z",
            "request": {
                "controller": "c", "apiVersion": "v1", "kind": "ConfigMap", "name": name, "deleting": false,
                "attempt": 0, "traceId": "0", "triggers": [], "config": "{}",
            },
            "surroundings": {}, "imports": [], "result": {"done": true}, "used": {"cpuUs": 1, "wallUs": 2},
        })
    }

    fn compressed(lines: &[String]) -> Vec<u8> {
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        for line in lines {
            writeln!(file, "{line}").expect("written");
            file.flush().expect("flushed");
        }
        file.finish().expect("finished")
    }

    #[test]
    fn the_file_of_a_killed_host_is_read_up_to_its_torn_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let whole = compressed(&[header().to_string(), call("a").to_string(), call("b").to_string()]);
        let file = directory.path().join("x.jsonl.gz");
        for cut in [1, 9, 20, 40] {
            fs::write(&file, &whole[..whole.len() - cut]).expect("written");
            let recordings = read(directory.path()).expect("it is read");
            let names: Vec<_> = recordings[0].calls.iter().map(|call| &*call.request.name).collect();
            assert!(recordings[0].torn.is_some() && names.first() == Some(&"a"), "{cut}: {recordings:?}");
        }
        fs::write(&file, &whole).expect("written");
        let recordings = read(&file).expect("it is read");
        assert_eq!((recordings[0].calls.len(), &recordings[0].torn), (2, &None));
    }

    #[test]
    fn an_invalid_line_ends_the_recording() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("x.jsonl");
        fs::write(&file, format!("{}\n{}\n{{\"half\n", header(), call("a"))).expect("written");
        let recordings = read(&file).expect("it is read");
        let mut visited = Vec::new();
        let torn = visit(directory.path(), |call| visited.push(call.request.name)).expect("it is read");
        assert_eq!((visited, torn[0].calls, &torn[0].path), (vec!["a".to_owned()], 1, &file));
        assert_eq!(recordings[0].calls.len(), 1);
        assert!(recordings[0].torn.as_ref().is_some_and(|torn| torn.starts_with("line 3 is not a call")));
    }

    #[test]
    fn other_files_are_refused_with_advice() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = read(directory.path()).expect_err("it is empty").to_string();
        assert!(error.contains("windlass run --record"), "{error}");
        let file = directory.path().join("x.jsonl");
        fs::write(&file, "{\"format\":\"windlass.dev/recording/v9\",\"plugin\":\"a\",\"host\":\"\",\"redacted\":[]}\n")
            .expect("written");
        let error = read(&file).expect_err("of the future").to_string();
        assert!(error.contains("v9") && error.contains(FORMAT), "{error}");
        fs::write(&file, "apiVersion: v1\n").expect("written");
        assert!(read(&file).expect_err("YAML").to_string().contains("is not a recording"));
        assert!(matches!(read(&directory.path().join("none")), Err(ReadError::Io { .. })));
    }

    fn read_within(file: &Path, bounds: RecordingBounds) -> (usize, Option<String>) {
        let mut reader = RecordingReader::open_within(file, bounds).expect("a recording").expect("it has a header");
        (reader.by_ref().count(), reader.torn)
    }

    #[test]
    fn a_file_that_decompresses_to_too_much_is_not_read_to_its_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("x.jsonl.gz");
        let small = RecordingBounds { file: 1 << 20, line: 1 << 16, values: 1_000 };
        let long = "a".repeat(1 << 18);
        let many = format!("[{}1]", "1,".repeat(2_000));
        let calls = vec![call("a").to_string(); 1 << 14];
        for (lines, why) in [
            (vec![long], "line 3 has more than 65536 bytes"),
            (vec![many], "line 3 has more than 1000 values"),
            (calls, "it has more than 1048576 bytes"),
        ] {
            let lines: Vec<_> = [header().to_string(), call("first").to_string()].into_iter().chain(lines).collect();
            let mut packed = GzEncoder::new(Vec::new(), Compression::best());
            packed.write_all((lines.join("\n") + "\n").as_bytes()).expect("packed");
            let packed = packed.finish().expect("packed");
            assert!(packed.len() < 64 << 10, "{}", packed.len());
            fs::write(&file, packed).expect("written");
            let (calls, torn) = read_within(&file, small);
            assert!((1..1 << 14).contains(&calls), "{calls}");
            assert!(torn.as_ref().is_some_and(|torn| torn.contains(why)), "{torn:?}");
        }
    }

    #[test]
    fn written_recordings_can_be_read() {
        let bounds = RecordingBounds { file: 1 << 20, line: 10, values: 3 };
        assert!(bounds.allow("123456789") && !bounds.allow("1234567890"));
        assert!(bounds.allow("[1,2]") && !bounds.allow("[1,2,3]"));
    }

    #[test]
    fn a_pipe_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = directory.path().join("x.jsonl");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .expect("a pipe");
        for path in [&*pipe, directory.path()] {
            let error = read(path).expect_err("a pipe").to_string();
            assert!(error.contains("x.jsonl") && error.contains("a named pipe"), "{error}");
        }
    }
}
