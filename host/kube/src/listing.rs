//! Complete, consistent lists, a page at a time.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::object::Object;
use windlass_core::watch::WatchSpec;

use crate::discovery::Resource;
use crate::informer::InformerError;
use crate::parse;
use crate::request::{self, Query};

const PAGE: &str = "500";
/// For one page.
const PAGE_LIMIT: Duration = Duration::from_mins(1);
/// For a list that is asked for in one piece.
const WHOLE_LIMIT: Duration = Duration::from_mins(5);

/// All objects of a watch at one version.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) objects: Vec<Object>,
    pub(crate) version: Arc<str>,
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: Option<Arc<str>>,
    r#continue: Option<String>,
}

/// The parameters that lists and watches of `spec` share.
pub(crate) fn query(spec: &WatchSpec) -> Query {
    let mut query = Query::default();
    query.add_some("labelSelector", spec.label_selector.as_deref());
    query.add_some("fieldSelector", spec.field_selector.as_deref());
    query
}

/// The latest state of what `spec` watches. No version is asked for, so that the server answers with the newest.
pub(crate) async fn list(client: &Client, spec: &WatchSpec, resource: &Resource) -> Result<Listing, InformerError> {
    let path = resource.collection(spec.namespace.as_deref());
    let mut objects = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let mut query = query(spec);
        query.add("limit", PAGE);
        query.add_some("continue", token.as_deref());
        let text = match request::get(client, &query.onto(&path), PAGE_LIMIT).await {
            // The pages took longer than the server keeps a version: it must be asked for all at once.
            Err(error) if token.is_some() && error.code() == Some(410) => return whole(client, spec, &path).await,
            answer => answer.map_err(InformerError::List)?,
        };
        let metadata = read(&text, spec, &mut objects)?;
        token = metadata.r#continue.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok(Listing { objects, version: metadata.resource_version.unwrap_or_default() });
        }
    }
}

async fn whole(client: &Client, spec: &WatchSpec, path: &str) -> Result<Listing, InformerError> {
    let text = request::get(client, &query(spec).onto(path), WHOLE_LIMIT).await.map_err(InformerError::List)?;
    let mut objects = Vec::new();
    let metadata = read(&text, spec, &mut objects)?;
    Ok(Listing { objects, version: metadata.resource_version.unwrap_or_default() })
}

/// Appends the objects of a page. One that cannot be read fails the list: a store without it would be a silent gap.
fn read(text: &str, spec: &WatchSpec, objects: &mut Vec<Object>) -> Result<PageMetadata, InformerError> {
    let malformed = |source: parse::ParseError| InformerError::Malformed { what: "list", source };
    let page: Page<'_> = serde_json::from_str(text).map_err(|error| malformed(error.into()))?;
    for item in page.items.unwrap_or_default() {
        objects.push(parse::object(item.get(), &spec.kind).map_err(malformed)?);
    }
    Ok(page.metadata)
}
