//! Label selectors, with their whole grammar, and field selectors with `=`, `==` and `!=`. Lists, watches and deletions
//! of collections use them.

mod labels;

use serde_json::Value;

use labels::LabelRequirement;

use crate::object;
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;

/// The label selector and the field selector of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selectors {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

impl Selectors {
    /// Parses both selectors. A field selector may use only the selectable fields of the resource.
    pub(crate) fn parse(resource: &ResourceType, labels: &str, fields: &str) -> Result<Selectors, ApiError> {
        let labels = labels::parse(labels).map_err(|error| ApiError::bad_request(error.to_string()))?;
        let fields = parse_fields(resource, fields)?;
        Ok(Selectors { labels, fields })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|requirement| requirement.matches(object))
            && self.fields.iter().all(|requirement| requirement.matches(object))
    }
}

impl FieldRequirement {
    fn matches(&self, object: &Value) -> bool {
        let found = match object::at_path(object, &self.path) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        (found == self.value) == self.equal
    }
}

/// The selectable fields of a built-in kind, other than name and namespace.
fn selectable_fields(resource: &ResourceType) -> &'static [&'static str] {
    match (resource.id.group.as_str(), resource.id.plural.as_str()) {
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        _ => &[],
    }
}

fn parse_fields(resource: &ResourceType, text: &str) -> Result<Vec<FieldRequirement>, ApiError> {
    let known = selectable_fields(resource);
    let custom: &[String] = resource.custom.as_ref().map_or(&[], |custom| &custom.selectable_fields);
    split_fields(text)
        .into_iter()
        .filter(|term| !term.is_empty())
        .map(|term| {
            let (path, equal, value) = field_term(&term).ok_or_else(|| {
                ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })?;
            let supported = matches!(path, "metadata.name" | "metadata.namespace")
                || known.contains(&path)
                || custom.iter().any(|field| field == path);
            if !supported {
                return Err(unsupported_field(resource, path));
            }
            let value = unescape(value).map_err(ApiError::bad_request)?;
            Ok(FieldRequirement { path: path.to_owned(), value, equal })
        })
        .collect()
}

fn unsupported_field(resource: &ResourceType, path: &str) -> ApiError {
    let message = if resource.kind == "Job" && resource.id.group == "batch" {
        format!("field label {path:?} not supported for Job")
    } else if resource.custom.is_none() && selectable_fields(resource).is_empty() {
        format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {path}")
    };
    ApiError::bad_request(message)
}

/// Splits at commas that are not escaped by a backslash.
fn split_fields(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for character in text.chars() {
        let last = terms.len() - 1;
        match character {
            ',' if !escaped => terms.push(String::new()),
            other => terms[last].push(other),
        }
        escaped = character == '\\' && !escaped;
    }
    terms
}

fn field_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = [term.find('='), term.find("!=")].into_iter().flatten().min()?;
    let (path, rest) = term.split_at(at);
    let (equal, value) = match rest {
        rest if rest.starts_with("!=") => (false, &rest[2..]),
        rest if rest.starts_with("==") => (true, &rest[2..]),
        rest => (true, &rest[1..]),
    };
    Some((path.trim(), equal, value))
}

/// The name that a field selector requires, if it requires one. It is parsed exactly like the selector, because the
/// user's rights to this name are then checked.
pub(super) fn required_name(text: &str) -> Option<String> {
    let terms = split_fields(text);
    let parsed: Option<Vec<_>> = terms.iter().filter(|term| !term.is_empty()).map(|term| field_term(term)).collect();
    let named = parsed?.into_iter().find(|(path, equal, _)| *path == "metadata.name" && *equal);
    named
        .and_then(|(_, _, value)| unescape(value).ok())
        .filter(|name| !name.contains(['/', '%']) && name != "." && name != "..")
}

/// The unescaped value, or its error in a real server's words.
fn unescape(value: &str) -> Result<String, String> {
    let mut result = String::new();
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        let kept = match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => escaped,
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
            },
            ',' | '=' => {
                let number = u32::from(character);
                return Err(format!("invalid field selector: unescaped character in value: {number}"));
            }
            other => other,
        };
        result.push(kept);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_separate_term_requires_a_name() {
        assert_eq!(required_name("spec.nodeName=x,metadata.name=a").as_deref(), Some("a"));
        assert_eq!(required_name("metadata.name==a").as_deref(), Some("a"));
        for text in [
            "metadata.namespace!=\\,metadata.name=a",
            "metadata.name!=a",
            "metadata.name=a,what",
            "metadata.name=a/b",
            "",
        ] {
            assert_eq!(required_name(text), None, "{text}");
        }
    }

    #[test]
    fn a_value_escapes_the_separators_of_terms() {
        assert_eq!(unescape("a\\,b\\=\\\\"), Ok("a,b=\\".to_owned()));
        for (value, why) in [
            ("a\\x", "invalid escape sequence: \\x"),
            ("a\\", "invalid escape sequence: \\"),
            ("a=b", "unescaped character in value: 61"),
        ] {
            assert_eq!(unescape(value), Err(format!("invalid field selector: {why}")));
        }
    }
}
