//! Field ownership: server-side apply, and recording which fields other writes change.
//!
//! These are pure functions from objects to objects. The handlers of POST, PUT and PATCH call them before an object is
//! validated and stored. Other kinds of patches are applied elsewhere.
//!
//! The behaviour follows KEP-555, `structured-merge-diff/merge` and `k8s.io/apimachinery/pkg/util/managedfields`. All
//! versions of a kind are assumed to have the same fields, so recorded field sets are not converted between API
//! versions.

mod compare;
mod conflict;
mod merge;
mod owners;
mod remove;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::{Map, Value};

pub(crate) use conflict::{Conflict, conflict_message};

use crate::merge::{
    fields::{Set, Step},
    lists::Place,
};
use compare::{Comparison, compare};
use owners::{Identity, Operation, Owners};

/// The writer of a change, with the subresource and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manager<'a> {
    /// The field manager.
    pub(crate) name: &'a str,
    /// The API version that the manager uses.
    pub(crate) api_version: &'a str,
    /// `status`, `scale`, or empty.
    pub(crate) subresource: &'a str,
    /// The time of the write, RFC 3339 in whole seconds.
    pub(crate) now: &'a str,
}

/// The fields that only the server writes, so that no manager owns them.
static NEVER_OWNED: LazyLock<Set> = LazyLock::new(|| {
    Set::of_paths(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.generation",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "metadata.selfLink",
        "metadata.clusterName",
        "metadata.managedFields",
    ])
});

/// The manager that gets the fields which an untracked object had before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies a configuration to the live object, if there is one, and returns the new object.
///
/// `config` has all fields that this manager wants to own. Fields that the manager owned and that are no longer in
/// `config` are removed, unless another manager owns them too. `config` should have no `metadata.managedFields`: the
/// server refuses them earlier, and this function ignores them.
pub(crate) fn server_side_apply(
    live: Option<&Value>,
    config: &Value,
    manager: &Manager<'_>,
    force: bool,
    root: Place<'_>,
) -> Result<Value, Vec<Conflict>> {
    let (live_plain, mut owners) = match live {
        Some(live) => (without_managed(live), managers_before_apply(live, manager, root)),
        None => (identity_of(config), Owners::default()),
    };
    let recorded = live.and_then(|live| Owners::of(live).ok()).unwrap_or_default();
    let config = without_managed(config);
    let me = Identity::of(manager, Operation::Apply);

    let merged = merge::merge(&live_plain, &config, root);
    let wanted = Set::of(&config, root);
    let owned_before = owners.set(&me);
    owners.replace(&me, manager.api_version, wanted.clone());
    let new = give_up(&merged, &owned_before, &owners, root);

    let changes = compare(&live_plain, &new, root);
    let conflicts = conflicts(&owners, &me, &changes);
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    owners.take_from_others(&me, &changes.touched());
    owners.replace(&me, manager.api_version, wanted.difference(&NEVER_OWNED));

    let object_changed = live.is_none() || live_plain != new;
    if !object_changed
        && owners.agrees_with(&recorded)
        && let Some(live) = live
    {
        return Ok(live.clone());
    }
    // If the object has not changed, the manager's entry gets no new time.
    if object_changed {
        owners.stamp(&me, manager.now);
    }
    Ok(with_managed(new, &owners))
}

/// Records the changed fields in `new.metadata.managedFields`, after an update or a patch other than apply. Without
/// `live`, the write is a create.
pub(crate) fn track_update(live: Option<&Value>, new: &mut Value, manager: &Manager<'_>, root: Place<'_>) {
    let Some(mut owners) = managers_for_update(live, new, manager) else {
        remove_managed(new);
        return;
    };
    let plain = without_managed(new);
    let before = live.map_or_else(|| identity_of(&plain), without_managed);
    let changes = compare(&before, &plain, root);

    let me = Identity::of(manager, Operation::Update);
    let taken = changes.set().difference(&NEVER_OWNED);
    let mine = owners.set(&me).difference(&changes.removed).union(&taken);
    owners.take_from_others(&me, &changes.touched());
    owners.replace(&me, manager.api_version, mine);
    if !taken.is_empty() {
        owners.stamp(&me, manager.now);
    }
    owners.cap_updaters();
    *new = with_managed(plain, &owners);
}

/// The managers of an object before an apply. If there are none, all fields of the object are given to the manager
/// [`BEFORE_FIRST_APPLY`], which stands for all earlier writers.
fn managers_before_apply(live: &Value, manager: &Manager<'_>, root: Place<'_>) -> Owners {
    let owners = Owners::of(live).unwrap_or_default();
    if !owners.is_empty() {
        return owners;
    }
    let plain = without_managed(live);
    let all = compare(&identity_of(&plain), &plain, root).set().difference(&NEVER_OWNED);
    let earlier = Manager { name: BEFORE_FIRST_APPLY, subresource: "", ..*manager };
    let mut owners = Owners::default();
    let identity = Identity::of(&earlier, Operation::Update);
    owners.replace(&identity, manager.api_version, all);
    owners.stamp(&identity, manager.now);
    owners
}

/// The managers before an update, or `None` if the object's fields are not tracked.
///
/// A client may edit the entries, except through a subresource. If an update has no entries, the stored ones are kept,
/// so that a client that does not know them cannot delete them by mistake. A client deletes them on purpose with `[]`
/// or `[{}]`; then nothing is recorded until the next apply. A create is always recorded.
fn managers_for_update(live: Option<&Value>, new: &Value, manager: &Manager<'_>) -> Option<Owners> {
    let from_live = || live.and_then(|live| Owners::of(live).ok()).unwrap_or_default();
    let owners = if manager.subresource.is_empty() {
        if live.is_some() && owners::is_reset(new) {
            return None;
        }
        Owners::of(new).ok().filter(|owners| !owners.is_empty()).unwrap_or_else(from_live)
    } else {
        from_live()
    };
    (live.is_none() || !owners.is_empty()).then_some(owners)
}

/// Removes fields from the merged object that the manager owned before, and that no manager owns now.
fn give_up(merged: &Value, owned_before: &Set, owners: &Owners, root: Place<'_>) -> Value {
    let kept = owners.all().union(&NEVER_OWNED).with_structs(root);
    let gone = owned_before.with_structs(root).difference(&kept);
    let mut object = merged.clone();
    remove::remove(&mut object, &gone, root);
    object
}

/// The conflicts of an apply: fields that would change and that other managers own.
fn conflicts(owners: &Owners, me: &Identity, changes: &Comparison) -> Vec<Conflict> {
    let set_now = changes.set();
    let others = owners.iter().filter(|(identity, _)| *identity != me);
    others.flat_map(|(identity, set)| Conflict::with(identity, &set.intersection(&set_now))).collect()
}

/// The object with only its `apiVersion` and `kind`, to which a created object is compared.
fn identity_of(object: &Value) -> Value {
    let kept = ["apiVersion", "kind"].into_iter().filter_map(|name| Some((name.to_owned(), object.get(name)?.clone())));
    Value::Object(kept.collect())
}

fn without_managed(object: &Value) -> Value {
    let mut object = object.clone();
    remove_managed(&mut object);
    object
}

fn remove_managed(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

fn with_managed(mut object: Value, owners: &Owners) -> Value {
    let entries = owners.print();
    if let Value::Object(fields) = &mut object
        && !entries.is_empty()
        && let Value::Object(metadata) = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()))
    {
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
    object
}

/// Shorthand for a step into a field.
fn field(name: &str) -> Step {
    Step::Field(name.to_owned())
}
