//! Owner references: what the garbage collector accepts, checked before a request is sent (§3.7).
//!
//! A reference that crosses namespaces is not refused by the API server; the garbage collector deletes the child as an
//! orphan minutes later. So it is refused here.

use serde_json::{Value, json};

use crate::object::{ObjectKey, ObjectRef};

/// Why an owner cannot own a child.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// The owner is gone, or was never seen: without its UID nothing can refer to it.
    #[error("the primary {0} is gone, so it cannot own anything")]
    Gone(ObjectKey),
    /// The owner is namespaced and the child is not.
    #[error("the primary {owner} is namespaced and cannot own the cluster-scoped {child}")]
    ClusterScopedChild {
        /// The owner.
        owner: ObjectKey,
        /// The child.
        child: ObjectKey,
    },
    /// The owner is in another namespace.
    #[error("the primary {owner} cannot own {child} in another namespace")]
    OtherNamespace {
        /// The owner.
        owner: ObjectKey,
        /// The child.
        child: ObjectKey,
    },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectKind;

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
