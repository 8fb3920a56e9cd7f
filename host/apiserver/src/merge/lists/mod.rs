//! How the parts of an object are put together: which lists and maps are one value, and which are merged by item.
//!
//! Server-side apply asks this at every step of a walk through an object ([`Place`]). Built-in kinds answer from a table
//! by field name, custom resources from their schema. What a *valid* object is, is not asked here.
//!
//! The words are those of structured-merge-diff and of `x-kubernetes-list-type` (KEP-555).

mod builtin;

use std::borrow::Cow;

use serde_json::Value;

use crate::schema::{Additional, ListKind, Mark, Node, Schema};

/// Where in an object a walk is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// In a built-in kind, or in the metadata of any: the names of the field and of the one around it, list items left
    /// out. Both are empty at the object itself.
    Builtin { parent: &'a str, name: &'a str },
    /// At a node of a custom resource's schema.
    Custom { node: &'a Node, is_resource: bool },
    /// Beneath everything that a schema says: maps are merged, lists are not.
    Unknown,
}

impl<'a> Place<'a> {
    /// An object of a kind that Kubernetes defines: one table serves them all, since their fields' names agree.
    pub(crate) fn builtin() -> Self {
        Self::Builtin { parent: "", name: "" }
    }

    /// A custom resource.
    pub(crate) fn of_schema(schema: &'a Schema) -> Self {
        Self::Custom { node: schema.root(), is_resource: true }
    }

    /// The field of a map.
    pub(crate) fn field(self, name: &'a str) -> Self {
        match self {
            Self::Builtin { name: parent, .. } => Self::Builtin { parent, name },
            Self::Custom { is_resource: true, .. } if name == "metadata" => Self::Builtin { parent: "", name },
            Self::Custom { node, .. } => match node.properties.get(name).or_else(|| node.additional.node()) {
                Some(node) => Self::Custom { node, is_resource: node.is(Mark::EmbeddedResource) },
                None => Self::Unknown,
            },
            Self::Unknown => Self::Unknown,
        }
    }

    /// An item of a list.
    pub(crate) fn item(self) -> Self {
        match self {
            // The name stays: `ports` of an item of `containers` is `ports` in `containers`.
            Self::Builtin { .. } | Self::Unknown => self,
            Self::Custom { node, .. } => match &node.items {
                Some(items) => Self::Custom { node: items, is_resource: items.is(Mark::EmbeddedResource) },
                None => Self::Unknown,
            },
        }
    }

    /// How the list at this place is put together.
    pub(crate) fn list(self) -> Cow<'a, ListKind> {
        match self {
            Self::Builtin { parent, name } => Cow::Owned(builtin::list(parent, name)),
            Self::Custom { node, .. } => Cow::Borrowed(&node.list),
            Self::Unknown => Cow::Owned(ListKind::Atomic),
        }
    }

    /// Whether the map at this place is one value, with one owner.
    pub(crate) fn is_atomic_map(self) -> bool {
        match self {
            Self::Builtin { parent, name } => builtin::is_atomic_map(parent, name),
            Self::Custom { node, .. } => node.is(Mark::AtomicMap),
            Self::Unknown => false,
        }
    }

    /// Whether the map at this place has a field of this name by its type, and not merely a key.
    ///
    /// A declared struct goes when its last owned field goes; a map, when its last key does.
    pub(crate) fn declares(self, name: &str) -> bool {
        match self {
            Self::Builtin { name: map, .. } => !builtin::has_free_keys(map),
            Self::Custom { node, is_resource } => {
                node.properties.contains_key(name)
                    || (is_resource && ["apiVersion", "kind", "metadata"].contains(&name))
            }
            Self::Unknown => false,
        }
    }

    /// Whether a map at this place says nothing once it is empty, so that it goes: a map of free keys.
    pub(crate) fn goes_when_empty(self) -> bool {
        match self {
            Self::Builtin { name, .. } => builtin::has_free_keys(name),
            Self::Custom { node, .. } => node.properties.is_empty() && !matches!(node.additional, Additional::Unknown),
            Self::Unknown => false,
        }
    }

    /// Whether the Go type always writes this struct or list: it is never absent, so that nobody ever adds or removes it.
    pub(crate) fn is_always_there(self) -> bool {
        matches!(self, Self::Builtin { parent, name } if builtin::is_always_there(parent, name))
    }

    /// The default of a list item's key: `protocol` of a port is `TCP`.
    pub(crate) fn key_default(self, key: &str) -> Option<Cow<'a, Value>> {
        match self {
            Self::Builtin { .. } => (key == "protocol").then(|| Cow::Owned(Value::from("TCP"))),
            Self::Custom { node, .. } => {
                let key = node.items.as_ref()?.properties.get(key)?;
                key.default.as_ref().map(Cow::Borrowed)
            }
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

    fn builtin(path: &[&'static str]) -> Place<'static> {
        path.iter().fold(Place::Builtin { parent: "", name: "" }, |place, name| place.field(name))
    }

    #[test]
    fn ports_are_told_apart_by_what_holds_them() {
        let pod = ["spec", "template", "spec", "containers"];
        assert_eq!(*builtin(&pod).list(), keys(&["name"]));
        assert_eq!(*builtin(&pod).item().field("ports").list(), keys(&["containerPort", "protocol"]));
        assert_eq!(*builtin(&["spec", "ports"]).list(), keys(&["port", "protocol"]));
        assert_eq!(*builtin(&["spec", "ingress", "ports"]).list(), ListKind::Atomic);
    }

    #[test]
    fn metadata_is_the_same_in_every_kind() {
        let schema = Schema::parse(&json!({"type": "object"})).unwrap();
        for root in [Place::builtin(), Place::of_schema(&schema)] {
            let metadata = root.field("metadata");
            assert_eq!(*metadata.field("finalizers").list(), ListKind::Set);
            assert_eq!(*metadata.field("ownerReferences").list(), keys(&["uid"]));
            assert!(metadata.field("labels").goes_when_empty());
        }
    }

    #[test]
    fn a_custom_resource_is_put_together_as_its_schema_says() {
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
