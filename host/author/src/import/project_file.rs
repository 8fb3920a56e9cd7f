//! Reads `PROJECT`, the file in which kubebuilder lists the kinds that it has generated. A project may lack it.

use serde_json::Value;

/// The fields of `PROJECT` that matter here.
#[derive(Debug, Default)]
pub(super) struct ProjectFile {
    /// Empty if the file does not say it.
    pub name: String,
    domain: String,
    resources: Vec<ProjectResource>,
}

#[derive(Debug)]
struct ProjectResource {
    group: String,
    domain: String,
    kind: String,
    version: String,
    /// The import path of the Go type.
    path: String,
    is_core: bool,
}

impl ProjectFile {
    /// Reads the fields that it knows. Other tools write the file, so an unknown field is no error.
    pub(super) fn of(document: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resources = document["resources"].as_array().into_iter().flatten().map(|it| ProjectResource {
            group: text(&it["group"]),
            domain: text(&it["domain"]),
            kind: text(&it["kind"]),
            version: text(&it["version"]),
            path: text(&it["path"]),
            is_core: it["core"] == true,
        });
        Self { name: text(&document["projectName"]), domain: text(&document["domain"]), resources: resources.collect() }
    }

    /// The `apiVersion` of a Go type.
    pub(super) fn api_version(&self, import: &str, kind: &str) -> Option<String> {
        let it = self.resources.iter().find(|it| it.path == import && it.kind == kind && !it.version.is_empty())?;
        let domain = if it.domain.is_empty() { &self.domain } else { &it.domain };
        let group = match (&*it.group, it.is_core) {
            ("core", true) => String::new(),
            (group, true) => group.to_owned(),
            ("", false) => domain.clone(),
            (group, false) if domain.is_empty() => group.to_owned(),
            (group, false) => format!("{group}.{domain}"),
        };
        Some(if group.is_empty() { it.version.clone() } else { format!("{group}/{}", it.version) })
    }
}
