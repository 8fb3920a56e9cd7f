//! The facts of an author's folder that a plan depends on, and where tools are looked for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::file::{BuildFile, PluginKind};

/// A folder, and what matters of what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub folder: PathBuf,
    pub file: BuildFile,
    /// Those of the folder itself and of the SDK, as C needs them, from the folder.
    pub c_sources: Vec<String>,
    /// There are packages of Python's beside the sources.
    pub has_packages: bool,
    /// TypeScript is installed, and so types can be checked.
    pub has_typescript: bool,
}

impl Facts {
    /// Looks into `folder`.
    pub(crate) fn of(folder: &Path, file: BuildFile) -> std::io::Result<Self> {
        let mut c_sources = Vec::new();
        for directory in [PathBuf::new(), file.sdk.clone(), file.sdk.join(file.kind.as_str())] {
            c_sources.extend(sources_in(folder, &directory)?);
        }
        Ok(Self {
            c_sources,
            has_packages: folder.join(super::language::PACKAGES).is_dir(),
            has_typescript: has_typescript(folder),
            folder: folder.to_owned(),
            file,
        })
    }

    pub(crate) fn sdk(&self) -> String {
        self.file.sdk.display().to_string()
    }

    pub(crate) fn kind(&self) -> PluginKind {
        self.file.kind
    }
}

/// The C sources of `directory`, as seen from `folder`, sorted: their order is that of the code in the component. Tests are none of a
/// plugin.
fn sources_in(folder: &Path, directory: &Path) -> std::io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder.join(directory)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = directory.join(entry?.file_name());
        if path.extension() == Some(OsStr::new("c")) && !is_test(&path) {
            found.push(path.display().to_string());
        }
    }
    found.sort();
    Ok(found)
}

fn is_test(path: &Path) -> bool {
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    stem.starts_with("test_") || stem.ends_with("_test")
}

/// The directories named `name` in `folder` and above it, the nearest first: npm and Python look upwards too.
pub(crate) fn upwards(folder: &Path, name: &str) -> Vec<PathBuf> {
    folder.ancestors().map(|above| above.join(name)).filter(|path| path.is_dir()).collect()
}

/// True if the TypeScript compiler is installed for `folder`.
fn has_typescript(folder: &Path) -> bool {
    upwards(folder, "node_modules/.bin").iter().any(|bin| bin.join("tsc").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_c_are_the_authors_and_those_of_the_sdk_for_this_kind_of_plugin() {
        let folder = tempfile::tempdir().expect("a directory");
        for file in [
            "b.c",
            "a.c",
            "a.h",
            "shop_test.c",
            "test_shop.c",
            "other/x.c",
            "sdk/json.c",
            "sdk/test_runner.c",
            "sdk/reconciler/entry.c",
            "sdk/reconciler/generated/wit.c",
            "sdk/composer/entry.c",
        ] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            std::fs::write(path, "").expect("it is written");
        }
        let file = super::super::file::parse(Path::new("f"), b"name: shop\nlanguage: c\n").expect("a build file");
        let facts = Facts::of(folder.path(), file).expect("it can be read");
        // What is deeper is included by what is not.
        let sources = ["a.c", "b.c", "sdk/json.c", "sdk/reconciler/entry.c"].map(String::from);
        assert_eq!(facts.c_sources, sources);
    }
}
