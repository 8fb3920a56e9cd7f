//! Searches the whole cluster for objects of plugins: objects with a finalizer of this project, and children of
//! composite plugins.
//!
//! There is one list of metadata per kind, page by page. If a listed kind is not served, the server is asked again for
//! its kinds. Kinds that cannot be listed are reported. The result is for people who ask for it, and for a host that
//! reports such objects once; it is not used for reconciling.

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

use crate::client::api_error::RequestSubject;
use crate::client::request::{self, Query, RequestError};
pub use crate::discovery::SweepError;
use crate::discovery::{Discovery, Resource};
use crate::informer::listing::{PageEnd, PageSize};

/// The timeout for one page of a list, as for informers.
const LIST_PAGE_TIMEOUT: Duration = Duration::from_mins(1);
/// The number of kinds that are listed concurrently.
const CONCURRENT_KINDS_MAX: usize = 8;
/// The maximum number of objects per kind that a gentle sweep keeps.
const GENTLE_OBJECTS_MAX: usize = 10_000;
/// The maximum number of attempts for a list whose pages take longer than the server keeps a version.
const LIST_ATTEMPTS_MAX: usize = 3;
/// The maximum number of times that the server is asked for its kinds while it does not serve a kind that it has
/// listed. Such a kind was deleted in the meantime and will soon not be listed, or it is now served in another version.
const KIND_ROUNDS_MAX: usize = 4;
/// The pause before the next round. The server needs a moment to remove a deleted kind from its list.
const KIND_ROUNDS_INTERVAL: Duration = Duration::from_millis(500);
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=1,application/json";

/// The objects to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sought {
    /// Objects with a finalizer of this project.
    Finalizers,
    /// Objects with the label that the hosts of composite plugins set on the objects that they create.
    Children {
        /// Only objects of this plugin. `None` for objects of all plugins.
        plugin: Option<String>,
    },
}

impl Sought {
    /// The verb that removes the finalizer or the object. Kinds without that verb are skipped.
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

    /// A text that each sought object contains. Hardly any other object contains it, and searching for it is faster
    /// than parsing the object.
    fn text(&self) -> &'static str {
        match self {
            Self::Finalizers => finalizer::PREFIX,
            Self::Children { .. } => CREATED_BY,
        }
    }
}

/// An object that was found.
#[derive(Clone, Debug)]
pub struct Carrier {
    pub resource: Arc<Resource>,
    /// Its namespace and name.
    pub key: ObjectKey,
    pub uid: String,
    pub version: String,
    /// Whether the object is being deleted and waits for its finalizers.
    pub deleting: bool,
    /// All its finalizers, in order.
    pub finalizers: Vec<String>,
    /// The composite plugin whose host created the object, according to its label.
    pub created_by: Option<String>,
    pub controller: Option<Parent>,
}

/// The controller of an object, as its owner reference names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    pub kind: ObjectKind,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Default)]
pub struct Swept {
    /// Sorted by kind, namespace and name.
    pub carriers: Vec<Carrier>,
    /// Kinds that could not be searched, with the reason.
    pub unseen: Vec<(String, SweepError)>,
}

/// Where to search.
#[derive(Clone, Debug, Default)]
pub struct SweepScope {
    /// Only this namespace and cluster-scoped kinds. `None` for everything.
    pub namespace: Option<String>,
    /// Only these kinds: `WebApp`, `webapps` or `webapps.apps.kubedojo.io`. Empty for all.
    pub kinds: Vec<String>,
    /// For a background search: one kind after the other, and at most 10,000 objects of each.
    pub gently: bool,
}

impl SweepScope {
    /// Whether the resource is one of the kinds in this scope.
    #[must_use]
    pub fn includes(&self, resource: &Resource) -> bool {
        let full = windlass_core::rights::grants::resource_name(resource.group(), &resource.plural, "");
        let names = [&*resource.kind.kind, &resource.plural, &full];
        let is_named = |kind: &String| names.iter().any(|name| name.eq_ignore_ascii_case(kind));
        self.kinds.is_empty() || self.kinds.iter().any(is_named)
    }
}

/// Finds all objects within `scope` that are `sought` and `wanted`. A kind that is deleted in the meantime has no
/// objects. An error means that the server's kinds are not known.
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
            // Keeps what was found, and reports what is not known.
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

/// Searches every kind that is not in `seen`, and adds it there, by group and name. A group-version that the server
/// does not describe has an empty name. A kind that is not served is searched again in the next round.
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

/// The current object. `None` if it is gone, or another object has its name. If the server no longer serves the kind,
/// that is an error.
pub async fn look_again(discovery: &Discovery, carrier: &Carrier) -> Result<Option<Carrier>, SweepError> {
    let object = ObjectRef { kind: carrier.resource.kind.clone(), key: carrier.key.clone(), uid: None };
    let subject = RequestSubject { verb: "get", resource: carrier.resource.plural.clone(), object: Some(object) };
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
