//! Takes the definitions and the samples of a project, and makes a scenario of them.

use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_core::object::ObjectKind;

use super::folder::{FolderError, ProjectFolder};
use crate::documents::DOCUMENTS_BYTES_MAX;

/// The folders with definitions. The first one that has any counts.
const DEFINITION_FOLDERS: [&str; 5] = ["config/crd/bases/", "config/crd/", "config/crds/", "helm-chart/", "charts/"];
/// The folder with samples.
const SAMPLE_FOLDER: &str = "config/samples/";
/// The maximum number of files with samples that are all taken.
const SAMPLE_FILES_MAX: usize = 8;
/// The maximum number of samples that a scenario deletes and creates again.
const SCENARIO_SAMPLES_MAX: usize = 8;

/// The objects of one file.
#[derive(Debug)]
pub(super) struct ObjectFile {
    pub path: String,
    pub objects: Vec<Value>,
    /// The text of the file, if it has no other objects.
    text: Option<String>,
}

/// The definitions and samples of a project.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub definitions: Vec<ObjectFile>,
    pub samples: Vec<ObjectFile>,
}

impl Objects {
    pub(super) fn read(folder: &mut ProjectFolder) -> Result<Self, FolderError> {
        let mut objects = Self::default();
        for within in DEFINITION_FOLDERS {
            let is_template = !within.starts_with("config/");
            for path in folder.yaml(within) {
                if is_template && !path.contains("/crds/") {
                    continue;
                }
                match object_file(folder, &path, &|object| object["kind"] == "CustomResourceDefinition") {
                    Ok(file) => objects.definitions.extend(file),
                    // A chart's files may be templates.
                    Err(_) if is_template => {
                        folder.left_out.push(super::folder::LeftOut { path, why: "it is no YAML" });
                    }
                    Err(error) => return Err(error),
                }
            }
            if !objects.definitions.is_empty() {
                break;
            }
        }
        for path in folder.yaml(SAMPLE_FOLDER) {
            let is_object = |object: &Value| object["kind"].is_string() && object["metadata"]["name"].is_string();
            objects.samples.extend(object_file(folder, &path, &is_object)?);
        }
        Ok(objects)
    }

    /// If there are many samples, keeps the smallest file for each of the primaries. Returns the paths of the other
    /// files.
    pub(super) fn choose(&mut self, primaries: &[&ObjectKind]) -> Vec<String> {
        if self.samples.len() <= SAMPLE_FILES_MAX {
            return vec![];
        }
        let has = |file: &ObjectFile, kind: &ObjectKind| file.objects.iter().any(|object| is_of(object, kind));
        let smallest = |kind: &&ObjectKind| {
            let files = self.samples.iter().filter(|file| has(file, kind));
            files.min_by_key(|file| file.objects.iter().map(|it| it.to_string().len()).sum::<usize>())
        };
        let kept: Vec<String> = primaries.iter().filter_map(smallest).map(|file| file.path.clone()).collect();
        let (kept, others) = std::mem::take(&mut self.samples).into_iter().partition(|file| kept.contains(&file.path));
        self.samples = kept;
        let others: Vec<ObjectFile> = others;
        others.into_iter().map(|file| file.path).collect()
    }

    /// All definitions.
    pub(super) fn crds(&self) -> Vec<Value> {
        self.definitions.iter().flat_map(|file| file.objects.iter().cloned()).collect()
    }

    /// The content of crd.yaml. `None` if there are no definitions.
    pub(super) fn crd_yaml(&self) -> Option<String> {
        let text = joined(&self.definitions, "# The definitions of the project, as `windlass import` found them.\n")?;
        if text.len() as u64 <= DOCUMENTS_BYTES_MAX {
            return Some(text);
        }
        let mut short =
            "# The definitions of the project without descriptions, which would make the file too large.\n".to_owned();
        for mut crd in self.crds() {
            remove_descriptions(&mut crd);
            let _ = writeln!(short, "---\n{crd}");
        }
        Some(short)
    }

    /// The content of sample.yaml. `None` if there are no samples.
    pub(super) fn sample_yaml(&self) -> Option<String> {
        let mut heading = "# The samples of the project: `windlass dev` creates them.\n".to_owned();
        for namespace in self.namespaces() {
            let _ = writeln!(
                heading,
                "---\n{}",
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            );
        }
        joined(&self.samples, &heading)
    }

    /// The namespaces of the samples that a new API server lacks, and that no sample creates.
    fn namespaces(&self) -> Vec<&str> {
        let objects = || self.samples.iter().flat_map(|file| &file.objects);
        let is_made = |name: &str| {
            name == "default" || objects().any(|it| it["kind"] == "Namespace" && it["metadata"]["name"] == name)
        };
        let mut names: Vec<_> = objects().filter_map(|it| it["metadata"]["namespace"].as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !is_made(name));
        names
    }

    /// The samples of these kinds.
    pub(super) fn samples_of(&self, kinds: &[&ObjectKind]) -> Vec<&Value> {
        let is_one = |object: &&Value| kinds.iter().any(|kind| is_of(object, kind));
        self.samples.iter().flat_map(|file| &file.objects).filter(is_one).collect()
    }

    /// The samples without a spec, which kubebuilder generates for authors to fill.
    pub(super) fn empty_samples(&self) -> Vec<&str> {
        let is_empty = |file: &&ObjectFile| file.objects.iter().any(|it| it.get("spec").is_some_and(Value::is_null));
        self.samples.iter().filter(is_empty).map(|file| &*file.path).collect()
    }

    /// A scenario for `windlass check` with the samples of the primaries. `None` if there are none.
    ///
    /// The usual stand-ins make workloads ready and never finish a Job, so a plugin with Jobs of its own gets all.
    pub(super) fn scenario(&self, primaries: &[&ObjectKind], has_jobs: bool) -> Option<String> {
        let samples = self.samples_of(primaries);
        let first = samples.first()?;
        let load = if self.definitions.is_empty() { json!([]) } else { json!(["../crd.yaml"]) };
        let stand_ins = if has_jobs { "all" } else { "default" };
        let mut text = format!(
            "# What happens while the plugin is at work. `windlass check` runs it, and then again and again with a fault each\n\
             # time: crashes, errors, lost answers, missed events, other people's edits. The end must always be the same.\n\
             # Add what must hold at the end: expect, as docs/checking.md shows.\n\
             apiVersion: windlass.dev/v1alpha1\n\
             kind: Scenario\n\
             name: samples\n\
             load: {load}\n\
             standIns: {stand_ins}\n\
             steps:\n\
             - apply: ../sample.yaml\n"
        );
        if let Some((field, old, new)) = self.change(first) {
            for value in [new, old] {
                let patch = json!({"object": name_of(first), "merge": {"spec": {&field: value}}});
                let _ = writeln!(text, "- patch: {patch}");
            }
        }
        for sample in samples.iter().take(SCENARIO_SAMPLES_MAX) {
            let _ = writeln!(text, "- delete: {}", name_of(sample));
        }
        text.push_str("- apply: ../sample.yaml\n");
        Some(text)
    }

    /// A number in the spec of a sample that may change: its field, its value, and another one that the schema allows.
    fn change(&self, sample: &Value) -> Option<(String, i64, i64)> {
        let schema = self.spec_schema(sample)?;
        sample["spec"].as_object()?.iter().find_map(|(field, value)| {
            let (old, rule) = (value.as_i64()?, &schema["properties"][field]);
            let bound = |name: &str, default: i64| rule[name].as_i64().unwrap_or(default);
            let (least, most) = (bound("minimum", 1), bound("maximum", i64::MAX));
            let mut others = [old.checked_add(1)?, old.checked_sub(1)?].into_iter();
            let new = others.find(|new| (least..=most).contains(new))?;
            (rule["type"] == "integer").then(|| (field.clone(), old, new))
        })
    }

    fn spec_schema(&self, sample: &Value) -> Option<Value> {
        let (group, version) = sample["apiVersion"].as_str()?.split_once('/')?;
        let of = |crd: &Value| {
            let spec = &crd["spec"];
            if spec["group"] != group || spec["names"]["kind"] != sample["kind"] {
                return None;
            }
            let version = spec["versions"].as_array()?.iter().find(|it| it["name"] == version)?;
            Some(version["schema"]["openAPIV3Schema"]["properties"]["spec"].clone())
        };
        self.definitions.iter().flat_map(|file| &file.objects).find_map(of)
    }
}

/// The objects of a file that are wanted. `None` if there are none.
fn object_file(
    folder: &ProjectFolder,
    path: &str,
    wanted: &dyn Fn(&Value) -> bool,
) -> Result<Option<ObjectFile>, FolderError> {
    let mut objects = folder.documents(path)?;
    let all = objects.len();
    objects.retain(wanted);
    if objects.is_empty() {
        return Ok(None);
    }
    let text = if objects.len() == all { Some(folder.text(path)?) } else { None };
    Ok(Some(ObjectFile { path: path.to_owned(), objects, text }))
}

/// Joins files into one. If a file also has unwanted objects, its wanted objects are written as JSON, which is YAML
/// too.
fn joined(files: &[ObjectFile], heading: &str) -> Option<String> {
    let mut text = heading.to_owned();
    for ObjectFile { path, objects, text: whole } in files {
        match whole {
            Some(whole) => {
                let separator = if whole.starts_with("---") { "" } else { "---\n" };
                let end = if whole.ends_with('\n') { "" } else { "\n" };
                let _ = write!(text, "# {}\n{separator}{whole}{end}", path.replace(char::is_control, " "));
            }
            None => {
                for object in objects {
                    let _ = writeln!(text, "---\n{object}");
                }
            }
        }
    }
    (!files.is_empty()).then_some(text)
}

/// Removes the texts of a schema. A property may have the name `description`, and then its value is a schema. Values,
/// such as defaults, stay as they are.
fn remove_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("description").is_some_and(Value::is_string) {
                fields.remove("description");
            }
            let schemas = fields.iter_mut().filter(|(key, _)| !matches!(key.as_str(), "default" | "enum" | "example"));
            schemas.for_each(|(_, schema)| remove_descriptions(schema));
        }
        Value::Array(items) => items.iter_mut().for_each(remove_descriptions),
        _ => {}
    }
}

fn is_of(object: &Value, kind: &ObjectKind) -> bool {
    object["apiVersion"] == *kind.api_version && object["kind"] == *kind.kind
}

fn name_of(object: &Value) -> Value {
    let mut name =
        json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"]});
    if let Some(namespace) = object["metadata"]["namespace"].as_str() {
        name["namespace"] = namespace.into();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Result<Objects, FolderError>) {
        let at = tempfile::tempdir().expect("a directory");
        for (path, text) in files.iter().chain(&[("go.mod", "module example.com/shop\n")]) {
            let path = at.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            std::fs::write(path, text).expect("it is written");
        }
        let objects = Objects::read(&mut ProjectFolder::list(at.path()).expect("it is read"));
        (at, objects)
    }

    const CRD: &str = "kind: CustomResourceDefinition\nmetadata: {name: shops.example.com}\nspec:\n  group: example.com\n  \
                       names: {kind: Shop}\n  versions:\n  - name: v1\n    schema: {openAPIV3Schema: {properties: {spec: \
                       {properties: {size: {type: integer, minimum: 1, maximum: 3}}}}}}\n";
    const SAMPLE: &str =
        "apiVersion: example.com/v1\nkind: Shop\nmetadata: {name: a, namespace: prod}\nspec: {name: x, size: 3}\n";

    #[test]
    fn a_scenario_applies_changes_and_deletes_the_samples() {
        let (_at, objects) = folder(&[
            ("config/crd/bases/a.yaml", CRD),
            ("config/crd/patches/b.yaml", "kind: [broken"),
            ("config/samples/kustomization.yaml", "resources: [a.yaml]\n"),
            ("config/samples/a.yaml", SAMPLE),
            ("config/samples/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"),
        ]);
        let objects = objects.expect("they are read");
        let kind = ObjectKind { api_version: "example.com/v1".into(), kind: "Shop".into() };
        let scenario = objects.scenario(&[&kind], true).expect("there is a sample");
        assert!(scenario.contains("standIns: all\n"), "{scenario}");
        let steps: Vec<_> = scenario.lines().skip_while(|line| *line != "steps:").skip(1).collect();
        let name = r#"{"apiVersion":"example.com/v1","kind":"Shop","name":"a","namespace":"prod"}"#;
        let patch = |size: u32| format!(r#"- patch: {{"merge":{{"spec":{{"size":{size}}}}},"object":{name}}}"#);
        let (apply, delete) = ("- apply: ../sample.yaml", format!("- delete: {name}"));
        assert_eq!(steps, [apply, &patch(2), &patch(3), &delete, apply]);
        let sample = objects.sample_yaml().expect("there are samples");
        assert!(sample.contains(r#""kind":"Namespace","metadata":{"name":"prod"}"#), "{sample}");
        assert!(sample.contains("kind: ConfigMap") && sample.contains("# config/samples/a.yaml\n---\n"), "{sample}");
        assert!(objects.crd_yaml().expect("there is one").contains(CRD));
        let other = ObjectKind { api_version: "v1".into(), kind: "Pod".into() };
        assert_eq!(objects.scenario(&[&other], true), None);
    }

    #[test]
    fn other_objects_of_a_file_are_left_out() {
        let text = format!("{CRD}---\nkind: Namespace\nmetadata: {{name: x}}\n");
        let (_at, objects) = folder(&[("config/crd/bases/a.yaml", &text)]);
        let crds = objects.expect("they are read").crd_yaml().expect("there is one");
        assert!(!crds.contains("Namespace") && crds.contains(r#""kind":"CustomResourceDefinition""#), "{crds}");
    }

    #[test]
    fn of_many_samples_the_smallest_of_each_primary_is_taken() {
        let kind = ObjectKind { api_version: "example.com/v1".into(), kind: "Shop".into() };
        let file = |number: usize| ObjectFile {
            path: format!("{number}"),
            objects: vec![json!({"apiVersion": "example.com/v1", "kind": "Shop", "spec": "x".repeat(20 - number)})],
            text: None,
        };
        let mut objects = Objects { definitions: vec![], samples: (0..8).map(file).collect() };
        assert!(objects.choose(&[&kind]).is_empty());
        objects.samples.push(file(9));
        assert_eq!(objects.choose(&[&kind]).len(), 8);
        assert_eq!(objects.samples[0].path, "9");
    }

    #[test]
    fn a_yaml_bomb_is_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            let _ = writeln!(bomb, "a{level}: &a{level} [{}]", vec![before; 10].join(", "));
        }
        let (_at, objects) = folder(&[("config/samples/bomb.yaml", &bomb)]);
        let error = objects.expect_err("too large").to_string();
        assert!(error.contains("config/samples/bomb.yaml"), "{error}");
    }

    #[test]
    fn a_file_with_huge_definitions_loses_their_descriptions() {
        let crd = json!({"kind": "CustomResourceDefinition", "spec": {"description": "x".repeat(5 << 20),
            "properties": {"description": {"type": "string"}}, "default": {"description": "a shop"}}});
        let objects = Objects {
            definitions: vec![ObjectFile { path: "a".into(), objects: vec![crd], text: None }],
            samples: vec![],
        };
        let text = objects.crd_yaml().expect("there is one");
        assert!(text.len() < 500 && text.contains(r#""properties":{"description":{"type":"string"}}"#), "{text}");
        assert!(text.contains(r#""default":{"description":"a shop"}"#), "{text}");
    }
}
