//! A kind as discovery describes it.

use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::rights::grants::Access;

use crate::client::request;

/// Enough for the path of most objects, so that it is allocated once.
const PATH_BYTES: usize = 128;

/// How the server serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub kind: ObjectKind,
    /// The name in paths and grants: `deployments`.
    pub plural: String,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Such as `status` and `scale`.
    pub subresources: Vec<String>,
    /// The verbs that the server supports: `get`, `list`, `watch`, `create`, ….
    pub verbs: Vec<String>,
    /// Whether the resource's versions can be compared as numbers. False if the server does not guarantee this, or was
    /// not asked.
    pub comparable: bool,
}

impl Resource {
    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.kind.group()
    }

    /// Whether created objects can be read again. Reviews and the like are answered but not stored.
    pub(crate) fn is_stored(&self) -> bool {
        // A server that lists no verbs is assumed to store objects.
        self.verbs.is_empty() || self.verbs.iter().any(|verb| matches!(&**verb, "get" | "list" | "watch"))
    }

    /// Whether its objects can be listed and watched.
    #[must_use]
    pub fn is_watchable(&self) -> bool {
        ["list", "watch"].iter().all(|verb| self.verbs.iter().any(|listed| listed == verb))
    }

    /// Whether the resource's objects have `subresource`; empty for the object itself.
    pub(crate) fn serves(&self, subresource: &str) -> bool {
        subresource.is_empty() || self.subresources.iter().any(|served| served == subresource)
    }

    /// The access that `verb` needs for `subresource` of the object `key`, or of all objects.
    pub(crate) fn access<'a>(&'a self, verb: &'a str, subresource: &'a str, key: Option<&'a ObjectKey>) -> Access<'a> {
        let (group, resource, namespaced) = (self.group(), &*self.plural, self.namespaced);
        Access { verb, group, resource, subresource, namespaced, key }
    }

    /// The path of the collection in `namespace`, or in all namespaces.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let mut path = group_version_path(&self.kind);
        if let Some(namespace) = namespace {
            path.push_str("/namespaces/");
            request::encode(&mut path, namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    /// The path of an object or its subresource; empty for the object itself.
    pub(crate) fn object(&self, key: &ObjectKey, subresource: &str) -> String {
        let mut path = self.collection(key.namespace.as_deref());
        for part in [&*key.name, subresource] {
            if !part.is_empty() {
                path.push('/');
                request::encode(&mut path, part);
            }
        }
        path
    }
}

/// The path of a group and version.
pub(super) fn group_version_path(kind: &ObjectKind) -> String {
    let root = if kind.api_version.contains('/') { "/apis/" } else { "/api/" };
    let mut path = String::with_capacity(PATH_BYTES);
    path.push_str(root);
    path.push_str(&kind.api_version);
    path
}
