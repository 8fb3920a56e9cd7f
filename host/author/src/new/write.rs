//! Writes a new folder. Existing files are not touched, and if writing fails, nothing is left behind.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::TemplateFile;

/// The reason why no new folder was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The folder contains files.
    #[error("{} already exists and is not empty: nothing was written. Name another folder with --dir, or empty it", .0.display())]
    NotEmpty(PathBuf),
    /// The path exists and is not a folder.
    #[error("{} already exists and is not a folder: nothing was written. Name another one with --dir", .0.display())]
    NoFolder(PathBuf),
    /// The folder cannot be written.
    #[error("cannot write {}: {source}. The files written so far were removed", path.display())]
    Unwritten { path: PathBuf, source: io::Error },
}

/// Writes `files` to `folder`, which must not exist or must be empty.
pub fn write(folder: &Path, files: &[TemplateFile]) -> Result<(), WriteError> {
    match fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
        Ok(false) => {}
        Ok(true) => return Err(WriteError::NotEmpty(folder.to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Err(WriteError::NoFolder(folder.to_owned())),
        Err(source) => return Err(WriteError::Unwritten { path: folder.to_owned(), source }),
    }
    let mut made = CreatedPaths::default();
    for TemplateFile { path, content } in files {
        let path = folder.join(path);
        if let Err(source) = made.file(&path, content) {
            made.take_away();
            return Err(WriteError::Unwritten { path, source });
        }
    }
    Ok(())
}

/// The files and folders created so far, in order.
#[derive(Default)]
struct CreatedPaths {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl CreatedPaths {
    fn file(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        self.files.push(path.to_owned());
        file.write_all(content)?;
        // A full disk may only be noticed here.
        file.sync_data()
    }

    fn folder(&mut self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        fs::create_dir(path)?;
        self.folders.push(path.to_owned());
        Ok(())
    }

    fn take_away(self) {
        for file in &self.files {
            // Ignore a failure: the error names the folder, so that the user can find the remaining files.
            let _ = fs::remove_file(file);
        }
        for folder in self.folders.iter().rev() {
            // This fails if the folder contains other files, and then the folder stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> TemplateFile {
        TemplateFile { path: path.into(), content: b"text".to_vec() }
    }

    #[test]
    fn a_folder_is_created_with_its_parents() {
        let at = tempfile::tempdir().expect("a directory");
        let folder = at.path().join("a/b/shop");
        write(&folder, &[file("windlass.yaml"), file("sdk/src/lib.rs")]).expect("it is written");
        assert_eq!(fs::read(folder.join("sdk/src/lib.rs")).expect("it is there"), b"text");
    }

    #[test]
    fn nothing_is_overwritten() {
        let at = tempfile::tempdir().expect("a directory");
        fs::write(at.path().join("mine"), "mine").expect("it is written");
        let error = write(at.path(), &[file("windlass.yaml")]).expect_err("it is not empty").to_string();
        assert!(error.contains("not empty") && error.contains("--dir"), "{error}");
        let error = write(&at.path().join("mine"), &[file("windlass.yaml")]).expect_err("a file").to_string();
        assert!(error.contains("is not a folder"), "{error}");
        assert_eq!(fs::read(at.path().join("mine")).expect("it is there"), b"mine");
        assert_eq!(fs::read_dir(at.path()).expect("it is there").count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let at = tempfile::tempdir().expect("a directory");
        let folder = at.path().join("new/shop");
        // A file in place of a folder makes writing fail, as a full disk would.
        let error = write(&folder, &[file("sdk"), file("sdk/lib.rs")]).expect_err("impossible");
        assert!(error.to_string().contains("were removed"), "{error}");
        assert_eq!(fs::read_dir(at.path()).expect("it is there").count(), 0);
    }
}
