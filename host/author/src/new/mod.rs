//! Creates a plugin's folder from a template. This module decides the contents, as a value; [`write()`] writes them.
//!
//! Sources, tests and READMEs come from the SDK's `sdk/*/templates`; files that are the same in all languages are in
//! `common`. The SDK is copied into the folder too, so that the folder always fits the binary that created it.

mod definition;
mod names;
mod write;

use std::path::{Path, PathBuf};

use windlass_core::life::instances::Instances;
use windlass_policy::draft;

pub use self::definition::{ExistingKind, files_for, languages_with_types};
pub use self::names::{ApiWish, NameError, Names};
pub use self::write::{WriteError, write};
use super::file::{Language, PluginKind};

include!(concat!(env!("OUT_DIR"), "/sdks.rs"));

/// An SDK as it was when this binary was built. Each file has its path and its content.
pub struct Sdk {
    /// The folder below `sdk/`.
    name: &'static str,
    files: &'static [(&'static str, &'static [u8])],
    /// The files of all templates, in a folder for each language and kind of plugin, such as `go-reconciler`.
    templates: &'static [(&'static str, &'static [u8])],
}

/// Files that are the same in all languages, by their names in the folder.
const COMMON: [(&str, &str); 5] = [
    ("windlass.yaml", include_str!("common/windlass.yaml")),
    ("crd.yaml", include_str!("common/crd.yaml")),
    ("sample.yaml", include_str!("common/sample.yaml")),
    ("scenarios/hello.yaml", include_str!("common/scenario.yaml")),
    ("{{name}}.policy.yaml", include_str!("common/policy.yaml")),
];
/// The suffix of templates.
const TEMPLATE: &str = ".tmpl";

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFile {
    /// The path of the file, relative to the folder.
    pub path: PathBuf,
    pub content: Vec<u8>,
}

/// The names of the languages with templates.
#[must_use]
pub fn languages() -> Vec<&'static str> {
    let names = Language::KNOWN.into_iter().map(|(name, _)| name);
    names.filter(|name| template(name, PluginKind::Reconciler).is_some()).collect()
}

/// All files of a new plugin. `None` if there is no template for it.
#[must_use]
pub fn files(language: &str, kind: PluginKind, names: &Names) -> Option<Vec<TemplateFile>> {
    assembled(language, kind.as_str(), kind.as_str(), &COMMON, &|text| names.fill(text))
}

/// The files of the template in the folder `LANGUAGE-TEMPLATE`, the SDK, and the files in `common`. `fill` replaces the
/// placeholders in a text. `plugin` is the kind of plugin.
fn assembled(
    language: &str,
    template: &str,
    plugin: &str,
    common: &[(&str, &str)],
    fill: &dyn Fn(&str) -> String,
) -> Option<Vec<TemplateFile>> {
    let (sdk, prefix) = template_in(language, template)?;
    let filled = |path: &str, text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        TemplateFile { path: fill(path).into(), content: fill(&text).into_bytes() }
    };
    let mut files = Vec::new();
    let instances = instances(language);
    for (path, text) in common {
        let text = text.replace("{{language}}", language).replace("{{plugin}}", plugin);
        let text = text.replace("{{instances}}", instances);
        files.push(filled(path, text.as_bytes()));
    }
    for (path, text) in sdk.templates {
        if let Some(path) = path.strip_prefix(&prefix) {
            files.push(filled(path.strip_suffix(TEMPLATE).unwrap_or(path), text));
        }
    }
    for (path, content) in sdk.files {
        files.push(TemplateFile { path: Path::new("sdk").join(path), content: content.to_vec() });
    }
    ignore_what_is_made(&mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Some(files)
}

/// The `instances` setting for a policy. It depends on the cost of a fresh instance in the language
/// (docs/benchmarks.md).
fn instances(language: &str) -> &'static str {
    match Language::called(language).map(Language::instances) {
        Some(Instances::Reuse) => draft::REUSE.trim_end(),
        Some(Instances::Fresh) | None => {
            "# Each call has an instance of its own, which costs next to nothing in this language.\ninstances: fresh"
        }
    }
}

/// Makes version control ignore the files that this program creates in the folder, even if the template does not.
fn ignore_what_is_made(files: &mut [TemplateFile]) {
    let Some(ignored) = files.iter_mut().find(|file| file.path == Path::new(".gitignore")) else { return };
    for made in ["build", ".windlass"] {
        let text = String::from_utf8_lossy(&ignored.content);
        if !text.lines().any(|line| line.trim_matches('/') == made) {
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            ignored.content = format!("{text}{end}/{made}\n").into_bytes();
        }
    }
}

/// The files of the SDK or the Go module in the folder `name` below `sdk/`. `None` if this binary does not have it.
pub(crate) fn embedded_files(name: &str) -> Option<&'static [(&'static str, &'static [u8])]> {
    SDKS.iter().find(|sdk| sdk.name == name).map(|sdk| sdk.files)
}

/// The SDK with the template for a kind of plugin, and the template's folder.
fn template(language: &str, kind: PluginKind) -> Option<(&'static Sdk, String)> {
    template_in(language, kind.as_str())
}

/// The SDK with the template in the folder `LANGUAGE-TEMPLATE`, and this folder.
fn template_in(language: &str, template: &str) -> Option<(&'static Sdk, String)> {
    let prefix = format!("{language}-{template}/");
    let sdk = SDKS.iter().find(|sdk| sdk.templates.iter().any(|(path, _)| path.starts_with(&prefix)))?;
    Some((sdk, prefix))
}

/// The commands to type next, one per line, from the parent of the new folder.
#[must_use]
pub fn next_steps(language: &str, folder: &Path, names: &Names) -> Vec<String> {
    let mut steps = vec![format!("cd {}", folder.display())];
    match Language::called(language) {
        Some(Language::JavaScript | Language::TypeScript) => {
            steps.push("npm install                   # esbuild and componentize-qjs, into this folder".to_owned());
        }
        Some(Language::Python) => {
            steps.push("python3 -m venv .venv         # windlass build finds what is in it".to_owned());
            steps.push(".venv/bin/pip install -r requirements.txt   # componentize-py".to_owned());
        }
        _ => {}
    }
    steps.push("windlass build                # says what is missing here, if anything, and how to get it".to_owned());
    steps.push(
        "windlass check                # tries it for a minute against crashes, errors, stale caches and missed events"
            .to_owned(),
    );
    steps.push(
        "windlass dev                  # runs it on its own API server, and rebuilds after each change".to_owned(),
    );
    steps.push(format!(
        "kubectl --kubeconfig .windlass/kubeconfig get {}   # meanwhile, in another terminal",
        names.plural
    ));
    steps
}

#[cfg(test)]
mod tests;
