//! Reads `windlass.yaml`, in which an author describes the plugin of a folder. The file can also name a build command,
//! for a plugin that the default command of its language cannot build.
//!
//! Parsing is as strict as for policies: if a misspelt field were ignored, the build would make something else.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_saphyr::Spanned;
use windlass_core::life::instances::Instances;
use windlass_manifest::{is_dns_label, nearest};

use windlass_files::read_whole;
use windlass_policy::document::problems::DocumentProblems;
use windlass_policy::problem::PolicyError;

pub const NAME: &str = "windlass.yaml";
/// The maximum size of the file. Files that people write are far smaller.
const PROJECT_FILE_BYTES_MAX: u64 = 64 << 10;

/// The version of controller-gen, unless the author names another one.
const CONTROLLER_GEN_VERSION: &str = "v0.22.0";

/// The reason why the build file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such file.
    #[error(
        "there is no {NAME} in {}, so this is not the folder of a plugin: name another folder, or create one with `windlass new`",
        folder.display()
    )]
    Missing {
        /// The folder without the file.
        folder: PathBuf,
    },
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The file is invalid. Every problem has its position.
    #[error(transparent)]
    Wrong(#[from] PolicyError),
}

/// The languages that a build supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Rust,
    /// Built by the Go toolchain.
    Go,
    Python,
    /// Built by `ComponentizeJS`.
    JavaScript,
    /// Built by tsc and `ComponentizeJS`.
    TypeScript,
    C,
    /// Built by this binary, which contains the interpreter.
    Starlark,
    /// The author provides the build command.
    Other,
}

impl Language {
    /// The supported languages by name.
    pub const KNOWN: [(&str, Self); 7] = [
        ("rust", Self::Rust),
        ("go", Self::Go),
        ("python", Self::Python),
        ("js", Self::JavaScript),
        ("ts", Self::TypeScript),
        ("c", Self::C),
        ("starlark", Self::Starlark),
    ];

    /// The language with this `name`.
    #[must_use]
    pub fn called(name: &str) -> Option<Self> {
        Self::KNOWN.iter().find(|(known, _)| *known == name).map(|(_, language)| *language)
    }

    /// The language's name in built plugins. `None` for languages that only the author knows.
    #[must_use]
    pub fn title(self) -> Option<&'static str> {
        match self {
            Self::Rust => Some("Rust"),
            Self::Go => Some("Go"),
            Self::Python => Some("Python"),
            Self::JavaScript => Some("JavaScript"),
            Self::TypeScript => Some("TypeScript"),
            Self::C => Some("C"),
            Self::Starlark => Some("Starlark"),
            Self::Other => None,
        }
    }

    /// The language with this title.
    #[must_use]
    pub fn titled(title: &str) -> Option<Self> {
        Self::KNOWN.iter().map(|(_, language)| *language).find(|language| language.title() == Some(title))
    }

    /// The `instances` setting that a policy should have, given the cost of a fresh instance in this language
    /// (docs/benchmarks.md).
    #[must_use]
    pub fn instances(self) -> Instances {
        match self {
            Self::Go | Self::Python | Self::JavaScript | Self::TypeScript | Self::Starlark => Instances::Reuse,
            Self::Rust | Self::C | Self::Other => Instances::Fresh,
        }
    }
}

/// The two kinds of plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginKind {
    /// The host calls the plugin for each key, and the plugin itself writes objects.
    #[default]
    Reconciler,
    /// The plugin returns the children of an object, and the host writes them.
    Composer,
}

impl PluginKind {
    /// The name in the build file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reconciler => "reconciler",
            Self::Composer => "composer",
        }
    }

    /// The WIT world with the optional export, which is `mapper` or `customize`. Languages whose SDK always has this
    /// export use this world. The host calls the export only if the manifest declares it.
    #[must_use]
    pub fn world(self) -> &'static str {
        match self {
            Self::Reconciler => "mapping-reconciler-plugin",
            Self::Composer => "customizing-composer-plugin",
        }
    }

    /// The same world for an interpreter that is joined with a script.
    #[must_use]
    pub fn scripted_world(self) -> &'static str {
        match self {
            Self::Reconciler => "scripted-reconciler-plugin",
            Self::Composer => "scripted-composer-plugin",
        }
    }
}

/// A build command provided by the author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnBuild {
    /// A shell command.
    pub command: String,
    /// The built file, relative to the folder: a core module or a component.
    pub output: PathBuf,
}

/// The types from which `crd.yaml` is generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionSource {
    /// Types in Rust. The example `crd` of the plugin's crate prints their definitions.
    Rust,
    /// Types in Go with the markers of controller-gen.
    Go {
        /// The packages, relative to the folder, such as `./api/...`.
        paths: Vec<String>,
        /// The version of controller-gen.
        version: String,
    },
    /// A shell command that prints the definitions.
    Command(String),
}

/// The content of the build file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildFile {
    /// The plugin's name, which must equal the name in its manifest.
    pub name: String,
    /// The language as the author wrote it, or a placeholder for messages.
    pub language_name: String,
    pub language: Language,
    pub kind: PluginKind,
    /// The path of the SDK, relative to the folder.
    pub sdk: PathBuf,
    /// The author's build command. `None` to use the default command of the language.
    pub own: Option<OwnBuild>,
    /// The types from which the definitions in `crd.yaml` are generated. `None` if the author writes the file.
    pub definitions: Option<DefinitionSource>,
    /// Patterns of files. `windlass dev` builds when one of these files changes. Empty for all sources.
    pub watch: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BuildFileDocument {
    name: Spanned<String>,
    language: Option<Spanned<String>>,
    #[serde(default)]
    plugin: PluginKind,
    sdk: Option<Spanned<String>>,
    build: Option<Spanned<BuildDocument>>,
    definitions: Option<Spanned<DefinitionsDocument>>,
    #[serde(default)]
    watch: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BuildDocument {
    command: String,
    output: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DefinitionsDocument {
    from: Option<TypesLanguage>,
    paths: Option<Vec<String>>,
    version: Option<String>,
    command: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TypesLanguage {
    Rust,
    Go,
}

/// Reads the build file of `folder`.
pub fn read(folder: &Path) -> Result<BuildFile, FileError> {
    let path = folder.join(NAME);
    match read_whole(&path, PROJECT_FILE_BYTES_MAX) {
        Ok(text) => Ok(parse(&path, &text)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(FileError::Missing { folder: folder.to_owned() }),
        Err(source) => Err(FileError::Unreadable { path, source }),
    }
}

/// Parses a build file. `path` is used in messages.
pub fn parse(path: &Path, text: &[u8]) -> Result<BuildFile, PolicyError> {
    let mut problems = DocumentProblems::default();
    let document = problems.yaml(text);
    let read = document.map(|document: BuildFileDocument| checked(document, &mut problems));
    problems.or(path, read)
}

fn checked(document: BuildFileDocument, problems: &mut DocumentProblems) -> BuildFile {
    let BuildFileDocument { name, language, plugin, sdk, build, definitions, watch } = document;
    if !is_dns_label(&name.value) {
        problems.at(
            &name,
            format!(
                "{:?} cannot name a plugin: up to 63 lower-case letters, digits and dashes, beginning and ending with a letter or digit",
                name.value
            ),
        );
    }
    let known = language.as_ref().and_then(|language| Language::called(&language.value));
    match &language {
        _ if build.is_some() => {}
        None => problems.whole(
            "`language` is missing; or say how the plugin is built with `build: {command: \"...\", output: \"...\"}`"
                .to_owned(),
        ),
        Some(language) if known.is_none() => {
            let names = || Language::KNOWN.into_iter().map(|(name, _)| name);
            let hint = nearest(&language.value, names()).unwrap_or_else(|| names().collect::<Vec<_>>().join(", "));
            problems.at(
                language,
                format!(
                    "windlass does not know how {:?} is built ({hint}): say so with `build: {{command: \"...\", output: \"...\"}}`",
                    language.value
                ),
            );
        }
        Some(_) => {}
    }
    if let Some(build) = &build {
        if build.value.command.trim().is_empty() {
            problems.at(build, "`build.command` is empty: it must be a shell command".to_owned());
        }
        if build.value.output.trim().is_empty() {
            problems.at(build, "`build.output` is empty: it must name the file that the command makes".to_owned());
        }
    }
    for pattern in &watch {
        if let Err(error) = glob::Pattern::new(&pattern.value) {
            problems.at(pattern, format!("{:?} is not a file pattern: {error}", pattern.value));
        }
    }
    let definitions = definitions.and_then(|definitions| {
        let source = definition_source(&definitions.value);
        source.map_err(|problem| problems.at(&definitions, problem.to_owned())).ok()
    });
    BuildFile {
        name: name.value,
        language: known.unwrap_or(Language::Other),
        language_name: language.map_or_else(|| "its own language".to_owned(), |language| language.value),
        kind: plugin,
        sdk: sdk.map_or_else(|| "sdk".into(), |sdk| sdk.value.into()),
        own: build.map(|build| OwnBuild { command: build.value.command, output: build.value.output.into() }),
        definitions,
        watch: watch.into_iter().map(|pattern| pattern.value).collect(),
    }
}

/// The error is the problem with the document.
fn definition_source(document: &DefinitionsDocument) -> Result<DefinitionSource, &'static str> {
    let DefinitionsDocument { from, paths, version, command } = document;
    match (from, command) {
        (Some(TypesLanguage::Go), None) => {
            let is_path = |path: &String| !path.trim().is_empty() && !path.contains([';', '\n']);
            let paths = paths.clone().filter(|paths| !paths.is_empty() && paths.iter().all(is_path)).ok_or(
                "`definitions.paths` must list the packages with the types, such as [./api/...]: controller-gen reads them",
            )?;
            let version = version.clone().unwrap_or_else(|| CONTROLLER_GEN_VERSION.to_owned());
            let is_fixed = version.strip_prefix('v').is_some_and(|number| semver::Version::parse(number).is_ok());
            if !is_fixed {
                return Err(
                    "`definitions.version` must be one version of controller-gen, such as v0.22.0: another one may generate \
                     other definitions",
                );
            }
            Ok(DefinitionSource::Go { paths, version })
        }
        _ if paths.is_some() || version.is_some() => {
            Err("`definitions.paths` and `definitions.version` belong to `from: go`: remove them")
        }
        (Some(TypesLanguage::Rust), None) => Ok(DefinitionSource::Rust),
        (None, Some(command)) if !command.trim().is_empty() => Ok(DefinitionSource::Command(command.clone())),
        (None, Some(_)) => Err("`definitions.command` is empty: it must print the definitions"),
        _ => Err(
            "`definitions` must say where crd.yaml comes from: either `from: go` or `from: rust`, or a `command` that prints it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = "\
name: shop
language: go
plugin: composer
sdk: ../../sdk/go
build: {command: make shop, output: out/shop.wasm}
watch: [\"src/**\"]
definitions: {command: make crd}
";

    fn read(text: &str) -> Result<BuildFile, String> {
        parse(Path::new(NAME), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_built_plugin_says_which_language_it_is_in() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("shop.wasm");
        for (name, language) in Language::KNOWN {
            let empty = b"\0asm\x0d\0\x01\0".to_vec();
            let built = windlass_componentize::labelled(empty, language.title().expect("a title"));
            std::fs::write(&path, built).expect("it is written");
            let contents =
                windlass_wasm::FileContents::read(&path, &windlass_wasm::Limits::default()).expect("it is read");
            assert_eq!(contents.language().as_deref().and_then(Language::titled), Some(language), "{name}");
        }
    }

    #[test]
    fn a_build_file_has_the_values_of_its_fields() {
        let own = OwnBuild { command: "make shop".into(), output: "out/shop.wasm".into() };
        let full = BuildFile {
            name: "shop".into(),
            language_name: "go".into(),
            language: Language::Go,
            kind: PluginKind::Composer,
            sdk: "../../sdk/go".into(),
            own: Some(own),
            definitions: Some(DefinitionSource::Command("make crd".into())),
            watch: vec!["src/**".into()],
        };
        assert_eq!(read(FULL), Ok(full));
        let least = read("name: shop\nlanguage: c\n").expect("the rest has defaults");
        assert_eq!(
            (least.kind, least.sdk, least.own, least.watch),
            (PluginKind::Reconciler, "sdk".into(), None, vec![])
        );
    }

    #[test]
    fn invalid_fields_are_refused_with_line_and_suggestion() {
        for (from, to, expected) in [
            ("plugin:", "plugins:", &["windlass.yaml:3", "did you mean `plugin`?"][..]),
            ("composer", "compose", &["windlass.yaml:3", "did you mean `composer`?"]),
            ("command:", "comand:", &["windlass.yaml:5", "did you mean `command`?"]),
            ("name: shop", "name: My_Shop", &["windlass.yaml:1", "lower-case"]),
            ("src/**", "src/***", &["windlass.yaml:6", "not a file pattern"]),
            ("make shop", "\"\"", &["windlass.yaml:5", "`build.command` is empty"]),
            ("name: shop\n", "", &["windlass.yaml", "name"]),
            ("name: shop", "name: [1]", &["windlass.yaml:1:7: `name`: "]),
            ("command: make shop", "command: [make]", &["windlass.yaml:5:18: `build.command`: "]),
            ("[\"src/**\"]", "src", &["windlass.yaml:6:8: `watch`: "]),
        ] {
            assert!(FULL.contains(from), "{from}");
            let error = read(&FULL.replacen(from, to, 1)).expect_err(to);
            assert!(expected.iter().all(|part| error.contains(part)), "{to}: {error}");
        }
    }

    #[test]
    fn definitions_come_from_types_or_from_a_command() {
        let source = |text: &str| {
            let read = read(&format!("name: shop\nlanguage: go\ndefinitions: {text}\n"));
            read.map(|file| file.definitions.expect("the file has the field"))
        };
        let go = |version: &str| DefinitionSource::Go { paths: vec!["./api/...".into()], version: version.into() };
        assert_eq!(source("{from: go, paths: [./api/...]}"), Ok(go(CONTROLLER_GEN_VERSION)));
        assert_eq!(source("{from: go, paths: [./api/...], version: v0.16.1}"), Ok(go("v0.16.1")));
        assert_eq!(source("{from: rust}"), Ok(DefinitionSource::Rust));
        for (text, expected) in [
            ("{from: go}", "[./api/...]"),
            ("{from: go, paths: []}", "[./api/...]"),
            ("{from: go, paths: [./a;./b]}", "[./api/...]"),
            ("{from: go, paths: [./api/...], version: latest}", "such as v"),
            ("{from: rust, paths: [src]}", "belong to `from: go`"),
            ("{from: rust, command: make}", "either"),
            ("{}", "either"),
            ("{command: ' '}", "`definitions.command` is empty"),
            ("{from: python}", "windlass.yaml:3"),
        ] {
            let error = source(text).expect_err(text);
            assert!(error.contains("windlass.yaml:3") && error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_unsupported_language_needs_a_build_command() {
        let error = read("name: shop\nlanguage: pyton\n").expect_err("unknown");
        assert!(error.contains("did you mean `python`?") && error.contains("build: {command"), "{error}");
        let zig =
            read("name: shop\nlanguage: zig\nbuild: {command: zig build, output: shop.wasm}\n").expect("it says how");
        assert_eq!((zig.language, &*zig.language_name), (Language::Other, "zig"));
        let unnamed = read("name: shop\nbuild: {command: make, output: shop.wasm}\n").expect("the command says it all");
        assert_eq!(unnamed.language, Language::Other);
        let error = read("name: shop\n").expect_err("nothing says how it is built");
        assert!(error.contains("`language` is missing") && error.contains("build: {command"), "{error}");
    }

    #[test]
    fn a_folder_without_the_file_is_refused() {
        let folder = tempfile::tempdir().expect("a directory");
        let error = super::read(folder.path()).expect_err("nothing is there").to_string();
        assert!(error.contains("no windlass.yaml") && error.contains("windlass new"), "{error}");
    }
}
