//! Reads from the API server itself. Each read sends a request and counts against the plugin's budget. Read from the
//! [`cache`](crate::cache) if a watch covers the object. Use this module if a watch would not be worth its cost.
//!
//! A live read needs a permission in the manifest, to `get` or `list` the resource. A subresource needs a permission
//! of its own, such as `deployments/scale` or `pods/log`.

mod log;

use serde::de::DeserializeOwned;

use crate::bindings::windlass::plugin::{live, types};
use crate::error::Error;
use crate::json;
use crate::native::live as host;
use crate::object::{ObjectKind, ObjectRef};
use crate::pages::{self, Page, Pages};

pub use live::{ListedKind, ServedKind};
pub use log::Log;

const WHAT: &str = "an object";

/// The number of objects to ask for at a time. The host may return fewer.
const PAGE_OBJECTS: u32 = 500;

/// The objects that a [`Query`] finds.
pub type Objects<T> = pages::Objects<Query, T>;

/// Reads one object. `None` if it does not exist.
pub fn get<T: DeserializeOwned>(target: &ObjectRef) -> Result<Option<T>, Error> {
    read(target, None, &live::View::Whole)
}

/// Reads one object, but only its `apiVersion`, `kind` and `metadata`. The server sends no more.
pub fn get_metadata<T: DeserializeOwned>(target: &ObjectRef) -> Result<Option<T>, Error> {
    read(target, None, &live::View::Metadata)
}

/// Reads one object, but only its identity and the values at these JSON pointers, which keep their places.
pub fn get_fields<T: DeserializeOwned>(target: &ObjectRef, pointers: &[&str]) -> Result<Option<T>, Error> {
    read(target, None, &live::View::Fields(owned(pointers)))
}

/// Reads a subresource of an object, such as `scale` or `status`. `None` if the object does not exist.
pub fn get_subresource<T: DeserializeOwned>(target: &ObjectRef, name: &str) -> Result<Option<T>, Error> {
    read(target, Some(name), &live::View::Whole)
}

fn read<T: DeserializeOwned>(target: &ObjectRef, part: Option<&str>, view: &live::View) -> Result<Option<T>, Error> {
    Ok(host::get(target, part, view)?.map(|text| json::read(WHAT, &text)).transpose()?)
}

fn owned(pointers: &[&str]) -> Vec<String> {
    pointers.iter().map(|&pointer| pointer.to_owned()).collect()
}

/// Selects the log of a Pod, by default of its only container. Without a namespace, the Pod is in the primary's
/// namespace.
///
/// ```no_run
/// # use windlass_sdk::{Error, ObjectRef, live};
/// # fn run(pod: ObjectRef) -> Result<(), Error> {
/// let last_words: String = live::log(pod).container("web").previous().tail_lines(20).read()?;
/// # Ok(())
/// # }
/// ```
pub fn log(pod: ObjectRef) -> Log {
    Log::of(pod)
}

/// How the API server serves a kind, for plugins that adapt to the cluster. `None` if the server does not serve the
/// kind. The call needs no right, and counts as a read.
pub fn served(api_version: &str, kind: &str) -> Result<Option<ServedKind>, Error> {
    Ok(host::served(&ObjectKind::new(api_version, kind))?)
}

/// All kinds that the API server serves, each once, ordered by group and kind. The call needs no right, and counts as
/// a read. A kind that has just been installed may be missing for some seconds.
pub fn kinds() -> Result<Vec<ListedKind>, Error> {
    Ok(host::kinds()?)
}

/// Lists the objects of a kind, by default all.
///
/// ```no_run
/// # use windlass_sdk::{Error, live};
/// # fn run() -> Result<(), Error> {
/// for pod in live::list("v1", "Pod").in_namespace("prod").fields("spec.nodeName=n1").iter() {
///     let pod: serde_json::Value = pod?;
///     // …
/// }
/// # Ok(())
/// # }
/// ```
pub fn list(api_version: &str, kind: &str) -> Query {
    Query(live::ListQuery {
        kind: ObjectKind::new(api_version, kind),
        namespace: None,
        label_selector: None,
        field_selector: None,
        view: live::View::Whole,
        limit: PAGE_OBJECTS,
        page_token: None,
    })
}

/// Selects the objects to list. All conditions must hold.
#[derive(Debug, Clone)]
#[must_use = "nothing is listed before `iter` or `page`"]
pub struct Query(live::ListQuery);

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

    /// Only objects with these fields, such as `spec.nodeName=n1`, as far as the API supports them for the kind.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.0.field_selector = Some(selector.into());
        self
    }

    /// Only the `apiVersion`, `kind` and `metadata` of each object. The server sends no more.
    pub fn metadata(mut self) -> Self {
        self.0.view = live::View::Metadata;
        self
    }

    /// Only the identity of each object and the values at these JSON pointers, which keep their places.
    pub fn only(mut self, pointers: &[&str]) -> Self {
        self.0.view = live::View::Fields(owned(pointers));
        self
    }

    /// Asks for this many objects at a time, instead of 500. At least 1.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.0.limit = objects.max(1);
        self
    }

    /// Starts after the page that had this token. A token that is too old is an error with the reason `Expired`: start
    /// the list again.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_all_conditions() {
        let query = list("v1", "Pod").in_namespace("prod").labels("app=shop").fields("spec.nodeName=n1");
        let expected = live::ListQuery {
            kind: ObjectKind::new("v1", "Pod"),
            namespace: Some("prod".into()),
            label_selector: Some("app=shop".into()),
            field_selector: Some("spec.nodeName=n1".into()),
            view: live::View::Fields(vec!["/status/phase".into()]),
            limit: 10,
            page_token: Some("token".into()),
        };
        assert_eq!(query.only(&["/status/phase"]).page_size(10).after("token").0, expected);
    }
}
