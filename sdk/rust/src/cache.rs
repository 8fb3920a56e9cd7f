//! Reads from the caches of the declared watches. They send no request, and include the writes of this call.

use serde::de::DeserializeOwned;

use crate::bindings::windlass::plugin::{cache, types};
use crate::error::Error;
use crate::json;
use crate::native::cache as host;
use crate::object::{ObjectKind, ObjectRef};
use crate::pages::{self, Page, Pages};

const WHAT: &str = "a cached object";

/// The number of objects to ask for at a time. The host may return fewer.
const PAGE_OBJECTS: u32 = 500;

/// The objects that a [`Query`] finds.
pub type Objects<T> = pages::Objects<Query, T>;

/// Reads one object. `None` if it is not in the cache.
pub fn get<T: DeserializeOwned>(target: &ObjectRef) -> Result<Option<T>, Error> {
    read(host::get(target, None))
}

/// Reads one object, but only its identity and the values at these JSON pointers, which keep their places.
pub fn get_fields<T: DeserializeOwned>(target: &ObjectRef, pointers: &[&str]) -> Result<Option<T>, Error> {
    read(host::get(target, Some(&owned(pointers))))
}

/// Reads several objects, in the order of the argument, in one call to the host.
#[must_use]
pub fn get_many<T: DeserializeOwned>(targets: &[ObjectRef]) -> Vec<Result<Option<T>, Error>> {
    host::get_many(targets, None).into_iter().map(read).collect()
}

/// Reads several objects as [`get_many`] does, but only the values at these JSON pointers, as [`get_fields`] does.
#[must_use]
pub fn get_many_fields<T: DeserializeOwned>(targets: &[ObjectRef], pointers: &[&str]) -> Vec<Result<Option<T>, Error>> {
    host::get_many(targets, Some(&owned(pointers))).into_iter().map(read).collect()
}

fn read<T: DeserializeOwned>(answer: Result<Option<String>, types::ApiError>) -> Result<Option<T>, Error> {
    Ok(answer?.map(|text| json::read(WHAT, &text)).transpose()?)
}

/// Lists the objects of a kind, by default all that the watch selects.
///
/// ```no_run
/// # use windlass_sdk::{Error, cache};
/// # fn run() -> Result<(), Error> {
/// for pod in cache::list("v1", "Pod").in_namespace("prod").labels("app=shop").iter() {
///     let pod: serde_json::Value = pod?;
///     // …
/// }
/// # Ok(())
/// # }
/// ```
pub fn list(api_version: &str, kind: &str) -> Query {
    Query(cache::ListQuery {
        kind: ObjectKind::new(api_version, kind),
        namespace: None,
        label_selector: None,
        index: None,
        owned: false,
        fields: None,
        limit: PAGE_OBJECTS,
        max_bytes: None,
        page_token: None,
    })
}

/// Selects the objects to list. All conditions must hold.
#[derive(Debug, Clone)]
#[must_use = "nothing is listed before `iter` or `page`"]
pub struct Query(cache::ListQuery);

impl Query {
    /// Only objects in this namespace.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.0.namespace = Some(namespace.into());
        self
    }

    /// Only objects with these labels, such as `app=web,tier in (front,back)`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.0.label_selector = Some(selector.into());
        self
    }

    /// Only objects whose index, declared in the manifest, contains this value.
    pub fn index(mut self, index: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.index = Some(cache::IndexMatch { index: index.into(), value: value.into() });
        self
    }

    /// Only objects whose controller is the primary.
    pub fn owned(mut self) -> Self {
        self.0.owned = true;
        self
    }

    /// Only the object's identity and the values at these JSON pointers, which keep their places.
    pub fn fields(mut self, pointers: &[&str]) -> Self {
        self.0.fields = Some(owned(pointers));
        self
    }

    /// Asks for this many objects at a time, instead of 500. At least 1.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.0.limit = objects.max(1);
        self
    }

    /// Asks for this many bytes at a time, instead of as many as the host returns. A page holds at least one object.
    pub fn page_bytes(mut self, bytes: u32) -> Self {
        self.0.max_bytes = Some(bytes);
        self
    }

    /// Starts after the page that had this token.
    pub fn after(mut self, next_token: impl Into<String>) -> Self {
        self.set_token(next_token.into());
        self
    }

    /// The objects. The pages are read during the iteration, which ends after the first error.
    #[must_use]
    pub fn iter<T: DeserializeOwned>(self) -> Objects<T> {
        Objects::new(self)
    }

    /// One page of objects.
    pub fn page<T: DeserializeOwned>(&self) -> Result<Page<T>, Error> {
        pages::page(self)
    }
}

impl Pages for Query {
    const WHAT: &'static str = WHAT;

    fn fetch(&self) -> Result<types::Page, Error> {
        Ok(host::list(&self.0)?)
    }

    fn set_token(&mut self, token: String) {
        self.0.page_token = Some(token);
    }
}

fn owned(pointers: &[&str]) -> Vec<String> {
    pointers.iter().map(|&pointer| pointer.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_all_conditions() {
        let query = list("v1", "Pod")
            .in_namespace("prod")
            .labels("app=shop")
            .index("node", "n1")
            .owned()
            .fields(&["/status/phase"])
            .page_size(0)
            .page_bytes(1_000)
            .after("token");
        let expected = cache::ListQuery {
            kind: ObjectKind::new("v1", "Pod"),
            namespace: Some("prod".into()),
            label_selector: Some("app=shop".into()),
            index: Some(cache::IndexMatch { index: "node".into(), value: "n1".into() }),
            owned: true,
            fields: Some(vec!["/status/phase".into()]),
            limit: 1,
            max_bytes: Some(1_000),
            page_token: Some("token".into()),
        };
        assert_eq!(query.0, expected);
    }
}
