//! The size limit of an object, which is etcd's: a request may have 1.5 MiB (`--max-request-bytes` of
//! `server/v3/etcdserver`), and a write is one request.

use serde_json::Value;

use super::storage_key::storage_key;
use crate::object;
use crate::protobuf;
use crate::request::{Target, WriteKind};
use crate::resources::crd;
use crate::status_error::ApiError;

/// The most bytes of one request to etcd.
const REQUEST_BYTES_MAX: usize = 1_572_864;

/// The bytes of a request in addition to the object and its keys: the header, the lengths, and the version comparison.
const CREATE_OVERHEAD: usize = 41;
const UPDATE_OVERHEAD: usize = 49;

/// Refuses an object that is too large for storage, with a real server's report of etcd's refusal. Except for an apply,
/// it first tries without the managed fields.
pub(super) fn fit(target: &Target, kind: WriteKind, object: &mut Value, is_new: bool) -> Result<(), ApiError> {
    if is_storable(target, object, is_new) {
        return Ok(());
    }
    if kind != WriteKind::Apply && object::metadata_mut(object).remove("managedFields").is_some() {
        return fit(target, kind, object, is_new);
    }
    Err(ApiError::internal("etcdserver: request is too large"))
}

fn is_storable(target: &Target, object: &Value, is_new: bool) -> bool {
    // A character takes at most six bytes as JSON, so an object below this size need not be encoded.
    if weight(object) < REQUEST_BYTES_MAX / 6 {
        return true;
    }
    let key = storage_key("/registry", target, object::name(object)).len();
    let beside = if is_new { 2 * key + CREATE_OVERHEAD } else { 3 * key + UPDATE_OVERHEAD };
    stored_bytes(target, object) + beside <= REQUEST_BYTES_MAX
}

/// The approximate size of the object as JSON, if no character is escaped.
fn weight(value: &Value) -> usize {
    const SCALAR: usize = 8;
    match value {
        Value::String(text) => text.len() + SCALAR,
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + SCALAR + weight(field)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => SCALAR,
    }
}

/// The size that a real server stores: protobuf; for custom resources and definitions, JSON with a newline.
fn stored_bytes(target: &Target, object: &Value) -> usize {
    let mut object = object.clone();
    object::metadata_mut(&mut object).remove("resourceVersion");
    let is_json = target.resource.custom.is_some() || crd::is_definition(&target.resource.id);
    let encoded = if is_json { None } else { protobuf::encode(&object).ok() };
    encoded.map_or_else(|| object.to_string().len() + 1, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn small_objects_are_not_encoded() {
        let object = json!({"a": ["text", 1, null], "bc": {"d": true}});
        assert_eq!(weight(&object), (1 + 8) + (4 + 8) + 8 + 8 + (2 + 8) + (1 + 8) + 8);
    }
}
