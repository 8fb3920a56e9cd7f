//! From a changed object to the keys of the primaries that it concerns.
//!
//! Pure: the caller maps the state before and the state after a change, so that a primary learns of an object that
//! leaves it as well as of one that comes to it.

use std::sync::Arc;

use crate::object::{Object, ObjectKey, ObjectKind};
use crate::watch::IndexSource;

/// How a watched object names its primaries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// The object is the primary.
    Itself,
    /// The object's controller is the primary.
    Owner,
    /// The value of a label is the primary's name, or `namespace/name`.
    Label(Arc<str>),
    /// The value of an annotation is the primary's name, or `namespace/name`.
    Annotation(Arc<str>),
    /// The string at a JSON pointer is the primary's name, or `namespace/name`.
    Field(Arc<str>),
    /// The primary has the object's namespace and name.
    SameName,
    /// Each primary whose values in this index name the object: by its name, in the same namespace or where one of the two
    /// has none, or by `namespace/name`.
    ReferencedBy(IndexSource),
    /// Every primary. Whoever maps so should map many changes at once.
    All,
}

/// The primaries that there are, for mappings that look for them.
pub trait Primaries {
    /// Those with this value in an index of the primary's watch.
    fn indexed(&self, source: &IndexSource, value: &str) -> Vec<ObjectKey>;

    /// All of them.
    fn all(&self) -> Vec<ObjectKey>;
}

/// The primary's kind and scope, which a mapping needs to make keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKind {
    /// The kind.
    pub kind: ObjectKind,
    /// Whether primaries live in namespaces.
    pub namespaced: bool,
}

impl Mapping {
    /// The primaries that `object` concerns. One that it names may not exist.
    #[must_use]
    pub fn keys(&self, object: &Object, primary: &PrimaryKind, primaries: &impl Primaries) -> Vec<ObjectKey> {
        match self {
            Self::ReferencedBy(source) => referrers(&object.header.key, source, primaries),
            Self::All => primaries.all(),
            _ => self.key(object, primary).into_iter().collect(),
        }
    }

    /// The one primary that `object` names. None: it names none, or one that cannot exist, or its text does not tell.
    fn key(&self, object: &Object, primary: &PrimaryKind) -> Option<ObjectKey> {
        let own = &object.header.key;
        match self {
            Self::Itself => Some(own.clone()),
            Self::Owner => {
                let owner = object.header.controller()?;
                // The version may differ: an owner keeps its UID while its CRD moves on.
                let same = owner.kind.group() == primary.kind.group() && owner.kind.kind == primary.kind.kind;
                same.then(|| scoped(&owner.name, own, primary)).flatten()
            }
            Self::Label(label) => scoped(object.header.labels.get(label)?, own, primary),
            Self::Annotation(name) => {
                let value = body(object)?;
                scoped(value.get("metadata")?.get("annotations")?.get(&**name)?.as_str()?, own, primary)
            }
            Self::Field(pointer) => scoped(body(object)?.pointer(pointer)?.as_str()?, own, primary),
            Self::SameName => scoped(&own.name, own, primary),
            Self::ReferencedBy(_) | Self::All => None,
        }
    }
}

fn referrers(own: &ObjectKey, source: &IndexSource, primaries: &impl Primaries) -> Vec<ObjectKey> {
    let is_near =
        |key: &ObjectKey| key.namespace == own.namespace || key.namespace.is_none() || own.namespace.is_none();
    let mut found = primaries.indexed(source, &own.name);
    found.retain(is_near);
    if own.namespace.is_some() {
        found.extend(primaries.indexed(source, &own.to_string()));
    }
    found
}

fn body(object: &Object) -> Option<serde_json::Value> {
    serde_json::from_str(&object.glance()).ok()
}

fn scoped(name: &str, own: &ObjectKey, primary: &PrimaryKind) -> Option<ObjectKey> {
    match (primary.namespaced, name.split_once('/')) {
        _ if name.is_empty() => None,
        (false, None) => Some(ObjectKey::cluster(name)),
        (false, Some(_)) => None,
        // What people write by hand: no object is named so.
        (true, Some((namespace, name))) if namespace.is_empty() || name.is_empty() || name.contains('/') => None,
        (true, Some((namespace, name))) => Some(ObjectKey::namespaced(namespace, name)),
        (true, None) => Some(ObjectKey { namespace: Some(own.namespace.clone()?), name: name.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Header, OwnerReference};

    fn primary() -> PrimaryKind {
        PrimaryKind { kind: ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp"), namespaced: true }
    }

    fn deployment(owner: Option<OwnerReference>) -> Object {
        let header = Header {
            key: ObjectKey::namespaced("prod", "shop-web"),
            uid: "d-1".into(),
            version: "7".into(),
            generation: 1,
            labels: [("app".into(), "shop".into()), ("far".into(), "test/shop".into())].into(),
            owners: owner.into_iter().collect(),
            own_fields: None,
            deleting: false,
        };
        let text = r#"{"metadata":{"annotations":{"app":"noted"}},"spec":{"for":"pointed"}}"#;
        Object::new(header, text)
    }

    fn owner(api_version: &str, kind: &str, controller: bool) -> OwnerReference {
        OwnerReference { kind: ObjectKind::new(api_version, kind), name: "shop".into(), uid: "w-1".into(), controller }
    }

    /// Primaries and the values of their only index.
    struct Indexed(&'static [(&'static str, &'static str, &'static str)]);

    impl Primaries for Indexed {
        fn indexed(&self, source: &IndexSource, value: &str) -> Vec<ObjectKey> {
            assert_eq!(*source, IndexSource::Field("/spec/secret".into()));
            let named = self.0.iter().filter(|(_, _, of)| *of == value);
            named.map(|(namespace, name, _)| ObjectKey::namespaced(*namespace, *name)).collect()
        }

        fn all(&self) -> Vec<ObjectKey> {
            self.0.iter().map(|(namespace, name, _)| ObjectKey::namespaced(*namespace, *name)).collect()
        }
    }

    #[test]
    fn a_referenced_object_concerns_the_primaries_that_name_it() {
        let primaries = Indexed(&[
            ("prod", "by-name", "shop-web"),
            ("test", "another-namespaces-own", "shop-web"),
            ("test", "from-afar", "prod/shop-web"),
            ("prod", "other", "else"),
        ]);
        let mapping = Mapping::ReferencedBy(IndexSource::Field("/spec/secret".into()));
        let keys = mapping.keys(&deployment(None), &primary(), &primaries);
        assert_eq!(keys, [ObjectKey::namespaced("prod", "by-name"), ObjectKey::namespaced("test", "from-afar")]);
        assert_eq!(Mapping::All.keys(&deployment(None), &primary(), &primaries).len(), 4);
    }

    #[test]
    fn a_child_maps_to_the_primary_that_controls_it() {
        let child = deployment(Some(owner("apps.kubedojo.io/v1beta1", "WebApp", true)));
        assert_eq!(Mapping::Owner.key(&child, &primary()), Some(ObjectKey::namespaced("prod", "shop")));
    }

    #[test]
    fn the_version_of_the_owner_does_not_matter_but_group_kind_and_controller_do() {
        let key = |owner| Mapping::Owner.key(&deployment(owner), &primary());
        assert!(key(Some(owner("apps.kubedojo.io/v1", "WebApp", true))).is_some());
        assert!(key(Some(owner("example.com/v1", "WebApp", true))).is_none());
        assert!(key(Some(owner("apps.kubedojo.io/v1beta1", "Other", true))).is_none());
        assert!(key(Some(owner("apps.kubedojo.io/v1beta1", "WebApp", false))).is_none());
        assert!(key(None).is_none());
    }

    #[test]
    fn labels_annotations_and_fields_name_a_primary_here_or_elsewhere() {
        let key = |mapping: Mapping| mapping.key(&deployment(None), &primary()).map(|key| key.to_string());
        assert_eq!(key(Mapping::Label("app".into())).as_deref(), Some("prod/shop"));
        assert_eq!(key(Mapping::Label("far".into())).as_deref(), Some("test/shop"));
        assert_eq!(key(Mapping::Annotation("app".into())).as_deref(), Some("prod/noted"));
        assert_eq!(key(Mapping::Field("/spec/for".into())).as_deref(), Some("prod/pointed"));
        assert_eq!(key(Mapping::Field("/spec/none".into())), None);
        assert_eq!(key(Mapping::SameName).as_deref(), Some("prod/shop-web"));
    }

    #[test]
    fn what_cannot_be_a_key_names_no_primary() {
        for name in ["", "/", "prod/", "/shop", "prod/shop/web"] {
            assert_eq!(scoped(name, &ObjectKey::namespaced("prod", "a"), &primary()), None, "{name:?}");
        }
    }

    #[test]
    fn a_namespaced_object_names_a_cluster_scoped_primary_without_namespace() {
        let cluster = PrimaryKind { namespaced: false, ..primary() };
        let key = |label: &str| Mapping::Label(label.into()).key(&deployment(None), &cluster);
        assert_eq!(key("app"), Some(ObjectKey::cluster("shop")));
        assert_eq!(key("far"), None);
    }
}
