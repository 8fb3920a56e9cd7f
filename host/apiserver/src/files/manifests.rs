//! Applies the manifests in a folder, in the order of their dependencies.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::object::{self, text};
use crate::request::{Target, WriteOptions, yaml};
use crate::resources::crd;
use crate::storage::state::State;
use crate::verbs::{create, patch};

/// The field manager for loaded objects.
const MANAGER: &str = "windlass-load";
/// The largest file of manifests, in bytes.
const MANIFESTS_BYTES_MAX: u64 = 256 << 20;
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// The reason why no manifest was loaded: one error is enough to load none.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or folder cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A file is not valid YAML.
    #[error("{path} is not valid YAML: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        message: String,
    },
    /// A document is not an object that this server accepts.
    #[error("{path}, document {document}: {message}")]
    Object {
        /// The file.
        path: PathBuf,
        /// The number of the document in the file, from 1.
        document: usize,
        /// The error that a client would have got.
        message: String,
    },
}

/// One document, with its file and number.
struct Manifest {
    path: PathBuf,
    document: usize,
    object: Value,
}

/// Applies all manifests in a folder and its subfolders, or in one file. Returns the number of objects.
pub(crate) fn load(state: &mut State, path: &Path) -> Result<usize, LoadError> {
    let mut manifests = Vec::new();
    for path in files(path)? {
        manifests.extend(documents(&path)?);
    }
    // The sort is stable: within a stage, manifests stay in the order of file names and documents.
    manifests.sort_by_key(|manifest| stage(&manifest.object));
    let before = state.clone();
    for manifest in &manifests {
        if let Err(message) = apply(state, &manifest.object) {
            *state = before;
            return Err(LoadError::Object { path: manifest.path.clone(), document: manifest.document, message });
        }
    }
    Ok(manifests.len())
}

fn files(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let unreadable = |source| LoadError::Read { path: path.to_owned(), source };
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(unreadable)?.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let is_manifest = path.extension().and_then(|it| it.to_str()).is_some_and(|it| EXTENSIONS.contains(&it));
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if is_manifest {
            found.push(path);
        }
    }
    Ok(found)
}

/// The objects in a file. All items of a list have the number of the list's document.
fn documents(path: &Path) -> Result<Vec<Manifest>, LoadError> {
    let unreadable = |source| LoadError::Read { path: path.to_owned(), source };
    let content = windlass_files::read_argument_text(path, MANIFESTS_BYTES_MAX).map_err(unreadable)?;
    let documents =
        yaml::all(&content).map_err(|error| LoadError::Syntax { path: path.to_owned(), message: error.to_string() })?;
    let mut manifests = Vec::new();
    for (index, object) in documents.into_iter().enumerate().filter(|(_, object)| !object.is_null()) {
        let document = index + 1;
        let manifest = |object| Manifest { path: path.to_owned(), document, object };
        let is_list = text(&object, "/kind").ends_with("List") && object["items"].is_array();
        if is_list {
            manifests.extend(object::items(&object, "/items").iter().cloned().map(manifest));
        } else {
            manifests.push(manifest(object));
        }
    }
    Ok(manifests)
}

/// The stage in which an object is loaded: first namespaces, then definitions, then all other objects.
fn stage(object: &Value) -> u8 {
    match text(object, "/kind") {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        _ => 2,
    }
}

fn apply(state: &mut State, object: &Value) -> Result<(), String> {
    let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    if api_version.is_empty() || kind.is_empty() {
        return Err("it has no apiVersion or no kind".to_owned());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(resource) = state.registry.find_kind(group, version, kind).cloned() else {
        return Err(format!("no resource of this server has the kind {kind} in {api_version}"));
    };
    let namespace = match object::namespace(object) {
        _ if !resource.namespaced => None,
        "" => Some("default".to_owned()),
        given => Some(given.to_owned()),
    };
    let name = Some(object::name(object)).filter(|name| !name.is_empty()).map(str::to_owned);
    let options = WriteOptions::of_applying_component(MANAGER);
    let target = Target { resource: Arc::clone(&resource), namespace, name, subresource: None };
    let written = if target.name.is_some() {
        patch::apply(state, &target, &options, object.clone())
    } else {
        create::create(state, &target, &options, object.clone())
    };
    let written = written.map_err(|error| error.to_string())?;
    if crd::is_definition(&resource.id) && !crd::is_established(&written.object) {
        return Err("the definition's names are taken by another one".to_owned());
    }
    Ok(())
}
