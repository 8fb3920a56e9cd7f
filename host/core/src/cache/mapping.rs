//! Maps a changed object to the keys of the primaries that it concerns.
//!
//! Pure. The caller maps the states before and after a change, so that a primary is also queued when an object stops
//! concerning it.

use std::sync::Arc;

use serde::Deserialize;

use crate::cache::declared::{nothing_else, only_field};
use crate::object::pointer;
use crate::object::reference::{Reference, ReferencePath};
use crate::object::shallow;
use crate::object::{Object, ObjectKey, ObjectKind, OwnerReference};

only_field!(index: Arc<str>);
only_field!(key: Arc<str>);
only_field!(pointer: Arc<str>);

/// How a watched object names its primaries. Manifests may use all variants but [`Itself`](Self::Itself).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum Mapping {
    /// The object is the primary.
    #[serde(skip)]
    Itself,
    /// The object's controller is the primary.
    #[serde(deserialize_with = "nothing_else")]
    Owner,
    /// Each owner of the object that is of the primary's kind is a primary, whether it is the controller or not.
    #[serde(deserialize_with = "nothing_else")]
    AnyOwner,
    /// The value of a label is the primary's name, or `namespace/name`.
    #[serde(deserialize_with = "key")]
    Label(Arc<str>),
    /// The value of an annotation is the primary's name, or `namespace/name`.
    #[serde(deserialize_with = "key")]
    Annotation(Arc<str>),
    /// Each string at a JSON pointer (see [`crate::object::pointer`]) is a primary's name, or `namespace/name`.
    #[serde(deserialize_with = "pointer")]
    Field(Arc<str>),
    /// Each of these references names a primary.
    Reference(ReferencePath),
    /// The primary has the object's namespace and name.
    #[serde(deserialize_with = "nothing_else")]
    SameName,
    /// Each primary that names the object, as `namespace/name` or as `name`, by a value in its index of this name. A
    /// bare name counts in the same namespace, or if the primary or the object is cluster-scoped.
    #[serde(deserialize_with = "index")]
    ReferencedBy(Arc<str>),
    /// Each primary that has, in its index of this name, a selector that selects the object. A selector counts in
    /// the same namespace, or if the primary or the object is cluster-scoped.
    #[serde(deserialize_with = "index")]
    SelectedBy(Arc<str>),
    /// No primary. The plugin only reads the objects.
    #[serde(deserialize_with = "nothing_else")]
    None,
    /// Every primary. Collect many changes before mapping them this way.
    #[serde(deserialize_with = "nothing_else")]
    All,
    /// The primaries that the plugin's own mapper returns. The object alone does not determine them.
    #[serde(deserialize_with = "nothing_else")]
    Mapper,
    /// The parents for which the composer declared the object as related. [`related`](crate::cache::related) keeps
    /// these declarations.
    #[serde(deserialize_with = "nothing_else")]
    Customize,
}

/// Primaries that the plugin's mapper returned; as `mapper.target` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The primary with this key. It need not exist.
    Primary(ObjectKey),
    /// All primaries with this value in an index of the primary's watch.
    Indexed {
        /// The index's name in the manifest.
        index: Arc<str>,
        value: String,
    },
}

/// Looks up existing primaries.
pub trait Primaries {
    /// Primaries with this value in the index `index` of the primary's watch.
    fn indexed(&self, index: &str, value: &str) -> Vec<ObjectKey>;

    fn all(&self) -> Vec<ObjectKey>;
}

/// The primary's kind and scope, needed to make keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKind {
    pub kind: ObjectKind,
    /// Whether primaries live in namespaces.
    pub namespaced: bool,
}

impl Mapping {
    /// Whether the plugin's own code maps, so that the object alone does not determine the keys.
    #[must_use]
    pub fn is_code(&self) -> bool {
        matches!(self, Self::Mapper | Self::Customize)
    }

    /// The pointers at which the mapping reads objects.
    #[must_use]
    pub fn pointers(&self) -> Vec<String> {
        match self {
            Self::Field(pointer) => vec![pointer.to_string()],
            Self::Reference(path) => path.pointers().collect(),
            _ => vec![],
        }
    }

    /// The primaries that `object` concerns. A key that the object names need not exist. Empty if the plugin's own code
    /// maps.
    #[must_use]
    pub fn keys(&self, object: &Object, primary: &PrimaryKind, primaries: &impl Primaries) -> Vec<ObjectKey> {
        match self {
            Self::Field(pointer) => named(object, pointer, primary),
            Self::Reference(path) => referenced(object, path, primary),
            Self::ReferencedBy(index) => referrers(&object.header.key, index, primaries),
            Self::SelectedBy(index) => selecting(object, index, primaries),
            Self::All => primaries.all(),
            Self::AnyOwner => owners(object, primary),
            _ => self.key(object, primary).into_iter().collect(),
        }
    }

    /// The one primary that `object` names. `None` if it names no primary, or a primary that cannot exist.
    fn key(&self, object: &Object, primary: &PrimaryKind) -> Option<ObjectKey> {
        let own = &object.header.key;
        match self {
            Self::Itself => Some(own.clone()),
            Self::Owner => {
                let owner = object.header.controller()?;
                is_primary(owner, primary).then(|| scoped(&owner.name, own, primary)).flatten()
            }
            Self::Label(label) => scoped(object.header.labels.get(label)?, own, primary),
            Self::Annotation(name) => {
                let value = body(object)?;
                scoped(value.get("metadata")?.get("annotations")?.get(&**name)?.as_str()?, own, primary)
            }
            Self::SameName => scoped(&own.name, own, primary),
            Self::Field(_)
            | Self::Reference(_)
            | Self::ReferencedBy(_)
            | Self::SelectedBy(_)
            | Self::AnyOwner
            | Self::None
            | Self::All
            | Self::Mapper
            | Self::Customize => None,
        }
    }
}

/// Whether an owner is of the primary's kind. Ignores the version: an owner reference still names the same object after
/// the CRD has moved to another version.
fn is_primary(owner: &OwnerReference, primary: &PrimaryKind) -> bool {
    owner.kind.group() == primary.kind.group() && owner.kind.kind == primary.kind.kind
}

fn owners(object: &Object, primary: &PrimaryKind) -> Vec<ObjectKey> {
    let owners = object.header.owners.iter().filter(|owner| is_primary(owner, primary));
    owners.filter_map(|owner| scoped(&owner.name, &object.header.key, primary)).collect()
}

fn named(object: &Object, pointer: &str, primary: &PrimaryKind) -> Vec<ObjectKey> {
    let Some(body) = body(object) else { return vec![] };
    let names = pointer::values(&body, pointer).into_iter().filter_map(serde_json::Value::as_str);
    names.filter_map(|name| scoped(name, &object.header.key, primary)).collect()
}

fn referenced(object: &Object, path: &ReferencePath, primary: &PrimaryKind) -> Vec<ObjectKey> {
    let Some(body) = body(object) else { return vec![] };
    let key = |reference: &Reference<'_>| match (primary.namespaced, reference.namespace) {
        (false, None) => Some(ObjectKey::cluster(reference.name)),
        (false, Some(_)) => None,
        (true, _) => Some(reference.key(&object.header.key)).filter(|key| key.namespace.is_some()),
    };
    path.read(&body).iter().filter_map(key).collect()
}

fn referrers(own: &ObjectKey, index: &str, primaries: &impl Primaries) -> Vec<ObjectKey> {
    let mut found = primaries.indexed(index, &own.name);
    found.retain(|key| is_near(key, own));
    if own.namespace.is_some() {
        found.extend(primaries.indexed(index, &own.to_string()));
    }
    found
}

fn selecting(object: &Object, index: &str, primaries: &impl Primaries) -> Vec<ObjectKey> {
    let mut found = primaries.indexed(index, &object.header.labels.to_string());
    found.retain(|key| is_near(key, &object.header.key));
    found
}

pub(crate) fn is_near(key: &ObjectKey, own: &ObjectKey) -> bool {
    key.namespace == own.namespace || key.namespace.is_none() || own.namespace.is_none()
}

fn body(object: &Object) -> Option<serde_json::Value> {
    shallow::parse(&object.glance()).ok()
}

fn scoped(name: &str, own: &ObjectKey, primary: &PrimaryKind) -> Option<ObjectKey> {
    match (primary.namespaced, name.split_once('/')) {
        _ if name.is_empty() => None,
        (false, None) => Some(ObjectKey::cluster(name)),
        (false, Some(_)) => None,
        // Such a value may be written by mistake, but no object can have this name.
        (true, Some((namespace, name))) if namespace.is_empty() || name.is_empty() || name.contains('/') => None,
        (true, Some((namespace, name))) => Some(ObjectKey::namespaced(namespace, name)),
        (true, None) => Some(ObjectKey { namespace: Some(own.namespace.clone()?), name: name.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Header;

    fn primary() -> PrimaryKind {
        PrimaryKind { kind: ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp"), namespaced: true }
    }

    fn deployment(owner: Option<OwnerReference>) -> Object {
        let header = Header {
            generation: 1,
            labels: [("app".into(), "shop".into()), ("far".into(), "test/shop".into())].into(),
            owners: owner.into_iter().collect(),
            ..Header::bare(ObjectKey::namespaced("prod", "shop-web"), "d-1", "7")
        };
        let text = r#"{"metadata":{"annotations":{"app":"noted"}},"spec":{"for":"pointed"}}"#;
        Object::new(header, text)
    }

    fn owner(api_version: &str, kind: &str, controller: bool) -> OwnerReference {
        OwnerReference { kind: ObjectKind::new(api_version, kind), name: "shop".into(), uid: "w-1".into(), controller }
    }

    /// Primaries with the values of a single index.
    struct Indexed(&'static [(&'static str, &'static str, &'static str)]);

    impl Primaries for Indexed {
        fn indexed(&self, _: &str, value: &str) -> Vec<ObjectKey> {
            let named = self.0.iter().filter(|(_, _, of)| *of == value);
            named.map(|(namespace, name, _)| ObjectKey::namespaced(*namespace, *name)).collect()
        }

        fn all(&self) -> Vec<ObjectKey> {
            self.0.iter().map(|(namespace, name, _)| ObjectKey::namespaced(*namespace, *name)).collect()
        }
    }

    #[test]
    fn a_referenced_object_maps_to_the_primaries_that_name_it() {
        let primaries = Indexed(&[
            ("prod", "by-name", "shop-web"),
            ("test", "another-namespaces-own", "shop-web"),
            ("test", "from-afar", "prod/shop-web"),
            ("prod", "other", "else"),
        ]);
        let mapping = Mapping::ReferencedBy("by-secret".into());
        let keys = mapping.keys(&deployment(None), &primary(), &primaries);
        assert_eq!(keys, [ObjectKey::namespaced("prod", "by-name"), ObjectKey::namespaced("test", "from-afar")]);
        assert_eq!(Mapping::All.keys(&deployment(None), &primary(), &primaries).len(), 4);
    }

    #[test]
    fn an_object_maps_to_primaries_in_its_namespace_that_select_it() {
        let primaries = Indexed(&[
            ("prod", "selects", "app=shop,far=test/shop"),
            ("test", "elsewhere", "app=shop,far=test/shop"),
            ("prod", "selects-others", "app=other"),
        ]);
        let keys = Mapping::SelectedBy("by-selector".into()).keys(&deployment(None), &primary(), &primaries);
        assert_eq!(keys, [ObjectKey::namespaced("prod", "selects")]);
    }

    #[test]
    fn each_element_of_a_list_names_a_primary() {
        let text = r#"{"spec":{"for":["a","test/b",7,""],"refs":[{"ns":"test","name":"c"},{"name":"d"}]}}"#;
        let object = Object::new(deployment(None).header.clone(), text);
        let path = ReferencePath { base: "/spec/refs/*".into(), namespace: Some("/ns".into()), name: "/name".into() };
        let keys = |mapping: Mapping, primary: &PrimaryKind| {
            let keys = mapping.keys(&object, primary, &Indexed(&[]));
            keys.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(keys(Mapping::Field("/spec/for/*".into()), &primary()), ["prod/a", "test/b"]);
        assert_eq!(keys(Mapping::Reference(path.clone()), &primary()), ["test/c", "prod/d"]);
        let cluster = PrimaryKind { namespaced: false, ..primary() };
        assert_eq!(keys(Mapping::Reference(path), &cluster), ["d"], "no cluster-scoped primary is in a namespace");
    }

    #[test]
    fn a_child_maps_to_the_primary_that_controls_it() {
        let child = deployment(Some(owner("apps.kubedojo.io/v1beta1", "WebApp", true)));
        assert_eq!(Mapping::Owner.key(&child, &primary()), Some(ObjectKey::namespaced("prod", "shop")));
    }

    #[test]
    fn an_owner_matches_by_group_kind_and_controller_in_any_version() {
        let key = |owner| Mapping::Owner.key(&deployment(owner), &primary());
        assert!(key(Some(owner("apps.kubedojo.io/v1", "WebApp", true))).is_some());
        assert!(key(Some(owner("example.com/v1", "WebApp", true))).is_none());
        assert!(key(Some(owner("apps.kubedojo.io/v1beta1", "Other", true))).is_none());
        assert!(key(Some(owner("apps.kubedojo.io/v1beta1", "WebApp", false))).is_none());
        assert!(key(None).is_none());
    }

    #[test]
    fn any_owner_of_the_primarys_kind_counts_also_beside_a_controller() {
        let [shop, other] = ["shop", "other"].map(Arc::<str>::from);
        let named = |name: &Arc<str>, api_version, kind, controller| OwnerReference {
            name: name.clone(),
            ..owner(api_version, kind, controller)
        };
        let mut child = deployment(None).header.clone();
        child.owners = [
            named(&other, "apps/v1", "Deployment", true),
            named(&shop, "apps.kubedojo.io/v1", "WebApp", false),
            named(&other, "apps.kubedojo.io/v1beta1", "WebApp", false),
            named(&shop, "example.com/v1", "WebApp", false),
        ]
        .into();
        let child = Object::new(child, "{}");
        let keys = |mapping: Mapping| mapping.keys(&child, &primary(), &Indexed(&[]));
        assert_eq!(keys(Mapping::AnyOwner), ["shop", "other"].map(|name| ObjectKey::namespaced("prod", name)));
        assert!(keys(Mapping::Owner).is_empty());
    }

    #[test]
    fn labels_annotations_and_fields_may_name_another_namespace() {
        let key = |mapping: Mapping| {
            let keys = mapping.keys(&deployment(None), &primary(), &Indexed(&[]));
            keys.first().map(ToString::to_string)
        };
        assert_eq!(key(Mapping::Label("app".into())).as_deref(), Some("prod/shop"));
        assert_eq!(key(Mapping::Label("far".into())).as_deref(), Some("test/shop"));
        assert_eq!(key(Mapping::Annotation("app".into())).as_deref(), Some("prod/noted"));
        assert_eq!(key(Mapping::Field("/spec/for".into())).as_deref(), Some("prod/pointed"));
        assert_eq!(key(Mapping::Field("/spec/none".into())), None);
        assert_eq!(key(Mapping::SameName).as_deref(), Some("prod/shop-web"));
    }

    #[test]
    fn text_that_cannot_be_a_key_names_no_primary() {
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
