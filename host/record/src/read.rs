//! Reads recordings: a file, or all that are below a directory.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::document::{FORMAT, RecordedCall, RecordingHeader};

/// How a compressed file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The longest line that is taken: what a host writes is shorter, and a file of a stranger's need not be.
const LONGEST: u64 = 256 << 20;

/// Why a recording cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file or directory.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no recording there.
    #[error("{} has no recording: `windlass run --record DIR` writes them, as DIR/PLUGIN/*.jsonl.gz", path.display())]
    None {
        /// Where.
        path: PathBuf,
    },
    /// Something else.
    #[error("{} is no recording that this host knows: {reason}", path.display())]
    Other {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The contents of one file.
#[derive(Debug)]
pub struct Recording {
    /// The file.
    pub path: PathBuf,
    /// Its first line.
    pub header: RecordingHeader,
    /// Its calls.
    pub calls: Vec<RecordedCall>,
    /// Why what comes behind them was left out, such as a host that was killed while it wrote. None: nothing was.
    pub torn: Option<String>,
}

/// A recording of which not all was read.
#[derive(Debug)]
pub struct TornRecording {
    /// The file.
    pub path: PathBuf,
    /// How many of its calls were read.
    pub calls: usize,
    /// Why what comes behind them was left out.
    pub torn: String,
}

/// The recordings at `path`, in the order of their names.
pub fn read(path: &Path) -> Result<Vec<Recording>, ReadError> {
    let whole = |path: PathBuf| -> Result<Option<Recording>, ReadError> {
        let mut calls = Vec::new();
        let read = read_file(&path, &mut |call| calls.push(call))?;
        Ok(read.map(|(header, torn)| Recording { path, header, calls, torn }))
    };
    files(path)?.into_iter().filter_map(|file| whole(file).transpose()).collect()
}

/// Visits the calls of the recordings at `path`, file by file in the order of their names, and call by call: no more than one is in
/// memory. Answers which of the files were not read whole.
pub fn visit(path: &Path, mut each: impl FnMut(RecordedCall)) -> Result<Vec<TornRecording>, ReadError> {
    let mut torn_ones = Vec::new();
    for path in files(path)? {
        let mut calls = 0;
        let read = read_file(&path, &mut |call| {
            calls += 1;
            each(call);
        })?;
        if let Some((_, Some(torn))) = read {
            torn_ones.push(TornRecording { path, calls, torn });
        }
    }
    Ok(torn_ones)
}

/// The files of recordings at `path`, in the order of their names, which is that of time.
fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
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

/// Visits the calls of one file. Answers its first line, and why what comes behind the last call was left out. None: nothing is in it
/// yet, as when the host was killed as soon as it began.
fn read_file(
    path: &Path,
    each: &mut dyn FnMut(RecordedCall),
) -> Result<Option<(RecordingHeader, Option<String>)>, ReadError> {
    let failed = |source| ReadError::Io { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let is_compressed = file.fill_buf().map_err(failed)?.starts_with(&GZIP);
    let source: Box<dyn Read> = if is_compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut lines = RecordingLines { source: BufReader::new(source) };
    let other = |reason: String| ReadError::Other { path: path.to_owned(), reason };
    let header: RecordingHeader = match lines.next() {
        RecordingLine::Whole(line) => serde_json::from_str(&line)
            .map_err(|error| other(format!("its first line does not say that it is one ({error})")))?,
        RecordingLine::End | RecordingLine::Torn(_) => return Ok(None),
    };
    if header.format != FORMAT {
        return Err(other(format!("it has the format {}, and this host reads {FORMAT}", header.format)));
    }
    for number in 2_usize.. {
        let problem = match lines.next() {
            RecordingLine::End => break,
            RecordingLine::Torn(problem) => problem,
            RecordingLine::Whole(line) => match serde_json::from_str::<RecordedCall>(&line) {
                Ok(call) => {
                    each(call);
                    continue;
                }
                Err(error) => format!("line {number} is no call: {error}"),
            },
        };
        return Ok(Some((header, Some(problem))));
    }
    Ok(Some((header, None)))
}

enum RecordingLine {
    Whole(String),
    /// It has no end.
    Torn(String),
    End,
}

struct RecordingLines<R> {
    source: R,
}

impl<R: BufRead> RecordingLines<R> {
    fn next(&mut self) -> RecordingLine {
        let mut line = Vec::new();
        let read = (&mut self.source).take(LONGEST).read_until(b'\n', &mut line);
        match read {
            Ok(0) => RecordingLine::End,
            Ok(_) if line.last() == Some(&b'\n') => match String::from_utf8(line) {
                Ok(line) => RecordingLine::Whole(line),
                Err(error) => RecordingLine::Torn(format!("a line is no text: {error}")),
            },
            Ok(_) => RecordingLine::Torn("the last line has no end".to_owned()),
            Err(error) => RecordingLine::Torn(format!("the file ends in the middle ({error})")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::{Value, json};

    use super::*;

    /// All lines but the first ones, of all files in `directory`.
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
    fn what_a_host_that_was_killed_has_left_is_read_up_to_where_it_is_torn() {
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
    fn a_line_that_is_no_call_ends_what_is_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("x.jsonl");
        fs::write(&file, format!("{}\n{}\n{{\"half\n", header(), call("a"))).expect("written");
        let recordings = read(&file).expect("it is read");
        let mut visited = Vec::new();
        let torn = visit(directory.path(), |call| visited.push(call.request.name)).expect("it is read");
        assert_eq!((visited, torn[0].calls, &torn[0].path), (vec!["a".to_owned()], 1, &file));
        assert_eq!(recordings[0].calls.len(), 1);
        assert!(recordings[0].torn.as_ref().is_some_and(|torn| torn.starts_with("line 3 is no call")));
    }

    #[test]
    fn what_is_no_recording_is_refused_with_what_to_do() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = read(directory.path()).expect_err("it is empty").to_string();
        assert!(error.contains("windlass run --record"), "{error}");
        let file = directory.path().join("x.jsonl");
        fs::write(&file, "{\"format\":\"windlass.dev/recording/v9\",\"plugin\":\"a\",\"host\":\"\",\"redacted\":[]}\n")
            .expect("written");
        let error = read(&file).expect_err("of the future").to_string();
        assert!(error.contains("v9") && error.contains(FORMAT), "{error}");
        fs::write(&file, "apiVersion: v1\n").expect("written");
        assert!(read(&file).expect_err("YAML").to_string().contains("is no recording"));
        assert!(matches!(read(&directory.path().join("none")), Err(ReadError::Io { .. })));
    }
}
