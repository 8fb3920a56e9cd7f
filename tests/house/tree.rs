//! The checks of the whole tree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use windlass_tests::paths;

use crate::bounds::Bound;
use crate::exceptions::{LONG_FILES, LONG_FUNCTIONS};
use crate::findings::{Finding, without_exceptions};
use crate::modules::{Crate, crate_folders};
use crate::source::Source;
use crate::{bounds, chance, circles, dependencies, glossary, lines, names, pages, prose, sizes};

/// This crate stands in for the API server. It uses Kubernetes' terms, and shares no vocabulary with the host.
const API_SERVER: &str = "host/apiserver";

/// The crates of the host.
static HOST: LazyLock<Vec<Crate>> = LazyLock::new(|| {
    let folders = crate_folders(paths::root(), "host").expect("the host's crates are there");
    assert!(folders.len() > 4, "{folders:?}");
    folders.iter().map(|folder| Crate::read(paths::root(), folder).expect("all modules are there")).collect()
});

/// The text files of the checkout, by their paths from its root.
static TEXTS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let (mut found, mut waiting) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(paths::root().join(&folder)).expect("a folder can be read") {
            let entry = entry.expect("a folder can be read");
            let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
            if entry.file_type().expect("it has a type").is_dir() {
                if !["target", ".git", "node_modules"].iter().any(|it| name == *it) {
                    waiting.push(path);
                }
            } else if let Ok(text) = std::fs::read_to_string(paths::root().join(&path)) {
                found.push((path.to_string_lossy().into_owned(), text));
            }
        }
    }
    found.sort();
    found
});

/// The bounds of all Rust code, in every workspace.
static BOUNDS: LazyLock<Vec<Bound>> = LazyLock::new(|| {
    let found: Vec<_> = texts("rs").flat_map(|(path, text)| bounds::bounds(&Source::new(path, text))).collect();
    assert!(found.len() > 500, "{} bounds", found.len());
    found
});

fn texts(extension: &str) -> impl Iterator<Item = (&str, &str)> {
    let with_it = TEXTS.iter().filter(move |(path, _)| Path::new(path).extension().is_some_and(|it| it == extension));
    with_it.map(|(path, text)| (path.as_str(), text.as_str()))
}

fn sources() -> impl Iterator<Item = &'static Source> {
    HOST.iter().flat_map(|of| of.modules.values()).map(|module| &module.source)
}

fn top_circles() -> Vec<String> {
    HOST.iter().flat_map(circles::among_top_modules).collect()
}

fn folder_circles() -> Vec<String> {
    HOST.iter().flat_map(circles::within_folders).collect()
}

fn names_twice() -> Vec<String> {
    HOST.iter().flat_map(names::twice_in_a_crate).collect()
}

fn names_in_many_crates() -> Vec<String> {
    names::in_many_crates(&HOST.iter().filter(|of| of.folder != API_SERVER).collect::<Vec<_>>())
}

fn long_files() -> Vec<String> {
    without_exceptions(sources().filter_map(sizes::file).collect(), LONG_FILES)
}

fn long_functions() -> Vec<String> {
    let found: Vec<Finding> = sources().flat_map(sizes::functions).collect();
    without_exceptions(found, LONG_FUNCTIONS)
}

fn section_signs() -> Vec<String> {
    TEXTS.iter().flat_map(|(path, text)| prose::sections(path, text)).collect()
}

fn doc_comments() -> Vec<String> {
    texts("rs").flat_map(|(path, text)| prose::doc_comments(path, text)).collect()
}

fn half_warnings() -> Vec<String> {
    sources().flat_map(lines::without_a_second_clause).collect()
}

fn unordered_selects() -> Vec<String> {
    sources().flat_map(chance::unordered_selects).collect()
}

fn system_calls() -> Vec<String> {
    sources().flat_map(chance::system_calls).collect()
}

fn wide_lines() -> Vec<String> {
    texts("md").flat_map(|(path, text)| prose::wide_lines(path, text)).collect()
}

fn wide_comments() -> Vec<String> {
    texts("rs").flat_map(|(path, text)| prose::wide_comments(path, text)).collect()
}

fn long_test_names() -> Vec<String> {
    texts("rs").flat_map(|(path, text)| prose::long_test_names(path, text)).collect()
}

fn missing_files() -> Vec<String> {
    /// These pages describe the past, so they may name files that no longer exist.
    const HISTORY: [&str; 2] = ["CHANGELOG.md", "docs/soak/"];
    let is_there = |name: &str| {
        TEXTS.iter().any(|(path, _)| {
            path.match_indices(name).any(|(at, _)| {
                let (before, behind) = (&path[..at], &path[at + name.len()..]);
                (before.is_empty() || before.ends_with('/')) && (behind.is_empty() || behind.starts_with(['/', '.']))
            })
        })
    };
    let of_now = TEXTS.iter().filter(|(path, _)| !HISTORY.iter().any(|it| path.starts_with(it)));
    of_now.flat_map(|(path, text)| pages::missing_files(path, text, is_there)).collect()
}

fn missing_scripts() -> Vec<String> {
    let calls =
        |path: &str| path.starts_with(".github/") || ["Makefile", ".ci/run", "deploy/Dockerfile"].contains(&path);
    let callers: Vec<_> = TEXTS.iter().filter(|(path, _)| calls(path)).collect();
    assert!(callers.len() > 3, "{callers:?}");
    let is_there = |name: &str| TEXTS.iter().any(|(path, _)| path == name);
    callers.iter().flat_map(|(path, text)| pages::missing_scripts(path, text, is_there)).collect()
}

fn glossary() -> Vec<String> {
    const PAGE: &str = "docs/glossary.md";
    let Some((_, page)) = texts("md").find(|(path, _)| *path == PAGE) else { return Vec::new() };
    let types: BTreeSet<_> = sources().flat_map(names::definitions).map(|it| it.name).collect();
    glossary::unknown_types(PAGE, page, &types)
}

fn dependencies() -> Vec<String> {
    /// The interpreter of Starlark is a part of the program, but a workspace of its own.
    const SHIPPED: [(&str, &str); 2] =
        [("Cargo.toml", "host-tuple"), ("sdk/starlark/interpreter/Cargo.toml", "wasm32-unknown-unknown")];
    let rules = std::fs::read_to_string(paths::root().join("deny.toml")).expect("deny.toml can be read");
    let rules = dependencies::Rules::read(&rules).expect("deny.toml is sound");
    let packages = SHIPPED.iter().flat_map(|(manifest, target)| {
        dependencies::packages(&paths::root().join(manifest), target).expect("cargo knows the packages")
    });
    let packages: Vec<_> = packages.collect();
    let locks = texts("lock").filter(|(path, _)| path.ends_with("Cargo.lock"));
    let of_locks = locks.flat_map(|(path, text)| rules.locked(path, text));
    rules.licences(&packages).into_iter().chain(rules.needless_licences(&packages)).chain(of_locks).collect()
}

fn crates_above_themselves() -> Vec<String> {
    let packages = dependencies::packages(&paths::root().join("Cargo.toml"), "host-tuple");
    dependencies::above_themselves(&packages.expect("cargo knows the packages"))
}

/// Fails with the list of breaches, unless it is empty.
#[track_caller]
fn holds(rule: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{rule}:\n{}", breaches.join("\n"));
}

#[test]
fn top_modules_have_no_circles_of_more_than_two() {
    holds("no circles of top modules", &top_circles());
}

#[test]
fn modules_of_a_folder_have_no_circles_of_more_than_two() {
    holds("no circles in folders", &folder_circles());
}

#[test]
fn a_crate_defines_a_type_name_once() {
    holds("no name twice in a crate", &names_twice());
}

#[test]
fn two_crates_at_most_define_a_type_name() {
    holds("no name in more than two crates", &names_in_many_crates());
}

#[test]
fn files_are_short() {
    holds("no long files", &long_files());
}

#[test]
fn functions_are_short() {
    holds("no long functions", &long_functions());
}

#[test]
fn bounds_with_the_same_name_have_the_same_value() {
    holds("no bound with two values", &bounds::with_two_values(&BOUNDS));
}

#[test]
fn bounds_have_clear_names() {
    holds("no bound with a vague name", &bounds::vague(&BOUNDS));
}

#[test]
fn texts_contain_no_section_signs() {
    holds("no section signs", &section_signs());
}

#[test]
fn doc_comments_begin_with_a_subject() {
    holds("no doc comments that begin with a question word", &doc_comments());
}

#[test]
fn warnings_and_errors_have_a_second_clause() {
    holds("no warnings without a second clause", &half_warnings());
}

#[test]
fn selects_are_biased() {
    holds("no select! without biased", &unordered_selects());
}

#[test]
fn random_numbers_and_the_time_come_only_from_windlass_world() {
    holds("chance and time of day only from windlass-world", &system_calls());
}

#[test]
fn markdown_wraps_at_120_columns() {
    holds("no wide lines of Markdown", &wide_lines());
}

#[test]
fn comments_wrap_at_120_columns() {
    holds("no wide lines of comments", &wide_comments());
}

#[test]
fn names_of_tests_have_at_most_70_characters() {
    holds("no tests with long names", &long_test_names());
}

#[test]
fn files_named_in_prose_exist() {
    holds("no missing files in prose", &missing_files());
}

#[test]
fn scripts_called_by_workflows_and_recipes_exist() {
    holds("no missing scripts", &missing_scripts());
}

#[test]
fn types_in_the_glossary_exist() {
    holds("no unknown types in the glossary", &glossary());
}

#[test]
fn crates_have_the_licences_and_sources_that_deny_toml_allows() {
    holds("no crates but those that deny.toml allows", &dependencies());
}

#[test]
fn crates_depend_only_on_lower_crates() {
    holds("no crates that are built on crates above them", &crates_above_themselves());
}
