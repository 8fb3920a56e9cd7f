//! Questions to the authorizer, made from requests and access reviews.

use crate::authz::User;
use crate::resources::resource::GroupResource;
use crate::status_error::ApiError;

/// One question to the authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes {
    Resource(ResourceAttributes),
    /// A request to a path that does not belong to a resource. The verb is the HTTP method in lower case.
    Path {
        verb: String,
        path: String,
    },
}

/// A verb and its object in RBAC's terms. An empty namespace means all namespaces; any other empty field is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceAttributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ResourceAttributes {
    /// The resource as rules name it: `pods/log`.
    pub(crate) fn combined(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }
}

impl Attributes {
    pub(crate) fn verb(&self) -> &str {
        match self {
            Attributes::Resource(asked) => &asked.verb,
            Attributes::Path { verb, .. } => verb,
        }
    }

    /// The same object with another verb.
    pub(crate) fn with_verb(&self, verb: String) -> Attributes {
        match self {
            Attributes::Resource(asked) => Attributes::Resource(ResourceAttributes { verb, ..asked.clone() }),
            Attributes::Path { path, .. } => Attributes::Path { verb, path: path.clone() },
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        match self {
            Attributes::Resource(asked) => &asked.namespace,
            Attributes::Path { .. } => "",
        }
    }

    /// The error for a user without the right.
    pub(crate) fn refuse(&self, user: &User, reason: &str) -> ApiError {
        let name = &user.name;
        let (target, object, mut why) = match self {
            Attributes::Path { verb, path } => {
                (GroupResource::new("", ""), "", format!("User {name:?} cannot {verb} path {path:?}"))
            }
            Attributes::Resource(asked) => {
                let place = match asked.namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                let (verb, resource, group) = (&asked.verb, asked.combined(), &asked.group);
                let why = format!("User {name:?} cannot {verb} resource {resource:?} in API group {group:?} {place}");
                (GroupResource::new(group, &asked.resource), asked.name.as_str(), why)
            }
        };
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        ApiError::unauthorized_action(&target, object, &why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_text_of_a_real_server() {
        let user = User { name: "x".to_owned(), ..User::default() };
        let pods = ResourceAttributes {
            verb: "list".to_owned(),
            resource: "pods".to_owned(),
            namespace: "default".to_owned(),
            ..ResourceAttributes::default()
        };
        let status = ResourceAttributes {
            verb: "get".to_owned(),
            group: "apps".to_owned(),
            resource: "deployments".to_owned(),
            subresource: "status".to_owned(),
            name: "web".to_owned(),
            ..ResourceAttributes::default()
        };
        let path = Attributes::Path { verb: "get".to_owned(), path: "/metrics".to_owned() };
        let cases = [
            (
                Attributes::Resource(pods),
                "",
                r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                Attributes::Resource(status),
                "no role",
                "deployments.apps \"web\" is forbidden: User \"x\" cannot get resource \"deployments/status\" in API \
                 group \"apps\" at the cluster scope: no role",
            ),
            (path, "", r#"forbidden: User "x" cannot get path "/metrics""#),
        ];
        for (attributes, reason, expected) in cases {
            assert_eq!(attributes.refuse(&user, reason).to_string(), expected);
        }
    }
}
