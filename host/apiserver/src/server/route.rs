//! Parses the path of a request into a document or resource. `server` calls it once per request.

use http::Method;
use percent_encoding::percent_decode_str;

/// The health endpoints.
pub(super) const HEALTH_PATHS: [&str; 12] = [
    "/healthz",
    "/healthz/etcd",
    "/healthz/log",
    "/healthz/ping",
    "/livez",
    "/livez/etcd",
    "/livez/log",
    "/livez/ping",
    "/readyz",
    "/readyz/etcd",
    "/readyz/log",
    "/readyz/ping",
];

/// The document or resource that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/`, `/index.html`
    Root,
    /// `/metrics`
    Metrics,
    Version,
    Health,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/apps`
    Group(String),
    /// `/api/v1`, `/apis/apps/v1`
    GroupVersion(String, String),
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3`
    OpenApiV3Index,
    /// `/openapi/v3/api/v1`, `/openapi/v3/apis/apps/v1`
    OpenApiV3(String, String),
    Resource(ResourcePath),
    Unknown,
}

/// A resource, one of its objects, or a subresource of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) plural: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Whether the path is below `/watch/`, where every path is a watch. This is deprecated, but still served.
    pub(crate) is_watch: bool,
}

/// The RBAC verb of a method and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The name of the verb in RBAC and in the request counts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }

    /// The verb of a request to `path`. `None` if the path does not allow the method.
    pub(crate) fn of(method: &Method, path: &ResourcePath, watch: bool) -> Option<Verb> {
        match (method.as_str(), path.name.is_some()) {
            ("GET", _) if path.is_watch => Some(Verb::Watch),
            _ if path.is_watch => None,
            ("GET", false) if watch => Some(Verb::Watch),
            ("GET", true) => Some(Verb::Get),
            ("GET", false) => Some(Verb::List),
            // A POST to a subresource of an object creates an eviction, a binding or a token.
            ("POST", named) if !named || path.subresource.is_some() => Some(Verb::Create),
            ("PUT", true) => Some(Verb::Update),
            ("PATCH", true) => Some(Verb::Patch),
            ("DELETE", true) => Some(Verb::Delete),
            ("DELETE", false) => Some(Verb::DeleteCollection),
            _ => None,
        }
    }
}

impl Route {
    pub(crate) fn parse(path: &str) -> Route {
        // The path is decoded before it is split, as in authorization. So a name never contains a slash.
        let decoded = percent_decode_str(path).decode_utf8_lossy();
        // Only paths of the API may end in a slash.
        match &*decoded {
            "/" | "/index.html" => return Route::Root,
            "/metrics" => return Route::Metrics,
            "/openapi/v2" => return Route::OpenApiV2,
            "/openapi/v3" => return Route::OpenApiV3Index,
            path if HEALTH_PATHS.contains(&path) => return Route::Health,
            path if path.starts_with("/openapi/") && path.ends_with('/') => return Route::Unknown,
            _ => {}
        }
        let segments: Vec<&str> = decoded.trim_matches('/').split('/').collect();
        // Authorization decides by the positions of segments, so empty segments must not be skipped: `pods/x//log` is
        // not a log.
        if segments.len() > 1 && segments.contains(&"") {
            return Route::Unknown;
        }
        match segments.as_slice() {
            ["version"] => Route::Version,
            ["openapi", "v3", "api", version] => Route::OpenApiV3(String::new(), (*version).to_owned()),
            ["openapi", "v3", "apis", group, version] => Route::OpenApiV3((*group).to_owned(), (*version).to_owned()),
            ["api"] => Route::CoreVersions,
            ["apis"] => Route::Groups,
            ["api", version] => Route::GroupVersion(String::new(), (*version).to_owned()),
            ["apis", group] => Route::Group((*group).to_owned()),
            ["apis", group, version] => Route::GroupVersion((*group).to_owned(), (*version).to_owned()),
            ["api", version, rest @ ..] => resource("", version, rest),
            ["apis", group, version, rest @ ..] => resource(group, version, rest),
            _ => Route::Unknown,
        }
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Route {
    let (rest, is_watch) = match rest {
        ["watch", inner @ ..] if !inner.is_empty() => (inner, true),
        _ => (rest, false),
    };
    // `namespaces/x/status` is about the namespace itself, and `namespaces/x/pods` about objects in it.
    let (namespace, rest) = match rest {
        // Authorization interprets these words as verbs.
        ["watch" | "proxy", _, ..] => return Route::Unknown,
        ["namespaces", _] | ["namespaces", _, "status" | "finalize", ..] => (None, rest),
        ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (Some(*namespace), inner),
        _ => (None, rest),
    };
    let path = |plural: &str, name: Option<&str>, subresource: Option<&str>| {
        Route::Resource(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.map(str::to_owned),
            plural: plural.to_owned(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
            is_watch,
        })
    };
    match rest {
        [plural] => path(plural, None, None),
        [plural, name] => path(plural, Some(name), None),
        [plural, name, subresource] => path(plural, Some(name), Some(subresource)),
        _ => Route::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> ResourcePath {
        match Route::parse(path) {
            Route::Resource(path) => path,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn a_namespace_is_a_resource_and_contains_resources() {
        let object = parsed("/api/v1/namespaces/x");
        assert_eq!((object.plural.as_str(), object.name.as_deref()), ("namespaces", Some("x")));
        let status = parsed("/api/v1/namespaces/x/status");
        assert_eq!((status.plural.as_str(), status.subresource.as_deref()), ("namespaces", Some("status")));
        let pods = parsed("/api/v1/namespaces/x/pods");
        assert_eq!((pods.plural.as_str(), pods.namespace.as_deref()), ("pods", Some("x")));
    }

    #[test]
    fn subresources_and_escaped_names_are_read() {
        let path = parsed("/apis/apps/v1/namespaces/d/deployments/a%3Ab/scale");
        assert_eq!(path.name.as_deref(), Some("a:b"));
        assert_eq!(path.subresource.as_deref(), Some("scale"));
        let path = parsed("/api/v1/namespaces/d/configmaps/a%2Fb");
        assert_eq!((path.name.as_deref(), path.subresource.as_deref()), (Some("a"), Some("b")));
    }

    #[test]
    fn every_path_below_watch_is_a_watch() {
        for (path, name) in [("namespaces/d/pods", None), ("namespaces/d/pods/x", Some("x")), ("nodes", None)] {
            let path = parsed(&format!("/api/v1/watch/{path}"));
            assert_eq!(path.name.as_deref(), name);
            assert_eq!(Verb::of(&Method::GET, &path, false), Some(Verb::Watch));
            assert_eq!(Verb::of(&Method::DELETE, &path, false), None);
        }
    }

    #[test]
    fn an_empty_segment_names_nothing() {
        for path in [
            "/api/v1/namespaces/d/pods/x//log",
            "/api/v1/namespaces//d",
            "/api//v1",
            "/apis/apps/v1/namespaces/d//pods",
        ] {
            assert_eq!(Route::parse(path), Route::Unknown, "{path}");
        }
        assert_eq!(Route::parse("/api/v1/pods/"), Route::parse("/api/v1/pods"));
    }

    #[test]
    fn only_paths_of_the_api_may_end_with_a_slash() {
        for path in
            ["//", "/metrics/", "/healthz/", "/livez/ping/", "/openapi/v2/", "/openapi/v3/", "/openapi/v3/api/v1/"]
        {
            assert_eq!(Route::parse(path), Route::Unknown, "{path}");
        }
        assert_eq!((Route::parse("/"), Route::parse("/metrics")), (Route::Root, Route::Metrics));
        assert_eq!((Route::parse("/version/"), Route::parse("/apis/")), (Route::Version, Route::Groups));
    }

    #[test]
    fn a_path_that_authorization_reads_differently_is_unknown() {
        for path in ["/apis/a.b/v1/watch/watch/x", "/apis/a.b/v1/proxy/x", "/apis/a.b/v1/namespaces/d/finalize/x"] {
            assert_eq!(Route::parse(path), Route::Unknown, "{path}");
        }
    }

    #[test]
    fn a_method_that_the_path_does_not_allow_has_no_verb() {
        let list = parsed("/api/v1/pods");
        assert_eq!(Verb::of(&Method::PUT, &list, false), None);
        assert_eq!(Verb::of(&Method::GET, &list, true), Some(Verb::Watch));
        let object = parsed("/api/v1/namespaces/d/pods/x");
        assert_eq!(Verb::of(&Method::POST, &object, false), None);
    }
}
