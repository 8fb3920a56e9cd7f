//! Reads the answer of `describe` into a [`Manifest`]. An error names the field, and suggests a similar known name.

use serde_json::Value;
use windlass_core::deceptive::single_line;

use super::{API_VERSION, KIND, Manifest};

/// How many bytes of the author's text a message quotes at most.
const QUOTED_BYTES: usize = 300;

/// A document that is not a valid manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("the answer of `describe` is not JSON: {0}")]
    NotJson(#[source] serde_json::Error),
    /// The document is for another version of the host, or is not a manifest.
    #[error(
        "it has apiVersion {api_version} and kind {kind}, but this host reads {API_VERSION} {KIND}: build the \
         plugin with an SDK for this host"
    )]
    OtherKind { api_version: String, kind: String },
    /// A field is unknown, missing, or of the wrong type.
    #[error("{path}: {message}{}", .hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    Shape {
        /// The place, such as `controllers[0].options`.
        path: String,
        message: String,
        hint: Option<String>,
    },
    /// The document has the right fields, but some values are invalid. Lists all problems.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl Manifest {
    /// Reads and validates the text of a manifest.
    pub fn from_json(text: &str) -> Result<Self, ManifestError> {
        Self::from_value(serde_json::from_str(text).map_err(ManifestError::NotJson)?)
    }

    /// Reads and validates a manifest that is already parsed as JSON.
    pub fn from_value(value: Value) -> Result<Self, ManifestError> {
        check_kind(&value)?;
        let manifest: Self = serde_path_to_error::deserialize(value).map_err(|error| shape_error(&error))?;
        let problems = manifest.problems();
        if problems.is_empty() { Ok(manifest) } else { Err(ManifestError::Invalid(problems)) }
    }
}

/// This check runs first, because a document of another version may have entirely different fields.
fn check_kind(value: &Value) -> Result<(), ManifestError> {
    let [api_version, kind] = ["apiVersion", "kind"].map(|field| value.get(field));
    if api_version.and_then(Value::as_str) == Some(API_VERSION) && kind.and_then(Value::as_str) == Some(KIND) {
        return Ok(());
    }
    let shown =
        |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), |value| single_line(&value.to_string(), 80));
    Err(ManifestError::OtherKind { api_version: shown(api_version), kind: shown(kind) })
}

fn shape_error(error: &serde_path_to_error::Error<serde_json::Error>) -> ManifestError {
    let message = error.inner().to_string();
    let path = error.path().to_string();
    ManifestError::Shape {
        path: if path == "." { "the manifest".to_owned() } else { single_line(&path, QUOTED_BYTES) },
        hint: did_you_mean(&message),
        message: single_line(&message, QUOTED_BYTES),
    }
}

/// Suggests a similar known name if `message` is serde's error about an unknown field or variant. Such a message has
/// the unknown name in backticks, and the known names after "expected", with or without backticks.
#[must_use]
pub fn did_you_mean(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"))?;
    let (found, expected) = rest.split_once("`, expected ")?;
    let names = expected.strip_prefix("one of ").unwrap_or(expected).split(", ").flat_map(|name| name.split(" or "));
    nearest(found, names.map(|name| name.trim_matches('`')))
}

/// Suggests the candidate that is most similar to the misspelt name `found`.
pub fn nearest<'a>(found: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let (distance, nearest) = candidates
        .map(|candidate| (strsim::damerau_levenshtein(&found.to_lowercase(), &candidate.to_lowercase()), candidate))
        .min()?;
    // If more than a third of the letters differ, a suggestion would not help.
    (distance <= found.chars().count().max(3) / 3).then(|| format!("did you mean `{nearest}`?"))
}
