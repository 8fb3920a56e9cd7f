//! Which plugins a directory holds.

use std::path::{Path, PathBuf};

/// Why a directory of plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectoryError {
    /// It cannot be read.
    #[error("cannot read the plugin directory {}; name one with --plugins", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It holds nothing to run.
    #[error("no plugin in {}: put a component there, as NAME.wasm, and start again", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
}

/// The `.wasm` files of `directory`, sorted by name. Hidden files are left out, as editors and copies in progress make
/// them; so are directories. A link to nowhere is kept: loading it fails, and says so.
pub(crate) fn plugins(directory: &Path) -> Result<Vec<PathBuf>, DirectoryError> {
    let unreadable = |source| DirectoryError::Unreadable { path: directory.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && path.extension().is_some_and(|extension| extension == "wasm") && !path.is_dir() {
            found.push(path);
        }
    }
    if found.is_empty() {
        return Err(DirectoryError::Empty { path: directory.to_owned() });
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visible_wasm_files_are_plugins() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for name in ["b.wasm", "a.wasm", ".c.wasm", "README.md"] {
            std::fs::write(directory.path().join(name), b"").expect("written");
        }
        std::fs::create_dir(directory.path().join("d.wasm")).expect("made");
        let found = plugins(directory.path()).expect("readable");
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["a.wasm", "b.wasm"]);
    }

    #[test]
    fn a_link_to_nowhere_is_not_passed_over_in_silence() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let link = directory.path().join("a.wasm");
        std::os::unix::fs::symlink("/nowhere/at/all.wasm", &link).expect("linked");
        assert_eq!(plugins(directory.path()).expect("readable"), [link]);
    }

    #[test]
    fn an_empty_directory_says_what_to_put_there() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let error = plugins(directory.path()).expect_err("nothing in it");
        assert!(error.to_string().contains("NAME.wasm"), "{error}");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = plugins(Path::new("/nowhere/at/all")).expect_err("missing");
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}
