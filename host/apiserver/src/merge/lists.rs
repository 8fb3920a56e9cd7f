//! Defines how the parts of an object are merged: which lists and maps are atomic, and which are merged item by item.
//!
//! Server-side apply asks a [`Place`] at every step through an object. The answer comes from the types of built-in
//! kinds, or from the schema of custom resources. This module does not check whether objects are valid.
//!
//! The terms are those of structured-merge-diff and of `x-kubernetes-list-type` (KEP-555).

use std::borrow::Cow;

use serde_json::Value;

use crate::schema::typed::{self, Field, PatchStrategy, ValueShape, Zero};
use crate::schema::{Additional, ListKind, Mark, Node, Schema};

/// A place in an object, with its type or schema.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// A place in a built-in kind, or in the metadata of any object. `field` is set if the place is a field of a
    /// struct.
    Builtin { shape: &'static ValueShape, field: Option<&'static Field> },
    /// A place with a node in a custom resource's schema.
    Custom { node: &'a Node, is_resource: bool },
    /// A place outside of the schema: maps are merged, lists are atomic.
    Unknown,
}

impl<'a> Place<'a> {
    /// An object of a built-in kind, by the name of its type.
    pub(crate) fn of_type(name: &str) -> Self {
        typed::shape(name).map_or(Self::Unknown, |shape| Self::Builtin { shape, field: None })
    }

    /// A custom resource.
    pub(crate) fn of_schema(schema: &'a Schema) -> Self {
        Self::Custom { node: schema.root(), is_resource: true }
    }

    /// The field of a map.
    pub(crate) fn field(self, name: &str) -> Self {
        match self {
            Self::Builtin { shape: ValueShape::Struct(entry), .. } => match entry.read().fields.get(name) {
                Some(field) => Self::Builtin { shape: &field.shape, field: Some(field) },
                None => Self::Unknown,
            },
            Self::Builtin { shape: ValueShape::Map(values), .. } => Self::Builtin { shape: values, field: None },
            Self::Custom { is_resource: true, .. } if name == "metadata" => Self::of_type(typed::METADATA),
            Self::Custom { node, .. } => match node.properties.get(name).or_else(|| node.additional.node()) {
                Some(node) => Self::Custom { node, is_resource: node.is(Mark::EmbeddedResource) },
                None => Self::Unknown,
            },
            Self::Builtin { .. } | Self::Unknown => Self::Unknown,
        }
    }

    /// An item of a list.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Builtin { shape: ValueShape::List(items), .. } => Self::Builtin { shape: items, field: None },
            Self::Builtin { .. } | Self::Unknown => Self::Unknown,
            Self::Custom { node, .. } => match &node.items {
                Some(items) => Self::Custom { node: items, is_resource: items.is(Mark::EmbeddedResource) },
                None => Self::Unknown,
            },
        }
    }

    /// How the list at this place is merged.
    pub(crate) fn list(self) -> &'a ListKind {
        match self {
            Self::Builtin { field: Some(field), .. } => &field.list,
            Self::Custom { node, .. } => &node.list,
            Self::Builtin { field: None, .. } | Self::Unknown => &ListKind::Atomic,
        }
    }

    /// How a strategic merge patch applies at this place.
    pub(crate) fn patch_strategy(self) -> &'static PatchStrategy {
        match self {
            Self::Builtin { field: Some(field), .. } => &field.patch,
            _ => &PatchStrategy::Replace,
        }
    }

    /// Whether the map at this place is atomic, with one owner.
    pub(crate) fn is_atomic_map(self) -> bool {
        match self {
            Self::Builtin { shape, field } => {
                let of_field = field.and_then(|field| field.is_atomic);
                of_field.unwrap_or_else(|| shape.fields().is_some_and(|fields| fields.is_atomic))
            }
            Self::Custom { node, .. } => node.is(Mark::AtomicMap),
            Self::Unknown => false,
        }
    }

    /// Whether the type or schema declares a field of this name here. Otherwise the name is just a key of a map.
    ///
    /// A declared struct is removed together with its last owned field, a map with its last key.
    pub(crate) fn declares(self, name: &str) -> bool {
        match self {
            Self::Builtin { shape, .. } => shape.fields().is_some_and(|fields| fields.fields.contains_key(name)),
            Self::Custom { node, is_resource } => {
                node.properties.contains_key(name)
                    || (is_resource && ["apiVersion", "kind", "metadata"].contains(&name))
            }
            Self::Unknown => false,
        }
    }

    /// Whether a map at this place is dropped if it is empty. This is so for maps with free keys.
    pub(crate) fn goes_when_empty(self) -> bool {
        match self {
            Self::Builtin { shape, .. } => matches!(shape, ValueShape::Map(_)),
            Self::Custom { node, .. } => node.properties.is_empty() && !matches!(node.additional, Additional::Unknown),
            Self::Unknown => false,
        }
    }

    /// Whether Go always writes this field, even if it is zero or null. Such a field is never added or removed.
    pub(crate) fn is_always_there(self) -> bool {
        let Self::Builtin { field: Some(field), .. } = self else { return false };
        matches!(field.zero, Zero::Written | Zero::Null)
    }

    /// The default of a key field in a list item. For example, the `protocol` of a port is `TCP` by default.
    pub(crate) fn key_default(self, key: &str) -> Option<Cow<'a, Value>> {
        match self.item() {
            Self::Builtin { shape, .. } => shape.fields()?.fields.get(key)?.default.as_ref().map(Cow::Borrowed),
            Self::Custom { node, .. } => node.properties.get(key)?.default.as_ref().map(Cow::Borrowed),
            Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keys(names: &[&str]) -> ListKind {
        ListKind::Map(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn builtin(kind: &str, path: &[&str]) -> Place<'static> {
        path.iter().fold(Place::of_type(kind), |place, name| place.field(name))
    }

    #[test]
    fn the_merge_key_of_ports_depends_on_their_parent() {
        let pods = builtin("io.k8s.api.apps.v1.Deployment", &["spec", "template", "spec", "containers"]);
        assert_eq!(*pods.list(), keys(&["name"]));
        assert_eq!(*pods.item().field("ports").list(), keys(&["containerPort", "protocol"]));
        assert_eq!(*builtin("io.k8s.api.core.v1.Service", &["spec", "ports"]).list(), keys(&["port", "protocol"]));
        let rules = builtin("io.k8s.api.networking.v1.NetworkPolicy", &["spec", "ingress"]);
        assert_eq!(*rules.item().field("ports").list(), ListKind::Atomic);
    }

    #[test]
    fn metadata_is_the_same_in_every_kind() {
        let schema = Schema::parse(&json!({"type": "object"})).unwrap();
        for root in [Place::of_type("io.k8s.api.core.v1.ConfigMap"), Place::of_schema(&schema)] {
            let metadata = root.field("metadata");
            assert_eq!(*metadata.field("finalizers").list(), ListKind::Set);
            assert_eq!(*metadata.field("ownerReferences").list(), keys(&["uid"]));
            assert!(metadata.field("labels").goes_when_empty());
        }
    }

    #[test]
    fn lists_of_a_custom_resource_merge_by_its_schema() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "refs": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["kind"],
                     "items": {"type": "object", "properties": {"kind": {"type": "string", "default": "Pod"}}}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
            "free": {"type": "object", "additionalProperties": {"type": "string"}},
        }}}}))
        .unwrap();
        let root = Place::of_schema(&schema);
        let spec = root.field("spec");
        assert_eq!(*spec.field("tags").list(), ListKind::Set);
        assert_eq!(*spec.field("refs").list(), keys(&["kind"]));
        assert_eq!(spec.field("refs").key_default("kind").as_deref(), Some(&json!("Pod")));
        assert!(spec.field("whole").is_atomic_map());
        assert!(spec.declares("tags") && !spec.field("free").declares("x") && spec.field("free").goes_when_empty());
        assert!(matches!(spec.field("other"), Place::Unknown));
    }
}
