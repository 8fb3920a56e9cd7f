//! Tests new folders in each language that this binary supports.

use std::collections::BTreeSet;

use super::*;
use crate::file;
use windlass_policy::document;

fn names() -> Names {
    Names::of("my-policy", &ApiWish::default()).expect("a name")
}

fn made(language: &str, kind: PluginKind) -> Vec<TemplateFile> {
    files(language, kind, &names()).unwrap_or_else(|| panic!("{language} has no template"))
}

fn text(files: &[TemplateFile], path: &str) -> String {
    let file = files.iter().find(|file| file.path == Path::new(path)).unwrap_or_else(|| panic!("there is no {path}"));
    String::from_utf8(file.content.clone()).expect("UTF-8")
}

/// Each language with each kind of plugin.
fn all() -> Vec<(&'static str, PluginKind)> {
    languages()
        .into_iter()
        .flat_map(|language| [(language, PluginKind::Reconciler), (language, PluginKind::Composer)])
        .collect()
}

#[test]
fn no_placeholder_is_left_and_no_file_is_duplicated() {
    for (language, kind) in all() {
        let files = made(language, kind);
        let paths: BTreeSet<_> = files.iter().map(|file| &file.path).collect();
        assert_eq!(paths.len(), files.len(), "{language}");
        for TemplateFile { path, content } in files.iter().filter(|file| !file.path.starts_with("sdk")) {
            let text = String::from_utf8_lossy(content);
            for place in [
                "{{name",
                "{{Kind",
                "{{module",
                "{{plural",
                "{{singular",
                "{{language",
                "{{plugin",
                "{{instances",
                "{{group",
                "{{version",
            ] {
                assert!(!text.contains(place), "{language}: {} has {place}", path.display());
                assert!(!path.to_string_lossy().contains(place), "{language}: {}", path.display());
            }
            assert!(!path.to_string_lossy().ends_with(TEMPLATE), "{}", path.display());
        }
    }
}

#[test]
fn every_new_folder_is_complete() {
    for (language, kind) in all() {
        let files = made(language, kind);
        for path in ["README.md", ".gitignore", "windlass.yaml", "crd.yaml", "sample.yaml", "my-policy.policy.yaml"] {
            assert!(!text(&files, path).is_empty(), "{language}: {path}");
        }
        assert!(files.iter().any(|file| file.path.starts_with("sdk")), "{language}");
        let dropped = |file: &TemplateFile| {
            let dropped = ["sdk/templates", "sdk/test", "sdk/tests"];
            dropped.iter().any(|folder| file.path.starts_with(folder))
                || file.path.iter().any(|part| part == "node_modules")
        };
        assert!(!files.iter().any(dropped), "{language}: what an author does not need");
        let ignored = text(&files, ".gitignore");
        assert!(ignored.contains("build") && ignored.contains(".windlass"), "{language}: {ignored}");
    }
}

#[test]
fn every_link_in_a_new_folder_leads_to_one_of_its_files() {
    for (language, kind) in all() {
        let files = made(language, kind);
        for page in files.iter().filter(|file| file.path.extension().is_some_and(|extension| extension == "md")) {
            let folder = page.path.parent().unwrap_or(Path::new(""));
            for link in links(&String::from_utf8_lossy(&page.content)) {
                let (path, anchor) = link.split_once('#').unwrap_or((link.as_str(), ""));
                let target = if path.is_empty() { page.path.clone() } else { folder.join(path) };
                let there = files.iter().find(|file| file.path == target);
                let leads = |there: &TemplateFile| {
                    anchor.is_empty()
                        || headings(&String::from_utf8_lossy(&there.content)).any(|heading| heading == anchor)
                };
                assert!(there.is_some_and(leads), "{language}: {} links to {link}", page.path.display());
            }
        }
        assert!(links(&text(&files, "README.md")).contains(&"sdk/GUIDE.md".to_owned()), "{language}");
    }
}

/// The targets of a page's links, except for those to other sites.
fn links(markdown: &str) -> Vec<String> {
    let prose = markdown.split("```").step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.starts_with("https://")).map(str::to_owned).collect()
}

/// The anchors of a page's headings.
fn headings(markdown: &str) -> impl Iterator<Item = String> {
    let titles = markdown.lines().filter_map(|line| line.strip_prefix('#'));
    titles.map(|title| title.trim_start_matches('#').trim().to_lowercase().replace(' ', "-"))
}

#[test]
fn created_files_are_ignored_by_version_control() {
    for (template, ignored) in [
        ("", "/build\n/.windlass\n"),
        ("/build\nnode_modules", "/build\nnode_modules\n/.windlass\n"),
        ("build/\n.windlass/\n", "build/\n.windlass/\n"),
    ] {
        let mut files = [TemplateFile { path: ".gitignore".into(), content: template.into() }];
        ignore_what_is_made(&mut files);
        assert_eq!(String::from_utf8_lossy(&files[0].content), ignored);
    }
}

#[test]
fn the_build_file_and_the_policy_are_valid() {
    for (language, kind) in all() {
        let files = made(language, kind);
        let read = file::parse(Path::new("windlass.yaml"), text(&files, "windlass.yaml").as_bytes());
        let read = read.unwrap_or_else(|error| panic!("{language}: {error}"));
        assert_eq!((&*read.name, &*read.language_name, read.kind), ("my-policy", language, kind));
        assert_eq!((read.sdk, read.own), ("sdk".into(), None));
        let policy = text(&files, "my-policy.policy.yaml");
        let policy = document::policy(Path::new("p"), policy.as_bytes(), "my-policy").expect("a policy");
        assert!(policy.allowance.rules.iter().any(|rule| rule.resources == ["mypolicies/status"]));
        assert!(!policy.paused);
        let is_fresh = matches!(language, "rust" | "c");
        assert_eq!(policy.instances == windlass_core::life::instances::Instances::Fresh, is_fresh, "{language}");
    }
}

#[test]
fn every_file_of_a_template_uses_the_wanted_api() {
    let wish = ApiWish { kind: Some("CronJob".into()), group: "batch.example.dev".into(), version: "v1alpha1".into() };
    let names = Names::of("my-policy", &wish).expect("names");
    for (language, kind) in all() {
        let files = files(language, kind, &names).expect("a template");
        let mut of_the_api = Vec::new();
        for TemplateFile { path, content } in files.iter().filter(|file| !file.path.starts_with("sdk")) {
            let text = String::from_utf8_lossy(content);
            for former in ["example.com/v1", "MyPolicy", "mypolic"] {
                assert!(!text.contains(former), "{language}: {} says {former}", path.display());
            }
            if text.contains("batch.example.dev/v1alpha1") {
                of_the_api.push(path.display().to_string());
            }
        }
        assert!(of_the_api.len() >= 2, "{language}: the sample and the sources, not {of_the_api:?}");
        assert!(text(&files, "crd.yaml").contains("name: cronjobs.batch.example.dev"));
        assert!(text(&files, "my-policy.policy.yaml").contains("apiGroups: [\"batch.example.dev\"]"));
    }
}

#[test]
fn the_sample_has_the_kind_of_the_crd() {
    let names = names();
    let yaml = |text: &str| -> serde_json::Value { serde_saphyr::from_str(&names.fill(text)).expect("YAML") };
    let (crd, sample) = (yaml(COMMON[1].1), yaml(COMMON[2].1));
    let definition = windlass_kube::Definition::read(crd.as_object().expect("an object")).expect("a definition");
    assert_eq!(definition.name(), "mypolicies.example.com");
    assert_eq!(crd["spec"]["names"]["kind"], sample["kind"]);
    assert_eq!(sample["apiVersion"], "example.com/v1");
    assert!(crd["spec"]["versions"][0]["subresources"]["status"].is_object());
}

#[test]
fn every_known_language_that_has_an_sdk_has_both_templates() {
    assert!(languages().contains(&"rust"), "{:?}", languages());
    for language in languages() {
        assert!(template(language, PluginKind::Composer).is_some(), "{language} has no template of a composer");
    }
}

/// Cargo notices changed and removed files if it watches the files, and new files only if it watches their folder.
#[test]
fn cargo_watches_source_folders_but_not_folders_that_tools_write() {
    let output = std::fs::read_to_string(concat!(env!("OUT_DIR"), "/../output")).expect("what the build script said");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the host is a folder of it");
    let looks_at = |folder: &str| {
        let line = format!("cargo::rerun-if-changed={}", repository.join(folder).display());
        output.lines().any(|it| it == line)
    };
    for folder in ["sdk/c", "sdk/go", "sdk/js/src", "sdk/js/templates", "sdk/python", "sdk/rust", "wit"] {
        assert!(looks_at(folder), "{folder}: {output}");
    }
    assert!(!looks_at("sdk/js") && !output.contains("node_modules") && !output.contains("__pycache__"), "{output}");
}

#[test]
fn the_next_steps_get_what_a_language_needs() {
    let needs = |language| next_steps(language, Path::new("my-policy"), &names()).join("\n");
    assert!(needs("python").contains("-m venv .venv") && needs("python").contains("pip install -r requirements.txt"));
    assert!(needs("ts").contains("npm install"));
    assert!(!needs("rust").contains("install"));
}

/// A kind with a name that Rust's templates use themselves, and with a type that is named after it.
async fn existing() -> ExistingKind {
    let spec = serde_json::json!({"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}});
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "options.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced", "names": {"kind": "Option", "plural": "options"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    });
    let server = windlass_apiserver::ApiServer::in_process(&windlass_apiserver::Config::default());
    let url = http::Uri::from_static("http://localhost");
    let embedded = windlass_kube::client::Connection::in_process(server.service(), &url);
    let definitions = std::slice::from_ref(&definition);
    let model = crate::types::of_definitions(&embedded, "crd.yaml", definitions, None).await.expect("it is valid");
    let names = ExistingKind::names("my-policy", &definition, "v1").expect("a name");
    let existing = ExistingKind { names, definition: definition.to_string(), is_namespaced: true, model };
    let refusal = crate::types::refusal(&embedded, "options", &existing.sample()).await;
    assert_eq!((refusal, &existing.sample()["spec"]["size"]), (None, &serde_json::json!(1)));
    let invalid =
        crate::types::refusal(&embedded, "options", &serde_json::json!({"apiVersion": "example.dev/v1"})).await;
    assert!(invalid.is_some());
    existing
}

#[tokio::test]
async fn a_folder_for_an_existing_kind_has_its_definition_and_types() {
    let existing = existing().await;
    assert_eq!(languages_with_types(), ["rust", "go", "ts", "python"]);
    for (language, types, source) in [
        ("rust", "src/types.rs", "src/lib.rs"),
        ("go", "types.go", "main.go"),
        ("ts", "types.ts", "plugin.ts"),
        ("python", "kinds.py", "app.py"),
    ] {
        let files = files_for(language, &existing).expect("a template");
        assert_eq!(text(&files, "crd.yaml"), existing.definition);
        assert!(text(&files, types).contains("Option2"), "{language}");
        assert!(text(&files, source).contains("Option2"), "{language}");
        let sample: serde_json::Value = serde_saphyr::from_str(&text(&files, "sample.yaml")).expect("YAML");
        assert_eq!(sample, existing.sample());
        let policy = text(&files, "my-policy.policy.yaml");
        let policy = document::policy(Path::new("p"), policy.as_bytes(), "my-policy").expect("a policy");
        assert!(policy.allowance.rules.iter().any(|rule| rule.resources == ["options"]));
        file::parse(Path::new("windlass.yaml"), text(&files, "windlass.yaml").as_bytes()).expect("a build file");
        for TemplateFile { path, content } in files.iter().filter(|file| !file.path.starts_with("sdk")) {
            let text = String::from_utf8_lossy(content);
            let has_place = text.split("{{").skip(1).any(|rest| rest.starts_with(|it: char| it.is_ascii_alphabetic()));
            assert!(!has_place, "{language}: {}", path.display());
        }
    }
    assert!(files_for("c", &existing).is_none());
}

#[tokio::test]
async fn a_text_of_a_definition_cannot_leave_the_sample() {
    let mut existing = existing().await;
    let places = "{{sample}} {{sample-literal}} {{Type}} {{name}}";
    for hostile in ["\"##; #[test] fn p() {} const Y: &str = r##\"", "\"#", "## Title", "\u{202e}`${x}\\", places] {
        for declaration in &mut existing.model.declarations {
            let windlass_types::Body::Struct(it) = &mut declaration.body else { continue };
            it.fields.iter_mut().filter(|field| field.key == "size").for_each(|it| it.default = Some(hostile.into()));
        }
        let sample = existing.sample();
        assert_eq!(sample["spec"]["size"], hostile);
        for (language, file, start, end) in [
            ("rust", "src/tests.rs", "const SAMPLE: &str = r#\"", "\"#"),
            ("go", "main_test.go", "const sample = ", "\n"),
            ("ts", "plugin.test.ts", "const sample = ", " satisfies"),
            ("python", "test_app.py", "SAMPLE = json.loads(", ")\n"),
        ] {
            let text = text(&files_for(language, &existing).expect("a template"), file);
            let (_, rest) = text.split_once(start).expect("a sample");
            let (literal, _) = rest.split_once(end).expect("an end");
            assert!(literal.chars().all(|it| it == '\n' || !windlass_core::deceptive::is_deceptive(it)), "{literal}");
            let mut value: serde_json::Value = serde_json::from_str(literal).expect("the whole literal");
            if let Some(json) = value.as_str() {
                value = serde_json::from_str(json).expect("JSON");
            }
            assert_eq!(value, sample, "{language}: {text}");
        }
    }
}
