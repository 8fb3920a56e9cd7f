//! Looks over the whole cluster for what plugins have left on it: objects with a finalizer of this project, and
//! children of composite plugins.
//!
//! One list a kind, of metadata only, a page at a time; where a kind is named and not served, the server is asked again
//! what it serves. What cannot be listed is named, not skipped in silence. For people, who ask for it, and for a host
//! that tells them once; nothing is reconciled by it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::call::compose::CREATED_BY;
use windlass_core::object::finalizer;
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};

use crate::client::api_error::Subject;
use crate::client::request::{self, Query, RequestError};
pub use crate::discovery::SweepError;
use crate::discovery::{Discovery, Resource};
use crate::informer::listing::{PageEnd, PageSize};

/// How long one page of a list may take, as an informer's.
const LIST_PAGE_TIMEOUT: Duration = Duration::from_mins(1);
/// Kinds that are listed at the same time.
const CONCURRENT_KINDS_MAX: usize = 8;
/// Objects of one kind that a gentle sweep keeps.
const GENTLE_OBJECTS_MAX: usize = 10_000;
/// How often a list is begun anew whose pages took longer than the server keeps a version.
const LIST_ATTEMPTS_MAX: usize = 3;
/// How often the server is asked for its kinds while it does not serve one that it has named: that was deleted
/// meanwhile, and is soon named no longer; or it is served in another version.
const KIND_ROUNDS_MAX: usize = 4;
/// The server takes a moment to take a kind out of what it says that it serves.
const KIND_ROUNDS_INTERVAL: Duration = Duration::from_millis(500);
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=1,application/json";

/// The mark that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sought {
    /// Objects with a finalizer of this project.
    Finalizers,
    /// Objects with the label that composite plugins' hosts put on what they create.
    Children {
        /// Only of this plugin. None: of all.
        plugin: Option<String>,
    },
}

impl Sought {
    /// The verb that removes the mark, or the object. Kinds without the verb are not looked at.
    fn verb(&self) -> &'static str {
        match self {
            Self::Finalizers => "patch",
            Self::Children { .. } => "delete",
        }
    }

    fn label_selector(&self) -> Option<String> {
        match self {
            Self::Finalizers => None,
            Self::Children { plugin: None } => Some(CREATED_BY.to_owned()),
            Self::Children { plugin: Some(plugin) } => Some(format!("{CREATED_BY}={plugin}")),
        }
    }

    /// A text that each such object contains. Hardly any listed object has it, and looking for it is quicker than
    /// reading the object.
    fn text(&self) -> &'static str {
        match self {
            Self::Finalizers => finalizer::PREFIX,
            Self::Children { .. } => CREATED_BY,
        }
    }
}

/// An object that carries something of this project.
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
    /// The composite plugin whose host has created it, as its label says.
    pub created_by: Option<String>,
    /// Its controller.
    pub controller: Option<Parent>,
}

/// The controller of an object, as its owner reference names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// Its incarnation.
    pub uid: String,
}

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// Sorted by kind, namespace and name.
    pub carriers: Vec<Carrier>,
    /// Kinds that could not be looked at, and why.
    pub unseen: Vec<(String, SweepError)>,
}

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct SweepScope {
    /// Only in this namespace, and at kinds without namespaces. None: everywhere.
    pub namespace: Option<String>,
    /// Only at these kinds: `WebApp`, `webapps` or `webapps.apps.kubedojo.io`. Empty: at all.
    pub kinds: Vec<String>,
    /// Nobody waits for it: one kind after the other, and not more than 10,000 objects of each.
    pub gently: bool,
}

impl SweepScope {
    /// Whether it is of one of the kinds.
    #[must_use]
    pub fn includes(&self, resource: &Resource) -> bool {
        let full = windlass_core::rights::grants::resource_name(resource.group(), &resource.plural, "");
        let names = [&*resource.kind.kind, &resource.plural, &full];
        let is_named = |kind: &String| names.iter().any(|name| name.eq_ignore_ascii_case(kind));
        self.kinds.is_empty() || self.kinds.iter().any(is_named)
    }
}

/// Finds all objects within `scope` that are `sought` and `wanted`. A kind that goes meanwhile has none. An error means
/// that the server's kinds are not known.
pub async fn sweep(
    discovery: &Discovery,
    scope: &SweepScope,
    sought: &Sought,
    wanted: impl Fn(&Carrier) -> bool,
) -> Result<Swept, SweepError> {
    let mut seen = HashSet::new();
    let mut swept = look(discovery, scope, sought, &mut seen).await?;
    for _ in 1..KIND_ROUNDS_MAX {
        let is_missing = |(_, error): &mut (String, SweepError)| error.is_not_served();
        let missing: Vec<_> = swept.unseen.extract_if(.., is_missing).collect();
        if missing.is_empty() {
            break;
        }
        tokio::time::sleep(KIND_ROUNDS_INTERVAL).await;
        let Ok(Swept { carriers, unseen }) = look(discovery, scope, sought, &mut seen).await else {
            // What has been found is found, and this is what is not known.
            swept.unseen.extend(missing);
            break;
        };
        swept.carriers.extend(carriers);
        swept.unseen.extend(unseen);
    }
    swept.carriers.retain(wanted);
    swept.carriers.sort_by(|a, b| (&a.resource.kind, &a.key).cmp(&(&b.resource.kind, &b.key)));
    Ok(swept)
}

/// Looks once at every kind that has not been `seen`, by group and name; a group-version of which nothing is known has
/// no name. What is not served may be seen another time.
async fn look(
    discovery: &Discovery,
    scope: &SweepScope,
    sought: &Sought,
    seen: &mut HashSet<(String, String)>,
) -> Result<Swept, SweepError> {
    let (resources, failed) = discovery.everything().await?;
    let mut looked = Swept::default();
    for (group_version, error) in failed {
        let error = SweepError::from(error);
        if error.is_not_served() || seen.insert((group_version.clone(), String::new())) {
            looked.unseen.push((group_version, error));
        }
    }
    let has = |resource: &Resource, verb: &str| resource.verbs.iter().any(|its| its == verb);
    let name = |resource: &Resource| (resource.group().to_owned(), resource.plural.clone());
    let listed = resources.into_iter().filter(|it| has(it, "list") && has(it, sought.verb()) && scope.includes(it));
    let listed: Vec<_> = listed.filter(|it| !seen.contains(&name(it))).collect();
    let lists = listed.into_iter().map(|resource| async move {
        let listed = list(discovery, &resource, scope, sought).await;
        (resource, listed)
    });
    let mut lists = futures::stream::iter(lists).buffer_unordered(if scope.gently { 1 } else { CONCURRENT_KINDS_MAX });
    while let Some((resource, listed)) = lists.next().await {
        if !listed.as_ref().is_err_and(SweepError::is_not_served) {
            seen.insert(name(&resource));
        }
        match listed {
            Ok(found) => looked.carriers.extend(found),
            Err(error) => looked.unseen.push((resource.kind.to_string(), error)),
        }
    }
    Ok(looked)
}

/// The object as it is now. None: it has gone, or is another one of the name. A server that no longer serves its kind
/// has not said that.
pub async fn look_again(discovery: &Discovery, carrier: &Carrier) -> Result<Option<Carrier>, SweepError> {
    let object = ObjectRef { kind: carrier.resource.kind.clone(), key: carrier.key.clone(), uid: None };
    let subject = Subject { verb: "get", resource: carrier.resource.plural.clone(), object: Some(object) };
    let text =
        match request::get(discovery.client(), &carrier.resource.object(&carrier.key, ""), LIST_PAGE_TIMEOUT).await {
            Ok(text) => text,
            Err(RequestError::Refused { status, .. }) if subject.is_missing(&status) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    let item: SweptItem<'_> = serde_json::from_str(&text)?;
    Ok(Some(item.carrier(&carrier.resource)).filter(|now| now.uid == carrier.uid))
}

#[derive(Deserialize)]
struct SweptItem<'a> {
    #[serde(borrow)]
    metadata: SweptMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SweptMetadata<'a> {
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
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<SweptOwner>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SweptOwner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    controller: Option<bool>,
}

impl SweptItem<'_> {
    fn carrier(self, resource: &Arc<Resource>) -> Carrier {
        let SweptMetadata {
            name,
            namespace,
            uid,
            resource_version,
            deletion_timestamp,
            finalizers,
            labels,
            owner_references,
        } = self.metadata;
        let controller = owner_references.into_iter().flatten().find(|owner| owner.controller == Some(true));
        Carrier {
            resource: Arc::clone(resource),
            key: ObjectKey { namespace: namespace.map(Arc::from), name: Arc::from(name) },
            uid: uid.into_owned(),
            version: resource_version.into_owned(),
            deleting: deletion_timestamp.is_some(),
            finalizers,
            created_by: labels.and_then(|mut labels| labels.remove(CREATED_BY)),
            controller: controller.map(|SweptOwner { api_version, kind, name, uid, .. }| Parent {
                kind: ObjectKind::new(api_version, kind),
                name,
                uid,
            }),
        }
    }
}

async fn list(
    discovery: &Discovery,
    resource: &Arc<Resource>,
    scope: &SweepScope,
    sought: &Sought,
) -> Result<Vec<Carrier>, SweepError> {
    for _ in 1..LIST_ATTEMPTS_MAX {
        match list_once(discovery, resource, scope, sought).await {
            Err(error) if error.is_expired() => {}
            listed => return listed,
        }
    }
    list_once(discovery, resource, scope, sought).await
}

async fn list_once(
    discovery: &Discovery,
    resource: &Arc<Resource>,
    scope: &SweepScope,
    sought: &Sought,
) -> Result<Vec<Carrier>, SweepError> {
    let path = resource.collection(scope.namespace.as_deref().filter(|_| resource.namespaced));
    let most = if scope.gently { GENTLE_OBJECTS_MAX } else { usize::MAX };
    let (mut found, mut token, mut size) = (Vec::new(), None::<String>, PageSize::default());
    loop {
        let mut query = Query::default();
        query.add_some("labelSelector", sought.label_selector().as_deref());
        query.add("limit", &size.limit());
        query.add_some("continue", token.as_deref());
        let uri = query.onto(&path);
        let page = request::get_list(discovery.client(), &uri, PARTIAL_LIST, LIST_PAGE_TIMEOUT, |item| {
            if item.contains(sought.text()) {
                found.push(serde_json::from_str::<SweptItem<'_>>(item)?.carrier(resource));
            }
            Ok::<_, SweepError>(())
        });
        PageEnd { token, next_size: size, .. } = PageEnd::of(&page.await?)?;
        if token.is_none() || found.len() >= most {
            found.truncate(most);
            return Ok(found);
        }
    }
}
