//! Reads the folder of a project from an unknown author. Follows no links, and limits the number and the size of files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_files::read_text;

use crate::documents::{self, DocumentsError};

/// The maximum number of files in a project, not counting those in skipped folders.
const PROJECT_FILES_MAX: usize = 20_000;
/// The maximum depth of folders.
const PROJECT_DEPTH_MAX: usize = 24;
/// The maximum size of one Go file. Generated ones are the largest.
const GO_FILE_BYTES_MAX: u64 = 4 << 20;
/// The maximum size of all Go files.
const GO_SOURCES_BYTES_MAX: usize = 64 << 20;
/// The maximum size of go.mod and go.sum.
const MODULE_FILE_BYTES_MAX: u64 = 8 << 20;
/// Folders without sources of the project. Go ignores `testdata`, and builds `vendor` as other modules.
const SKIPPED: [&str; 4] = ["vendor", "testdata", "node_modules", "bin"];

/// The reason why a project cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("no folder {}: {source}", path.display())]
    NoFolder { path: PathBuf, source: std::io::Error },
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error(
        "{} has more than {PROJECT_FILES_MAX} files: name the folder of one project, which has its go.mod",
        .0.display()
    )]
    TooManyFiles(PathBuf),
    #[error("the Go files below {} have more than {} MiB in all", .0.display(), GO_SOURCES_BYTES_MAX >> 20)]
    TooMuchGo(PathBuf),
    #[error("there is no go.mod in {}: name the folder of a Go project", .0.display())]
    NoModule(PathBuf),
    #[error(transparent)]
    Documents(#[from] DocumentsError),
}

/// A file or folder that was not read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub path: String,
    pub why: &'static str,
}

/// A Go file. Its path is relative to the project.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct GoFile {
    pub path: String,
    pub text: String,
}

/// The regular files of a project.
#[derive(Debug)]
pub(super) struct ProjectFolder {
    pub root: PathBuf,
    /// Paths relative to the root, with `/`.
    files: BTreeSet<String>,
    pub left_out: Vec<LeftOut>,
}

impl ProjectFolder {
    /// Lists the files of the project in `root`.
    pub(super) fn list(root: &Path) -> Result<Self, FolderError> {
        let no_folder = |source| FolderError::NoFolder { path: root.to_owned(), source };
        let root = root.canonicalize().map_err(no_folder)?;
        let mut folder = Self { root, files: BTreeSet::new(), left_out: vec![] };
        folder.gather("", 0)?;
        if !folder.has("go.mod") {
            return Err(FolderError::NoModule(folder.root));
        }
        Ok(folder)
    }

    fn gather(&mut self, below: &str, depth: usize) -> Result<(), FolderError> {
        let path = self.root.join(below);
        let unreadable = |source| FolderError::Unreadable { path: path.clone(), source };
        let mut entries: Vec<_> =
            fs::read_dir(&path).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type().map_err(unreadable)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                self.leave_out(&format!("{below}{}", name.display()), "its name is not UTF-8");
                continue;
            };
            let path = format!("{below}{name}");
            if kind.is_symlink() {
                self.leave_out(&path, "it is a link");
            } else if kind.is_dir() {
                self.enter(&path, name, depth)?;
            } else if kind.is_file() {
                self.files.insert(path);
                if self.files.len() > PROJECT_FILES_MAX {
                    return Err(FolderError::TooManyFiles(self.root.clone()));
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, path: &str, name: &str, depth: usize) -> Result<(), FolderError> {
        if name.starts_with(['.', '_']) || SKIPPED.contains(&name) {
            return Ok(());
        }
        if self.root.join(path).join("go.mod").exists() {
            // An earlier `windlass import` has made a folder with this file.
            if !self.root.join(path).join(crate::file::NAME).exists() {
                self.leave_out(path, "it is another Go module");
            }
            return Ok(());
        }
        if depth >= PROJECT_DEPTH_MAX {
            self.leave_out(path, "it is nested too deeply");
            return Ok(());
        }
        self.gather(&format!("{path}/"), depth + 1)
    }

    fn leave_out(&mut self, path: &str, why: &'static str) {
        self.left_out.push(LeftOut { path: path.to_owned(), why });
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contains(path)
    }

    /// The YAML files below `folder`, which ends with `/`. Kustomize's own files are left out.
    pub(super) fn yaml(&self, folder: &str) -> Vec<String> {
        let is_yaml = |path: &&String| {
            let name = path.rsplit('/').next().unwrap_or_default();
            path.starts_with(folder)
                && (has_extension(name, "yaml") || has_extension(name, "yml"))
                && !name.starts_with("kustomiz")
        };
        self.files.iter().filter(is_yaml).cloned().collect()
    }

    /// The objects of a YAML file.
    pub(super) fn documents(&self, path: &str) -> Result<Vec<Value>, FolderError> {
        Ok(documents::read(&self.root.join(path))?)
    }

    /// The content of go.mod or go.sum. Empty if it does not exist.
    pub(super) fn module_file(&self, path: &str) -> Result<String, FolderError> {
        if !self.has(path) {
            return Ok(String::new());
        }
        let path = self.root.join(path);
        read_text(&path, MODULE_FILE_BYTES_MAX).map_err(|source| FolderError::Unreadable { path, source })
    }

    /// The text of a file of an earlier import. Empty if it cannot be read.
    pub(super) fn earlier(&self, folder: &str, name: &str) -> String {
        read_text(&self.root.join(folder).join(name), MODULE_FILE_BYTES_MAX).unwrap_or_default()
    }

    /// The text of a YAML file, whose objects have been read before.
    pub(super) fn text(&self, path: &str) -> Result<String, FolderError> {
        let path = self.root.join(path);
        read_text(&path, documents::DOCUMENTS_BYTES_MAX).map_err(|source| FolderError::Unreadable { path, source })
    }

    /// The Go files without tests.
    pub(super) fn go_files(&mut self) -> Result<Vec<GoFile>, FolderError> {
        let is_source = |path: &&String| has_extension(path, "go") && !path.ends_with("_test.go");
        let paths: Vec<String> = self.files.iter().filter(is_source).cloned().collect();
        let (mut found, mut bytes) = (Vec::new(), 0);
        for path in paths {
            let file = self.root.join(&path);
            match read_text(&file, GO_FILE_BYTES_MAX) {
                Ok(text) => {
                    bytes += text.len();
                    found.push(GoFile { path, text });
                }
                Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                    self.leave_out(&path, "it has more than 4 MiB");
                }
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    self.leave_out(&path, "it is not UTF-8");
                }
                Err(source) => return Err(FolderError::Unreadable { path: file, source }),
            }
            if bytes > GO_SOURCES_BYTES_MAX {
                return Err(FolderError::TooMuchGo(self.root.clone()));
            }
        }
        Ok(found)
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|it| it == extension)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn put(at: &Path, path: &str, text: &str) {
        let path = at.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        fs::write(path, text).expect("it is written");
    }

    #[test]
    fn links_and_other_modules_are_left_out() {
        let at = tempfile::tempdir().expect("a directory");
        let other = tempfile::tempdir().expect("a directory");
        put(other.path(), "secret.go", "package secret");
        put(at.path(), "go.mod", "module example.com/shop\n");
        put(at.path(), "api/v1/shop.go", "package v1");
        put(at.path(), "api/v1/shop_test.go", "package v1");
        put(at.path(), "tools/go.mod", "module example.com/tools\n");
        put(at.path(), "tools/main.go", "package main");
        put(at.path(), "vendor/a/a.go", "package a");
        put(at.path(), ".git/hooks/a.go", "package a");
        symlink(other.path(), at.path().join("internal")).expect("linked");
        symlink(other.path().join("secret.go"), at.path().join("secret.go")).expect("linked");
        let mut folder = ProjectFolder::list(at.path()).expect("it is read");
        let paths: Vec<_> = folder.go_files().expect("they are read").into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["api/v1/shop.go"]);
        let left_out: Vec<_> = folder.left_out.iter().map(|it| (&*it.path, it.why)).collect();
        let expected =
            [("internal", "it is a link"), ("secret.go", "it is a link"), ("tools", "it is another Go module")];
        assert_eq!(left_out, expected);
    }

    #[test]
    fn a_huge_go_file_is_left_out_and_reported() {
        let at = tempfile::tempdir().expect("a directory");
        put(at.path(), "go.mod", "module example.com/shop\n");
        let huge = fs::File::create(at.path().join("huge.go")).expect("it is made");
        huge.set_len(GO_FILE_BYTES_MAX + 1).expect("it is sparse");
        fs::write(at.path().join("latin.go"), b"package a // \xe9").expect("it is written");
        let mut folder = ProjectFolder::list(at.path()).expect("it is read");
        assert!(folder.go_files().expect("they are read").is_empty());
        let left_out: Vec<_> = folder.left_out.iter().map(|it| (&*it.path, it.why)).collect();
        assert_eq!(left_out, [("huge.go", "it has more than 4 MiB"), ("latin.go", "it is not UTF-8")]);
    }

    #[test]
    fn a_folder_that_is_no_go_project_is_refused() {
        let at = tempfile::tempdir().expect("a directory");
        let error = ProjectFolder::list(at.path()).expect_err("no go.mod").to_string();
        assert!(error.contains("no go.mod"), "{error}");
        let error = ProjectFolder::list(&at.path().join("none")).expect_err("no folder").to_string();
        assert!(error.starts_with("no folder"), "{error}");
    }
}
