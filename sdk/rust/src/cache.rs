//! Reads from the caches of the declared watches. They cost no request, and show what this call has already written.

use std::collections::VecDeque;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::bindings::windlass::plugin::cache;
use crate::error::{Error, JsonError};
use crate::native::needs_host;
use crate::object::{ObjectKind, ObjectRef};

/// How many objects are asked for at a time. The host may return fewer.
const PAGE: u32 = 500;

/// Reads one object. None: it is not in the cache.
pub fn get<T: DeserializeOwned>(target: &ObjectRef) -> Result<Option<T>, Error> {
    needs_host("cache::get");
    cache::get(target, None)?.as_deref().map(parse).transpose()
}

/// Reads of one object only the values at these JSON pointers, in their places, beside what identifies the object.
pub fn get_fields<T: DeserializeOwned>(target: &ObjectRef, pointers: &[&str]) -> Result<Option<T>, Error> {
    needs_host("cache::get_fields");
    cache::get(target, Some(&owned(pointers)))?.as_deref().map(parse).transpose()
}

/// Lists the objects of a kind, by default all that the watch sees.
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
        limit: PAGE,
        max_bytes: None,
        page_token: None,
    })
}

/// Which objects to list. All conditions must hold.
#[derive(Debug, Clone)]
#[must_use = "nothing is listed before `iter`"]
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

    /// Only objects whose index, declared in the manifest, holds this value.
    pub fn index(mut self, index: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.index = Some(cache::IndexMatch { index: index.into(), value: value.into() });
        self
    }

    /// Only objects whose controller is the primary.
    pub fn owned(mut self) -> Self {
        self.0.owned = true;
        self
    }

    /// Only the values at these JSON pointers, in their places, beside what identifies the object.
    pub fn fields(mut self, pointers: &[&str]) -> Self {
        self.0.fields = Some(owned(pointers));
        self
    }

    /// Asks for this many objects at a time, instead of 500. At least 1.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.0.limit = objects.max(1);
        self
    }

    /// The objects, fetched a page at a time while the iteration goes on. It ends after the first error.
    #[must_use]
    pub fn iter<T: DeserializeOwned>(self) -> Objects<T> {
        Objects { next_page: Some(self.0), fetched: VecDeque::new(), object: PhantomData }
    }
}

/// The objects of a [`Query`].
#[derive(Debug)]
pub struct Objects<T> {
    /// None: the last page was fetched, or an error ended the list.
    next_page: Option<cache::ListQuery>,
    fetched: VecDeque<String>,
    object: PhantomData<fn() -> T>,
}

impl<T> Objects<T> {
    fn fetch(&mut self, mut query: cache::ListQuery) -> Result<(), Error> {
        needs_host("cache::list");
        let page = cache::list(&query)?;
        self.fetched.extend(page.items);
        self.next_page = page.next_token.map(|token| {
            query.page_token = Some(token);
            query
        });
        Ok(())
    }
}

impl<T: DeserializeOwned> Iterator for Objects<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(text) = self.fetched.pop_front() {
                let object = parse(&text);
                if object.is_err() {
                    self.fetched.clear();
                    self.next_page = None;
                }
                return Some(object);
            }
            let query = self.next_page.take()?;
            if let Err(error) = self.fetch(query) {
                return Some(Err(error));
            }
        }
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| JsonError::new("a cached object", error).into())
}

fn owned(pointers: &[&str]) -> Vec<String> {
    pointers.iter().map(|&pointer| pointer.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_after_an_object_that_does_not_parse() {
        let mut objects = Objects::<u8> {
            next_page: Some(list("v1", "Pod").0),
            fetched: ["1", "text", "2"].map(str::to_owned).into(),
            object: PhantomData,
        };
        assert_eq!(objects.next().map(Result::ok), Some(Some(1)));
        assert!(objects.next().is_some_and(|object| object.is_err()));
        assert!(objects.next().is_none());
    }

    #[test]
    #[should_panic(expected = "cache::get needs the Windlass host")]
    fn outside_the_host_a_read_says_what_it_lacks() {
        let _ = get::<u8>(&ObjectRef::cluster_scoped("v1", "Node", "n"));
    }
}
