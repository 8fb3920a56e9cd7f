//! The objects of the cluster, as two watches show them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use windlass_core::cache::watch::{WatchEvent, WatchSpec};
use windlass_core::object::{Object, ObjectKind};
use windlass_kube::{Informers, Resource, Subscription};
use windlass_objects::{CLUSTER_PLUGIN, CLUSTER_PLUGIN_POLICY, OBJECTS_API_VERSION, PluginObject, PolicyObject};

use crate::dispatch::feeder::event_now;

/// Both watches, and what they have shown so far. What was shown last counts while a watch does not work.
pub(super) struct FollowedObjects {
    of_plugins: Subscription,
    of_policies: Subscription,
    /// The installation of this host, whose plugins alone it runs.
    instance: Option<String>,
    plugins: BTreeMap<String, Arc<PluginObject>>,
    policies: BTreeMap<String, PolicyObject>,
    /// The stored status of each plugin.
    statuses: BTreeMap<String, Value>,
    /// The kinds whose list was lost. Only their next complete list says which of their objects are gone.
    lost: BTreeSet<FollowedKind>,
}

/// The two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FollowedKind {
    Policies,
    Plugins,
}

impl FollowedObjects {
    /// Starts the watches. Plugins of another installation than `instance` do not exist for this host.
    pub(super) fn new(informers: &Informers, instance: Option<String>) -> Self {
        let watch = |kind: &str| informers.subscribe(WatchSpec::all(ObjectKind::new(OBJECTS_API_VERSION, kind)));
        Self {
            of_plugins: watch(CLUSTER_PLUGIN),
            of_policies: watch(CLUSTER_PLUGIN_POLICY),
            instance,
            plugins: BTreeMap::new(),
            policies: BTreeMap::new(),
            statuses: BTreeMap::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Waits until both kinds were listed completely. False if the host stops. Without both lists, nothing is decided:
    /// a plugin whose policy was not listed yet would be ended.
    pub(super) async fn synced(&mut self) -> bool {
        for (subscription, kind) in [(&self.of_plugins, CLUSTER_PLUGIN), (&self.of_policies, CLUSTER_PLUGIN_POLICY)] {
            let failed = subscription.when(|status| !status.synced && (status.error.is_some() || status.gone));
            let failed = async {
                failed.await;
                tracing::warn!(
                    kind,
                    error = subscription.error().map(|error| error.to_string()),
                    "the objects cannot be listed, so nothing changes for their plugins: install the definitions of the \
                     chart, and give the host's account the rights that `windlass rbac --objects` prints"
                );
                std::future::pending::<()>().await;
            };
            let is_synced = tokio::select! {
                biased;
                is_synced = subscription.synced() => is_synced,
                () = failed => false,
            };
            if !is_synced {
                return false;
            }
        }
        while let Some(event) = event_now(&mut self.of_plugins) {
            self.take_plugin(&event);
        }
        while let Some(event) = event_now(&mut self.of_policies) {
            self.take_policy(&event);
        }
        true
    }

    /// Takes over the next change. True if it may change a plan, false if it is about a status only. `None` if the
    /// watches have ended. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Option<bool> {
        let (policies, plugins) = (FollowedKind::Policies, FollowedKind::Plugins);
        let relisted_policies = self.of_policies.when(|status| status.synced);
        let relisted_plugins = self.of_plugins.when(|status| status.synced);
        Some(tokio::select! {
            biased;
            event = self.of_policies.next() => self.take_policy(&event?),
            event = self.of_plugins.next() => self.take_plugin(&event?),
            () = relisted_policies, if self.lost.contains(&policies) => self.relisted(policies),
            () = relisted_plugins, if self.lost.contains(&plugins) => self.relisted(plugins),
        })
    }

    fn take_plugin(&mut self, event: &WatchEvent) -> bool {
        let name = event.key().name.to_string();
        match event {
            WatchEvent::Applied { new, .. } => {
                let Some((object, read)) = read(new, PluginObject::read) else { return false };
                if read.instance != self.instance {
                    self.statuses.remove(&name);
                    return self.plugins.remove(&name).is_some();
                }
                let read = match self.plugins.get(&name) {
                    Some(before) => read.after(before),
                    None => read,
                };
                self.statuses.insert(name.clone(), object.get("status").cloned().unwrap_or_default());
                let is_same = self.plugins.get(&name).is_some_and(|before| **before == read);
                if !is_same {
                    self.plugins.insert(name, read.into());
                }
                !is_same
            }
            WatchEvent::Deleted(_) => {
                let is_gone = self.is_gone(FollowedKind::Plugins, event);
                if is_gone {
                    self.statuses.remove(&name);
                }
                is_gone && self.plugins.remove(&name).is_some()
            }
        }
    }

    /// Whether the object of a deletion is gone. If the list was lost, as when the kind is not served for a moment, all
    /// its objects look deleted, and only the next complete list says which of them are.
    fn is_gone(&mut self, kind: FollowedKind, event: &WatchEvent) -> bool {
        let subscription = match kind {
            FollowedKind::Policies => &self.of_policies,
            FollowedKind::Plugins => &self.of_plugins,
        };
        let found = subscription.store().find(event.key());
        if found.is_err() {
            self.lost.insert(kind);
        }
        found.is_ok_and(|found| found.is_none())
    }

    /// Takes over what a complete list does not have any more, after an earlier list was lost.
    fn relisted(&mut self, kind: FollowedKind) -> bool {
        self.lost.remove(&kind);
        match kind {
            FollowedKind::Policies => drop_missing(&mut self.policies, &names(&self.of_policies)),
            FollowedKind::Plugins => {
                let there = names(&self.of_plugins);
                drop_missing(&mut self.statuses, &there);
                drop_missing(&mut self.plugins, &there)
            }
        }
    }

    fn take_policy(&mut self, event: &WatchEvent) -> bool {
        let name = event.key().name.to_string();
        match event {
            // A policy that names no plugin any more is for none.
            WatchEvent::Applied { new, .. } => match read(new, PolicyObject::read) {
                Some((_, read)) => self.policies.insert(name, read.clone()) != Some(read),
                None => self.policies.remove(&name).is_some(),
            },
            WatchEvent::Deleted(_) => {
                self.is_gone(FollowedKind::Policies, event) && self.policies.remove(&name).is_some()
            }
        }
    }

    /// All plugins of this installation, by name.
    pub(super) fn plugins(&self) -> &BTreeMap<String, Arc<PluginObject>> {
        &self.plugins
    }

    /// All policies, by name.
    pub(super) fn policies(&self) -> &BTreeMap<String, PolicyObject> {
        &self.policies
    }

    /// The stored status of each plugin.
    pub(super) fn statuses(&self) -> &BTreeMap<String, Value> {
        &self.statuses
    }

    /// The resource of plugins, once it is known.
    pub(super) fn resource(&self) -> Option<Arc<Resource>> {
        self.of_plugins.store().resource()
    }
}

fn names(subscription: &Subscription) -> BTreeSet<String> {
    subscription.store().all().iter().map(|object| object.header.key.name.to_string()).collect()
}

/// Drops all but `names`. True if there were others.
fn drop_missing<T>(by_name: &mut BTreeMap<String, T>, names: &BTreeSet<String>) -> bool {
    let before = by_name.len();
    by_name.retain(|name, _| names.contains(name));
    by_name.len() < before
}

/// The JSON of an object, and what `read` makes of it.
fn read<T>(object: &Object, read: impl FnOnce(&Value) -> Option<T>) -> Option<(Value, T)> {
    let object: Value = serde_json::from_str(&object.text()).ok()?;
    let read = read(&object)?;
    Some((object, read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_list_drops_only_what_it_does_not_have() {
        let mut kept: BTreeMap<_, _> = [("a".to_owned(), 1), ("b".to_owned(), 2)].into();
        let both = ["a", "b", "new"].map(str::to_owned).into();
        assert!(!drop_missing(&mut kept, &both));
        assert!(drop_missing(&mut kept, &["b".to_owned()].into()));
        assert_eq!(kept, [("b".to_owned(), 2)].into());
    }
}
