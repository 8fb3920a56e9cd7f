//! Which owners a write may add, judged by its body, for the grants. `metadata_guard` of `windlass-kube` asks before it
//! sends a plugin's write.
//!
//! The garbage collector deletes an object once all its owners are gone. So adding an owner can delete the object, now
//! or when the owner is deleted, whatever the verb of the write; the admission plugin
//! `OwnerReferencesPermissionEnforcement` therefore asks for the right to delete. Removing an owner deletes nothing. A
//! plugin may be hostile, so a body that is not understood counts as adding any owner.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;

use crate::object::finalizer::{self, MutationForm, PatchOperation};
use crate::object::{ObjectKind, OwnerReference};

/// An owner in a body. Fields that are left out keep their value if the object has that owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedOwner {
    api_version: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    /// The directive of an item in a strategic patch, such as `delete`.
    #[serde(rename = "$patch")]
    directive: Option<String>,
}

/// The owners that a write may add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedOwners {
    /// At most these owners. Some of them may be owners of the object already.
    These(BTreeSet<NamedOwner>),
    /// Unknown: only the server can tell.
    Any,
}

impl AddedOwners {
    #[must_use]
    pub fn none() -> Self {
        Self::These(BTreeSet::new())
    }

    /// Whether the write adds no owner.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::These(owners) if owners.is_empty())
    }

    /// The owners that are not `known`.
    #[must_use]
    pub fn without(self, known: impl Fn(&NamedOwner) -> bool) -> Self {
        match self {
            Self::These(owners) => Self::These(owners.into_iter().filter(|owner| !known(owner)).collect()),
            Self::Any => Self::Any,
        }
    }
}

impl fmt::Display for AddedOwners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::These(owners) => {
                let shown: Vec<_> = owners.iter().map(ToString::to_string).collect();
                f.write_str(&shown.join(", "))
            }
            Self::Any => f.write_str("owners that only the API server knows"),
        }
    }
}

impl NamedOwner {
    /// Whether `reference` refers to this owner. The kind's version is ignored: an object is the same in all served
    /// versions.
    #[must_use]
    pub fn is(&self, reference: &OwnerReference) -> bool {
        let agrees = |said: &Option<String>, fact: &str| said.as_deref().is_none_or(|said| said == fact);
        let is_group = |version: &str| ObjectKind::new(version, "").group() == reference.kind.group();
        self.directive.is_none()
            && self.uid.as_deref() == Some(&*reference.uid)
            && self.api_version.as_deref().is_none_or(is_group)
            && agrees(&self.kind, &reference.kind.kind)
            && agrees(&self.name, &reference.name)
    }
}

impl fmt::Display for NamedOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |said: &Option<String>| said.clone().unwrap_or_else(|| "?".to_owned());
        write!(f, "{} {} ({})", or(&self.kind), or(&self.name), or(&self.uid))
    }
}

/// The owners that a write of `body` may add.
#[must_use]
pub fn added(form: MutationForm, body: &str) -> AddedOwners {
    let owners = match form {
        // The owners of a new object can delete only that object itself.
        MutationForm::New => Some(BTreeSet::new()),
        MutationForm::Json => by_json_patch(body),
        _ => by_body(form, body),
    };
    owners.map_or(AddedOwners::Any, AddedOwners::These)
}

/// `None` if the body is not understood.
fn by_body(form: MutationForm, body: &str) -> Option<BTreeSet<NamedOwner>> {
    let top = serde_json::from_str(body).ok()?;
    let metadata = finalizer::metadata_of(&top)?;
    let Some(list) = metadata.get("ownerReferences") else { return Some(BTreeSet::new()) };
    let mut owners: BTreeSet<NamedOwner> = serde_json::from_str::<Option<_>>(list.get()).ok()?.unwrap_or_default();
    if form == MutationForm::Strategic {
        owners.retain(|owner| owner.directive.as_deref() != Some("delete"));
    }
    Some(owners)
}

fn by_json_patch(patch: &str) -> Option<BTreeSet<NamedOwner>> {
    let operations: Vec<PatchOperation> = serde_json::from_str(patch).ok()?;
    let mut owners = BTreeSet::new();
    for PatchOperation { op, path, value, .. } in operations {
        let Some(below) = finalizer::below_metadata(&path) else { continue };
        match (&*op, &below[..]) {
            ("test", _) | ("remove", ["ownerReferences"] | ["ownerReferences", _]) => {}
            ("add" | "replace", ["ownerReferences"]) => {
                let list: Option<BTreeSet<_>> = serde_json::from_value(value).ok()?;
                owners.extend(list.unwrap_or_default());
            }
            ("add" | "replace", ["ownerReferences", _]) => {
                owners.insert(serde_json::from_value(value).ok()?);
            }
            (_, [] | ["ownerReferences", ..]) => return None,
            _ => {}
        }
    }
    Some(owners)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const BODIES: [MutationForm; 4] =
        [MutationForm::Replacement, MutationForm::Applied, MutationForm::Merge, MutationForm::Strategic];

    fn reference() -> Value {
        json!({"apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "name": "shop", "uid": "u-1"})
    }

    /// The number of owners in a body, not counting the owner that the object has already.
    fn strangers(form: MutationForm, body: &Value) -> Option<usize> {
        let kind = ObjectKind::new("apps.kubedojo.io/v1", "WebApp");
        let known = OwnerReference { kind, name: "shop".into(), uid: "u-1".into(), controller: true };
        match added(form, &body.to_string()).without(|owner| owner.is(&known)) {
            AddedOwners::These(owners) => Some(owners.len()),
            AddedOwners::Any => None,
        }
    }

    fn with(owners: &Value) -> Value {
        json!({"metadata": {"ownerReferences": owners}})
    }

    #[test]
    fn every_owner_that_is_new_counts() {
        let but = |field: &str, value: &str| {
            let mut reference = reference();
            reference[field] = value.into();
            with(&json!([reference]))
        };
        let others =
            [but("name", "x"), but("uid", "x"), but("kind", "x"), but("apiVersion", "v1"), but("$patch", "merge")];
        for form in BODIES {
            assert_eq!(strangers(form, &with(&json!([reference()]))), Some(0), "{form:?}");
            for body in &others {
                assert_eq!(strangers(form, body), Some(1), "{form:?} {body}");
            }
            for body in [with(&json!(null)), with(&json!([])), json!({"metadata": null}), json!({"spec": {}})] {
                assert_eq!(strangers(form, &body), Some(0), "{form:?} {body}");
            }
            for body in [with(&json!({})), with(&json!([7])), with(&json!([{"uid": 7}])), json!({"metadata": 7})] {
                assert_eq!(strangers(form, &body), None, "{form:?} {body}");
            }
            assert_eq!(strangers(form, &with(&json!([{"uid": "u-1", "controller": false}]))), Some(0));
            assert_eq!(strangers(form, &with(&json!([{"name": "shop"}]))), Some(1));
        }
        assert_eq!(strangers(MutationForm::New, &others[1]), Some(0), "no existing object is deleted");
    }

    #[test]
    fn only_a_strategic_patch_removes_owners_by_directive() {
        let off = with(&json!([{"$patch": "delete", "uid": "x"}]));
        assert_eq!(strangers(MutationForm::Strategic, &off), Some(0));
        assert_eq!(strangers(MutationForm::Merge, &off), Some(1), "a field like any other");
    }

    #[test]
    fn a_json_patch_counts_wherever_it_adds_to_the_owners_or_changes_one() {
        let patch = |op: &str, path: &str, value: &Value| {
            strangers(MutationForm::Json, &json!([{"op": op, "path": path, "from": "/data/x", "value": value}]))
        };
        for path in ["/metadata/ownerReferences/-", "/metadata/ownerReferences/0", "x/metadata/ownerReferences/0"] {
            for op in ["add", "replace"] {
                assert_eq!(patch(op, path, &reference()), Some(0), "{op} {path}");
                assert_eq!(patch(op, path, &json!({"uid": "x"})), Some(1), "{op} {path}");
            }
            assert_eq!(patch("copy", path, &reference()), None, "{path}");
            assert_eq!(patch("remove", path, &json!(null)), Some(0), "{path}");
            assert_eq!(patch("test", path, &json!({"uid": "x"})), Some(0), "{path}");
        }
        assert_eq!(patch("add", "/metadata/ownerReferences", &json!([reference(), {"uid": "x"}])), Some(1));
        for path in ["", "/metadata", "/metadata/ownerReferences/0/name"] {
            assert_eq!(patch("replace", path, &json!("x")), None, "{path}");
        }
        assert_eq!(patch("add", "/metadata/labels/a", &json!("x")), Some(0));
        assert_eq!(strangers(MutationForm::Json, &json!({})), None);
    }
}
