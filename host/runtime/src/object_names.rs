//! The names of plugins that belong to objects of the cluster, not to files of the operator (ADR 48).
//!
//! Each follower of files asks here which directory counts for a plugin: the operator's, or the one that the host
//! writes for objects. So a policy file of the operator never applies to an object, nor the reverse.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The names, and the directory of their files. Clones share them. Without objects, no name belongs to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectNames(Option<Arc<ObjectNamesInner>>);

#[derive(Debug)]
struct ObjectNamesInner {
    directory: PathBuf,
    /// For each name, the SHA-256 of the files that may run, in hexadecimal.
    names: RwLock<BTreeMap<String, BTreeSet<String>>>,
}

impl ObjectNames {
    /// `names` belong to objects, whose files are in `directory`. Of each name, the files with these digests may run.
    pub(crate) fn new(directory: &Path, names: BTreeMap<String, BTreeSet<String>>) -> Self {
        Self(Some(Arc::new(ObjectNamesInner { directory: directory.to_owned(), names: RwLock::new(names) })))
    }

    /// Whether `plugin` belongs to an object.
    pub(crate) fn belongs(&self, plugin: &str) -> bool {
        let Some(inner) = &self.0 else { return false };
        inner.names.read().unwrap_or_else(PoisonError::into_inner).contains_key(plugin)
    }

    /// Whether the file with this digest may run for `plugin`, which may have another one by now. The operator's files
    /// always may.
    pub(crate) fn may_run(&self, plugin: &str, digest: &str) -> bool {
        let Some(inner) = &self.0 else { return true };
        let names = inner.names.read().unwrap_or_else(PoisonError::into_inner);
        names.get(plugin).is_none_or(|digests| digests.contains(digest))
    }

    /// Makes `plugin` belong to an object, of which the files with these `digests` may run. Change files only after
    /// this, so that each follower that sees the files knows to whom they belong.
    pub(crate) fn claim(&self, plugin: &str, digests: BTreeSet<String>) {
        let Some(inner) = &self.0 else { return };
        inner.names.write().unwrap_or_else(PoisonError::into_inner).insert(plugin.to_owned(), digests);
    }

    /// Makes `plugin` belong to files again.
    pub(crate) fn release(&self, plugin: &str) {
        let Some(inner) = &self.0 else { return };
        inner.names.write().unwrap_or_else(PoisonError::into_inner).remove(plugin);
    }

    /// The directories of files: the operator's, and that of objects if there are any.
    pub(crate) fn with(&self, operators: &Path) -> Vec<PathBuf> {
        let of_objects = self.0.as_ref().map(|inner| inner.directory.clone());
        [operators.to_owned()].into_iter().chain(of_objects).collect()
    }

    /// Whether `file` is in the directory of objects.
    pub(crate) fn has(&self, file: &Path) -> bool {
        self.0.as_ref().is_some_and(|inner| file.parent() == Some(&*inner.directory))
    }

    /// Whether `file`, which is one of `plugin`, is in the directory that counts for the plugin.
    pub(crate) fn admit(&self, file: &Path, plugin: &str) -> bool {
        self.has(file) == self.belongs(plugin)
    }

    /// The directory that counts for `plugin`: the operator's, or that of objects.
    pub(crate) fn directory_of<'a>(&'a self, plugin: &str, operators: &'a Path) -> &'a Path {
        match &self.0 {
            Some(inner) if self.belongs(plugin) => &inner.directory,
            _ => operators,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_directory_counts_for_each_plugin() {
        let names = ObjectNames::new(Path::new("/objects"), [("shop".to_owned(), BTreeSet::new())].into());
        let admitted = |plugin: &str| {
            ["/plugins", "/objects"].map(|directory| names.admit(&Path::new(directory).join("a.wasm"), plugin))
        };
        assert_eq!((admitted("shop"), admitted("api")), ([false, true], [true, false]));
        names.claim("api", ["aa".to_owned()].into());
        names.release("shop");
        assert_eq!((admitted("shop"), admitted("api")), ([true, false], [false, true]));
        assert_eq!(names.directory_of("api", Path::new("/plugins")), Path::new("/objects"));
    }

    #[test]
    fn of_an_object_only_listed_files_may_run() {
        let names = ObjectNames::new(Path::new("/objects"), BTreeMap::new());
        assert!(names.may_run("api", "aa"), "it belongs to files");
        names.claim("api", ["aa".to_owned()].into());
        assert!(names.may_run("api", "aa") && !names.may_run("api", "bb"));
    }

    #[test]
    fn without_objects_only_the_operators_directory_counts() {
        let names = ObjectNames::default();
        names.claim("shop", BTreeSet::new());
        assert!(names.may_run("shop", "aa"));
        assert!(names.admit(Path::new("/plugins/shop.wasm"), "shop"));
        assert_eq!(names.with(Path::new("/plugins")), [Path::new("/plugins")]);
    }
}
