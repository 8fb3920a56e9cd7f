//! Decodes a body into an object of the expected kind, and checks the types of the fields that every object has. Later
//! code can rely on the shape of `metadata`.

use serde_json::error::Category;
use serde_json::{Value, json};

use crate::cause::Cause;
use crate::object::{self, go_kind, text};
use crate::protobuf::{self, ProtobufError};
use crate::request::Target;
use crate::request::media::{Encoding, Offer};
use crate::request::yaml::{self, Parsed, YamlError};
use crate::resources::builtin;
use crate::resources::resource::{GroupResource, ResourceType};
use crate::schema::typed;
use crate::status_error::ApiError;

/// Parses a body. `None` if the body is empty.
pub(crate) fn parse(body: &[u8], encoding: Encoding) -> Result<Option<Parsed>, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let plain = |value| Some(Parsed { value, duplicates: Vec::new() });
    match encoding {
        Encoding::Json => serde_json::from_slice(body).map(plain).map_err(|error| json_error(&error, body)),
        Encoding::Yaml => parse_yaml(body).map(Some).map_err(|error| ApiError::bad_request(error.to_string())),
        Encoding::Protobuf => protobuf::decode(body).map(plain).map_err(|error| match error {
            ProtobufError::UnknownKind { .. } => ApiError::unsupported_media(&Offer::Custom.media_types()),
            _ => ApiError::bad_request(error.to_string()),
        }),
    }
}

/// The error for an empty body.
pub(crate) const NO_VERSION_AND_KIND: &str =
    "couldn't get version/kind; json parse error: unexpected end of JSON input";

/// The error for a body that is not an object, in Go's words.
pub(crate) fn not_an_object(found: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ \
         APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        go_kind(found)
    )
}

/// The error for a body of an unknown type. It quotes as much of the body as a real server does.
pub(crate) fn unrecognized(kind: &str, why: &str, body: &[u8]) -> ApiError {
    const SHOWN_BODY_BYTES: usize = 30;
    let dots = if body.len() > SHOWN_BODY_BYTES { " ..." } else { "" };
    let shown = &body[..body.len().min(SHOWN_BODY_BYTES)];
    let summary = match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(hexadecimal).collect(),
    };
    let message = format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary}{dots})");
    ApiError::bad_request(message)
}

fn hexadecimal(digit: u8) -> Option<char> {
    char::from_digit(u32::from(digit), 16)
}

/// The error for invalid JSON, in Go's words if they are known.
fn json_error(error: &serde_json::Error, body: &[u8]) -> ApiError {
    ApiError::bad_request(format!("couldn't get version/kind; json parse error: {}", go_syntax_error(error, body)))
}

/// The message about invalid JSON, in Go's words for the simple cases.
pub(crate) fn go_syntax_error(error: &serde_json::Error, body: &[u8]) -> String {
    if error.classify() == Category::Eof {
        return "unexpected end of JSON input".to_owned();
    }
    let shown = error.to_string();
    let begin: usize = body.split_inclusive(|byte| *byte == b'\n').take(error.line() - 1).map(<[u8]>::len).sum();
    let where_found = [
        ("trailing characters", "after top-level value"),
        ("expected value", "looking for beginning of value"),
        ("invalid number", "in numeric literal"),
    ];
    let place = where_found.iter().find(|(start, _)| shown.starts_with(start));
    match (place, body.get(begin + error.column().saturating_sub(1))) {
        (Some((_, place)), Some(found)) => format!("invalid character '{}' {place}", char::from(*found)),
        _ => shown,
    }
}

/// Parses the configuration of an apply.
pub(crate) fn parse_configuration(body: &[u8]) -> Result<Parsed, ApiError> {
    let why = |error| ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {error}"));
    parse_yaml(body).map_err(why)
}

/// Parses YAML. Since JSON is also YAML, the faster JSON parser is tried first.
fn parse_yaml(body: &[u8]) -> Result<Parsed, YamlError> {
    match serde_json::from_slice(body) {
        Ok(value) => Ok(Parsed { value, duplicates: Vec::new() }),
        Err(_) => yaml::first(body),
    }
}

/// Checks that `object` may be written to `target`, and fills in fields that follow from the request's path.
pub(crate) fn check(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    check_config(target, object)?;
    drop_empty_metadata(object);
    Ok(())
}

/// Like [`check`], but keeps empty fields, because the configuration of an apply may set them on purpose.
pub(crate) fn check_config(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    check_body(target, object)?;
    check_type(target, object)?;
    check_place(target, object)
}

/// Checks that `object` can be decoded. This does not yet refuse a custom resource of another type.
pub(crate) fn check_body(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        let message = "couldn't get version/kind; json parse error: an object is expected";
        return Err(ApiError::bad_request(message));
    }
    if object::depth(object) > object::OBJECT_DEPTH_MAX {
        return Err(ApiError::bad_request(format!("the object nests deeper than {} levels", object::OBJECT_DEPTH_MAX)));
    }
    if target.resource.custom.is_none() {
        check_type(target, object)?;
    }
    check_metadata(&target.resource, object)
}

fn check_type(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    let resource = &target.resource;
    let (expected, kind) = (resource.api_version(), resource.kind.clone());
    let (version, given) = (text(object, "/apiVersion"), text(object, "/kind"));
    if resource.custom.is_some() {
        return check_custom_type(resource, version, given, object::name(object));
    }
    let fits = |given: &str, expected: &str| given.is_empty() || given == expected;
    if !fits(version, &expected) || !fits(given, &kind) {
        let version = if version.is_empty() { &expected } else { version };
        let given = if given.is_empty() { &kind } else { given };
        return Err(another_type(resource, version, given));
    }
    let map = object::as_map_mut(object);
    map.insert("apiVersion".to_owned(), json!(expected));
    map.insert("kind".to_owned(), json!(kind));
    Ok(())
}

/// Checks that a custom resource has an `apiVersion` and a `kind`.
fn check_custom_type(resource: &ResourceType, version: &str, kind: &str, name: &str) -> Result<(), ApiError> {
    let expected = resource.api_version();
    if version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if kind != resource.kind {
        let cause = Cause::invalid("kind", &json!(kind), &format!("must be {}", resource.kind));
        return Err(ApiError::invalid_kind(&GroupResource::new(&resource.id.group, kind), name, &[cause]));
    }
    Ok(())
}

/// The error for an object of another type, in the words of a real server.
fn another_type(resource: &ResourceType, api_version: &str, kind: &str) -> ApiError {
    let expected = &resource.kind;
    let version = api_version.split_once('/').map_or(api_version, |(_, version)| version);
    let is_known = builtin::resources().iter().any(|known| known.api_version() == api_version && known.kind == kind);
    let why = if is_known {
        let internal = match resource.id.group.split('.').next() {
            None | Some("") => "core",
            Some(first) => first,
        };
        format!("converting ({version}.{kind}) to ({internal}.{expected}): unknown conversion")
    } else {
        format!("no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\"")
    };
    ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {expected}: {why}"))
}

fn check_metadata(resource: &ResourceType, object: &mut Value) -> Result<(), ApiError> {
    if object["metadata"].is_null() {
        object["metadata"] = json!({});
    }
    if resource.custom.is_none() {
        let (kind, version) = (&resource.kind, &resource.version);
        typed::check_metadata(&object["metadata"]).map_err(|error| {
            ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
        })?;
    }
    let Some(metadata) = object["metadata"].as_object_mut() else {
        let found = go_kind(&object["metadata"]);
        return Err(wrong_type(resource, found, &format!("{}.metadata", resource.kind), "v1.ObjectMeta"));
    };
    for (key, value) in metadata.iter().filter(|(_, value)| !value.is_null()) {
        if let Some((found, expected)) = misfit(key, value) {
            return Err(wrong_type(resource, found, &format!("ObjectMeta.metadata.{key}"), expected));
        }
    }
    // In a map of strings, null means an empty string.
    for key in ["labels", "annotations"] {
        let texts = metadata.get_mut(key).and_then(Value::as_object_mut);
        texts
            .into_iter()
            .flat_map(|texts| texts.values_mut())
            .filter(|text| text.is_null())
            .for_each(|text| *text = json!(""));
    }
    Ok(())
}

/// Removes empty fields of the metadata.
pub(crate) fn drop_empty_metadata(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    metadata.retain(|_, value| !value.is_null());
    for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = metadata.get(key).is_some_and(|value| *value == json!({}) || *value == json!([]));
        if empty {
            metadata.remove(key);
        }
    }
}

/// If a field of the metadata has the wrong type: the kind of its value, and the expected type.
fn misfit(key: &str, value: &Value) -> Option<(&'static str, &'static str)> {
    let whole = |expected: &'static str| Some((go_kind(value), expected));
    let texts = |mut values: Box<dyn Iterator<Item = &Value> + '_>| {
        values.find(|value| !value.is_string() && !value.is_null()).map(|value| (go_kind(value), "string"))
    };
    match key {
        "name" | "generateName" | "namespace" | "resourceVersion" | "selfLink" | "creationTimestamp"
        | "deletionTimestamp"
            if !value.is_string() =>
        {
            whole("string")
        }
        "uid" if !value.is_string() => whole("types.UID"),
        "labels" | "annotations" => match value.as_object() {
            Some(map) => texts(Box::new(map.values())),
            None => whole("map[string]string"),
        },
        "finalizers" => match value.as_array() {
            Some(list) => texts(Box::new(list.iter())),
            None => whole("[]string"),
        },
        "ownerReferences" | "managedFields" => {
            let (list, item) = match key {
                "managedFields" => ("[]v1.ManagedFieldsEntry", "v1.ManagedFieldsEntry"),
                _ => ("[]v1.OwnerReference", "v1.OwnerReference"),
            };
            match value.as_array() {
                Some(items) => items.iter().find(|item| !item.is_object()).map(|odd| (go_kind(odd), item)),
                None => whole(list),
            }
        }
        "generation" | "deletionGracePeriodSeconds" if !value.is_i64() => whole("int64"),
        _ => None,
    }
}

fn wrong_type(resource: &ResourceType, found: &str, field: &str, expected: &str) -> ApiError {
    let (kind, version) = (&resource.kind, &resource.version);
    ApiError::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: json: cannot unmarshal {found} into Go struct field \
         {field} of type {expected}"
    ))
}

fn check_place(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    let given = object::namespace(object);
    match &target.namespace {
        Some(namespace) if !given.is_empty() && given != namespace => {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(message));
        }
        Some(namespace) => {
            let namespace = json!(namespace);
            object::metadata_mut(object).insert("namespace".to_owned(), namespace);
        }
        None => {
            object::metadata_mut(object).remove("namespace");
        }
    }
    let Some(name) = &target.name else { return Ok(()) };
    match object::name(object) {
        "" => {
            let name = json!(name);
            object::metadata_mut(object).insert("name".to_owned(), name);
            Ok(())
        }
        given if given != name => Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_found_while_a_body_is_parsed() {
        let duplicates = |body: &[u8], encoding| {
            let parsed = parse(body, encoding).expect("a body").expect("a value");
            assert_eq!(parsed.value, json!({ "a": 2 }));
            parsed.duplicates
        };
        let twice = ["line 2: key \"a\" already set in map"];
        assert_eq!(duplicates(b"a: 1\na: 2\n", Encoding::Yaml), twice);
        assert_eq!(parse_configuration(b"a: 1\na: 2\n").expect("a body").duplicates, twice);
        // `document::problems` finds duplicate keys of JSON, with their paths.
        assert!(duplicates(b"{\"a\": 1, \"a\": 2}", Encoding::Yaml).is_empty());
        assert!(duplicates(b"{\"a\": 1, \"a\": 2}", Encoding::Json).is_empty());
    }
}
