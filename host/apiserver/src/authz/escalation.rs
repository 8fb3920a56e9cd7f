//! Prevents escalation: a user must have the rights that a role or a binding would grant.

use serde_json::Value;

use crate::authz::rule::go_list;
use crate::authz::{Access, Attributes, PolicyRule, RBAC, ResourceAttributes, User, coverage};
use crate::object::{self, text};
use crate::resources::resource::GroupResource;
use crate::status_error::ApiError;

/// Refuses a role or binding that would grant rights that its writer does not have. `object` has its defaults,
/// `previous` is the stored one, and `named` is the name in the request's path, which a POST does not have.
pub(crate) fn check(
    access: Access<'_>,
    user: &User,
    resource: &GroupResource,
    named: &str,
    object: &Value,
    previous: Option<&Value>,
) -> Result<(), ApiError> {
    if resource.group != RBAC || user.is_master() {
        return Ok(());
    }
    let writer = Writer { access, user, resource };
    let is_role = ["roles", "clusterroles"].contains(&resource.plural.as_str());
    if is_role && writer.may("escalate", &resource.plural, named, object::namespace(object)) {
        return Ok(());
    }
    if previous.is_some_and(|previous| without_collectors_fields(previous) == without_collectors_fields(object)) {
        return Ok(());
    }
    if is_role { writer.check_role(object, previous) } else { writer.check_binding(object) }
}

/// The writer, and the kind of object.
struct Writer<'a> {
    access: Access<'a>,
    user: &'a User,
    resource: &'a GroupResource,
}

impl Writer<'_> {
    fn may(&self, verb: &str, resource: &str, name: &str, namespace: &str) -> bool {
        let asked = ResourceAttributes {
            verb: verb.to_owned(),
            group: RBAC.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..ResourceAttributes::default()
        };
        self.access.decide(self.user, &Attributes::Resource(asked)).allowed
    }

    fn check_role(&self, role: &Value, previous: Option<&Value>) -> Result<(), ApiError> {
        self.check_rules(role, &PolicyRule::of_role(role))?;
        // The label selector of an aggregated role can grant any right, and can prevent other users from losing a
        // right.
        if !is_aggregated(role) && !previous.is_some_and(is_aggregated) {
            return Ok(());
        }
        let all = [PolicyRule::all_resources(), PolicyRule::all_paths()];
        if coverage::missing(&self.access.rules(self.user, "").0, &all).is_empty() {
            return Ok(());
        }
        let why = "must have cluster-admin privileges to use the aggregationRule";
        Err(ApiError::forbidden(self.resource, object::name(role), why))
    }

    fn check_binding(&self, binding: &Value) -> Result<(), ApiError> {
        let reference = &binding["roleRef"];
        let (kind, name, namespace) = (text(reference, "/kind"), text(reference, "/name"), object::namespace(binding));
        let plural = match kind {
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            _ => return Err(ApiError::internal(format!("unsupported role reference kind: {kind:?}"))),
        };
        if text(reference, "/apiGroup") == RBAC && self.may("bind", plural, name, namespace) {
            return Ok(());
        }
        if namespace.is_empty() && kind == "Role" {
            return Err(ApiError::bad_request("Namespace parameter required."));
        }
        let rules = self.access.role_rules(reference, namespace);
        // The error names the wrong resource, as a real server's error does.
        let rules = rules.map_err(|_| ApiError::not_found(self.resource, name))?;
        self.check_rules(binding, &rules)
    }

    fn check_rules(&self, object: &Value, wanted: &[PolicyRule]) -> Result<(), ApiError> {
        let (owned, error) = self.access.rules(self.user, object::namespace(object));
        let missing = coverage::missing(&owned, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        Err(self.refused(object, missing, error.as_deref()))
    }

    fn refused(&self, object: &Value, missing: Vec<PolicyRule>, error: Option<&str>) -> ApiError {
        let mut lines: Vec<String> = coverage::compact(missing).iter().map(PolicyRule::to_string).collect();
        lines.sort();
        lines.dedup();
        let mut why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            self.user.name,
            go_list(&self.user.groups),
            lines.join("\n")
        );
        if let Some(error) = error {
            why = format!("{why}; resolution errors: [{error}]");
        }
        ApiError::forbidden(self.resource, object::name(object), &why)
    }
}

fn is_aggregated(role: &Value) -> bool {
    !object::items(role, "/aggregationRule/clusterRoleSelectors").is_empty()
}

/// The object without the fields that the garbage collector writes: they may be changed without the role's rights.
/// Labels stay, because they add a role to aggregated roles. (`IsOnlyMutatingGCFields`)
fn without_collectors_fields(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object::metadata_mut(&mut object);
    for field in ["ownerReferences", "finalizers", "managedFields", "selfLink"] {
        metadata.remove(field);
    }
    object
}
