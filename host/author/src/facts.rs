//! The facts about an author's folder that determine the build plan, and the places where tools are searched for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::file::{BuildFile, PluginKind};

/// The maximum size of a go.mod.
const GO_MOD_BYTES_MAX: u64 = 16 << 20;

/// A folder, and the relevant facts about its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub folder: PathBuf,
    pub file: BuildFile,
    /// For C: the sources of the folder and of the SDK, relative to the folder.
    pub c_sources: Vec<String>,
    /// Whether there are Python packages beside the sources.
    pub has_packages: bool,
    /// Whether the folder's go.mod names a place of the SDK. Otherwise, a build provides the SDK.
    pub places_go_sdk: bool,
    /// Whether TypeScript is installed, so that types can be checked.
    pub has_typescript: bool,
}

impl Facts {
    /// Examines `folder`.
    pub(crate) fn of(folder: &Path, file: BuildFile) -> std::io::Result<Self> {
        let mut c_sources = Vec::new();
        for directory in [PathBuf::new(), file.sdk.clone(), file.sdk.join(file.kind.as_str())] {
            c_sources.extend(sources_in(folder, &directory)?);
        }
        Ok(Self {
            c_sources,
            has_packages: folder.join(super::language::PACKAGES).is_dir(),
            places_go_sdk: places_go_sdk(folder),
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

/// The C sources in `directory`, relative to `folder`, without tests. They are sorted, because their order determines
/// the order of the code in the component.
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

/// The directories named `name` in `folder` and its parents, nearest first. npm and Python search the parents too.
pub(crate) fn upwards(folder: &Path, name: &str) -> Vec<PathBuf> {
    folder.ancestors().map(|above| above.join(name)).filter(|path| path.is_dir()).collect()
}

/// Whether the go.mod of `folder` replaces the SDK by a folder. A missing go.mod should do so.
fn places_go_sdk(folder: &Path) -> bool {
    let text = windlass_files::read_text(&folder.join("go.mod"), GO_MOD_BYTES_MAX);
    let replaces = |line: &str| line.contains("windlass.dev/sdk") && line.contains("=>");
    text.map_or(true, |text| text.lines().any(replaces))
}

/// Whether the TypeScript compiler is installed for `folder`.
fn has_typescript(folder: &Path) -> bool {
    upwards(folder, "node_modules/.bin").iter().any(|bin| bin.join("tsc").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_go_mod_may_leave_the_place_of_the_sdk_to_the_build() {
        let folder = tempfile::tempdir().expect("a directory");
        assert!(places_go_sdk(folder.path()), "there is no go.mod yet");
        for (text, expected) in [
            ("module x\n\nrequire windlass.dev/sdk v0.0.0\n", false),
            ("module x\n\nreplace windlass.dev/sdk => ./sdk\n", true),
            ("module x\n\nreplace (\n\twindlass.dev/sdk v0.0.0 => ../sdk\n)\n", true),
        ] {
            std::fs::write(folder.path().join("go.mod"), text).expect("it is written");
            assert_eq!(places_go_sdk(folder.path()), expected, "{text}");
        }
    }

    #[test]
    fn c_sources_include_those_of_the_sdk_for_the_kind_of_plugin() {
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
        // C files in deeper folders are not listed, because other files include them.
        let sources = ["a.c", "b.c", "sdk/json.c", "sdk/reconciler/entry.c"].map(String::from);
        assert_eq!(facts.c_sources, sources);
    }
}
