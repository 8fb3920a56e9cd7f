//! References with namespace and name in two fields, such as `{"namespace": "prod", "name": "shop"}`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::object::ObjectKey;
use crate::object::pointer;

/// Where an object has references to other objects, as JSON pointers. Only `base` may contain a `*`; it leads to each
/// reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferencePath {
    /// The place of the reference. Empty means the object itself.
    #[serde(default)]
    pub base: Arc<str>,
    /// The namespace, below the base. `None` if references have none.
    pub namespace: Option<Arc<str>>,
    /// The name, below the base.
    pub name: Arc<str>,
}

/// A reference, as read from an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference<'v> {
    /// `None` means the namespace of the object that contains the reference.
    pub(crate) namespace: Option<&'v str>,
    pub(crate) name: &'v str,
}

impl ReferencePath {
    /// The pointers to everything that this path reads.
    pub fn pointers(&self) -> impl Iterator<Item = String> {
        std::iter::once(&self.name).chain(&self.namespace).map(|below| format!("{}{below}", self.base))
    }

    /// The references of the object whose JSON is `body`, without malformed ones.
    pub(crate) fn read<'v>(&self, body: &'v Value) -> Vec<Reference<'v>> {
        let bases = pointer::values(body, &self.base);
        bases.into_iter().filter_map(|base| self.reference(base)).collect()
    }

    fn reference<'v>(&self, base: &'v Value) -> Option<Reference<'v>> {
        let name = base.pointer(&self.name)?.as_str().filter(|name| is_part(name))?;
        let namespace = match self.namespace.as_deref().and_then(|below| base.pointer(below)) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.is_empty() => None,
            Some(Value::String(text)) if is_part(text) => Some(&**text),
            Some(_) => return None,
        };
        Some(Reference { namespace, name })
    }
}

impl Reference<'_> {
    /// The key of the referenced object, if the reference is in an object with the key `own`.
    pub(crate) fn key(&self, own: &ObjectKey) -> ObjectKey {
        let namespace = self.namespace.map(Arc::from).or_else(|| own.namespace.clone());
        ObjectKey { namespace, name: self.name.into() }
    }
}

fn is_part(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(base: &str, namespace: Option<&str>) -> ReferencePath {
        ReferencePath { base: base.into(), namespace: namespace.map(Into::into), name: "/name".into() }
    }

    fn keys(path: &ReferencePath, body: &Value) -> Vec<String> {
        let own = ObjectKey::namespaced("own", "it");
        path.read(body).iter().map(|reference| reference.key(&own).to_string()).collect()
    }

    #[test]
    fn namespace_and_name_are_read_from_the_same_element() {
        let body = json!({"spec": {"refs": [{"name": "a", "namespace": "x"}, {"namespace": "y"}, {"name": "b"}]}});
        assert_eq!(keys(&path("/spec/refs/*", Some("/namespace")), &body), ["x/a", "own/b"]);
        assert_eq!(keys(&path("/spec/refs/*", None), &body), ["own/a", "own/b"]);
    }

    #[test]
    fn the_object_itself_may_be_the_reference() {
        let body = json!({"name": "a", "target": {"namespace": "x"}});
        assert_eq!(keys(&path("", Some("/target/namespace")), &body), ["x/a"]);
    }

    #[test]
    fn an_empty_namespace_is_absent_and_a_bad_name_is_no_reference() {
        let of = |namespace: Value, name: Value| {
            keys(&path("/ref", Some("/namespace")), &json!({"ref": {"namespace": namespace, "name": name}}))
        };
        assert_eq!(of(json!(""), json!("a")), ["own/a"]);
        assert_eq!(of(json!(null), json!("a")), ["own/a"]);
        for (namespace, name) in
            [(json!(7), json!("a")), (json!("x/y"), json!("a")), (json!("x"), json!("")), (json!("x"), json!("a/b"))]
        {
            assert!(of(namespace.clone(), name.clone()).is_empty(), "{namespace} {name}");
        }
    }

    #[test]
    fn a_path_lists_everything_that_it_reads() {
        let pointers: Vec<_> = path("/spec/refs/*", Some("/namespace")).pointers().collect();
        assert_eq!(pointers, ["/spec/refs/*/name", "/spec/refs/*/namespace"]);
    }
}
