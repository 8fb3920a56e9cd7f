//! The registry of all resources: the built-in ones, and those that the current CRDs define. Discovery lists them, and
//! every request looks up its resource here.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::resources::resource::{GroupResource, ResourceType, version_rank};
use crate::resources::{builtin, convert, crd};

/// All resources. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Registry {
    builtin: Arc<[Arc<ResourceType>]>,
    /// All versions of each resource that a CRD defines, even those that are not served.
    custom: BTreeMap<GroupResource, Vec<Arc<ResourceType>>>,
}

/// A group with its versions, preferred first.
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    pub(crate) versions: Vec<&'a str>,
}

impl Registry {
    pub(crate) fn new() -> Registry {
        // All servers in the process share this, because a test may start thousands of them.
        static BUILTIN: LazyLock<Arc<[Arc<ResourceType>]>> =
            LazyLock::new(|| builtin::resources().into_iter().map(Arc::new).collect());
        Registry { builtin: Arc::clone(&BUILTIN), custom: BTreeMap::new() }
    }

    /// Takes over a valid CRD.
    pub(crate) fn define(&mut self, definition: &Arc<Value>) {
        let versions = crd::resource_types(definition).into_iter().map(Arc::new).collect();
        self.custom.insert(crd::defined_resource(definition), versions);
    }

    pub(crate) fn undefine(&mut self, definition: &Value) {
        self.custom.remove(&crd::defined_resource(definition));
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceType>> {
        self.served()
            .find(|resource| resource.id.plural == plural && resource.id.group == group && resource.version == version)
    }

    /// Whether the group has built-in resources.
    pub(crate) fn has_builtin_group(&self, group: &str) -> bool {
        self.builtin.iter().any(|resource| resource.id.group == group)
    }

    /// The resource type in whose version objects are stored.
    pub(crate) fn storage_type(&self, storage: &GroupResource) -> Option<&Arc<ResourceType>> {
        let builtin = || self.builtin.iter().find(|resource| resource.id == *storage);
        self.stored_version(storage).or_else(builtin)
    }

    /// The storage version of a custom resource.
    pub(crate) fn stored_version(&self, storage: &GroupResource) -> Option<&Arc<ResourceType>> {
        let mut versions = self.custom.get(storage).into_iter().flatten();
        versions.find(|resource| resource.custom.as_ref().is_some_and(|custom| custom.stored))
    }

    /// Converts a stored object to the current storage version.
    pub(crate) fn in_form(&self, storage: &GroupResource, stored: Arc<Value>) -> Arc<Value> {
        match self.stored_version(storage) {
            Some(resource) => convert::for_reader(resource, &stored),
            None => stored,
        }
    }

    pub(crate) fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        self.served()
            .find(|resource| resource.kind == kind && resource.id.group == group && resource.version == version)
    }

    /// The built-in resources of a group.
    pub(crate) fn builtin_of<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a ResourceType> {
        self.builtin.iter().map(Arc::as_ref).filter(move |resource| resource.id.group == group)
    }

    /// The resources of one group and version, in the order of discovery.
    pub(crate) fn in_version<'a>(&'a self, group: &'a str, version: &'a str) -> Vec<&'a Arc<ResourceType>> {
        self.served().filter(|resource| resource.id.group == group && resource.version == version).collect()
    }

    /// All groups. The core group, whose name is empty, comes first.
    pub(crate) fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group> = Vec::new();
        for resource in self.served() {
            let (name, version) = (resource.id.group.as_str(), resource.version.as_str());
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) if group.versions.contains(&version) => {}
                Some(group) => group.versions.push(version),
                None => groups.push(Group { name, versions: vec![version] }),
            }
        }
        for group in &mut groups {
            group.versions.sort_by_key(|version| Reverse(version_rank(version)));
        }
        groups
    }

    /// All resources that are served.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.served()
    }

    fn served(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        let custom = self.custom.values().flatten();
        self.builtin
            .iter()
            .chain(custom.filter(|resource| resource.custom.as_ref().is_some_and(|custom| custom.served)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_both_groups_have_one_storage() {
        let registry = Registry::new();
        let old = registry.find("", "v1", "events").expect("core events");
        let new = registry.find("events.k8s.io", "v1", "events").expect("new events");
        assert_eq!(old.storage, new.storage);
    }
}
