//! Looks over the whole cluster for finalizers of this project, for people: which objects wait for a plugin that may be gone.
//!
//! One list a kind, of metadata only, a page at a time. What cannot be listed is named, not skipped in silence.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::finalizer;
use windlass_core::object::ObjectKey;

use crate::discovery::{Discovery, DiscoveryError, Resource};
use crate::request::{self, Query, RequestError};

const PAGE: &str = "500";
const PAGE_LIMIT: Duration = Duration::from_mins(1);
/// Kinds that are listed at the same time.
const SIDE_BY_SIDE: usize = 8;
/// How often a list is begun anew whose pages took longer than the server keeps a version.
const ATTEMPTS: usize = 3;
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=1,application/json";

/// An object with a finalizer of this project.
#[derive(Clone, Debug)]
pub struct Carrier {
    /// Its kind.
    pub resource: Arc<Resource>,
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its incarnation.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// Whether it waits for its finalizers.
    pub deleting: bool,
    /// All its finalizers, in its order.
    pub finalizers: Vec<String>,
}

/// Why a part of the cluster cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The server does not answer, or refuses.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Its answer makes no sense.
    #[error("the API server's answer cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A group-version that the server names and then tells nothing of, as when an aggregated API is down.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
}

impl SweepError {
    fn is_expired(&self) -> bool {
        matches!(self, Self::Request(error) if error.code() == Some(410))
    }
}

/// What a sweep has found.
#[derive(Debug, Default)]
pub struct Swept {
    /// Sorted by kind, namespace and name.
    pub carriers: Vec<Carrier>,
    /// Kinds that could not be looked at, and why.
    pub unseen: Vec<(String, SweepError)>,
}

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Only in this namespace, and at kinds without namespaces. None: everywhere.
    pub namespace: Option<String>,
    /// Only at these kinds: `WebApp`, `webapps` or `webapps.apps.kubedojo.io`. Empty: at all.
    pub kinds: Vec<String>,
}

impl Scope {
    fn includes(&self, resource: &Resource) -> bool {
        let full = windlass_core::grants::resource_name(resource.group(), &resource.plural, "");
        let names = [&*resource.kind.kind, &resource.plural, &full];
        let is_named = |kind: &String| names.iter().any(|name| name.eq_ignore_ascii_case(kind));
        self.kinds.is_empty() || self.kinds.iter().any(is_named)
    }
}

/// Finds all objects within `scope` that carry a finalizer for which `wanted` is true. An error means that the server's kinds
/// are not known.
pub async fn sweep(
    client: &Client,
    discovery: &Discovery,
    scope: &Scope,
    wanted: impl Fn(&str) -> bool,
) -> Result<Swept, SweepError> {
    let (resources, failed) = discovery.everything().await?;
    let failed = failed.into_iter().map(|(group_version, error)| (group_version, error.into()));
    let mut unseen: Vec<(String, SweepError)> = failed.collect();
    let has = |resource: &Resource, verb: &str| resource.verbs.iter().any(|its| its == verb);
    let listed = resources.into_iter().filter(|it| has(it, "list") && has(it, "patch") && scope.includes(it));
    let namespace = scope.namespace.as_deref();
    let lists = listed.map(|resource| async move {
        let listed = list(client, &resource, namespace).await;
        (resource, listed)
    });
    let mut lists = futures::stream::iter(lists).buffer_unordered(SIDE_BY_SIDE);
    let mut carriers = Vec::new();
    while let Some((resource, listed)) = lists.next().await {
        match listed {
            Ok(found) => carriers.extend(found.into_iter().filter(|it| it.finalizers.iter().any(|name| wanted(name)))),
            Err(error) => unseen.push((resource.kind.to_string(), error)),
        }
    }
    carriers.sort_by(|a, b| (&a.resource.kind, &a.key).cmp(&(&b.resource.kind, &b.key)));
    Ok(Swept { carriers, unseen })
}

/// The object as it is now. None: it has gone, or is another one of the name.
pub async fn look_again(client: &Client, carrier: &Carrier) -> Result<Option<Carrier>, SweepError> {
    let text = match request::get(client, &carrier.resource.object(&carrier.key, ""), PAGE_LIMIT).await {
        Ok(text) => text,
        Err(error) if error.code() == Some(404) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let item: Item<'_> = serde_json::from_str(&text)?;
    Ok(Some(item.carrier(&carrier.resource)).filter(|now| now.uid == carrier.uid))
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    r#continue: Option<String>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    #[serde(default)]
    finalizers: Vec<String>,
}

impl Item<'_> {
    fn carrier(self, resource: &Arc<Resource>) -> Carrier {
        let Metadata { name, namespace, uid, resource_version, deletion_timestamp, finalizers } = self.metadata;
        Carrier {
            resource: Arc::clone(resource),
            key: ObjectKey { namespace: namespace.map(Arc::from), name: Arc::from(name) },
            uid: uid.into_owned(),
            version: resource_version.into_owned(),
            deleting: deletion_timestamp.is_some(),
            finalizers,
        }
    }
}

async fn list(client: &Client, resource: &Arc<Resource>, namespace: Option<&str>) -> Result<Vec<Carrier>, SweepError> {
    for _ in 1..ATTEMPTS {
        match list_once(client, resource, namespace).await {
            Err(error) if error.is_expired() => {}
            listed => return listed,
        }
    }
    list_once(client, resource, namespace).await
}

async fn list_once(
    client: &Client,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
) -> Result<Vec<Carrier>, SweepError> {
    let path = resource.collection(namespace.filter(|_| resource.namespaced));
    let (mut found, mut token, mut text) = (Vec::new(), None, Vec::new());
    loop {
        let mut query = Query::default();
        query.add("limit", PAGE);
        query.add_some("continue", token.as_deref());
        request::get_into(client, &query.onto(&path), PARTIAL_LIST, PAGE_LIMIT, &mut text).await?;
        let page: Page<'_> = serde_json::from_slice(&text)?;
        for raw in page.items.unwrap_or_default() {
            // Hardly any object has one, and looking for it is quicker than reading.
            if raw.get().contains(finalizer::PREFIX) {
                found.push(serde_json::from_str::<Item<'_>>(raw.get())?.carrier(resource));
            }
        }
        token = page.metadata.r#continue.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok(found);
        }
    }
}
