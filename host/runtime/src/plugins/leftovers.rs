//! Children of kinds that a composer's new version no longer owns (ADR 9). They are not watched, so they are not pruned
//! either.
//!
//! [`NamedKinds`] decides which children are leftovers. A host looks for them once, when its plugins run, and only
//! reports them ([`report`]). `windlass children prune` deletes them for an operator.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::object::ObjectKind;
use windlass_core::rights::grants::resource_name;
use windlass_kube::sweep::{self, Carrier, Sought, SweepScope, Swept};
use windlass_manifest::{EntryPoint, Manifest};
use windlass_wasm::Plugin;

use crate::host::Host;
use crate::observe::status::LeftBehind;

/// How long searching the whole cluster may take.
const LEFTOVERS_LOOK_TIMEOUT: Duration = Duration::from_mins(10);
/// The maximum number of attempts, if the server does not say which kinds it serves.
const LOOK_ATTEMPTS_MAX: usize = 5;
/// The pause before another attempt.
const LOOK_RETRY_DELAY: Duration = Duration::from_mins(1);

/// The kinds that a manifest names, in any version, because the API server shows one object in all versions.
#[derive(Debug)]
pub struct NamedKinds {
    plugin: String,
    primaries: HashSet<GroupKind>,
    owned: HashSet<GroupKind>,
}

type GroupKind = (String, String);

impl NamedKinds {
    /// The kinds that `manifest` names.
    #[must_use]
    pub fn of(manifest: &Manifest) -> Self {
        let controllers = &manifest.controllers;
        let owned = controllers.iter().flat_map(|controller| &controller.owns);
        Self {
            plugin: manifest.name.clone(),
            primaries: controllers.iter().map(|controller| group_kind(&controller.primary.object_kind())).collect(),
            owned: owned.map(|watch| group_kind(&watch.object_kind())).collect(),
        }
    }

    /// Whether `carrier` is a child of one of the plugin's parents, owned or left behind. Labels alone do not prove
    /// that: the endpoints of a Service copy its labels, and are controlled by the Service.
    #[must_use]
    pub fn is_child(&self, carrier: &Carrier) -> bool {
        let controlled = carrier.controller.as_ref().is_some_and(|it| self.primaries.contains(&group_kind(&it.kind)));
        controlled && carrier.created_by.as_ref() == Some(&self.plugin)
    }

    /// The objects among `carriers` that the plugin has left behind, each once. `carriers` must cover all kinds.
    ///
    /// A server may show one object as two kinds, as `OpenShift` does with role bindings. It is not left behind while
    /// one of the two is owned.
    #[must_use]
    pub fn left_behind<'a>(&self, carriers: &'a [Carrier]) -> Vec<&'a Carrier> {
        let children = carriers.iter().filter(|carrier| self.is_child(carrier));
        let (owned, others): (Vec<_>, Vec<_>) =
            children.partition(|carrier| self.owned.contains(&group_kind(&carrier.resource.kind)));
        let mut known: HashSet<&str> = owned.iter().map(|carrier| carrier.uid.as_str()).collect();
        others.into_iter().filter(|carrier| !carrier.deleting && known.insert(&carrier.uid)).collect()
    }
}

fn group_kind(kind: &ObjectKind) -> GroupKind {
    (kind.group().to_owned(), kind.kind.to_string())
}

/// The number of objects of each kind.
fn counted(left: &[&Carrier]) -> Vec<LeftBehind> {
    let mut counts = BTreeMap::<String, usize>::new();
    for carrier in left {
        *counts.entry(resource_name(carrier.resource.group(), &carrier.resource.plural, "")).or_default() += 1;
    }
    counts.into_iter().map(|(resource, count)| LeftBehind { resource, count }).collect()
}

/// The command that prunes the children of the kind `resource`.
fn remedy(plugin: &str, file: &Path, resource: &str, namespace: Option<&str>) -> String {
    let place = namespace.map_or_else(|| "--all-namespaces".to_owned(), |namespace| format!("--namespace {namespace}"));
    format!("windlass children prune {plugin} --left-behind {} --kind {resource} {place}", file.display())
}

/// Searches once for what the composers among `plugins` have left behind, and reports it. Nothing depends on the
/// result, so kinds that cannot be listed are skipped.
pub(crate) async fn report(host: &Host, plugins: &[Arc<Plugin>]) {
    let composers: Vec<_> = plugins.iter().filter(|plugin| plugin.entry() == EntryPoint::Composer).collect();
    if composers.is_empty() {
        return;
    }
    let named: Vec<_> = composers.into_iter().map(|plugin| (plugin, NamedKinds::of(plugin.manifest()))).collect();
    let Some(swept) = look(host, |carrier| named.iter().any(|(_, named)| named.is_child(carrier))).await else {
        return;
    };
    for (kind, error) in &swept.unseen {
        tracing::debug!(kind, %error, "a kind cannot be searched for objects that composite plugins may have left behind");
    }
    for (plugin, named) in named {
        let found = counted(&named.left_behind(&swept.carriers));
        for LeftBehind { resource, count } in &found {
            tracing::warn!(
                plugin = %plugin.name(), resource, objects = count,
                "children that an earlier version of the plugin has created, of a kind that this version does not \
                 own: the host leaves them alone. `{}` deletes them",
                remedy(plugin.name(), plugin.path(), resource, host.namespace.as_deref())
            );
        }
        if let Some(status) = host.status.known(plugin.name()) {
            status.has_left_behind(found);
        }
    }
}

async fn look(host: &Host, wanted: impl Fn(&Carrier) -> bool) -> Option<Swept> {
    let scope = SweepScope { namespace: host.namespace.clone(), kinds: vec![], gently: true };
    for _ in 0..LOOK_ATTEMPTS_MAX {
        let sweep = sweep::sweep(&host.discovery, &scope, &Sought::Children { plugin: None }, &wanted);
        match tokio::time::timeout(LEFTOVERS_LOOK_TIMEOUT, sweep).await {
            Ok(Ok(swept)) => return Some(swept),
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot search for objects that composite plugins may have left behind");
            }
            Err(_) => {
                tracing::debug!(
                    "the search for objects that composite plugins may have left behind took longer than {LEFTOVERS_LOOK_TIMEOUT:?}"
                );
                return None;
            }
        }
        tokio::time::sleep(LOOK_RETRY_DELAY).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::object::ObjectKey;
    use windlass_kube::Resource;
    use windlass_kube::sweep::Parent;

    use super::*;

    /// A plugin that owns Deployments and `ConfigMaps` of its Shops and Stalls.
    fn named() -> NamedKinds {
        let controller = |kind: &str, owned: [&str; 2]| {
            json!({
                "name": kind.to_lowercase(), "primary": {"apiVersion": "example.com/v1", "kind": kind},
                "owns": [{"apiVersion": owned[0], "kind": owned[1]}],
            })
        };
        let manifest = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "shop", "version": "0.2.0",
            "controllers": [controller("Shop", ["apps/v1", "Deployment"]), controller("Stall", ["v1", "ConfigMap"])],
        });
        NamedKinds::of(&Manifest::from_json(&manifest.to_string()).expect("valid"))
    }

    /// An object that the plugin has created for a Shop.
    fn child(api_version: &str, kind: &str, uid: &str) -> Carrier {
        let resource = Resource {
            kind: ObjectKind::new(api_version, kind),
            plural: format!("{}s", kind.to_lowercase()),
            namespaced: true,
            subresources: vec![],
            verbs: vec![],
            comparable: false,
        };
        let parent =
            Parent { kind: ObjectKind::new("example.com/v1", "Shop"), name: "a".to_owned(), uid: "p-1".to_owned() };
        Carrier {
            resource: Arc::new(resource),
            key: ObjectKey::namespaced("prod", uid),
            uid: uid.to_owned(),
            version: "1".to_owned(),
            deleting: false,
            finalizers: vec![],
            created_by: Some("shop".to_owned()),
            controller: Some(parent),
        }
    }

    fn left(carriers: &[Carrier]) -> Vec<&str> {
        named().left_behind(carriers).into_iter().map(|carrier| carrier.uid.as_str()).collect()
    }

    #[test]
    fn only_kinds_that_no_controller_owns_are_left_behind() {
        let all = [child("apps/v1", "Deployment", "1"), child("v1", "Secret", "2"), child("v1", "ConfigMap", "3")];
        assert_eq!(left(&all), ["2"]);
        assert_eq!(
            left(&[child("example.com/v1", "Deployment", "1")]),
            ["1"],
            "a kind in another group is another kind"
        );
        assert_eq!(left(&[child("apps/v1beta1", "Deployment", "1")]), [""; 0], "the same kind in another version");
    }

    #[test]
    fn only_objects_created_by_the_plugin_for_its_own_parents_are_leftovers() {
        let secret = || child("v1", "Secret", "1");
        let parent = |api_version: &str, kind: &str| {
            Some(Parent { kind: ObjectKind::new(api_version, kind), ..secret().controller.expect("it has one") })
        };
        for (carrier, why) in [
            (Carrier { created_by: None, ..secret() }, "it was adopted"),
            (Carrier { created_by: Some("shopper".to_owned()), ..secret() }, "it is another plugin's"),
            (Carrier { controller: None, ..secret() }, "of no controller, such as a copy"),
            (Carrier { controller: parent("v1", "Service"), ..secret() }, "a Service's, with the Service's labels"),
            (Carrier { controller: parent("example.org/v1", "Shop"), ..secret() }, "another group's Shop's"),
            (Carrier { deleting: true, ..secret() }, "it goes already"),
        ] {
            assert_eq!(left(&[carrier]), [""; 0], "{why}");
        }
        assert_eq!(left(&[Carrier { controller: parent("example.com/v2", "Stall"), ..secret() }]), ["1"]);
    }

    #[test]
    fn an_object_shown_as_two_kinds_is_no_leftover_if_one_kind_is_owned() {
        let twins = [child("apps.example.org/v1", "Deployment", "1"), child("apps/v1", "Deployment", "1")];
        assert_eq!(left(&twins), [""; 0]);
        let neither = [child("v1", "Event", "1"), child("events.k8s.io/v1", "Event", "1")];
        assert_eq!(left(&neither), ["1"], "if neither is owned, it is counted once");
    }

    #[test]
    fn leftovers_are_counted_by_kind() {
        let all = [child("batch/v1", "Job", "1"), child("v1", "Secret", "2"), child("v1", "Secret", "3")];
        let found = counted(&named().left_behind(&all));
        let of = |resource: &str, count| LeftBehind { resource: resource.to_owned(), count };
        assert_eq!(found, [of("jobs.batch", 1), of("secrets", 2)]);
        assert_eq!(
            remedy("shop", Path::new("plugins/shop.wasm"), "jobs.batch", None),
            "windlass children prune shop --left-behind plugins/shop.wasm --kind jobs.batch --all-namespaces"
        );
        assert!(remedy("shop", Path::new("shop.wasm"), "secrets", Some("prod")).ends_with("--namespace prod"));
    }
}
