//! Reads files that people write: regular ones only, and no more of them than somebody would write. Replaces a file in one
//! step.

use std::io::Read as _;
use std::path::Path;

/// The content of the file at `path`, if that is at most `most` bytes.
pub fn read_whole(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let problem = format!("it has more than {most} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

/// Opens a regular file.
pub fn open(path: &Path) -> std::io::Result<std::fs::File> {
    if !std::fs::metadata(path)?.is_file() {
        // To open a pipe or to read a device would wait for ever.
        return Err(std::io::Error::other("it is not a regular file"));
    }
    std::fs::File::open(path)
}

/// Writes the file at `path` in one step, as a host may be reading it.
pub fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().ok_or_else(|| std::io::Error::other("it names no file"))?.to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = std::fs::write(&new, content).and_then(|()| std::fs::rename(&new, path));
    written.inspect_err(|_| {
        // Do not leave half a file behind.
        let _ = std::fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_no_file_or_too_large_is_not_read_to_its_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.txt");
        std::fs::write(&path, "1234").expect("it can be written");
        assert_eq!(read_whole(&path, 4).expect("it fits"), b"1234");
        assert!(read_whole(&path, 3).is_err_and(|error| error.to_string().contains("more than 3 bytes")));
        for endless in ["/dev/zero", "/dev/null", "/"] {
            let error = read_whole(Path::new(endless), 4).expect_err(endless);
            assert!(error.to_string().contains("not a regular file"), "{error}");
        }
        let link = directory.path().join("link");
        symlink("/dev/zero", &link).expect("linked");
        assert!(read_whole(&link, 4).is_err());
    }
}
