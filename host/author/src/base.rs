//! The base of a Python plugin: a component with the interpreter, the SDK and the packages, which a script completes.
//! Making one takes long, so a folder's latest base is kept in its working directory.
//!
//! A base imports exactly the modules that the sources import from elsewhere, as a whole build does. Otherwise a call
//! could import a module that it cannot import after `windlass build`, or the other way round.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use windlass_componentize::InterfaceVersion;

use crate::bundle;
use crate::facts::Facts;
use crate::language::PACKAGES;
use crate::sources::identity;

const COMPONENT: &str = "base.wasm";
const RECORD: &str = "base.json";
/// The maximum size of a base. The sandbox checks the limit for plugins later.
const BASE_BYTES_MAX: u64 = 1 << 30;
/// The maximum size of the record beside it, which contains names of modules.
const RECORD_BYTES_MAX: u64 = 1 << 20;
/// The form of bases and scripts.
const FORM: &str = "2";

pub(crate) struct Base {
    pub component: Vec<u8>,
    pub imports: Imports,
}

/// How the imports of a base differ from the import statements in the sources. Names of modules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Imports {
    /// Modules that the sources import without a statement at the top level.
    pub more: BTreeSet<String>,
    /// Modules whose import statement is never reached.
    pub without: BTreeSet<String>,
}

impl Imports {
    /// Changes the imports so that the next base is not [`Unusable`] for the same reason. `why` is about a base with
    /// these imports.
    pub(crate) fn adjust(&mut self, why: &Unusable) {
        let (names, to, from) = match why {
            Unusable::Lacks(names) => (names, &mut self.more, &mut self.without),
            Unusable::Unused(names) => (names, &mut self.without, &mut self.more),
            Unusable::Absent | Unusable::Outdated | Unusable::Damaged => return,
        };
        for name in names.split(' ') {
            from.remove(name);
            to.insert(name.to_owned());
        }
    }
}

/// The record that is kept beside a base.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct BaseRecord {
    key: String,
    /// The SHA-256 of the component.
    digest: String,
    imports: Imports,
}

/// A kept base cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("there is none")]
    Absent,
    #[error("the SDK, the packages, componentize-py or the interface has changed")]
    Outdated,
    #[error("the file is damaged")]
    Damaged,
    #[error("the sources now import {}", .0.replace(' ', ", "))]
    Lacks(String),
    #[error("the sources do not import {}", .0.replace(' ', ", "))]
    Unused(String),
}

/// The base that is kept in `work`, if it has this `key`.
pub(crate) fn kept(work: &Path, key: &str) -> Result<Base, Unusable> {
    let read = |name: &str, most| windlass_files::read_whole(&work.join(name), most);
    let record = read(RECORD, RECORD_BYTES_MAX).map_err(|_| Unusable::Absent)?;
    let record: BaseRecord = serde_json::from_slice(&record).map_err(|_| Unusable::Damaged)?;
    if record.key != key {
        return Err(Unusable::Outdated);
    }
    let component = read(COMPONENT, BASE_BYTES_MAX).map_err(|_| Unusable::Damaged)?;
    if digest(&component) != record.digest {
        return Err(Unusable::Damaged);
    }
    Ok(Base { component, imports: record.imports })
}

/// Keeps `base` in `work` in place of an earlier one.
pub(crate) fn keep(work: &Path, key: &str, base: &Base) -> std::io::Result<()> {
    let record = BaseRecord { key: key.to_owned(), digest: digest(&base.component), imports: base.imports.clone() };
    windlass_files::replace(&work.join(COMPONENT), &base.component)?;
    windlass_files::replace(&work.join(RECORD), &serde_json::to_vec(&record)?)
}

/// A text that changes with everything that a base is made of, except the plugin's sources. `tool` stands for the
/// compiler.
pub(crate) fn key(facts: &Facts, tool: &str) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    for part in [FORM, env!("CARGO_PKG_VERSION"), facts.kind().scripted_world(), tool] {
        add(part.as_bytes());
    }
    for (name, text) in InterfaceVersion::NEWEST.files() {
        add(name.as_bytes());
        add(text.as_bytes());
    }
    let is_cache = |_: &Path, name: &str| name == "__pycache__";
    let sdk = facts.folder.join(&facts.file.sdk).join("windlass");
    for path in bundle::files(&sdk, &is_cache)?.files.into_keys() {
        add(path.as_os_str().as_encoded_bytes());
        add(&windlass_files::read_whole(&sdk.join(path), BASE_BYTES_MAX)?);
    }
    if facts.has_packages {
        // The packages may be large, and only a tool writes them. So their contents are not read.
        for (path, it) in bundle::files(&facts.folder.join(PACKAGES), &is_cache)?.files {
            add(path.as_os_str().as_encoded_bytes());
            add(format!("{:?}", identity(&it)).as_bytes());
        }
    }
    Ok(hexadecimal(hash))
}

fn digest(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;

    fn base(component: &[u8]) -> Base {
        let imports = Imports { more: ["yaml".to_owned()].into(), without: ["pdb".to_owned()].into() };
        Base { component: component.to_vec(), imports }
    }

    fn reason(work: &Path, key: &str) -> Unusable {
        kept(work, key).err().expect("unusable")
    }

    #[test]
    fn a_base_is_kept_until_its_key_changes() {
        let work = tempfile::tempdir().expect("a directory");
        assert_eq!(reason(work.path(), "a"), Unusable::Absent);
        keep(work.path(), "a", &base(b"one")).expect("it is written");
        let there = kept(work.path(), "a").unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((&*there.component, there.imports), (&b"one"[..], base(b"one").imports));
        assert_eq!(reason(work.path(), "b"), Unusable::Outdated);
        keep(work.path(), "b", &base(b"two")).expect("it is written");
        assert_eq!(reason(work.path(), "a"), Unusable::Outdated);
        let files = std::fs::read_dir(work.path()).expect("it is there").count();
        assert_eq!(files, 2, "an earlier base takes no room");
    }

    #[test]
    fn imports_follow_what_was_lacking_and_unused() {
        let mut imports = base(b"one").imports;
        imports.adjust(&Unusable::Unused("yaml csv".into()));
        imports.adjust(&Unusable::Lacks("pdb".into()));
        let without = ["csv".to_owned(), "yaml".to_owned()].into();
        assert_eq!(imports, Imports { more: ["pdb".to_owned()].into(), without });
        let before = imports.clone();
        imports.adjust(&Unusable::Outdated);
        assert_eq!(imports, before);
    }

    #[test]
    fn a_damaged_base_is_not_used() {
        let work = tempfile::tempdir().expect("a directory");
        for (file, content) in
            [(COMPONENT, &b"on"[..]), (COMPONENT, b"two"), (RECORD, b"{\"key\": \"a\""), (RECORD, b"")]
        {
            keep(work.path(), "a", &base(b"one")).expect("it is written");
            std::fs::write(work.path().join(file), content).expect("it is written");
            assert_eq!(reason(work.path(), "a"), Unusable::Damaged, "{file} {content:?}");
        }
        keep(work.path(), "a", &base(b"one")).expect("it is written");
        std::fs::remove_file(work.path().join(COMPONENT)).expect("it was there");
        assert_eq!(reason(work.path(), "a"), Unusable::Damaged);
    }

    #[test]
    fn a_key_changes_with_what_a_base_is_made_of_and_not_with_the_plugin() {
        let at = tempfile::tempdir().expect("a directory");
        let put = |path: &str, text: &str| {
            let path = at.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            std::fs::write(path, text).expect("it is written");
        };
        let key = |kind: &str, tool: &str| {
            let text = format!("name: shop\nlanguage: python\nplugin: {kind}\n");
            let file = file::parse(Path::new(file::NAME), text.as_bytes()).expect("a build file");
            super::key(&Facts::of(at.path(), file).expect("it can be read"), tool).expect("a key")
        };
        let here = || key("reconciler", "componentize-py 1");
        put("sdk/windlass/__init__.py", "");
        let first = here();
        for (path, text) in [
            ("app.py", "import yaml"),
            ("requirements.txt", "pyyaml"),
            ("sdk/README.md", "text"),
            ("sdk/windlass/__pycache__/x.pyc", ""),
        ] {
            put(path, text);
            assert_eq!(here(), first, "{path}");
        }
        let mut keys = vec![first, key("composer", "componentize-py 1"), key("reconciler", "componentize-py 2")];
        for (path, text) in [
            ("sdk/windlass/__init__.py", "x = 1"),
            ("sdk/windlass/_runtime/new.py", ""),
            ("packages/yaml/__init__.py", ""),
            ("packages/yaml/__init__.py", "x = 1"),
            ("packages/yaml/reader.py", ""),
        ] {
            put(path, text);
            keys.push(here());
        }
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count, "each change makes another key");
    }
}
