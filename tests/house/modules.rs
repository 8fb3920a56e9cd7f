//! The crates, their modules, and the references between modules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::Context as _;
use regex::Regex;

use crate::source::Source;
use crate::uses;

/// A path within its crate. The path of the root is empty.
pub(crate) type ModulePath = Vec<String>;

/// A crate's modules, without those for tests.
pub(crate) struct Crate {
    /// The crate's folder, relative to the root of the checkout.
    pub(crate) folder: String,
    pub(crate) modules: BTreeMap<ModulePath, Module>,
}

pub(crate) struct Module {
    pub(crate) source: Source,
    /// The module's references to other parts of the crate.
    references: Vec<Reference>,
    /// The names that its `use` statements import, and their full paths.
    imports: BTreeMap<String, ModulePath>,
}

/// A reference to another part of the same crate.
struct Reference {
    /// The path from the root of the crate.
    path: ModulePath,
    at: usize,
}

/// One module names another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: ModulePath,
    pub(crate) to: ModulePath,
    /// The place of the reference, with the line's text.
    pub(crate) example: String,
}

/// The folders below `top` that contain a crate.
pub(crate) fn crate_folders(root: &Path, top: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::from(top)];
    while let Some(folder) = waiting.pop() {
        if root.join(&folder).join("Cargo.toml").is_file() && root.join(&folder).join("src").is_dir() {
            found.push(folder.to_string_lossy().into_owned());
        }
        for entry in std::fs::read_dir(root.join(&folder)).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let skipped = ["src", "target", "tests", "benches", "examples"].iter().any(|it| entry.file_name() == *it);
            if entry.file_type()?.is_dir() && !skipped {
                waiting.push(folder.join(entry.file_name()));
            }
        }
    }
    found.sort();
    Ok(found)
}

impl Crate {
    /// The crate in a folder.
    pub(crate) fn read(root: &Path, folder: &str) -> anyhow::Result<Self> {
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| format!("{folder}/{file}"));
        let roots: Vec<_> = roots.into_iter().filter(|file| root.join(file).is_file()).collect();
        anyhow::ensure!(!roots.is_empty(), "{folder} has neither src/lib.rs nor src/main.rs");
        let mut made = Self { folder: folder.to_owned(), modules: BTreeMap::new() };
        for file in roots {
            made.follow(&file, &mut |path| match std::fs::read_to_string(root.join(path)) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error).with_context(|| path.to_owned()),
            })?;
        }
        Ok(made)
    }

    /// Reads the root module in `file`, and then all modules that it declares.
    fn follow(
        &mut self,
        file: &str,
        read: &mut dyn FnMut(&str) -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<()> {
        let source_folder = file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let mut waiting = vec![(ModulePath::new(), vec![file.to_owned()])];
        while let Some((path, candidates)) = waiting.pop() {
            let mut read_one = None;
            for candidate in &candidates {
                if let Some(text) = read(candidate)? {
                    read_one = Some(Source::new(candidate.clone(), text));
                    break;
                }
            }
            let source = read_one.with_context(|| format!("none of {candidates:?} is there"))?;
            for child in declared(&source) {
                let path = [&path[..], &[child]].concat();
                let base = format!("{source_folder}/{}", path.join("/"));
                waiting.push((path, vec![format!("{base}.rs"), format!("{base}/mod.rs")]));
            }
            let module = Module::new(source, &path);
            // A program and a library in one folder have the same root here, and the references of both count.
            match self.modules.get_mut(&path) {
                Some(root) if path.is_empty() => {
                    root.imports.extend(module.imports);
                    root.references.extend(module.references);
                }
                _ => {
                    self.modules.insert(path, module);
                }
            }
        }
        Ok(())
    }

    /// The edges between modules, without duplicates. The longest path that names a module decides which module is
    /// meant.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        let mut edges: BTreeMap<(ModulePath, ModulePath), String> = BTreeMap::new();
        for (from, module) in &self.modules {
            for reference in &module.references {
                let to = self.resolved(&reference.path, 0);
                if to != *from {
                    edges.entry((from.clone(), to)).or_insert_with(|| module.source.place(reference.at));
                }
            }
        }
        edges.into_iter().map(|((from, to), example)| Edge { from, to, example }).collect()
    }

    /// The module that a path leads to. The path may pass through imports of other modules.
    fn resolved(&self, path: &[String], depth: usize) -> ModulePath {
        /// A longer way would be a circle of imports, which the compiler rejects.
        const IMPORT_DEPTH_MAX: usize = 16;
        let mut module = ModulePath::new();
        for (index, name) in path.iter().enumerate() {
            let child = [&module[..], std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&child) {
                module = child;
                continue;
            }
            let imported = self.modules.get(&module).and_then(|it| it.imports.get(name));
            return match imported {
                Some(target) if depth < IMPORT_DEPTH_MAX => {
                    self.resolved(&[&target[..], &path[index + 1..]].concat(), depth + 1)
                }
                _ => module,
            };
        }
        module
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut made = Self { folder: "host/made".to_owned(), modules: BTreeMap::new() };
        let mut read = |path: &str| {
            Ok(files.iter().find(|(name, _)| format!("src/{name}") == path).map(|(_, text)| (*text).to_owned()))
        };
        made.follow("src/lib.rs", &mut read).expect("all modules are there");
        made
    }
}

/// The modules that a file declares without a body.
fn declared(source: &Source) -> Vec<String> {
    static MODULE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bmod\s+(\w+)$").expect("it is one"));
    let statements = source.statements();
    let outer = statements.iter().filter(|it| it.body.is_none() && it.within.is_empty());
    outer.filter_map(|it| Some(MODULE.captures(it.head)?[1].to_owned())).collect()
}

impl Module {
    fn new(source: Source, path: &[String]) -> Self {
        static INLINE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bmod\s+(\w+)$").expect("it is one"));
        static PATH: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\b(?:crate|super)(?:\s*::\s*\w+)+").expect("it is one"));
        let (mut references, mut imports) = (Vec::new(), BTreeMap::new());
        let inline: Vec<_> =
            source.statements().iter().filter_map(|it| it.body.clone().filter(|_| INLINE.is_match(it.head))).collect();
        let inner = |at: usize| inline.iter().filter(|body| body.contains(&at)).count();
        let mut rest = source.code.clone();
        for (range, tree) in uses::statements(&source.code) {
            for import in uses::expanded(tree) {
                let Some(target) = absolute(&import.path, path, inner(range.start)) else { continue };
                if inner(range.start) == 0 {
                    imports.insert(import.name, target.clone());
                }
                references.push(Reference { path: target, at: range.start + import.at });
            }
            rest.replace_range(range.clone(), &" ".repeat(range.len()));
        }
        for found in PATH.find_iter(&rest) {
            let names: Vec<_> = found.as_str().split("::").map(|it| it.trim().to_owned()).collect();
            if let Some(target) = absolute(&names, path, inner(found.start())) {
                references.push(Reference { path: target, at: found.start() });
            }
        }
        Self { source, references, imports }
    }
}

/// The full path, if `names` refers to the crate itself. `names` are written in `module`, inside `inner` nested modules
/// of its file.
fn absolute(names: &[String], module: &[String], inner: usize) -> Option<ModulePath> {
    let first = names.first()?.as_str();
    if first == "crate" {
        return Some(names[1..].to_vec());
    }
    let ups = names.iter().take_while(|it| *it == "super").count();
    let selves = usize::from(first == "self");
    if ups + selves == 0 {
        return None;
    }
    let kept = (module.len() + inner).checked_sub(ups)?;
    // A module inside the file counts as the file's module.
    Some([&module[..kept.min(module.len())], &names[ups + selves..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let edges = Crate::of(files).edges().into_iter();
        edges.map(|it| format!("{} -> {}", it.from.join("::"), it.to.join("::"))).collect()
    }

    #[test]
    fn paths_groups_and_supers_are_edges() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
            ("a.rs", "use crate::{b::{self, B}, c as other};\nfn f() { crate::d::g::<u8>(); super::e::h() }"),
            ("b.rs", "mod inner;"),
            ("b/inner.rs", "use super::super::c::C; pub(in crate::b) struct X;"),
            ("c.rs", "mod inline { use super::super::d; fn f() { super::own(); } }"),
            ("d/mod.rs", ""),
            ("e.rs", "// crate::a::x\nfn f() { \"crate::b::y\" }\n#[cfg(test)]\nmod tests { use crate::a; }"),
        ];
        let expected = ["a -> b", "a -> c", "a -> d", "a -> e", "b::inner -> b", "b::inner -> c", "c -> d"];
        assert_eq!(edges(&files), expected);
    }

    #[test]
    fn imported_names_are_followed_to_their_modules() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use crate::b::Named as Other; pub use self::b::inner;"),
            ("a.rs", "use crate::Other;\nuse crate::inner::Deep;"),
            ("b.rs", "pub(crate) mod inner; pub(crate) struct Named;"),
            ("b/inner.rs", "pub(crate) struct Deep;"),
        ];
        let found = edges(&files);
        assert_eq!(found, [" -> b", " -> b::inner", "a -> b", "a -> b::inner"]);
    }

    #[test]
    fn an_edge_has_an_example() {
        let found = Crate::of(&[("lib.rs", "mod a; mod b;"), ("a.rs", ""), ("b.rs", "\nuse crate::{\n    a::A,\n};")]);
        assert_eq!(found.edges()[0].example, "src/b.rs:3: a::A,");
    }
}
