//! Examines the file of a plugin without compiling or running it: the tools that made it, its imports and exports, and
//! how much of each limit it needs. For people (`windlass inspect`); the host makes no decisions based on it.

use std::path::Path;

use wasmparser::{ComponentName, Encoding, Instance, KnownCustom, Name, Parser, Payload, ProducersSectionReader};
use windlass_manifest::EntryPoint;

use crate::abi::AbiVersion;
use crate::compile::Size;
use crate::component::{ComponentError, choose_entry};
use crate::digest;
use crate::engine::TABLE_ELEMENTS_MAX;
use crate::limits::Limits;
use crate::load_error::LoadError;
use crate::obtain::read;
use crate::text::single_line;

/// The maximum number of names that are listed. The author of a file may choose many names.
const LISTED_CONTENTS_MAX: usize = 64;
const LISTED_NAME_BYTES_MAX: usize = 80;

/// Prefixes of names that indicate a language. Tools that are themselves written in another language, such as
/// interpreters, come first.
const LANGUAGE_PREFIXES: [(&str, &str); 11] = [
    ("componentize-py", "Python"),
    ("libpython", "Python"),
    ("ComponentizeJS", "JavaScript"),
    ("componentize-qjs", "JavaScript"),
    ("componentize_qjs", "JavaScript"),
    ("go cmd/compile", "Go"),
    ("tinygo", "Go"),
    ("rustc", "Rust"),
    ("wit-bindgen-rust", "Rust"),
    ("zig", "Zig"),
    ("clang", "C"),
];

/// The kind of WebAssembly that a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A component, as plugins are.
    Component,
    /// A core module, as compilers produce; components consist of them.
    CoreModule,
    /// Not readable.
    Unknown,
}

/// A language or a tool that the file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeWith {
    pub name: String,
    /// Empty if none is given.
    pub version: String,
}

/// The contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContents {
    /// The SHA-256 of its bytes.
    pub digest: String,
    pub bytes: u64,
    pub kind: FileKind,
    /// The languages in the file's producers sections, including those of nested modules.
    pub languages: Vec<MadeWith>,
    /// The tools in the file's producers sections.
    pub tools: Vec<MadeWith>,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
    /// The names of the file's modules, if they have any.
    modules: Vec<String>,
    /// The language that the file itself names last, as `windlass build` writes it. Modules in the file do not count.
    labelled: Option<String>,
    /// The number of core instances that the file creates, with each nested component counted once.
    instances: u64,
    size: Size,
}

/// How much of one limit a file needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The thing that is counted.
    pub what: &'static str,
    /// The name of the limit for `--limit`.
    pub limit: &'static str,
    /// Whether the limit is a number of bytes.
    pub is_bytes: bool,
    /// The amount that the file needs.
    pub needs: u64,
    /// The limit.
    pub most: u64,
}

impl FileContents {
    /// The entry point of a component, and the version of the interface that it was built for, by its exports.
    pub fn entry(&self) -> Result<(EntryPoint, AbiVersion), ComponentError> {
        choose_entry(&self.exports.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Examines the file `path`, if it is not larger than a plugin may be.
    pub fn read(path: &Path, limits: &Limits) -> Result<Self, LoadError> {
        match read(path, limits.file_bytes) {
            Ok(bytes) => Ok(Self::of(&bytes)),
            Err(problem) => Err(LoadError { path: path.to_owned(), problem }),
        }
    }

    fn of(bytes: &[u8]) -> Self {
        let mut contents = Self {
            digest: digest::sha256(bytes),
            bytes: bytes.len() as u64,
            kind: FileKind::Unknown,
            languages: vec![],
            tools: vec![],
            imports: vec![],
            exports: vec![],
            modules: vec![],
            labelled: None,
            instances: 0,
            size: Size::default(),
        };
        // How deeply the next section is nested in modules and components.
        let mut depth = 0_usize;
        // The compiler reports unreadable parts when the plugin is loaded.
        for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
            contents.size.add(&payload);
            match &payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                _ => contents.take(&payload, depth == 0),
            }
        }
        contents
    }

    fn take(&mut self, payload: &Payload<'_>, is_outermost: bool) {
        match payload {
            Payload::Version { encoding, .. } if is_outermost => {
                self.kind = match encoding {
                    Encoding::Component => FileKind::Component,
                    Encoding::Module => FileKind::CoreModule,
                };
            }
            Payload::ComponentImportSection(section) if is_outermost => {
                let names = section.clone().into_iter().map_while(Result::ok).map(|import| import.name.name);
                names.for_each(|name| note(&mut self.imports, shown(name)));
            }
            Payload::ComponentExportSection(section) if is_outermost => {
                let names = section.clone().into_iter().map_while(Result::ok).map(|export| export.name.name);
                names.for_each(|name| note(&mut self.exports, shown(name)));
            }
            Payload::ImportSection(section) if is_outermost => {
                let imports = section.clone().into_imports().map_while(Result::ok);
                imports.for_each(|import| note(&mut self.imports, shown(import.module)));
            }
            Payload::ExportSection(section) if is_outermost => {
                let names = section.clone().into_iter().map_while(Result::ok).map(|export| export.name);
                names.for_each(|name| note(&mut self.exports, shown(name)));
            }
            Payload::InstanceSection(section) => {
                let made = section.clone().into_iter().map_while(Result::ok);
                self.instances += made.filter(|it| matches!(it, Instance::Instantiate { .. })).count() as u64;
            }
            Payload::CustomSection(section) => match section.as_known() {
                KnownCustom::Producers(section) => self.take_producers(section, is_outermost),
                KnownCustom::Name(section) => {
                    for name in section.into_iter().map_while(Result::ok) {
                        if let Name::Module { name, .. } = name {
                            note(&mut self.modules, shown(name));
                        }
                    }
                }
                KnownCustom::ComponentName(section) => {
                    for names in section.into_iter().map_while(Result::ok) {
                        if let ComponentName::CoreModules(names) = names {
                            let names = names.into_iter().map_while(Result::ok);
                            names.for_each(|naming| note(&mut self.modules, shown(naming.name)));
                        }
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn take_producers(&mut self, section: ProducersSectionReader<'_>, is_outermost: bool) {
        for field in section.into_iter().map_while(Result::ok) {
            let all = if field.name == "language" { &mut self.languages } else { &mut self.tools };
            for value in field.values.into_iter().map_while(Result::ok) {
                if field.name == "language" && is_outermost && self.kind == FileKind::Component {
                    self.labelled = Some(shown(value.name));
                }
                note(all, MadeWith { name: shown(value.name), version: shown(value.version) });
            }
        }
    }

    /// The language that the file's author probably used. Unknown if the file was stripped.
    #[must_use]
    pub fn language(&self) -> Option<String> {
        let signs = || self.tools.iter().map(|tool| &tool.name).chain(&self.modules);
        let begins = |sign: &str, with: &str| sign.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with));
        let known = LANGUAGE_PREFIXES.iter().find(|(with, _)| signs().any(|sign| begins(sign, with)));
        let said = || self.languages.first().map(|language| language.name.clone());
        self.labelled.clone().or_else(|| known.map(|(_, language)| (*language).to_owned())).or_else(said)
    }

    /// How much the file needs of the `limits` for the parts of plugins.
    #[must_use]
    pub fn needs(&self, limits: &Limits) -> Vec<Need> {
        let count = |what, limit, needs, most| Need { what, limit, is_bytes: false, needs, most };
        let bytes = |what, limit, needs, most| Need { what, limit, is_bytes: true, needs, most };
        let size = &self.size;
        vec![
            bytes("file", "file", self.bytes, limits.file_bytes),
            count("memories", "memories", size.memories, limits.memories.into()),
            bytes("initial memory", "memory", size.all_memory_bytes, limits.memory_bytes as u64),
            count("core instances", "instances", self.instances, limits.instances.into()),
            count("tables", "instances", size.tables, limits.instances.into()),
            count(
                "elements of the largest table",
                "table",
                size.table_elements,
                limits.table_elements.min(TABLE_ELEMENTS_MAX) as u64,
            ),
            count("functions", "functions", size.functions, limits.functions.into()),
            bytes("code of the largest function", "function", size.function_bytes, limits.function_bytes.into()),
            count("types, imports, exports and the like", "definitions", size.definitions, limits.definitions.into()),
        ]
    }
}

fn shown(name: &str) -> String {
    single_line(name, LISTED_NAME_BYTES_MAX)
}

/// Adds `one`, unless it is in the list.
fn note<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if all.len() < LISTED_CONTENTS_MAX && !all.contains(&one) {
        all.push(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(text: &str) -> FileContents {
        FileContents::of(&wat::parse_str(text).expect("well-formed"))
    }

    fn names(made_with: &[MadeWith]) -> Vec<String> {
        made_with.iter().map(|it| format!("{} {}", it.name, it.version)).collect()
    }

    #[test]
    fn languages_and_tools_of_nested_modules_are_named_once_each() {
        let made = contents(
            r#"(component
                (core module
                    (@producers (language "Go" "go1.26.8") (processed-by "Go cmd/compile" "go1.26.8")
                        (processed-by "wit-component" "0.254.2")))
                (component (core module (@producers (processed-by "wit-component" "0.254.2")))))"#,
        );
        assert_eq!(made.kind, FileKind::Component);
        assert_eq!(names(&made.languages), ["Go go1.26.8"]);
        assert_eq!(names(&made.tools), ["Go cmd/compile go1.26.8", "wit-component 0.254.2"]);
        assert_eq!(made.language().as_deref(), Some("Go"));
    }

    #[test]
    fn the_language_is_the_authors_and_not_that_of_the_interpreter() {
        let python = r#"(component (core module $libpython3.14.so
            (@producers (language "C11" "") (processed-by "clang" "21.1.4"))))"#;
        assert_eq!(contents(python).language().as_deref(), Some("Python"));
        let script = r#"(component (core module $componentize_qjs_runtime.wasm
            (@producers (language "Rust" "") (processed-by "rustc" "1.96.0"))))"#;
        assert_eq!(contents(script).language().as_deref(), Some("JavaScript"));
        let stripped = r#"(component (core module (@producers (processed-by "wit-bindgen-rust" "0.61.1"))))"#;
        assert_eq!(contents(stripped).language().as_deref(), Some("Rust"));
        let own = r#"(component (core module (@producers (language "Grain" "0.7"))))"#;
        assert_eq!(contents(own).language().as_deref(), Some("Grain"));
        assert_eq!(contents("(component (core module))").language(), None);
        let labelled = r#"(component (core module (@producers (processed-by "rustc" "1.96.0")))
            (@custom "producers" "\01\08language\01\0aTypeScript\00"))"#;
        assert_eq!(contents(labelled).language().as_deref(), Some("TypeScript"));
    }

    #[test]
    fn producer_texts_forge_no_line_and_are_bounded() {
        let many: Vec<_> = (0..200).map(|number| format!("(processed-by \"tool-{number}\" \"1\")")).collect();
        let many = many.concat();
        assert_eq!(
            contents(&format!("(component (core module (@producers {many})))")).tools.len(),
            LISTED_CONTENTS_MAX
        );
        let forged = contents(r#"(component (core module (@producers (language "Rust\0alacks nothing" ""))))"#);
        assert!(!forged.languages[0].name.contains('\n'), "{forged:?}");
    }

    #[test]
    fn imports_and_exports_are_those_of_the_outermost_component() {
        let made = contents(
            r#"(component
                (import "windlass:plugin/log@0.3.0" (instance))
                (component $inner (import "of:the/inner" (instance)))
                (core module (import "env" "x" (func)))
                (component $empty)
                (instance $reconciler (instantiate $empty))
                (export "windlass:plugin/reconciler@0.3.0" (instance $reconciler)))"#,
        );
        assert_eq!(made.imports, ["windlass:plugin/log@0.3.0"]);
        assert_eq!(made.exports, ["windlass:plugin/reconciler@0.3.0"]);
        let core =
            contents(r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)) (memory (export "memory") 1))"#);
        assert_eq!((core.kind, core.imports.len(), &*core.exports[0]), (FileKind::CoreModule, 1, "memory"));
        assert_eq!(FileContents::of(b"#!/bin/sh").kind, FileKind::Unknown);
    }

    #[test]
    fn each_limit_is_shown_with_what_the_component_needs() {
        let made = contents(
            "(component (core module $m (memory 3) (table 7 funcref) (func nop) (func)) (core module (memory 2))
                (core instance (instantiate $m)) (core instance (instantiate $m)))",
        );
        let needs = made.needs(&Limits { memories: 1, ..Limits::default() });
        let of = |limit: &str| needs.iter().find(|need| need.limit == limit).map(|need| (need.needs, need.most));
        assert_eq!(of("memories"), Some((2, 1)));
        assert_eq!(of("memory"), Some((5 << 16, 128 << 20)));
        assert_eq!(of("instances"), Some((2, 40)), "and one table");
        assert_eq!(of("table"), Some((7, 40_000)));
        assert_eq!(of("functions"), Some((2, 80_000)));
        assert_eq!(of("file"), Some((made.bytes, Limits::default().file_bytes)));
        for need in needs {
            assert!(crate::limits::Setting::named(need.limit).is_some(), "{}", need.limit);
        }
    }
}
