//! Makes a plugin's folder for a kubebuilder project, for `windlass import`. This module decides the contents, as a
//! value; [`write()`] writes them.
//!
//! The steps: `folder` (bounded reading) → `scan` (facts from the Go sources) → `controllers`, `rights`, `samples`,
//! `setups`, `unserved` (decisions) → `sources`, `report` (texts).
//!
//! The plugin is a Go module of its own inside the project, so that the project builds as before (ADR 41).

mod controllers;
mod environment;
mod folder;
mod gomod;
mod kinds;
mod notes;
mod project_file;
mod reads;
mod report;
mod rights;
mod samples;
mod scan;
mod setups;
mod sources;
mod unserved;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKind;
use windlass_core::rights::grants::Rule;
use windlass_manifest::{Manifest, is_dns_label};
use windlass_policy::asks::{ClusterNames, asks};
use windlass_policy::draft::draft;

use self::controllers::{ControllersError, ImportedController};
use self::environment::Environment;
use self::folder::{FolderError, LeftOut, ProjectFolder};
use self::gomod::{GoMod, GoModError};
use self::kinds::GoKinds;
use self::project_file::ProjectFile;
use self::report::Report;
use self::rights::Rights;
use self::samples::Objects;
use self::scan::{ScanError, SourceFacts};
use self::setups::MainCalls;
use self::sources::{PLUGIN_FILE, PluginFile};
pub use self::write::{ImportWriteError, ReplacedFiles, write};
use crate::new::TemplateFile;

/// The folder of the plugin, inside the project's.
pub const FOLDER: &str = "windlass";
/// The finalizer that stands for all in a manifest.
const ANY_FINALIZER: &str = "*";

/// A project to import, with options.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    pub project: PathBuf,
    /// The plugin's name. `None` to take it from the project.
    pub name: Option<String>,
    /// The name of the plugin's folder inside the project.
    pub folder: String,
}

/// A plugin's folder for a project.
#[derive(Debug)]
pub struct Imported {
    pub name: String,
    /// The module path of the project.
    pub module: String,
    /// The plugin's folder.
    pub folder: PathBuf,
    pub files: Vec<TemplateFile>,
    /// The summary of what was found, in a few lines.
    pub summary: String,
}

/// The reason why a project was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    GoMod(#[from] GoModError),
    #[error(transparent)]
    Scan(#[from] ScanError),
    #[error(transparent)]
    Controllers(#[from] ControllersError),
    #[error("{0:?} cannot name a plugin: up to 63 lower-case letters, digits and dashes. Name it with --name")]
    Name(String),
    #[error("{0:?} cannot name the plugin's folder: use lower-case letters, digits and dashes, such as `windlass`")]
    FolderName(String),
    #[error("the controllers do not make a plugin: {0}")]
    Manifest(String),
}

impl ImportError {
    /// Whether the project caused the error. Otherwise, the command or the environment did.
    #[must_use]
    pub fn is_of_the_project(&self) -> bool {
        match self {
            Self::GoMod(_) | Self::Controllers(_) | Self::Manifest(_) | Self::Scan(ScanError::Broken(_)) => true,
            Self::Folder(error) => {
                matches!(error, FolderError::NoModule(_) | FolderError::TooMuchGo(_) | FolderError::Documents(_))
            }
            Self::Scan(_) | Self::Name(_) | Self::FolderName(_) => false,
        }
    }
}

/// Reads a project, and decides what its plugin's folder contains. Writes nothing.
pub async fn import(request: &ImportRequest) -> Result<Imported, ImportError> {
    if !is_dns_label(&request.folder) {
        return Err(ImportError::FolderName(request.folder.clone()));
    }
    let mut folder = ProjectFolder::list(&request.project)?;
    let go_mod = GoMod::parse(&folder.module_file("go.mod")?)?;
    let go_sum = folder.module_file("go.sum")?;
    let project = if folder.has("PROJECT") { folder.documents("PROJECT")? } else { vec![] };
    let project = ProjectFile::of(project.first().unwrap_or(&Value::Null));
    let mut objects = Objects::read(&mut folder)?;
    let role = if folder.has("config/rbac/role.yaml") { folder.documents("config/rbac/role.yaml")? } else { vec![] };
    let environment = Environment::read(&folder)?;
    let sources = folder.go_files()?;
    let facts = scan::scan(&go_mod.module, &unserved::reported_imports(), &sources).await?;

    let name = plugin_name(request, &project, &go_mod)?;
    let definitions = objects.crds();
    let kinds =
        GoKinds { module: &go_mod.module, packages: &facts.packages, project: &project, definitions: &definitions };
    let mut controllers = controllers::imported(&facts.controllers, &kinds)?;
    let main = setups::main_calls(&facts, &controllers, &go_mod.module);
    controllers.retain(|it| !main.unused.contains(&it.name));
    let primaries: Vec<&ObjectKind> = controllers.iter().map(|it| &it.primary).collect();
    let others = objects.choose(&primaries);
    folder.left_out.extend(others.into_iter().map(|path| LeftOut { path, why: "there are smaller samples" }));
    let rights = Rights::of(&facts.markers, &role);
    let finalizers = finalizers(&facts);
    let earlier = folder.earlier(&request.folder, PLUGIN_FILE);
    let version = sources::version(&earlier);
    let manifest = manifest((&name, version), &controllers, &rights.rules, &finalizers)?;
    let running = running(&facts, &controllers, &main, &go_mod.module);
    let looked_up = facts.uses.iter().filter(|it| running.contains(&it.folder) && it.import == "os");
    let looked_up = looked_up.filter(|it| matches!(&*it.name, "Getenv" | "LookupEnv")).map(|it| &*it.text);
    let reads = reads::reads(&facts, &running, &controllers, &rights.rules, &kinds);
    let plugin_file = PluginFile {
        name: &name,
        version,
        rules: &rights.rules,
        finalizers: &finalizers,
        reads: &reads.cached,
        environment: &environment.names(looked_up),
    };
    let plugin_go = plugin_file.text();
    let report = Report {
        notes: notes::notes(&facts, &controllers, &main, &go_mod, &objects, &environment),
        limitations: found(&facts, &running),
        left_behind: unserved::limitations(&facts, &|folder| main.old.iter().any(|old| old == folder)),
        live_reads: reads.live,
        definitions: objects.definitions.iter().map(|file| file.path.clone()).collect(),
        samples: objects.samples.iter().map(|file| file.path.clone()).collect(),
        name,
        module: go_mod.module.clone(),
        folder: request.folder.clone(),
        controllers,
        main,
        environment: environment.values,
        rights,
        left_out: std::mem::take(&mut folder.left_out),
    };
    let files = files(&report, &manifest, plugin_go, &objects, (&go_mod, go_sum), &running);
    let summary = report.summary();
    let Report { name, module, .. } = report;
    Ok(Imported { name, module, folder: folder.root.join(&request.folder), files, summary })
}

/// The plugin's name: the wish, the project's name, or the last part of the module's path.
fn plugin_name(request: &ImportRequest, project: &ProjectFile, go_mod: &GoMod) -> Result<String, ImportError> {
    if let Some(name) = &request.name {
        return if is_dns_label(name) { Ok(name.clone()) } else { Err(ImportError::Name(name.clone())) };
    }
    let last = go_mod.module.rsplit('/').next().unwrap_or_default();
    let name = if project.name.is_empty() { last } else { &project.name };
    controllers::label(name).ok_or_else(|| ImportError::Name(name.to_owned()))
}

/// The finalizers of the manifest.
fn finalizers(facts: &SourceFacts) -> Vec<String> {
    if facts.finalizers.iter().any(|it| it.name.is_empty()) {
        return vec![ANY_FINALIZER.to_owned()];
    }
    let names: BTreeSet<&String> = facts.finalizers.iter().map(|it| &it.name).collect();
    names.into_iter().cloned().collect()
}

/// The manifest that the plugin will have, as far as its rights depend on it.
fn manifest(
    (name, version): (&str, &str),
    controllers: &[ImportedController],
    rules: &[Rule],
    finalizers: &[String],
) -> Result<Manifest, ImportError> {
    let permissions = rules.iter().map(|rule| {
        json!({"apiGroups": rule.groups, "resources": rule.resources, "verbs": rule.verbs,
               "namespaces": rule.namespaces, "names": rule.names})
    });
    let document = json!({
        "apiVersion": windlass_manifest::API_VERSION,
        "kind": windlass_manifest::KIND,
        "name": name,
        "version": version,
        "controllers": controllers.iter().map(ImportedController::document).collect::<Vec<_>>(),
        "permissions": permissions.collect::<Vec<_>>(),
        "finalizers": finalizers,
    });
    Manifest::from_json(&document.to_string()).map_err(|error| ImportError::Manifest(error.to_string()))
}

/// The folders of the packages that the plugin runs: the folders of its controllers, and of all packages that they
/// import.
fn running(
    facts: &SourceFacts,
    controllers: &[ImportedController],
    main: &MainCalls,
    module: &str,
) -> BTreeSet<String> {
    let mut open: Vec<&str> = controllers.iter().map(|it| &*it.folder).collect();
    open.extend(main.imports.iter().filter_map(|it| folder_of(module, &it.path)));
    let mut found = BTreeSet::new();
    while let Some(folder) = open.pop() {
        let is_old_main = main.old.iter().any(|old| old == folder);
        let Some(package) = facts.packages.iter().find(|it| it.folder == folder && !is_old_main) else { continue };
        if found.insert(folder.to_owned()) {
            open.extend(package.imports.iter().filter_map(|import| folder_of(module, import)));
        }
    }
    found
}

/// The folder of a package of the project. `None` if it is not the project's.
fn folder_of<'a>(module: &str, import: &'a str) -> Option<&'a str> {
    if import == module { Some(".") } else { import.strip_prefix(module)?.strip_prefix('/') }
}

/// The limitations in the code that the plugin runs, and the webhooks, which may be elsewhere.
fn found(facts: &SourceFacts, running: &BTreeSet<String>) -> Vec<unserved::Limitation> {
    let mut found = unserved::limitations(facts, &|folder| running.contains(folder));
    if let Some(webhooks) = unserved::webhooks(facts) {
        match found.iter_mut().find(|it| it.what == webhooks.what) {
            Some(other) => other.places.extend(webhooks.places),
            None => found.insert(0, webhooks),
        }
    }
    found
}

/// All files of the plugin's folder.
fn files(
    report: &Report,
    manifest: &Manifest,
    plugin_go: String,
    objects: &Objects,
    (go_mod, go_sum): (&GoMod, String),
    running: &BTreeSet<String>,
) -> Vec<TemplateFile> {
    let name = &report.name;
    let primaries: Vec<&ObjectKind> = report.controllers.iter().map(|it| &it.primary).collect();
    let is_job = |kind: &ObjectKind| (&*kind.api_version, &*kind.kind) == ("batch/v1", "Job");
    let has_jobs = report.controllers.iter().any(|it| it.owns.iter().any(is_job));
    let names = ClusterNames::default().with_definitions(objects.crds());
    let origin = "as `windlass import` derived it from the project";
    let policy = draft(manifest, origin, &asks(manifest, &names), true, Instances::Reuse);
    let mut files = vec![
        ("go.mod".to_owned(), go_mod.nested(&report.folder).text()),
        ("go.sum".to_owned(), go_sum),
        ("main.go".to_owned(), sources::main_go(name, &report.main, &report.environment)),
        (PLUGIN_FILE.to_owned(), plugin_go),
        (crate::file::NAME.to_owned(), build_file(name, running)),
        (format!("{name}.policy.yaml"), policy),
        ("IMPORT.md".to_owned(), report.markdown()),
        (".gitignore".to_owned(), "/build\n/.windlass\n".to_owned()),
    ];
    let optional = [
        ("crd.yaml", objects.crd_yaml()),
        ("sample.yaml", objects.sample_yaml()),
        ("scenarios/samples.yaml", objects.scenario(&primaries, has_jobs)),
    ];
    files.extend(optional.into_iter().filter_map(|(path, text)| Some((path.to_owned(), text?))));
    files.sort();
    files.into_iter().map(|(path, text)| TemplateFile { path: path.into(), content: text.into_bytes() }).collect()
}

/// The text of windlass.yaml. `windlass dev` follows the sources of the packages in `running`, too.
fn build_file(name: &str, running: &BTreeSet<String>) -> String {
    let mut patterns: BTreeSet<String> = ["**/*.go".to_owned()].into();
    for folder in running {
        patterns.insert(match folder.split('/').next() {
            Some(".") | None => "../*.go".to_owned(),
            Some(top) => format!("../{top}/**/*.go"),
        });
    }
    let patterns = patterns.iter().map(|it| windlass_policy::draft::quoted(it)).collect::<Vec<_>>().join(", ");
    format!(
        "# The settings of `windlass build` and `windlass dev`.\n\
         name: {name}            # as in windlass_plugin.go; the plugin is build/{name}.wasm\n\
         language: go\n\
         plugin: reconciler\n\
         watch: [{patterns}]   # what `windlass dev` follows\n\
         # definitions: {{from: go, paths: [\"../api/...\"]}}   # then a build fails if crd.yaml differs from the types there\n"
    )
}

/// The commands to type next, one per line.
#[must_use]
pub fn next_steps(imported: &Imported, shown: &Path) -> Vec<String> {
    vec![
        format!("cd {}", shown.display()),
        "cat IMPORT.md                 # what was found, and what the plugin cannot do".to_owned(),
        format!("windlass build                # build/{}.wasm", imported.name),
        "windlass check                # tries it against crashes, errors, stale caches and missed events".to_owned(),
        "windlass dev                  # runs it on its own API server, and rebuilds after each change".to_owned(),
    ]
}

#[cfg(test)]
mod tests;
