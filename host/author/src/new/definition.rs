//! The folder of a plugin for objects of an existing kind: with its definition, and with its types in the plugin's
//! language.

use serde_json::Value;
use windlass_core::deceptive;
use windlass_types::{Language, Model, generate, sample};

use super::names::{NameError, Names, check_name};
use super::{TemplateFile, assembled, template_in};

/// Files that are the same in all languages, by their names in the folder.
const COMMON: [(&str, &str); 3] = [
    ("windlass.yaml", include_str!("common/windlass.yaml")),
    ("scenarios/hello.yaml", include_str!("common/definition-scenario.yaml")),
    ("{{name}}.policy.yaml", include_str!("common/definition-policy.yaml")),
];

/// The suffix of the templates' folders.
const TEMPLATE: &str = "definition";

/// The file with the types, for each language that has a template. In Python, a module `types` would hide the standard
/// library's.
const TYPES: [(&str, &str); 4] =
    [("rust", "src/types.rs"), ("go", "types.go"), ("ts", "types.ts"), ("python", "kinds.py")];

/// A kind that exists already.
#[derive(Clone, Debug)]
pub struct ExistingKind {
    pub names: Names,
    /// The text of its definition.
    pub definition: String,
    pub is_namespaced: bool,
    /// The types of the version in `names`.
    pub model: Model,
}

impl ExistingKind {
    /// The names for the plugin `name` of the kind in `definition`.
    pub fn names(name: &str, definition: &Value, version: &str) -> Result<Names, NameError> {
        check_name(name)?;
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = text("/spec/names/kind");
        let singular = Some(text("/spec/names/singular")).filter(|name| !name.is_empty());
        Ok(Names {
            name: name.to_owned(),
            module: name.replace('-', "_"),
            singular: singular.unwrap_or_else(|| kind.to_lowercase()),
            plural: text("/spec/names/plural"),
            kind,
            group: text("/spec/group"),
            version: version.to_owned(),
        })
    }

    /// A small object of the kind.
    #[must_use]
    pub fn sample(&self) -> Value {
        let Names { kind, group, version, .. } = &self.names;
        let mut object = sample(&self.model, &self.type_name());
        object["apiVersion"] = format!("{group}/{version}").into();
        object["kind"] = kind.as_str().into();
        object["metadata"] = if self.is_namespaced {
            serde_json::json!({"name": "hello", "namespace": "default"})
        } else {
            serde_json::json!({"name": "hello"})
        };
        object
    }

    fn type_name(&self) -> String {
        self.model.kinds.first().cloned().unwrap_or_default()
    }
}

/// The languages with a template for existing kinds.
#[must_use]
pub fn languages_with_types() -> Vec<&'static str> {
    TYPES.iter().map(|(language, _)| *language).filter(|language| template_in(language, TEMPLATE).is_some()).collect()
}

/// All files of a new plugin for an existing kind. `None` if the language has no template for it.
#[must_use]
pub fn files_for(language: &str, existing: &ExistingKind) -> Option<Vec<TemplateFile>> {
    let (_, path) = TYPES.iter().find(|(known, _)| *known == language)?;
    let syntax = Language::called(language)?;
    let types = generate(syntax, &existing.model, "main");
    let (sample, type_name) = (existing.sample(), existing.type_name());
    let literal = sample_literal(syntax, &sample);
    // The sample is last, because its texts could look like placeholders.
    let fill = |text: &str| existing.names.fill(text).replace("{{Type}}", &type_name).replace("{{sample}}", &literal);
    let mut files = assembled(language, TEMPLATE, "reconciler", &COMMON, &fill)?;
    let yaml = serde_saphyr::to_string(&sample).unwrap_or_else(|_| sample.to_string());
    let sample = format!("# One object of the kind, to try the plugin with: `windlass dev` creates it.\n{yaml}");
    for (path, text) in [("crd.yaml", &existing.definition), ("sample.yaml", &sample), (*path, &types)] {
        files.push(TemplateFile { path: path.into(), content: text.as_bytes().to_vec() });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Some(files)
}

/// The sample in the language's syntax: an object in TypeScript, and a string with its JSON in the other languages. The
/// texts in it come from the definition, which may be a stranger's: none of them can end the literal.
fn sample_literal(language: Language, sample: &Value) -> String {
    let text = |json: String| deceptive::escape_json(&json).into_owned();
    match language {
        // Only `"#` ends the raw string. In JSON, this is always a quote and a `#` within a text.
        Language::Rust => format!("r#\"{}\"#", text(format!("{sample:#}")).replace("\"#", "\"\\u0023")),
        Language::Go | Language::Python => text(Value::from(sample.to_string()).to_string()),
        Language::TypeScript => windlass_types::typescript_literal(sample),
    }
}
