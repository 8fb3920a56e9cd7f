//! The objects of the cluster, as two watches show them.

use std::collections::BTreeMap;
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
    by_name: BTreeMap<String, Arc<PluginObject>>,
    policy_by_name: BTreeMap<String, PolicyObject>,
    plugins: Vec<Arc<PluginObject>>,
    policies: Vec<PolicyObject>,
    /// The stored status of each plugin.
    statuses: BTreeMap<String, Value>,
}

impl FollowedObjects {
    /// Starts the watches.
    pub(super) fn new(informers: &Informers) -> Self {
        let watch = |kind: &str| informers.subscribe(WatchSpec::all(ObjectKind::new(OBJECTS_API_VERSION, kind)));
        Self {
            of_plugins: watch(CLUSTER_PLUGIN),
            of_policies: watch(CLUSTER_PLUGIN_POLICY),
            by_name: BTreeMap::new(),
            policy_by_name: BTreeMap::new(),
            plugins: Vec::new(),
            policies: Vec::new(),
            statuses: BTreeMap::new(),
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
        self.collect();
        true
    }

    /// Takes over the next change. True if it may change a plan, false if it is about a status only. `None` if the
    /// watches have ended. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Option<bool> {
        let is_news = tokio::select! {
            biased;
            event = self.of_policies.next() => self.take_policy(&event?),
            event = self.of_plugins.next() => self.take_plugin(&event?),
        };
        if is_news {
            self.collect();
        }
        Some(is_news)
    }

    fn collect(&mut self) {
        self.plugins = self.by_name.values().cloned().collect();
        self.policies = self.policy_by_name.values().cloned().collect();
    }

    fn take_plugin(&mut self, event: &WatchEvent) -> bool {
        let name = event.key().name.to_string();
        match event {
            WatchEvent::Applied { new, .. } => {
                let Some((object, read)) = read(new, PluginObject::read) else { return false };
                self.statuses.insert(name.clone(), object.get("status").cloned().unwrap_or_default());
                let is_same = self.by_name.get(&name).is_some_and(|before| **before == read);
                if !is_same {
                    self.by_name.insert(name, read.into());
                }
                !is_same
            }
            WatchEvent::Deleted(_) => {
                self.statuses.remove(&name);
                self.by_name.remove(&name).is_some()
            }
        }
    }

    fn take_policy(&mut self, event: &WatchEvent) -> bool {
        let name = event.key().name.to_string();
        match event {
            // A policy that names no plugin any more is for none.
            WatchEvent::Applied { new, .. } => match read(new, PolicyObject::read) {
                Some((_, read)) => self.policy_by_name.insert(name, read.clone()) != Some(read),
                None => self.policy_by_name.remove(&name).is_some(),
            },
            WatchEvent::Deleted(_) => self.policy_by_name.remove(&name).is_some(),
        }
    }

    /// All plugins, by name.
    pub(super) fn plugins(&self) -> &[Arc<PluginObject>] {
        &self.plugins
    }

    /// All policies, by name.
    pub(super) fn policies(&self) -> &[PolicyObject] {
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

/// The JSON of an object, and what `read` makes of it.
fn read<T>(object: &Object, read: impl FnOnce(&Value) -> Option<T>) -> Option<(Value, T)> {
    let object: Value = serde_json::from_str(&object.text()).ok()?;
    let read = read(&object)?;
    Some((object, read))
}
