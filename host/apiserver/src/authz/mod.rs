//! Authorization by roles: decides what a user may do. These are pure functions over the stored roles and bindings,
//! with the decisions of `k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac`. `server` calls them before each request.
//! `verbs` calls them before a role is written, and to answer access reviews. `authn` finds the user.

mod access;
mod attributes;
mod coverage;
pub(crate) mod escalation;
mod resolve;
mod rule;
pub(crate) mod signers;
mod user;

pub(crate) use access::Access;
pub(crate) use attributes::{Attributes, ResourceAttributes};
pub(crate) use rule::PolicyRule;
pub(crate) use user::User;

use crate::resources::resource::GroupResource;

/// The authorization mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// Every client may do everything, without credentials.
    #[default]
    AlwaysAllow,
    /// The stored roles and bindings decide. A new server has the default roles of a real cluster.
    Rbac,
}

/// The API group of roles and bindings.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// The resource of cluster roles.
pub(crate) fn cluster_roles() -> GroupResource {
    GroupResource::new(RBAC, "clusterroles")
}
