//! Owner references. Before a request is sent, checks that the garbage collector will accept them. Also decides what a
//! claim does about the objects that it finds.
//!
//! The API server accepts a reference across namespaces, but the garbage collector deletes such a child as an orphan
//! minutes later. So the host refuses it.

mod added;

use serde_json::{Value, json};

use crate::object::{Header, ObjectKey, ObjectRef};

pub use added::{AddedOwners, NamedOwner, added};

/// Why an owner cannot own a child.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// The owner is gone or was never seen. Without its UID, no reference is possible.
    #[error("the primary {0} is gone, so it cannot own anything")]
    Gone(ObjectKey),
    /// The owner is namespaced and the child is not.
    #[error("the primary {owner} is namespaced and cannot own the cluster-scoped {child}")]
    ClusterScopedChild { owner: ObjectKey, child: ObjectKey },
    /// The owner is in another namespace.
    #[error("the primary {owner} cannot own {child} in another namespace")]
    OtherNamespace { owner: ObjectKey, child: ObjectKey },
}

/// The controller reference by which `owner` owns `child`, as JSON.
pub fn controller_reference(owner: &ObjectRef, child: &ObjectKey) -> Result<Value, OwnerError> {
    let uid = owner.uid.as_deref().ok_or_else(|| OwnerError::Gone(owner.key.clone()))?;
    match (&owner.key.namespace, &child.namespace) {
        (Some(_), None) => {
            return Err(OwnerError::ClusterScopedChild { owner: owner.key.clone(), child: child.clone() });
        }
        (Some(of_owner), Some(of_child)) if of_owner != of_child => {
            return Err(OwnerError::OtherNamespace { owner: owner.key.clone(), child: child.clone() });
        }
        _ => {}
    }
    Ok(json!({
        "apiVersion": &*owner.kind.api_version,
        "kind": &*owner.kind.kind,
        "name": &*owner.key.name,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }))
}

/// The step of a claim about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStep {
    /// Makes the primary its controller.
    Adopt,
    /// Removes the primary from its owners.
    Release,
    /// Leaves the object alone: another owner controls it, the primary owns it already, or the claim does not concern
    /// it.
    Leave,
}

/// Decides what a claim by `owner` does about `object`. `is_match` says whether the selector matches (client-go:
/// `BaseControllerRefManager.ClaimObject`).
#[must_use]
pub fn claim_step(owner: &Header, object: &Header, is_match: bool) -> ClaimStep {
    if owner.deleting {
        // An owner that is being deleted adopts nothing more, and its deletion decides about its children.
        return ClaimStep::Leave;
    }
    match object.controller() {
        Some(controller) if !owner.uid.is(&controller.uid) => ClaimStep::Leave,
        Some(_) if is_match => ClaimStep::Leave,
        Some(_) => ClaimStep::Release,
        None if is_match && !object.deleting && may_own(&owner.key, &object.key) => ClaimStep::Adopt,
        None => ClaimStep::Leave,
    }
}

fn may_own(owner: &ObjectKey, object: &ObjectKey) -> bool {
    owner.namespace.is_none() || owner.namespace == object.namespace
}

/// The owners of an object after adoption by the owner of `reference`, a [`controller_reference`].
#[must_use]
pub fn owners_with(mut owners: Vec<Value>, reference: Value) -> Vec<Value> {
    owners.retain(|owner| owner["uid"] != reference["uid"]);
    owners.push(reference);
    owners
}

/// The owners of an object after release by the owner with this `uid`.
#[must_use]
pub fn owners_without(mut owners: Vec<Value>, uid: &str) -> Vec<Value> {
    owners.retain(|owner| owner["uid"] != uid);
    owners
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::object::{ObjectKind, OwnerReference};

    /// The header of an object in `namespace`, controlled by `controller`.
    fn header(namespace: Option<&str>, uid: &str, controller: Option<&str>, deleting: bool) -> Header {
        let kind = ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp");
        let reference = |uid: &str, controller| OwnerReference {
            kind: kind.clone(),
            name: "x".into(),
            uid: uid.into(),
            controller,
        };
        // An owner that is not the controller never matters.
        let owners = std::iter::once(reference("other", false)).chain(controller.map(|uid| reference(uid, true)));
        Header {
            generation: 1,
            owners: owners.collect(),
            deleting,
            ..Header::bare(ObjectKey { namespace: namespace.map(Into::into), name: uid.into() }, uid, "1")
        }
    }

    #[test]
    fn a_claim_adopts_orphans_releases_its_own_and_leaves_the_rest() {
        let owner = header(Some("prod"), "u-1", None, false);
        let step = |controller, is_match| claim_step(&owner, &header(Some("prod"), "c", controller, false), is_match);
        assert_eq!(step(None, true), ClaimStep::Adopt);
        assert_eq!(step(None, false), ClaimStep::Leave);
        assert_eq!(step(Some("u-1"), true), ClaimStep::Leave);
        assert_eq!(step(Some("u-1"), false), ClaimStep::Release);
        assert_eq!(step(Some("u-2"), true), ClaimStep::Leave);
        assert_eq!(step(Some("u-2"), false), ClaimStep::Leave);
    }

    #[test]
    fn objects_being_deleted_neither_adopt_nor_release_nor_are_adopted() {
        let going = header(Some("prod"), "u-1", None, true);
        for controller in [None, Some("u-1")] {
            for is_match in [true, false] {
                let object = header(Some("prod"), "c", controller, false);
                assert_eq!(claim_step(&going, &object, is_match), ClaimStep::Leave);
            }
        }
        let owner = header(Some("prod"), "u-1", None, false);
        assert_eq!(claim_step(&owner, &header(Some("prod"), "c", None, true), true), ClaimStep::Leave);
        // An object that is being deleted may still be released.
        assert_eq!(claim_step(&owner, &header(Some("prod"), "c", Some("u-1"), true), false), ClaimStep::Release);
    }

    #[test]
    fn only_a_cluster_scoped_owner_adopts_in_any_namespace() {
        let step =
            |owner, object| claim_step(&header(owner, "u-1", None, false), &header(object, "c", None, false), true);
        assert_eq!(step(Some("prod"), Some("prod")), ClaimStep::Adopt);
        assert_eq!(step(Some("prod"), Some("test")), ClaimStep::Leave);
        assert_eq!(step(Some("prod"), None), ClaimStep::Leave);
        assert_eq!(step(None, Some("test")), ClaimStep::Adopt);
        assert_eq!(step(None, None), ClaimStep::Adopt);
    }

    #[test]
    fn other_owners_are_kept() {
        let (ours, other) = (json!({"uid": "u-1", "controller": true}), json!({"uid": "other"}));
        let plain = json!({"uid": "u-1"});
        assert_eq!(owners_with(vec![other.clone(), plain], ours.clone()), [other.clone(), ours.clone()]);
        assert_eq!(owners_without(vec![other.clone(), ours], "u-1"), [other]);
    }

    proptest! {
        /// Several owners claim one object in turn, each seeing the result of the one before. At most one owner
        /// controls the object, no owner takes it from another, and an owner that claims again has nothing to do.
        #[test]
        fn claims_never_take_from_each_other_and_settle(
            claims in prop::collection::vec((0_usize..3, any::<bool>()), 1..20), deleting in any::<bool>(),
        ) {
            let mut controller: Option<String> = None;
            for (owner, is_match) in claims {
                let owner = format!("u-{owner}");
                let header_of = |controller: &Option<String>| header(Some("prod"), "c", controller.as_deref(), deleting);
                let step = |controller: &Option<String>| {
                    claim_step(&header(Some("prod"), &owner, None, false), &header_of(controller), is_match)
                };
                let before = controller.clone();
                match step(&controller) {
                    ClaimStep::Adopt => {
                        prop_assert!(before.is_none() && is_match && !deleting);
                        controller = Some(owner.clone());
                    }
                    ClaimStep::Release => {
                        prop_assert!(before.as_ref() == Some(&owner) && !is_match);
                        controller = None;
                    }
                    ClaimStep::Leave => {}
                }
                prop_assert_eq!(step(&controller), ClaimStep::Leave);
            }
        }
    }

    fn owner(key: ObjectKey) -> ObjectRef {
        ObjectRef { kind: ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp"), key, uid: Some("u-1".into()) }
    }

    #[test]
    fn a_namespaced_owner_owns_within_its_namespace_only() {
        let shop = owner(ObjectKey::namespaced("prod", "shop"));
        assert!(controller_reference(&shop, &ObjectKey::namespaced("prod", "shop")).is_ok());
        let elsewhere = controller_reference(&shop, &ObjectKey::namespaced("test", "shop"));
        assert!(matches!(elsewhere, Err(OwnerError::OtherNamespace { .. })));
        let cluster = controller_reference(&shop, &ObjectKey::cluster("shop"));
        assert!(matches!(cluster, Err(OwnerError::ClusterScopedChild { .. })));
    }

    #[test]
    fn a_cluster_scoped_owner_owns_anywhere() {
        let shop = owner(ObjectKey::cluster("shop"));
        assert!(controller_reference(&shop, &ObjectKey::namespaced("prod", "shop")).is_ok());
        assert!(controller_reference(&shop, &ObjectKey::cluster("child")).is_ok());
    }

    #[test]
    fn an_owner_without_uid_owns_nothing() {
        let gone = ObjectRef { uid: None, ..owner(ObjectKey::namespaced("prod", "shop")) };
        let refused = controller_reference(&gone, &ObjectKey::namespaced("prod", "shop"));
        assert_eq!(refused, Err(OwnerError::Gone(ObjectKey::namespaced("prod", "shop"))));
    }

    #[test]
    fn the_reference_blocks_foreground_deletion_and_controls() {
        let shop = owner(ObjectKey::namespaced("prod", "shop"));
        let reference = controller_reference(&shop, &ObjectKey::namespaced("prod", "shop")).expect("allowed");
        assert_eq!(reference["controller"], true);
        assert_eq!(reference["blockOwnerDeletion"], true);
        assert_eq!(reference["uid"], "u-1");
    }
}
