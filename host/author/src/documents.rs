//! Reads the YAML files of an author's folder that hold objects. `objects` applies them; `build`, `inspect` and `grant`
//! learn from the definitions what the author's kinds are called.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_files::read_whole;

use super::file;

/// The file of a folder that defines the plugin's kind.
pub(crate) const CRD: &str = "crd.yaml";
/// More than anyone writes.
const DOCUMENTS_BYTES_MAX: u64 = 4 << 20;

/// Why the objects of a file are not known.
#[derive(Debug, thiserror::Error)]
pub enum DocumentsError {
    /// The file is there and cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// It is no YAML.
    #[error("{}: {message}", path.display())]
    Malformed {
        path: PathBuf,
        /// The problem, and its place.
        message: String,
    },
}

/// All objects of `file`. Empty: there is no such file.
pub(crate) fn read(file: &Path) -> Result<Vec<Value>, DocumentsError> {
    let bytes = match read_whole(file, DOCUMENTS_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        Err(source) => return Err(DocumentsError::Unreadable { path: file.to_owned(), source }),
    };
    let malformed = |message: String| DocumentsError::Malformed { path: file.to_owned(), message };
    let text = String::from_utf8(bytes).map_err(|error| malformed(error.to_string()))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| {
        malformed(error.without_snippet().to_string().split_whitespace().collect::<Vec<_>>().join(" "))
    })?;
    Ok(documents.into_iter().filter(|object| !object.is_null()).collect())
}

/// The definitions of custom resources in the `crd.yaml` of `folder`. Empty: there is no such file.
pub fn definitions(folder: &Path) -> Result<Vec<Value>, DocumentsError> {
    let mut objects = read(&folder.join(CRD))?;
    objects.retain(|object| object["kind"] == "CustomResourceDefinition");
    Ok(objects)
}

/// The definitions beside the file of a `plugin`, or, of a plugin in its author's `build/`, those of the author's folder.
pub fn definitions_of(plugin: &Path) -> Result<Vec<Value>, DocumentsError> {
    let plugin = plugin.canonicalize().unwrap_or_else(|_| plugin.to_owned());
    match (authors_folder(&plugin), plugin.parent()) {
        (Some(folder), _) => definitions(&folder),
        (None, Some(beside)) => definitions(beside),
        (None, None) => Ok(vec![]),
    }
}

/// The folder of the author of a `plugin` that is in its `build/`. None: it is elsewhere.
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
    fn the_definitions_of_a_built_plugin_are_those_of_its_authors_folder() {
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
    fn a_file_that_is_no_yaml_says_where() {
        let folder = tempfile::tempdir().expect("a directory");
        assert!(definitions(folder.path()).expect("there is none").is_empty());
        std::fs::write(folder.path().join(CRD), "kind: [a\nb: c\n").expect("it is written");
        let said = definitions(folder.path()).expect_err("broken").to_string();
        assert!(said.contains(CRD) && said.contains("line 2"), "{said}");
    }
}
