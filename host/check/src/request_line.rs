//! The verb and resource of a Kubernetes API request, parsed from its method and path.

use http::{Method, Uri};
use serde::Serialize;
use windlass_core::object::path_segment;

/// A request for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestLine {
    /// As in RBAC: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: &'static str,
    /// The resource with its group and subresource, such as `deployments.apps/status`. Empty if the path names no
    /// resource.
    pub resource: String,
    /// Empty if there is none.
    pub namespace: String,
    /// Empty if there is none, as in a create request.
    pub name: String,
}

impl RequestLine {
    /// Parses `method` and `uri`.
    pub(crate) fn of(method: &Method, uri: &Uri) -> RequestLine {
        let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
        let group = match parts.next() {
            Some("api") => "",
            Some("apis") => parts.next().unwrap_or_default(),
            _ => return RequestLine::default(),
        };
        let (_version, rest) = (parts.next(), parts.collect::<Vec<_>>());
        let (namespace, rest) = match &*rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !matches!(rest, ["status" | "finalize"]) => {
                ((*namespace).to_owned(), rest.to_vec())
            }
            _ => (String::new(), rest),
        };
        let Some(plural) = rest.first() else { return RequestLine::default() };
        let dotted = if group.is_empty() { (*plural).to_owned() } else { format!("{plural}.{group}") };
        let resource = rest.get(2).map_or_else(|| dotted.clone(), |subresource| format!("{dotted}/{subresource}"));
        let name = rest.get(1).map(|name| path_segment::decode(name).into_owned()).unwrap_or_default();
        let watches = uri.query().is_some_and(|query| query.split('&').any(|it| it == "watch=true" || it == "watch=1"));
        let verb = match (method, name.is_empty()) {
            (&Method::GET, _) if watches => "watch",
            (&Method::GET, true) => "list",
            (&Method::GET, false) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "deletecollection",
            (&Method::DELETE, false) => "delete",
            _ => "",
        };
        RequestLine { verb, resource, namespace, name }
    }

    /// Whether the request may change something. Reviews, token requests and dry runs count as changes.
    pub(crate) fn writes(&self) -> bool {
        !self.resource.is_empty() && !matches!(self.verb, "get" | "list" | "watch" | "")
    }

    /// Whether the request [writes](Self::writes) anything other than Kubernetes Events, which are not compared.
    pub(crate) fn alters(&self) -> bool {
        self.writes() && !self.is_event()
    }

    /// Whether it creates a review, which the server answers and does not store.
    pub(crate) fn is_review(&self) -> bool {
        let group = self.resource.split_once('.').map(|(_, group)| group);
        group.is_some_and(|group| matches!(group, "authorization.k8s.io" | "authentication.k8s.io"))
    }

    /// Whether it is about leases.
    pub(crate) fn is_about_leases(&self) -> bool {
        self.resource == "leases.coordination.k8s.io"
    }

    /// Whether the request is about Kubernetes Events.
    pub(crate) fn is_event(&self) -> bool {
        matches!(self.resource.as_str(), "events" | "events.events.k8s.io")
    }
}

impl std::fmt::Display for RequestLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RequestLine { verb, resource, namespace, name } = self;
        write!(f, "{verb} {resource}")?;
        match (namespace.as_str(), name.as_str()) {
            ("", "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, "") => write!(f, " in {namespace}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(method: &Method, uri: &str) -> String {
        RequestLine::of(method, &uri.parse().expect("a URI")).to_string()
    }

    #[test]
    fn paths_of_all_forms_are_parsed() {
        assert_eq!(line(&Method::GET, "/api/v1/pods?watch=true"), "watch pods");
        assert_eq!(line(&Method::GET, "/api/v1/namespaces/a/pods"), "list pods in a");
        assert_eq!(line(&Method::GET, "/api/v1/namespaces/a"), "get namespaces a");
        assert_eq!(line(&Method::GET, "/apis/a.b/v1/groups/D%5Cmy%20team"), "get groups.a.b D\\my team");
        assert_eq!(line(&Method::PUT, "/api/v1/namespaces/a/finalize"), "update namespaces/finalize a");
        assert_eq!(line(&Method::POST, "/apis/apps/v1/namespaces/a/deployments"), "create deployments.apps in a");
        assert_eq!(
            line(&Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/b/scale"),
            "patch deployments.apps/scale a/b"
        );
        assert_eq!(line(&Method::DELETE, "/api/v1/namespaces/a/pods"), "deletecollection pods in a");
        assert_eq!(line(&Method::GET, "/version"), " ");
    }
}
