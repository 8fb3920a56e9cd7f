//! Nobody grants more than they have: what a user must be allowed before writing a role or a binding.

use serde_json::Value;

use crate::authz::rule::go_list;
use crate::authz::{Access, Attributes, PolicyRule, RBAC, ResourceAttributes, User, coverage};
use crate::object::{self, text};
use crate::resources::resource::GroupResource;
use crate::status_error::ApiError;

/// Refuses a role or binding that would give away rights which its writer has not. `previous` is the stored object.
pub(crate) fn check(
    access: Access<'_>,
    user: &User,
    resource: &GroupResource,
    object: &Value,
    previous: Option<&Value>,
) -> Result<(), ApiError> {
    if resource.group != RBAC || user.is_master() {
        return Ok(());
    }
    if previous.is_some_and(|previous| without_collectors_fields(previous) == without_collectors_fields(object)) {
        return Ok(());
    }
    let namespace = object::namespace(object);
    let wanted = match resource.plural.as_str() {
        "roles" | "clusterroles" => {
            let role = ResourceAttributes {
                verb: "escalate".to_owned(),
                resource: resource.plural.clone(),
                name: object::name(object).to_owned(),
                ..asked(namespace)
            };
            if access.decide(user, &Attributes::Resource(role)).allowed {
                return Ok(());
            }
            // Whoever chooses by labels which roles are taken in may get any right.
            if object.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
                let all = [PolicyRule::all_resources(), PolicyRule::all_paths()];
                if !coverage::missing(&access.rules(user, "").0, &all).is_empty() {
                    let why = "must have cluster-admin privileges to use the aggregationRule";
                    return Err(ApiError::forbidden(resource, object::name(object), why));
                }
            }
            PolicyRule::of_role(object)
        }
        _ => {
            let reference = &object["roleRef"];
            let plural = format!("{}s", text(reference, "/kind").to_lowercase());
            let role = ResourceAttributes {
                verb: "bind".to_owned(),
                resource: plural,
                name: text(reference, "/name").to_owned(),
                ..asked(namespace)
            };
            if access.decide(user, &Attributes::Resource(role)).allowed {
                return Ok(());
            }
            if namespace.is_empty() && text(reference, "/kind") == "Role" {
                return Err(ApiError::bad_request("Namespace parameter required."));
            }
            let found = access.role_rules(reference, namespace);
            // Not the role's own resource: a real server says it so.
            found.map_err(|_| ApiError::not_found(resource, text(reference, "/name")))?
        }
    };
    let (owned, error) = access.rules(user, namespace);
    let missing = coverage::missing(&owned, &wanted);
    if missing.is_empty() {
        return Ok(());
    }
    Err(refused(user, resource, object, missing, error.as_deref()))
}

/// All but what the garbage collector writes, which may be written without the rights of the role. A label counts: by labels
/// roles are taken into others. (plugin/pkg: `IsOnlyMutatingGCFields`)
fn without_collectors_fields(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object::metadata_mut(&mut object);
    for field in ["ownerReferences", "finalizers", "managedFields", "selfLink", "resourceVersion", "generation"] {
        metadata.remove(field);
    }
    object
}

fn asked(namespace: &str) -> ResourceAttributes {
    ResourceAttributes { group: RBAC.to_owned(), namespace: namespace.to_owned(), ..ResourceAttributes::default() }
}

fn refused(
    user: &User,
    resource: &GroupResource,
    object: &Value,
    missing: Vec<PolicyRule>,
    error: Option<&str>,
) -> ApiError {
    let mut lines: Vec<String> = coverage::compact(missing).iter().map(PolicyRule::to_string).collect();
    lines.sort();
    lines.dedup();
    let mut why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        go_list(&user.groups),
        lines.join("\n")
    );
    if let Some(error) = error {
        why = format!("{why}; resolution errors: [{error}]");
    }
    ApiError::forbidden(resource, object::name(object), &why)
}
