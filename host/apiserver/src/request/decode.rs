//! From a body to an object of the expected kind, with the parts that every object has in their right types. After this
//! nothing needs to doubt the shape of `metadata`.

use serde_json::{Value, json};

use crate::object::{self, text};
use crate::protobuf::{self, ProtobufError};
use crate::request::Target;
use crate::request::media::{Encoding, Offer};
use crate::schema::typed;
use crate::status_error::ApiError;

/// Parses a body; an empty one is none.
pub(crate) fn parse(body: &[u8], encoding: Encoding) -> Result<Option<Value>, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    match encoding {
        Encoding::Json => serde_json::from_slice(body)
            .map(Some)
            .map_err(|error| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))),
        Encoding::Yaml => parse_yaml(body).map(Some),
        Encoding::Protobuf => protobuf::decode(body).map(Some).map_err(|error| match error {
            ProtobufError::UnknownKind { .. } => ApiError::unsupported_media(&Offer::Custom.media_types()),
            _ => ApiError::bad_request(error.to_string()),
        }),
    }
}

/// JSON is YAML too, and the faster parser comes first.
pub(crate) fn parse_yaml(body: &[u8]) -> Result<Value, ApiError> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    serde_saphyr::from_slice(body).map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))
}

/// Checks that `object` is one that can be written at `target`, and fills in what the path says.
pub(crate) fn check(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        let message = "couldn't get version/kind; json parse error: an object is expected";
        return Err(ApiError::bad_request(message));
    }
    if object::depth(object) > object::MOST_DEPTH {
        return Err(ApiError::bad_request(format!("the object nests deeper than {} levels", object::MOST_DEPTH)));
    }
    check_type(target, object)?;
    check_metadata(target, object)?;
    check_place(target, object)
}

fn check_type(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    let expected = target.resource.api_version();
    let kind = target.resource.kind.clone();
    let given = text(object, "/apiVersion");
    if !given.is_empty() && given != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({expected})"
        )));
    }
    let given = text(object, "/kind");
    if !given.is_empty() && given != kind {
        let (group, version) = (&target.resource.id.group, &target.resource.version);
        let gvk = |kind: &str| format!("{}, Kind={kind}", crate::resources::resource::group_version(group, version));
        return Err(ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: the object provided is {}, expected {}",
            gvk(given),
            gvk(&kind)
        )));
    }
    let map = object::as_map_mut(object);
    map.insert("apiVersion".to_owned(), json!(expected));
    map.insert("kind".to_owned(), json!(kind));
    Ok(())
}

fn check_metadata(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    if object["metadata"].is_null() {
        object["metadata"] = json!({});
    }
    if target.resource.custom.is_none() {
        let (kind, version) = (&target.resource.kind, &target.resource.version);
        typed::check_metadata(&object["metadata"]).map_err(|error| {
            ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
        })?;
    }
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return Err(wrong_type("metadata", "object"));
    };
    metadata.retain(|_, value| !value.is_null());
    for (key, value) in metadata.iter() {
        check_metadata_field(key, value)?;
    }
    for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = metadata.get(key).is_some_and(|value| *value == json!({}) || *value == json!([]));
        if empty {
            metadata.remove(key);
        }
    }
    Ok(())
}

fn check_metadata_field(key: &str, value: &Value) -> Result<(), ApiError> {
    let field = || format!("metadata.{key}");
    let all_strings = |mut values: Box<dyn Iterator<Item = &Value> + '_>| values.all(Value::is_string);
    match key {
        "name" | "generateName" | "namespace" | "uid" | "resourceVersion" | "creationTimestamp"
        | "deletionTimestamp" | "selfLink"
            if !value.is_string() =>
        {
            Err(wrong_type(&field(), "string"))
        }
        "labels" | "annotations" => match value.as_object() {
            Some(map) if all_strings(Box::new(map.values())) => Ok(()),
            _ => Err(wrong_type(&field(), "map of strings")),
        },
        "finalizers" => match value.as_array() {
            Some(list) if all_strings(Box::new(list.iter())) => Ok(()),
            _ => Err(wrong_type(&field(), "list of strings")),
        },
        "ownerReferences" | "managedFields" => match value.as_array() {
            Some(list) if list.iter().all(Value::is_object) => Ok(()),
            _ => Err(wrong_type(&field(), "list of objects")),
        },
        "generation" | "deletionGracePeriodSeconds" if !value.is_i64() => Err(wrong_type(&field(), "integer")),
        _ => Ok(()),
    }
}

fn wrong_type(field: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!(
        "json: cannot unmarshal into Go struct field ObjectMeta.{field}: {expected} expected"
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
