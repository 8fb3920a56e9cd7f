//! Which resources exist: the built-ins and, at each moment, those that CRDs define. Discovery lists it, every request
//! looks its resource up here.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::resources::builtin;
use crate::resources::crd;
use crate::resources::resource::{GroupResource, ResourceType};

pub(crate) struct Registry {
    builtin: Vec<Arc<ResourceType>>,
    /// By the resource that a CRD defines, its served and unserved versions.
    custom: BTreeMap<GroupResource, Vec<Arc<ResourceType>>>,
}

/// A group with its versions, preferred first.
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    pub(crate) versions: Vec<&'a str>,
}

impl Registry {
    pub(crate) fn new() -> Registry {
        Registry { builtin: builtin::resources().into_iter().map(Arc::new).collect(), custom: BTreeMap::new() }
    }

    /// Takes over what a valid CRD says.
    pub(crate) fn define(&mut self, definition: &Value) {
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

    /// The type in whose form a resource's objects are stored.
    pub(crate) fn storage_type(&self, storage: &GroupResource) -> Option<&Arc<ResourceType>> {
        let custom = self.custom.values().flatten().filter(|resource| is_stored_version(resource));
        self.builtin.iter().chain(custom).find(|resource| resource.id == *storage)
    }

    pub(crate) fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        self.served()
            .find(|resource| resource.kind == kind && resource.id.group == group && resource.version == version)
    }

    /// The resources of one group and version, in the order of discovery.
    pub(crate) fn in_version<'a>(&'a self, group: &'a str, version: &'a str) -> Vec<&'a Arc<ResourceType>> {
        self.served().filter(|resource| resource.id.group == group && resource.version == version).collect()
    }

    /// All groups, the core one first (its name is empty).
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

    fn served(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        let custom = self.custom.values().flatten();
        self.builtin
            .iter()
            .chain(custom.filter(|resource| resource.custom.as_ref().is_some_and(|custom| custom.served)))
    }
}

fn is_stored_version(resource: &ResourceType) -> bool {
    resource.custom.as_ref().is_some_and(|custom| custom.stored)
}

/// Orders versions as Kubernetes does: stable over beta over alpha, then the higher number; anything else comes last.
pub(crate) fn version_rank(version: &str) -> (u8, u32, u32, Reverse<String>) {
    let other = || (0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other() };
    let unstable = [("beta", 2), ("alpha", 1)];
    let staged =
        unstable.iter().find_map(|(word, rank)| rest.split_once(word).map(|(major, minor)| (*rank, major, minor)));
    let (rank, major, minor) = staged.unwrap_or((3, rest, "0"));
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => (rank, major, minor, Reverse(String::new())),
        _ => other(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_number() {
        let mut versions = ["v1alpha1", "foo", "v2", "v10", "v1beta2", "v1", "v1beta1"];
        versions.sort_by_key(|version| Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }

    #[test]
    fn events_of_both_groups_have_one_storage() {
        let registry = Registry::new();
        let old = registry.find("", "v1", "events").expect("core events");
        let new = registry.find("events.k8s.io", "v1", "events").expect("new events");
        assert_eq!(old.storage, new.storage);
    }
}
