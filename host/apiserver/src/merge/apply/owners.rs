//! Reads and writes the entries of `metadata.managedFields`.
//!
//! Follows `k8s.io/apimachinery/pkg/util/managedfields/internal/managedfields.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Manager;
use crate::merge::fields::{FieldsError, Set};
use crate::object::items;

/// The operation by which a manager owns fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of an entry. For an apply it has no API version, because a manager has one entry for all versions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Identity {
    fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = match operation {
            Operation::Apply => String::new(),
            Operation::Update => api_version.to_owned(),
        };
        Self { manager: manager.to_owned(), operation, api_version, subresource: subresource.to_owned() }
    }

    pub(super) fn of(manager: &Manager<'_>, operation: Operation) -> Self {
        Self::new(manager.name, operation, manager.api_version, manager.subresource)
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    set: Set,
    api_version: String,
    time: String,
}

/// All entries of an object. Each has at least one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners {
    entries: BTreeMap<Identity, Owner>,
}

/// The most managers of updates that have separate entries (`DefaultMaxUpdateManagers`). The next constant names the
/// manager that takes over the fields of the oldest managers.
const UPDATE_MANAGERS_MAX: usize = 10;
const ANCIENT_CHANGES: &str = "ancient-changes";

impl Owners {
    /// Reads the entries of an object.
    pub(super) fn of(object: &Value) -> Result<Self, FieldsError> {
        let mut found = BTreeMap::new();
        for entry in items(object, "/metadata/managedFields") {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                other => return Err(FieldsError::NotAStep(other.to_owned())),
            };
            let set = entry.get("fieldsV1").map(Set::parse).transpose()?.unwrap_or_default();
            if set.is_empty() {
                continue;
            }
            let identity = Identity::new(text("manager"), operation, text("apiVersion"), text("subresource"));
            let api_version = text("apiVersion").to_owned();
            found.insert(identity, Owner { set, api_version, time: text("time").to_owned() });
        }
        Ok(Self { entries: found })
    }

    /// The entries in Kubernetes' order: entries of applies come first, and entries of the same operation are sorted by
    /// time.
    pub(super) fn print(&self) -> Vec<Value> {
        let mut owners: Vec<_> = self.entries.iter().collect();
        owners.sort_by(|(a, first), (b, second)| {
            (a.operation, &first.time, &a.manager, &first.api_version, &a.subresource).cmp(&(
                b.operation,
                &second.time,
                &b.manager,
                &second.api_version,
                &b.subresource,
            ))
        });
        owners.into_iter().map(|(identity, owner)| print_entry(identity, owner)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Identity, &Set)> {
        self.entries.iter().map(|(identity, owner)| (identity, &owner.set))
    }

    /// The fields that one manager owns.
    pub(super) fn set(&self, identity: &Identity) -> Set {
        self.entries.get(identity).map(|owner| owner.set.clone()).unwrap_or_default()
    }

    /// The fields that any manager owns.
    pub(super) fn all(&self) -> Set {
        self.entries.values().fold(Set::new(), |all, owner| all.union(&owner.set))
    }

    /// Whether all managers own the same fields in the same API versions as in `other`.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let essence = |owners: &Self| -> BTreeMap<Identity, (Set, String)> {
            let entries = owners.entries.iter();
            entries.map(|(id, owner)| (id.clone(), (owner.set.clone(), owner.api_version.clone()))).collect()
        };
        essence(self) == essence(other)
    }

    /// Makes one manager own exactly these fields of `api_version`.
    pub(super) fn replace(&mut self, identity: &Identity, api_version: &str, set: Set) {
        if set.is_empty() {
            self.entries.remove(identity);
            return;
        }
        let time = self.entries.get(identity).map(|owner| owner.time.clone()).unwrap_or_default();
        self.entries.insert(identity.clone(), Owner { set, api_version: api_version.to_owned(), time });
    }

    /// Records the time of a manager's last write.
    pub(super) fn stamp(&mut self, identity: &Identity, now: &str) {
        if let Some(owner) = self.entries.get_mut(identity) {
            now.clone_into(&mut owner.time);
        }
    }

    /// Removes these fields from all managers except `me`.
    pub(super) fn take_from_others(&mut self, me: &Identity, lost: &Set) {
        for (_, owner) in self.entries.iter_mut().filter(|(identity, _)| *identity != me) {
            owner.set = owner.set.difference(lost);
        }
        self.entries.retain(|_, owner| !owner.set.is_empty());
    }

    /// If there are more than ten managers of updates, merges the oldest, separately for each API version. So the
    /// record cannot grow without limit.
    pub(super) fn cap_updaters(&mut self) {
        let mut updaters: Vec<(String, Identity)> = self
            .entries
            .iter()
            .filter(|(identity, _)| identity.operation == Operation::Update)
            .map(|(identity, owner)| (owner.time.clone(), identity.clone()))
            .collect();
        updaters.sort();
        let mut beyond = updaters.len().saturating_sub(UPDATE_MANAGERS_MAX);
        let mut oldest_of: BTreeMap<String, Identity> = BTreeMap::new();
        for (_, identity) in updaters {
            if beyond == 0 {
                return;
            }
            // The first entry of an API version has nothing to be merged with yet.
            if let Some(oldest) = oldest_of.insert(identity.api_version.clone(), identity.clone()) {
                let bucket = Identity::new(ANCIENT_CHANGES, Operation::Update, &identity.api_version, "");
                oldest_of.insert(identity.api_version.clone(), bucket.clone());
                self.put_together(&[oldest, identity], bucket);
                beyond -= 1;
            }
        }
    }

    fn put_together(&mut self, two: &[Identity; 2], bucket: Identity) {
        let owners = two.iter().filter_map(|identity| self.entries.remove(identity));
        // The merged entry has the later time.
        let together = owners.reduce(|earlier, later| Owner { set: earlier.set.union(&later.set), ..later });
        if let Some(together) = together {
            self.entries.insert(bucket, together);
        }
    }
}

fn print_entry(identity: &Identity, owner: &Owner) -> Value {
    let mut entry = Map::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            entry.insert(name.to_owned(), Value::from(value));
        }
    };
    put("manager", &identity.manager);
    put("operation", identity.operation.name());
    put("apiVersion", &owner.api_version);
    put("time", &owner.time);
    put("fieldsType", "FieldsV1");
    put("subresource", &identity.subresource);
    entry.insert("fieldsV1".to_owned(), owner.set.print());
    Value::Object(entry)
}

/// Whether the object asks for its entries to be deleted, by an empty list or a list with one empty entry:
/// `isResetManagedFields` in `k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go`.
pub(super) fn is_reset(object: &Value) -> bool {
    let entries = object.pointer("/metadata/managedFields");
    entries.is_some_and(|entries| *entries == json!([]) || *entries == json!([{}]))
}
