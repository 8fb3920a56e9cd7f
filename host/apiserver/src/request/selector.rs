//! Label and field selectors: the whole grammar of the first, `=`, `==` and `!=` of the second. Pure; lists, watches and
//! collection deletes use them.

use serde_json::Value;

use crate::object;
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;

/// Both selectors of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selectors {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    test: LabelTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTest {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

impl Selectors {
    /// Parses both; field selectors are checked against what the resource can be selected by.
    pub(crate) fn parse(resource: &ResourceType, labels: &str, fields: &str) -> Result<Selectors, ApiError> {
        let labels =
            parse_labels(labels).map_err(|why| ApiError::bad_request(format!("unable to parse requirement: {why}")))?;
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

impl LabelRequirement {
    fn matches(&self, object: &Value) -> bool {
        let value = object::label(object, &self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            LabelTest::Exists => value.is_some(),
            LabelTest::Absent => value.is_none(),
            LabelTest::In(values) => value.is_some_and(|value| values.iter().any(|allowed| allowed == value)),
            LabelTest::NotIn(values) => value.is_none_or(|value| values.iter().all(|refused| refused != value)),
            LabelTest::Greater(bound) => number().is_some_and(|number| number > *bound),
            LabelTest::Less(bound) => number().is_some_and(|number| number < *bound),
        }
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

/// Fields by which a built-in can be selected beside its name and namespace.
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
        ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
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
                ApiError::bad_request(format!("invalid selector: '{term}'; can't understand '{term}'"))
            })?;
            let supported = matches!(path, "metadata.name" | "metadata.namespace")
                || known.contains(&path)
                || custom.iter().any(|field| field == path);
            if !supported {
                return Err(unsupported_field(resource, path));
            }
            Ok(FieldRequirement { path: path.to_owned(), value: unescape(value), equal })
        })
        .collect()
}

fn unsupported_field(resource: &ResourceType, path: &str) -> ApiError {
    let message = if resource.custom.is_none() && selectable_fields(resource).is_empty() {
        format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {path}")
    };
    ApiError::bad_request(message)
}

/// Splits at commas that no backslash escapes.
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
    let at = term.find(['=', '!'])?;
    let (path, rest) = term.split_at(at);
    let (equal, value) = match rest {
        rest if rest.starts_with("!=") => (false, &rest[2..]),
        rest if rest.starts_with("==") => (true, &rest[2..]),
        rest if rest.starts_with('=') => (true, &rest[1..]),
        _ => return None,
    };
    Some((path.trim(), equal, value))
}

/// The one name that a field selector leaves, read as the selector itself is: rights to that name are asked for.
pub(super) fn required_name(text: &str) -> Option<String> {
    let terms = split_fields(text);
    let parsed: Option<Vec<_>> = terms.iter().filter(|term| !term.is_empty()).map(|term| field_term(term)).collect();
    let named = parsed?.into_iter().find(|(path, equal, _)| *path == "metadata.name" && *equal);
    named.map(|(_, _, value)| unescape(value)).filter(|name| !name.contains(['/', '%']) && name != "." && name != "..")
}

fn unescape(value: &str) -> String {
    let mut result = String::new();
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        let kept = if character == '\\' { characters.next() } else { Some(character) };
        result.extend(kept);
    }
    result
}

fn parse_labels(text: &str) -> Result<Vec<LabelRequirement>, String> {
    let mut requirements = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = requirement_end(rest);
        requirements.push(label_requirement(rest[..end].trim())?);
        rest = rest[end..].trim_start();
        if let Some(after) = rest.strip_prefix(',') {
            rest = after.trim_start();
            if rest.is_empty() {
                return Err("found '', expected: identifier after ','".to_owned());
            }
        }
    }
    Ok(requirements)
}

/// Requirements end at a comma outside parentheses.
fn requirement_end(text: &str) -> usize {
    let mut depth = 0_u32;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

fn label_requirement(text: &str) -> Result<LabelRequirement, String> {
    if let Some(key) = text.strip_prefix('!') {
        return requirement(key, LabelTest::Absent);
    }
    if let Some(set) = text.strip_suffix(')') {
        let (head, values) = set.split_once('(').ok_or_else(|| format!("unbalanced ')' in {text:?}"))?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => requirement(key, LabelTest::In(values)),
            (Some(key), Some("notin"), None) => requirement(key, LabelTest::NotIn(values)),
            _ => Err(format!("found {head:?}, expected: in, notin")),
        };
    }
    if text.split_whitespace().nth(1).is_some_and(|word| matches!(word, "in" | "notin")) {
        return Err("found '' expected: '('".to_owned());
    }
    let Some(at) = text.find(['=', '!', '<', '>']) else {
        return requirement(text, LabelTest::Exists);
    };
    let (key, rest) = text.split_at(at);
    let number = |value: &str| {
        value
            .trim()
            .parse::<i64>()
            .map_err(|_| format!("for 'Gt', 'Lt' operators, the value must be an integer: {value:?}"))
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    match rest {
        rest if rest.starts_with("==") => requirement(key, LabelTest::In(one(&rest[2..]))),
        rest if rest.starts_with("!=") => requirement(key, LabelTest::NotIn(one(&rest[2..]))),
        rest if rest.starts_with('=') => requirement(key, LabelTest::In(one(&rest[1..]))),
        rest if rest.starts_with('>') => requirement(key, LabelTest::Greater(number(&rest[1..])?)),
        rest if rest.starts_with('<') => requirement(key, LabelTest::Less(number(&rest[1..])?)),
        _ => Err(format!("found {rest:?}, expected: in, notin, =, ==, !=, gt, lt")),
    }
}

fn requirement(key: &str, test: LabelTest) -> Result<LabelRequirement, String> {
    let key = key.trim();
    crate::object::names::check_label_key(key).map_err(|why| format!("<nil>: Invalid value: {key:?}: {why}"))?;
    if let LabelTest::In(values) | LabelTest::NotIn(values) = &test {
        for value in values {
            crate::object::names::check_label_value(value)
                .map_err(|why| format!("values[0][{key}]: Invalid value: {value:?}: {why}"))?;
        }
    }
    Ok(LabelRequirement { key: key.to_owned(), test })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn matches(selector: &str, labels: &Value) -> bool {
        let labels_selector = parse_labels(selector).expect("the selector is valid");
        let object = json!({ "metadata": { "labels": labels } });
        Selectors { labels: labels_selector, fields: Vec::new() }.matches(&object)
    }

    #[test]
    fn a_name_is_required_only_by_a_term_of_its_own() {
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
    fn the_whole_label_grammar_is_understood() {
        let labels = json!({ "app": "web", "tier": "front", "n": "5" });
        for selector in [
            "app=web",
            "app==web",
            "app!=db",
            "app in (web, db)",
            "app notin (x,y),tier",
            "!absent",
            "n>4,n<6",
            "gone!=x",
            "gone notin (x)",
            "",
        ] {
            assert!(matches(selector, &labels), "{selector}");
        }
        for selector in ["app=db", "app!=web", "app in (db)", "app notin (web)", "!app", "n>5", "absent"] {
            assert!(!matches(selector, &labels), "{selector}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for selector in ["a in", "a in (b", "=x", "a,,b", "a=b=c", "a is (b)", "n>x", "a,"] {
            assert!(parse_labels(selector).is_err(), "{selector}");
        }
    }
}
