//! Reads the YAML files with objects in an author's folder. `objects` applies them; `build`, `inspect` and `grant` look
//! up kinds in the CRDs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_files::read_whole;

use super::file;

/// The file that defines the plugin's kind.
pub const CRD: &str = "crd.yaml";
/// The maximum size of a file. Files that people write are far smaller.
pub(crate) const DOCUMENTS_BYTES_MAX: u64 = 4 << 20;

/// The reason why the objects of a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentsError {
    /// The file exists but cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The file is not valid YAML.
    #[error("{}: {message}", path.display())]
    Malformed {
        path: PathBuf,
        /// The problem and its position.
        message: String,
    },
}

/// All objects of `file`. Empty if the file does not exist.
pub(crate) fn read(file: &Path) -> Result<Vec<Value>, DocumentsError> {
    let bytes = match read_whole(file, DOCUMENTS_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        Err(source) => return Err(DocumentsError::Unreadable { path: file.to_owned(), source }),
    };
    parse(file, &bytes)
}

/// All objects of a YAML text. `path` is used in messages.
pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Vec<Value>, DocumentsError> {
    let malformed = |message: String| DocumentsError::Malformed { path: path.to_owned(), message };
    let text = std::str::from_utf8(text).map_err(|error| malformed(error.to_string()))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
        malformed(error.without_snippet().to_string().split_whitespace().collect::<Vec<_>>().join(" "))
    })?;
    Ok(documents.into_iter().filter(|object| !object.is_null()).collect())
}

/// The CRDs in the `crd.yaml` of `folder`. Empty if there is no such file.
pub fn definitions(folder: &Path) -> Result<Vec<Value>, DocumentsError> {
    read(&folder.join(CRD)).map(only_definitions)
}

/// The CRDs in `file`, which must exist.
pub fn definitions_in(file: &Path) -> Result<Vec<Value>, DocumentsError> {
    std::fs::metadata(file).map_err(|source| DocumentsError::Unreadable { path: file.to_owned(), source })?;
    read(file).map(only_definitions)
}

fn only_definitions(mut objects: Vec<Value>) -> Vec<Value> {
    objects.retain(is_definition);
    objects
}

/// Whether the object is a CRD.
pub(crate) fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// The CRDs beside the file `plugin`. If the plugin is in its author's `build/` folder, the CRDs of the author's
/// folder.
pub fn definitions_of(plugin: &Path) -> Result<Vec<Value>, DocumentsError> {
    let plugin = plugin.canonicalize().unwrap_or_else(|_| plugin.to_owned());
    match (authors_folder(&plugin), plugin.parent()) {
        (Some(folder), _) => definitions(&folder),
        (None, Some(beside)) => definitions(beside),
        (None, None) => Ok(vec![]),
    }
}

/// The author's folder, if `plugin` is in its `build/`. `None` if it is elsewhere.
#[must_use]
pub fn authors_folder(plugin: &Path) -> Option<PathBuf> {
    let plugin = plugin.canonicalize().ok()?;
    let built = plugin.parent().filter(|built| built.ends_with("build"))?;
    Some(built.parent().filter(|folder| folder.join(file::NAME).exists())?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "kind: CustomResourceDefinition\nmetadata: {name: a}\n---\nkind: ConfigMap\n---\n";

    #[test]
    fn the_crds_of_a_built_plugin_are_in_its_authors_folder() {
        let folder = tempfile::tempdir().expect("a directory");
        let (build, plugin) = (folder.path().join("build"), folder.path().join("build/shop.wasm"));
        std::fs::create_dir(&build).expect("it is made");
        std::fs::write(folder.path().join(CRD), FILE).expect("it is written");
        std::fs::write(&plugin, "").expect("it is written");
        let names = || -> Vec<_> {
            let definitions = definitions_of(&plugin).expect("it can be read");
            definitions.iter().map(|it| it["metadata"]["name"].clone()).collect()
        };
        assert!(names().is_empty(), "a directory above that is no author's");
        std::fs::write(folder.path().join(file::NAME), "").expect("it is written");
        assert_eq!(names(), ["a"]);
        std::fs::remove_file(folder.path().join(file::NAME)).expect("it was there");
        std::fs::write(build.join(CRD), FILE.replace("name: a", "name: b")).expect("it is written");
        assert_eq!(names(), ["b"]);
    }

    #[test]
    fn a_yaml_error_is_reported_with_its_place() {
        let folder = tempfile::tempdir().expect("a directory");
        assert!(definitions(folder.path()).expect("there is none").is_empty());
        std::fs::write(folder.path().join(CRD), "kind: [a\nb: c\n").expect("it is written");
        let error = definitions(folder.path()).expect_err("broken").to_string();
        assert!(error.contains(CRD) && error.contains("line 2"), "{error}");
    }
}
