//! The documents of a plugin that are pushed with it, and written where a plugin is pulled.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use windlass_author::documents::{CRD, authors_folder};
use windlass_files::{read_text, replace};
use windlass_oci::{Documents, PUBLISHED_DOCUMENTS_BYTES_MAX};
use windlass_runtime::POLICY_SUFFIX;

const README: &str = "README.md";
/// The endings of a bill of materials beside a plugin: of `CycloneDX`, and of SPDX.
const SBOM_SUFFIXES: [&str; 2] = [".cdx.json", ".spdx.json"];

/// The definitions, the README and the bill of materials of the plugin `name` in the file `plugin`. They are in its
/// author's folder, or beside the plugin; a README there would be the one of another plugin.
pub(crate) fn beside(plugin: &Path, name: &str) -> anyhow::Result<Documents> {
    let authors = authors_folder(plugin);
    let folder = authors.clone().or_else(|| Some(plugin.parent()?.to_owned())).unwrap_or_default();
    let readme = authors.map(|folder| text(&folder.join(README))).transpose()?.flatten();
    let mut documents = Documents { definitions: text(&folder.join(CRD))?, readme, ..Documents::default() };
    for suffix in SBOM_SUFFIXES {
        documents.sbom = documents.sbom.or(text(&folder.join(format!("{name}{suffix}")))?);
    }
    Ok(documents)
}

/// The text of the file. `None` if there is none.
fn text(path: &Path) -> anyhow::Result<Option<String>> {
    match read_text(path, PUBLISHED_DOCUMENTS_BYTES_MAX as u64) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot push {} with the plugin", path.display())),
    }
}

/// Checks that the documents are small enough to be pushed.
pub(crate) fn check_size(documents: &Documents) -> anyhow::Result<()> {
    let Documents { manifest, policy, definitions, readme, sbom } = documents;
    let texts = [policy, definitions, readme, sbom].into_iter().flatten().map(String::len);
    let bytes = manifest.to_string().len() + texts.sum::<usize>();
    ensure!(
        bytes <= PUBLISHED_DOCUMENTS_BYTES_MAX,
        "manifest, policy, crd.yaml, README and bill of materials have {} MiB together: at most {} MiB can be pushed with \
         a plugin; shorten or move the largest",
        bytes >> 20,
        PUBLISHED_DOCUMENTS_BYTES_MAX >> 20
    );
    Ok(())
}

/// Writes the documents into `folder`, and returns the names of the files. A file that is there already is an error,
/// because it may be the user's own.
pub(crate) fn write(folder: &Path, name: &str, documents: &Documents) -> anyhow::Result<Vec<String>> {
    let Documents { manifest: _, policy, definitions, readme, sbom } = documents;
    let of_sbom = sbom
        .as_ref()
        .map_or("", |text| if text.contains("\"spdxVersion\"") { SBOM_SUFFIXES[1] } else { SBOM_SUFFIXES[0] });
    let files: Vec<(String, &String)> = [
        (format!("{name}{POLICY_SUFFIX}"), policy),
        (CRD.to_owned(), definitions),
        (README.to_owned(), readme),
        (format!("{name}{of_sbom}"), sbom),
    ]
    .into_iter()
    .filter_map(|(file, text)| Some((file, text.as_ref()?)))
    .collect();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let paths: Vec<PathBuf> = files.iter().map(|(file, _)| folder.join(file)).collect();
    if let Some(there) = paths.iter().find(|path| path.exists()) {
        bail!("{} exists already: name another directory for the documents, or remove it", there.display());
    }
    for ((_, text), path) in files.iter().zip(&paths) {
        replace(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(files.into_iter().map(|(file, _)| file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_come_from_the_authors_folder_and_are_written_once() {
        let folder = tempfile::tempdir().expect("a directory");
        let plugin = folder.path().join("build/shop.wasm");
        std::fs::create_dir(folder.path().join("build")).expect("made");
        for (file, text) in [("windlass.yaml", ""), (CRD, "kind: A\n"), (README, "# Shop\n"), ("shop.cdx.json", "{}")] {
            std::fs::write(folder.path().join(file), text).expect("written");
        }
        std::fs::write(&plugin, "").expect("written");
        let found = beside(&plugin, "shop").expect("they can be read");
        let texts = |it: &Documents| (it.definitions.clone(), it.readme.clone(), it.sbom.clone());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(texts(&found), (some("kind: A\n"), some("# Shop\n"), some("{}")));

        let to = folder.path().join("out");
        let written = write(&to, "shop", &found).expect("the folder is new");
        assert_eq!(written, [CRD, README, "shop.cdx.json"]);
        assert_eq!(std::fs::read_to_string(to.join(CRD)).expect("it is there"), "kind: A\n");
        assert!(write(&to, "shop", &found).is_err_and(|error| error.to_string().contains("exists already")));

        std::fs::remove_file(folder.path().join("windlass.yaml")).expect("it was there");
        assert_eq!(texts(&beside(&plugin, "shop").expect("none")), (None, None, None), "the folder is no author's");
    }

    #[test]
    fn documents_that_are_too_large_are_refused_with_the_limit() {
        let documents = Documents { readme: Some("x".repeat(PUBLISHED_DOCUMENTS_BYTES_MAX)), ..Documents::default() };
        assert!(check_size(&documents).is_err_and(|error| error.to_string().contains("at most 4 MiB")));
        assert!(check_size(&Documents::default()).is_ok());
    }
}
