//! Resolves a manifest's kinds to resources that the host can watch and grant, within `--namespace`.

use std::sync::Arc;

use windlass_core::cache::code_predicate::CodePredicate;
use windlass_core::cache::mapping::{Mapping, PrimaryKind};
use windlass_core::cache::watch::{Index, WatchSpec};
use windlass_core::object::{ObjectKind, plural};
use windlass_core::rights::grants::{Allowance, Grants, Rule};
use windlass_core::rights::principal::Role;
use windlass_kube::{Discovery, DiscoveryError, Resource};
use windlass_manifest::{Controller, Manifest, Watch};

use crate::admission::left_out::LeftOut;
use crate::admission::{Needed, kinds};
use crate::dispatch::route::Route;

/// Why a controller cannot start yet, or at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// A kind is not served, or the server could not be asked.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The host is confined to a namespace in which the manifest watches nothing.
    #[error("its manifest watches {kind} only in {}, which --namespace {namespace} excludes", .declared.join(", "))]
    NoNamespace {
        /// The watched kind.
        kind: ObjectKind,
        /// The namespaces that the manifest declares.
        declared: Vec<String>,
        /// The namespace that the host is confined to.
        namespace: String,
    },
}

/// One declared watch, ready to be subscribed to.
#[derive(Debug)]
pub(crate) struct Watched {
    /// One watch for each namespace, or a single one for all.
    pub(crate) specs: Vec<WatchSpec>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) route: Route,
    /// The name of the definition that brings the kind; `None` if none does.
    pub(crate) definition: Option<Arc<str>>,
    /// True if the watched objects are the controller's primaries.
    pub(crate) is_primary: bool,
    /// True if the configuration names the kind, and its objects are not primaries. The controller can run without this
    /// watch.
    pub(crate) is_optional: bool,
}

impl Watched {
    /// The lists and watches that this declared watch needs.
    pub(super) fn needed(&self) -> impl Iterator<Item = Needed> {
        self.specs.iter().map(|spec| Needed::of(&self.resource, spec))
    }
}

/// A controller whose kinds are served, except for the kinds without which it can run.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// The controller as the manifest declares it, with the kinds that the configuration names.
    pub(crate) declared: Arc<Controller>,
    pub(crate) primary: PrimaryKind,
    pub(crate) watches: Vec<Watched>,
    pub(crate) left_out: LeftOut,
    /// The rights that the manifest asks for in this controller's calls.
    pub(crate) asked: Allowance,
    /// The host's own rights to keep a finalizer on the primaries.
    pub(crate) finalizer_grants: Grants,
}

/// Resolves `controller` of `manifest`; `only` is the host's `--namespace`.
pub(crate) async fn resolve(
    discovery: &Discovery,
    manifest: &Manifest,
    controller: &Arc<Controller>,
    only: Option<&str>,
) -> Result<Resolved, ResolveError> {
    let resource = primary_resource(discovery, &controller.primary).await?;
    let primary = PrimaryKind { kind: resource.kind.clone(), namespaced: resource.namespaced };
    let places = namespaces(&resource.kind, resource.namespaced, &controller.primary.namespaces, only)?;
    let finalizer_grants =
        Role::Finalizer.grants(resource.group(), &resource.plural, places.into_iter().flatten().collect(), vec![]);
    let finalizer: Arc<str> = manifest.finalizer().into();
    let mut watches = vec![watched(&controller.primary, &resource, Mapping::Itself, &primary, &finalizer, only)?];
    let mapped = controller.owns.iter().map(|watch| (watch, Mapping::Owner));
    let by_mapping = controller.watches.iter().filter_map(|watch| Some((watch, watch.mapping.clone()?)));
    let mapped = mapped.chain(by_mapping);
    let mut left_out = LeftOut::default();
    for (watch, mapping) in mapped {
        let kind = watch.object_kind();
        let found = discovery.resolve(&kind).await;
        if watch.kinds_from.is_some() && left_out.takes(&kind, &found) {
            continue;
        }
        watches.push(watched(watch, &found?, mapping, &primary, &finalizer, only)?);
    }
    watches[0].is_primary = true;
    if controller.options.finalizer {
        keep_deleted(&mut watches[0].specs, &finalizer);
    }
    let asked = asked(discovery, manifest, controller, &left_out, only).await?;
    Ok(Resolved { declared: controller.clone(), primary, watches, left_out, asked, finalizer_grants })
}

/// The resource of the primaries. That of a timer is made up, and nothing is watched of it.
async fn primary_resource(discovery: &Discovery, primary: &Watch) -> Result<Arc<Resource>, DiscoveryError> {
    let kind = primary.object_kind();
    if primary.timer.is_none() {
        return discovery.resolve(&kind).await;
    }
    let (plural, subresources, verbs) = (plural(&kind.kind), Vec::new(), Vec::new());
    Ok(Arc::new(Resource { kind, plural, namespaced: false, subresources, verbs, comparable: false }))
}

/// Makes the caches keep primaries that are being deleted and carry `finalizer`, even if the watch's conditions exclude
/// them. Otherwise the plugin would never clean up, and the finalizer would stay.
fn keep_deleted(specs: &mut [WatchSpec], finalizer: &str) {
    for spec in specs {
        spec.where_clause = spec.where_clause.take().map(|clause| clause.keeping(finalizer));
    }
}

fn watched(
    watch: &Watch,
    resource: &Arc<Resource>,
    mapping: Mapping,
    primary: &PrimaryKind,
    finalizer: &Arc<str>,
    only: Option<&str>,
) -> Result<Watched, ResolveError> {
    let namespaces = namespaces(&resource.kind, resource.namespaced, &watch.namespaces, only)?;
    let declared = watch.specs();
    let place = |namespace: Option<String>| {
        declared.first().map(|spec| WatchSpec { namespace: namespace.map(Into::into), ..spec.clone() })
    };
    let specs = namespaces.into_iter().filter_map(place).collect();
    let (kind, predicates) = (watch.object_kind(), watch.predicates.as_slice().into());
    let (watch_name, deletions) = (watch.name.as_deref().map(Arc::from), watch.deleted);
    let is_optional = watch.kinds_from.is_some() && mapping != Mapping::Itself;
    let code_predicate = watch.code_predicate.then(|| CodePredicate {
        finalizer: finalizer.clone(),
        is_primary: mapping == Mapping::Itself,
        deletions,
    });
    let route =
        Route { kind, watch: watch_name, mapping, predicates, code_predicate, deletions, primary: primary.clone() };
    let definition = kinds::definition_of(resource);
    let resource = resource.clone();
    Ok(Watched { specs, resource, indexes: watch.indexes.clone(), route, definition, is_primary: false, is_optional })
}

/// The namespaces in which a kind is watched. A single `None` stands for all namespaces, and for a cluster-scoped kind.
fn namespaces(
    kind: &ObjectKind,
    namespaced: bool,
    declared: &[String],
    only: Option<&str>,
) -> Result<Vec<Option<String>>, ResolveError> {
    match only.filter(|_| namespaced) {
        None if declared.is_empty() || !namespaced => Ok(vec![None]),
        None => Ok(declared.iter().cloned().map(Some).collect()),
        Some(only) if declared.is_empty() || declared.iter().any(|namespace| namespace == only) => {
            Ok(vec![Some(only.to_owned())])
        }
        Some(only) => Err(ResolveError::NoNamespace {
            kind: kind.clone(),
            declared: declared.to_vec(),
            namespace: only.to_owned(),
        }),
    }
}

/// The rights that the manifest asks for in this controller's calls, within the host's `--namespace`. Watches of other
/// controllers do not count, so what a controller may do does not depend on which CRDs existed when it started.
async fn asked(
    discovery: &Discovery,
    manifest: &Manifest,
    controller: &Controller,
    left_out: &LeftOut,
    only: Option<&str>,
) -> Result<Allowance, ResolveError> {
    let mut rules = Vec::new();
    for access in controller.implied_access().into_iter().filter(|it| !left_out.unserved.contains(&it.kind)) {
        let resource = discovery.resolve(&access.kind).await?;
        let namespaces = namespaces(&access.kind, resource.namespaced, &access.namespaces, only)?;
        rules.push(Rule {
            groups: vec![resource.group().to_owned()],
            resources: vec![match access.subresource {
                Some(subresource) => format!("{}/{subresource}", resource.plural),
                None => resource.plural.clone(),
            }],
            verbs: access.verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            namespaces: namespaces.into_iter().flatten().collect(),
            names: vec![],
            cluster: !resource.namespaced,
        });
    }
    rules.extend(manifest.permission_rules());
    Ok(manifest.asked(rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(namespaced: bool, declared: &[&str], only: Option<&str>) -> Result<Vec<Option<String>>, ResolveError> {
        let declared: Vec<String> = declared.iter().map(|it| (*it).to_owned()).collect();
        namespaces(&ObjectKind::new("v1", "Pod"), namespaced, &declared, only)
    }

    #[test]
    fn without_namespaces_everything_is_watched_at_once() {
        assert_eq!(places(true, &[], None).expect("allowed"), [None]);
    }

    #[test]
    fn each_declared_namespace_is_a_watch_of_its_own() {
        assert_eq!(places(true, &["a", "b"], None).expect("allowed"), [Some("a".to_owned()), Some("b".to_owned())]);
    }

    #[test]
    fn the_hosts_namespace_narrows_the_declared_watches() {
        assert_eq!(places(true, &[], Some("a")).expect("allowed"), [Some("a".to_owned())]);
        assert_eq!(places(true, &["a", "b"], Some("a")).expect("allowed"), [Some("a".to_owned())]);
        let error = places(true, &["b"], Some("a")).expect_err("nothing is left").to_string();
        assert!(error.contains("--namespace a") && error.contains('b'), "{error}");
    }

    #[test]
    fn a_kind_without_namespaces_is_watched_whole() {
        assert_eq!(places(false, &["a"], Some("a")).expect("allowed"), [None]);
    }
}
