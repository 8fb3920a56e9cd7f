//! Finds the resource that serves a kind.
//!
//! There is one request per group-version, made when it is first needed. If a kind is missing from the answer, the
//! server is asked again at most once in ten seconds, so that a CRD that is installed later is found.

mod comparable;
mod kinds;
mod resource;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use tokio::time::Instant;
use windlass_core::object::ObjectKind;
use windlass_core::object::selector::is_dns_subdomain;

use crate::client::request::{self, ListError, READ_TIMEOUT, RequestError};
use crate::discovery::comparable::Comparability;
use crate::discovery::kinds::ListedKinds;
use crate::discovery::resource::group_version_path;

pub use resource::Resource;

/// The interval before a group-version is requested again because a kind is missing from it.
const MISSING_KIND_REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// The interval before the server of a group-version is looked up again, because it may change.
const SERVED_BY_REFRESH_INTERVAL: Duration = Duration::from_mins(1);
/// If the cache has more group-versions than this, it drops those that the server does not have. Plugins can invent any
/// number of them.
const GROUP_VERSIONS_MAX: usize = 1024;

/// The reason why a kind has no resource.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The server answered and does not serve the kind.
    #[error("the API server does not serve {kind}: install its CustomResourceDefinition, or correct the kind's name")]
    NotServed { kind: ObjectKind },
    /// The server could not be asked.
    #[error("cannot ask the API server about {kind}: {source}")]
    Unreachable { kind: ObjectKind, source: Arc<RequestError> },
    /// The answer cannot be parsed.
    #[error("the API server's list of resources for {kind} cannot be read: {source}")]
    Malformed { kind: ObjectKind, source: serde_json::Error },
}

impl DiscoveryError {
    /// Whether the server answered that the group-version does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if source.code() == Some(404))
    }
}

/// Whether `text` is a valid API version. Plugins name versions in the bodies of writes, and the version becomes the
/// beginning of a path.
fn is_api_version(text: &str) -> bool {
    text.split('/').count() <= 2 && text.split('/').all(is_dns_subdomain)
}

/// The cached answers of the server. Clones share them.
#[derive(Clone)]
pub struct Discovery {
    client: Client,
    /// `None` to treat versions as not comparable.
    comparability: Option<Arc<Comparability>>,
    group_versions: Arc<Mutex<HashMap<Arc<str>, Arc<GroupVersion>>>>,
    listed: Arc<ListedKinds>,
}

#[derive(Default)]
struct GroupVersion {
    cached: Mutex<Option<Fetched>>,
    /// Held while the server is asked, so that concurrent questions share one request. Cached answers are read without
    /// it.
    asking: tokio::sync::Mutex<()>,
    /// Whether the API server itself serves the group-version, and when that was found.
    own: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

struct Fetched {
    at: Instant,
    resources: Resources,
}

/// By kind. Empty if the server does not have the group-version.
type Resources = HashMap<Arc<str>, Arc<Resource>>;

impl GroupVersion {
    fn cached(&self) -> MutexGuard<'_, Option<Fetched>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, kind: &str) -> Option<Arc<Resource>> {
        self.cached().as_ref()?.resources.get(kind).cloned()
    }

    /// Whether the server has the group-version, as of the last request.
    fn is_served(&self) -> bool {
        self.cached().as_ref().is_some_and(|fetched| !fetched.resources.is_empty())
    }

    /// Whether the last request was too recent for another one.
    fn is_fresh(&self) -> bool {
        self.cached().as_ref().is_some_and(|fetched| fetched.at.elapsed() < MISSING_KIND_REFRESH_INTERVAL)
    }
}

/// The reason why a part of the cluster cannot be examined.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The server does not answer, or refuses.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The server's answer cannot be parsed.
    #[error("the API server's answer cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The server lists a group-version but does not describe it, for example because an aggregated API is down.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
}

impl From<ListError> for SweepError {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Request(error) => Self::Request(error),
            ListError::Json(error) => Self::Malformed(error),
        }
    }
}

impl SweepError {
    pub(crate) fn is_expired(&self) -> bool {
        matches!(self, Self::Request(error) if error.code() == Some(410))
    }

    pub(crate) fn is_not_served(&self) -> bool {
        match self {
            Self::Request(error) => error.code() == Some(404),
            Self::Discovery(error) => error.is_not_found(),
            Self::Malformed(_) => false,
        }
    }
}

impl Discovery {
    /// Uses `client`. Sends no request yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, comparability: None, group_versions: Arc::default(), listed: Arc::default() }
    }

    /// Whether to find out which versions can be compared as numbers. This takes two more requests per group-version.
    /// Without them, no versions can be compared.
    #[must_use]
    pub fn compare_versions(self, compare: bool) -> Self {
        Self { comparability: compare.then(Arc::default), ..self }
    }

    /// The resource of `kind`.
    pub async fn resolve(&self, kind: &ObjectKind) -> Result<Arc<Resource>, DiscoveryError> {
        if !is_api_version(&kind.api_version) {
            return Err(DiscoveryError::NotServed { kind: kind.clone() });
        }
        let group_version = self.group_version(kind);
        match group_version.get(&kind.kind) {
            Some(resource) => Ok(resource),
            // Boxed, because nearly all calls find the resource above and should not pay for the size of a request's
            // future.
            None => Box::pin(self.resolve_anew(kind, &group_version)).await,
        }
    }

    /// As [`Self::resolve`], for a kind that is not in the cache.
    async fn resolve_anew(
        &self,
        kind: &ObjectKind,
        group_version: &GroupVersion,
    ) -> Result<Arc<Resource>, DiscoveryError> {
        let _asking = group_version.asking.lock().await;
        if !group_version.is_fresh() {
            let mut resources = self.fetch(kind).await?;
            self.compare(kind, &mut resources).await?;
            *group_version.cached() = Some(Fetched { at: Instant::now(), resources });
        }
        group_version.get(&kind.kind).ok_or_else(|| DiscoveryError::NotServed { kind: kind.clone() })
    }

    /// As [`Self::resolve`], for a request to `subresource` of the kind's objects; empty for the objects themselves. If
    /// the cached answer lacks the subresource, the server is asked again, because the CRD may have changed.
    pub(crate) async fn resolve_with(
        &self,
        kind: &ObjectKind,
        subresource: &str,
    ) -> Result<Arc<Resource>, DiscoveryError> {
        let resource = self.resolve(kind).await?;
        if resource.serves(subresource) {
            return Ok(resource);
        }
        self.doubt(kind);
        self.resolve(kind).await
    }

    /// Whether the API server itself serves `resource`, as it does for built-in kinds and CRDs, and not an aggregated
    /// server. Looked up once in a while per group-version. An error means that the server could not answer now.
    pub(crate) async fn is_own(&self, resource: &Resource) -> Result<bool, RequestError> {
        let group_version = self.group_version(&resource.kind);
        let mut own = group_version.own.lock().await;
        if let Some((_, is_own)) = own.filter(|(at, _)| at.elapsed() < SERVED_BY_REFRESH_INTERVAL) {
            return Ok(is_own);
        }
        let is_own = comparable::is_own(&self.client, &resource.kind, &resource.plural).await?;
        *own = Some((Instant::now(), is_own));
        Ok(is_own)
    }

    /// Records whether the versions of `resources`, all of `kind`'s group-version, can be compared.
    async fn compare(&self, kind: &ObjectKind, resources: &mut Resources) -> Result<(), DiscoveryError> {
        let (Some(comparability), Some(any)) = (&self.comparability, resources.values().next()) else { return Ok(()) };
        let unreachable = |error| DiscoveryError::Unreachable { kind: kind.clone(), source: Arc::new(error) };
        let comparable = comparability.of(&self.client, kind, &any.plural).await.map_err(unreachable)?;
        for resource in resources.values_mut() {
            Arc::make_mut(resource).comparable = comparable;
        }
        Ok(())
    }

    /// Every resource that the server serves, in the server's preferred version, and the group-versions that it lists
    /// but does not describe. Fails if the server does not list its groups.
    pub async fn everything(&self) -> Result<(Vec<Arc<Resource>>, Vec<(String, DiscoveryError)>), SweepError> {
        #[derive(Deserialize)]
        struct Core {
            versions: Vec<String>,
        }
        let core: Core = serde_json::from_str(&request::get(&self.client, "/api", READ_TIMEOUT).await?)?;
        let groups: ApiGroupList = serde_json::from_str(&request::get(&self.client, "/apis", READ_TIMEOUT).await?)?;
        let group_versions =
            core.versions.into_iter().chain(groups.groups.into_iter().flat_map(ApiGroup::preferred_first));
        let (mut found, mut failed) = (BTreeMap::new(), Vec::new());
        let mut asked = HashSet::new();
        for group_version in group_versions.filter(|it| asked.insert(it.clone())) {
            match self.ask(&ObjectKind::new(group_version.as_str(), "*")).await {
                Ok(resources) => {
                    for resource in resources.into_values() {
                        let name = (resource.group().to_owned(), resource.plural.clone());
                        found.entry(name).or_insert(resource);
                    }
                }
                Err(error) => failed.push((group_version, error)),
            }
        }
        Ok((found.into_values().collect(), failed))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Makes the next question about `kind` ask the server, unless it was asked very recently. For callers that found
    /// the cached answer to be wrong.
    pub(crate) fn doubt(&self, kind: &ObjectKind) {
        let group_version = self.group_version(kind);
        if !group_version.is_fresh() {
            *group_version.cached() = None;
        }
    }

    /// Makes the next question about each kind of `group` ask the server, however recently it was asked. For callers
    /// that learned of a changed CRD of the group.
    pub fn invalidate(&self, group: &str) {
        self.listed.forget();
        let group_versions = self.group_versions.lock().unwrap_or_else(PoisonError::into_inner);
        for (api_version, group_version) in group_versions.iter() {
            if api_version.rsplit_once('/').is_some_and(|(its, _)| its == group) {
                *group_version.cached() = None;
            }
        }
    }

    fn group_version(&self, kind: &ObjectKind) -> Arc<GroupVersion> {
        let mut group_versions = self.group_versions.lock().unwrap_or_else(PoisonError::into_inner);
        if group_versions.len() >= GROUP_VERSIONS_MAX {
            group_versions.retain(|_, group_version| group_version.is_served() || Arc::strong_count(group_version) > 1);
        }
        Arc::clone(group_versions.entry(Arc::clone(&kind.api_version)).or_default())
    }

    /// Asks the server for the group-version of `kind`. The result is empty if the server does not serve it.
    async fn fetch(&self, kind: &ObjectKind) -> Result<Resources, DiscoveryError> {
        match self.ask(kind).await {
            Err(error) if error.is_not_found() => Ok(HashMap::new()),
            answer => answer,
        }
    }

    async fn ask(&self, kind: &ObjectKind) -> Result<Resources, DiscoveryError> {
        match request::get(&self.client, &group_version_path(kind), READ_TIMEOUT).await {
            Ok(text) => read(&text, &kind.api_version)
                .map_err(|source| DiscoveryError::Malformed { kind: kind.clone(), source }),
            Err(error) => Err(DiscoveryError::Unreachable { kind: kind.clone(), source: Arc::new(error) }),
        }
    }
}

#[derive(Deserialize)]
struct ApiGroupList {
    groups: Vec<ApiGroup>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup {
    versions: Vec<GroupVersionName>,
    preferred_version: Option<GroupVersionName>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersionName {
    group_version: String,
}

impl ApiGroup {
    /// The group-versions. The preferred one comes first, and may appear twice.
    fn preferred_first(self) -> impl Iterator<Item = String> {
        self.preferred_version.into_iter().chain(self.versions).map(|version| version.group_version)
    }
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    /// `deployments`, or `deployments/scale` for a subresource.
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

fn read(text: &str, api_version: &Arc<str>) -> Result<Resources, serde_json::Error> {
    let list: ResourceList = serde_json::from_str(text)?;
    let (below, objects): (Vec<_>, Vec<_>) = list.resources.into_iter().partition(|listed| listed.name.contains('/'));
    let subresources = |plural: &str| {
        let names = below.iter().filter_map(|listed| listed.name.strip_prefix(plural)?.strip_prefix('/'));
        names.map(str::to_owned).collect()
    };
    let mut resources = HashMap::new();
    for listed in objects {
        let kind = ObjectKind::new(Arc::clone(api_version), listed.kind);
        let resource = Resource {
            subresources: subresources(&listed.name),
            plural: listed.name,
            namespaced: listed.namespaced,
            verbs: listed.verbs,
            comparable: false,
            kind: kind.clone(),
        };
        // If two resources have the same kind, the first one is the usual one.
        resources.entry(kind.kind).or_insert_with(|| Arc::new(resource));
    }
    Ok(resources)
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKey;

    use super::*;

    #[test]
    fn subresources_belong_to_their_resource() {
        let text = r#"{"resources":[
            {"name":"deployments","kind":"Deployment","namespaced":true,"verbs":["get"]},
            {"name":"deployments/status","kind":"Deployment","namespaced":true},
            {"name":"deployments/scale","kind":"Scale","group":"autoscaling","version":"v1","namespaced":true}]}"#;
        let resources = read(text, &Arc::from("apps/v1")).expect("a list");
        assert_eq!(resources.len(), 1);
        let deployments = &resources["Deployment"];
        assert_eq!(deployments.subresources, ["status", "scale"]);
        let key = ObjectKey::namespaced("prod", "shop");
        assert_eq!(deployments.object(&key, ""), "/apis/apps/v1/namespaces/prod/deployments/shop");
        assert_eq!(deployments.object(&key, "scale"), "/apis/apps/v1/namespaces/prod/deployments/shop/scale");
        assert_eq!(deployments.collection(None), "/apis/apps/v1/deployments");
    }

    #[test]
    fn a_create_only_kind_is_not_stored() {
        let text = r#"{"resources":[
            {"name":"subjectaccessreviews","kind":"SubjectAccessReview","namespaced":false,"verbs":["create"]},
            {"name":"things","kind":"Thing","namespaced":false,"verbs":["create","get"]},
            {"name":"others","kind":"Other","namespaced":false}]}"#;
        let resources = read(text, &Arc::from("v1")).expect("a list");
        let stored = ["SubjectAccessReview", "Thing", "Other"].map(|kind| resources[kind].is_stored());
        assert_eq!(stored, [false, true, true]);
        assert!(!resources["Thing"].is_watchable());
    }

    #[test]
    fn the_core_group_has_its_own_root() {
        let text = r#"{"resources":[{"name":"nodes","kind":"Node","namespaced":false}]}"#;
        let resources = read(text, &Arc::from("v1")).expect("a list");
        assert_eq!(resources["Node"].object(&ObjectKey::cluster("a:b"), ""), "/api/v1/nodes/a%3Ab");
    }

    #[tokio::test]
    async fn group_versions_that_no_server_has_are_not_kept_for_ever() {
        let missing = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            let answer = http::Response::builder().status(404).body(kube::client::Body::empty());
            Ok::<_, std::convert::Infallible>(answer.expect("a response"))
        });
        let discovery = Discovery::new(Client::new(missing, "default"));
        for number in 0..2 * 1_024 {
            let kind = ObjectKind::new(format!("invented.example.com/v{number}"), "Thing");
            assert!(matches!(discovery.resolve(&kind).await, Err(DiscoveryError::NotServed { .. })));
        }
        let kept = discovery.group_versions.lock().expect("no panic").len();
        assert!(kept <= 1_024, "{kept}");
    }
}
