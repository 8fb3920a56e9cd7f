//! References to objects, and the part of an object that all kinds share.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

pub use crate::bindings::windlass::plugin::types::{ObjectKind, ObjectRef};

impl ObjectKind {
    /// A kind as in a manifest: `apps/v1` and `Deployment`.
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }
}

impl ObjectRef {
    /// An object in a namespace.
    pub fn namespaced(
        api_version: impl Into<String>,
        kind: impl Into<String>,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::cluster_scoped(api_version, kind, name) }
    }

    /// An object without a namespace.
    pub fn cluster_scoped(api_version: impl Into<String>, kind: impl Into<String>, name: impl Into<String>) -> Self {
        let (api_version, kind, name) = (api_version.into(), kind.into(), name.into());
        Self { cluster: None, api_version, kind, namespace: None, name, uid: None }
    }

    /// Restricts the reference to the object with this UID. A later object of the same name does not match.
    #[must_use]
    pub fn with_uid(self, uid: impl Into<String>) -> Self {
        Self { uid: Some(uid.into()), ..self }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// The fields of `metadata` that identify an object and its state. A plugin that needs more (labels, for example)
/// declares its own struct. This one has no more fields, because each field costs code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The name.
    pub name: String,
    /// `None` for a cluster-scoped object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The UID. `None` before the object is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The version, an opaque text. `None` before the object is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Counts the changes of the desired state, if the kind has a generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// An entry of `metadata.ownerReferences`. The host adds the entry for the primary if a write is
/// [`owned`](crate::writes::Write::owned), and for the children of a composer. Use this type for other owners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// Group and version of the owner.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name. The owner is in the namespace of the object that it owns, or cluster-scoped.
    pub name: String,
    /// The owner's UID.
    pub uid: String,
    /// Whether the owner is the object's controller. An object has at most one.
    #[serde(default)]
    pub controller: bool,
    /// Whether foreground deletion of the owner waits until the object is deleted.
    #[serde(default)]
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// The reference that makes an object the controller of another. `None` before the object is created, because it
    /// has no UID yet.
    #[must_use]
    pub fn to_controller(api_version: impl Into<String>, kind: impl Into<String>, owner: &Metadata) -> Option<Self> {
        Some(Self {
            api_version: api_version.into(),
            kind: kind.into(),
            name: owner.name.clone(),
            uid: owner.uid.clone()?,
            controller: true,
            block_owner_deletion: true,
        })
    }
}

/// An object of the form that most custom kinds have: metadata, a spec and a status. Plugins that need other fields
/// declare their own struct.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Object<Spec, Status> {
    /// The metadata that identifies the object.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: Spec,
    /// The last status written; before the first write, the type's default.
    #[serde(default)]
    pub status: Status,
}

impl Metadata {
    /// The object of another kind that has the same namespace and name.
    #[must_use]
    pub fn sibling(&self, api_version: impl Into<String>, kind: impl Into<String>) -> ObjectRef {
        let named = ObjectRef::cluster_scoped(api_version, kind, self.name.clone());
        ObjectRef { namespace: self.namespace.clone(), ..named }
    }
}

/// Whether an object has every wanted field with the wanted value. Fields that the server or other clients have added
/// are ignored, as in an apply. A list must contain each wanted element, at any position.
///
/// Do not use it to decide whether to apply: it does not notice a field that is no longer wanted, or a missing owner.
/// The host itself skips an apply that would change nothing.
#[must_use]
pub fn has_fields(object: &Value, wanted: &Value) -> bool {
    match (object, wanted) {
        (Value::Object(fields), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| fields.get(key).is_some_and(|value| has_fields(value, wanted)))
        }
        (Value::Array(elements), Value::Array(wanted)) => {
            wanted.iter().all(|wanted| elements.iter().any(|element| has_fields(element, wanted)))
        }
        _ => are_equal(object, wanted),
    }
}

/// Whether two values that are neither objects nor lists are equal. Numbers are compared by their exact values: `1`
/// equals `1.0`, and two integers above 2^53 are equal only if all their digits are.
pub(crate) fn are_equal(one: &Value, other: &Value) -> bool {
    let (Value::Number(a), Value::Number(b)) = (one, other) else { return one == other };
    // serde_json compares the types too. With arbitrary precision, which Starlark asks for, it compares texts.
    one == other
        || match (whole(a), whole(b)) {
            (None, None) => a.as_f64() == b.as_f64(),
            (a, b) => a == b,
        }
}

/// The number as an integer, if it is an integer of at most 64 bits, signed or unsigned.
fn whole(number: &Number) -> Option<i128> {
    const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    integer.or_else(|| {
        let float = number.as_f64().filter(|float| float.abs() < TWO_POW_64 && float.fract() == 0.0)?;
        #[allow(clippy::cast_possible_truncation, reason = "it has no fraction, and fits")]
        Some(float as i128)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metadata_is_read_from_whole_objects_and_written_without_unset_fields() {
        let whole = json!({"name": "shop", "generation": 2, "labels": {"a": "b"}, "managedFields": []});
        let metadata: Metadata = serde_json::from_value(whole).unwrap();
        assert_eq!(serde_json::to_value(metadata).unwrap(), json!({"name": "shop", "generation": 2}));
    }

    #[test]
    fn only_an_object_with_a_uid_can_be_a_controller() {
        let owner = Metadata { name: "shop".into(), uid: Some("u-1".into()), ..Metadata::default() };
        let reference = OwnerReference::to_controller("example.com/v1", "Shop", &owner).unwrap();
        let expected = json!({
            "apiVersion": "example.com/v1", "kind": "Shop", "name": "shop", "uid": "u-1", "controller": true,
            "blockOwnerDeletion": true,
        });
        assert_eq!(serde_json::to_value(reference).unwrap(), expected);
        assert_eq!(OwnerReference::to_controller("v1", "Shop", &Metadata { uid: None, ..owner }), None);
    }

    #[test]
    fn an_object_without_a_status_has_the_default_one() {
        let object: Object<u8, Option<u8>> =
            serde_json::from_value(json!({"kind": "Thing", "metadata": {"name": "a"}, "spec": 1})).unwrap();
        assert_eq!((object.spec, object.status), (1, None));
        let sibling = Metadata { namespace: Some("prod".into()), ..object.metadata }.sibling("v1", "Pod");
        assert_eq!(sibling, ObjectRef::namespaced("v1", "Pod", "prod", "a"));
    }

    #[test]
    fn has_fields_ignores_fields_of_others() {
        let object = json!({"spec": {"ports": [{"name": "admin"}, {"name": "http", "port": 80}], "type": "ClusterIP"}});
        assert!(has_fields(&object, &json!({"spec": {"ports": [{"name": "http"}]}})));
        assert!(!has_fields(&object, &json!({"spec": {"ports": [{"name": "http", "port": 81}]}})));
        assert!(!has_fields(&object, &json!({"spec": {"selector": {}}})));
        assert!(has_fields(&object, &json!({"spec": {"ports": [{"port": 80.0}]}})));
    }

    #[test]
    fn a_reference_reads_as_kind_and_name() {
        assert_eq!(ObjectRef::namespaced("v1", "Pod", "prod", "p").to_string(), "Pod prod/p");
        assert_eq!(ObjectRef::cluster_scoped("v1", "Node", "n").to_string(), "Node n");
    }
}
