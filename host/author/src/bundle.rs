//! The sources of a Python plugin as a script: a JSON object with the text of each file by its path. A folder whose
//! files are left out has null instead of a text: only a whole build can import modules from there.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use windlass_wasm::SCRIPT_BYTES_MAX;

use crate::sources::{NO_SOURCES, SOURCES_DEPTH_MAX};

/// The reason why sources cannot be a script.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} is not UTF-8", path.display())]
    NotText { path: PathBuf },
    #[error("the *.py files have more than {} MiB", SCRIPT_BYTES_MAX >> 20)]
    TooLarge,
}

/// The script that consists of the `*.py` files below `folder`. It leaves out the SDK in the folder `sdk`, and the
/// files of builds and virtual environments.
pub(crate) fn script(folder: &Path, sdk: &Path) -> Result<String, BundleError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| BundleError::Unreadable { path, source }
    };
    let sdk = folder.join(sdk).canonicalize().ok();
    let is_skipped = |path: &Path, name: &str| {
        NO_SOURCES.contains(&name)
            || path.join("pyvenv.cfg").exists()
            || sdk.is_some() && path.canonicalize().ok() == sdk
    };
    let (mut texts, mut left) = (BTreeMap::new(), SCRIPT_BYTES_MAX as u64);
    let FolderFiles { files, left_out } = files(folder, &is_skipped).map_err(unreadable(folder))?;
    for (path, it) in files {
        if path.extension() != Some(OsStr::new("py")) {
            continue;
        }
        left = left.checked_sub(it.len()).ok_or(BundleError::TooLarge)?;
        let text =
            windlass_files::read_whole(&folder.join(&path), SCRIPT_BYTES_MAX as u64).map_err(unreadable(&path))?;
        let text = String::from_utf8(text).map_err(|_| BundleError::NotText { path: path.clone() })?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        texts.insert(path.to_string_lossy().into_owned(), Some(text));
    }
    texts.extend(left_out.iter().map(|path| (path.to_string_lossy().into_owned(), None)));
    let script = serde_json::json!(texts).to_string();
    // The escapes of JSON count too.
    if script.len() > SCRIPT_BYTES_MAX { Err(BundleError::TooLarge) } else { Ok(script) }
}

/// The files in a folder, with relative paths.
#[derive(Default)]
pub(crate) struct FolderFiles {
    pub files: BTreeMap<PathBuf, Metadata>,
    /// The folders that were not read.
    pub left_out: Vec<PathBuf>,
}

/// The files below `folder`, without hidden ones. Folders for which `is_skipped` returns true are left out.
pub(crate) fn files(folder: &Path, is_skipped: &dyn Fn(&Path, &str) -> bool) -> std::io::Result<FolderFiles> {
    let mut found = FolderFiles::default();
    let mut folders = vec![(PathBuf::new(), 0)];
    while let Some((below, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder.join(&below))? {
            let name = entry?.file_name();
            let path = below.join(&name);
            // A link may lead nowhere.
            let (name, Ok(it)) = (name.to_string_lossy(), std::fs::metadata(folder.join(&path))) else { continue };
            if name.starts_with('.') {
                continue;
            }
            if !it.is_dir() {
                found.files.insert(path, it);
            } else if depth < SOURCES_DEPTH_MAX && !is_skipped(&folder.join(&path), &name) {
                folders.push((path, depth + 1));
            } else {
                found.left_out.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, path: &str, content: impl AsRef<[u8]>) {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        std::fs::write(path, content).expect("it is written");
    }

    #[test]
    fn a_script_has_the_plugins_own_modules() {
        let at = tempfile::tempdir().expect("a directory");
        for (path, text) in [
            ("app.py", "import shop.prices\n"),
            ("shop/prices.py", "\u{feff}EURO = \"€\"\n"),
            ("sdk/windlass/__init__.py", ""),
            ("packages/yaml.py", ""),
            ("shop/build/x.py", ""),
            ("venv/pyvenv.cfg", ""),
            ("venv/lib/site.py", ""),
            (".venv/lib/site.py", ""),
            ("__pycache__/app.py", ""),
            ("crd.yaml", ""),
        ] {
            put(at.path(), path, text);
        }
        let script = script(at.path(), Path::new("sdk")).expect("a script");
        let script: serde_json::Value = serde_json::from_str(&script).expect("JSON");
        let left_out = ["__pycache__", "packages", "sdk", "shop/build", "venv"];
        let mut expected = serde_json::json!({"app.py": "import shop.prices\n", "shop/prices.py": "EURO = \"€\"\n"});
        for folder in left_out {
            expected[folder] = serde_json::Value::Null;
        }
        assert_eq!(script, expected);
    }

    #[test]
    fn sources_that_cannot_be_a_script_are_named() {
        let at = tempfile::tempdir().expect("a directory");
        put(at.path(), "latin.py", b"# \xe9\n");
        let error = script(at.path(), Path::new("sdk")).expect_err("not text");
        assert_eq!(error.to_string(), "latin.py is not UTF-8");
        put(at.path(), "latin.py", "");
        // Each line end is two bytes in JSON.
        put(at.path(), "long.py", "\n".repeat(SCRIPT_BYTES_MAX / 2));
        let error = script(at.path(), Path::new("sdk")).expect_err("too large");
        assert_eq!(error.to_string(), "the *.py files have more than 4 MiB");
        put(at.path(), "long.py", "\n".repeat(SCRIPT_BYTES_MAX + 1));
        assert!(matches!(script(at.path(), Path::new("sdk")), Err(BundleError::TooLarge)));
    }
}
