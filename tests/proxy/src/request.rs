//! The meaning of a request, read from its line and headers as a kube-apiserver reads it
//! (`k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`).

use std::fmt;

use http::header::USER_AGENT;
use http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;

/// A verb as Kubernetes names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// One object, or a path that is not a resource's, such as `/version`.
    Get,
    /// A list of objects.
    List,
    /// A stream of events.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH, of any kind.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes all matching objects.
    DeleteCollection,
    /// A method for which Kubernetes has no verb.
    Other,
}

impl Verb {
    /// Whether the request may change an object.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch | Self::Other)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        })
    }
}

/// The meaning of a request. An empty text means that the request does not say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestInfo {
    /// The action.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural; for a path that is not a resource's, such as `/version`, the path.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// Empty for all namespaces, and for a cluster-scoped resource. For a Namespace use its name instead.
    pub namespace: String,
    /// The object's name. For a list or watch whose field selector selects one object, that object's name.
    pub name: String,
    /// The limit of a list; 0 if there is no limit, or the request is not a list.
    pub limit: u64,
    /// Whether this asks for a further page of a list.
    pub continues: bool,
    /// The whole User-Agent.
    pub user_agent: String,
}

impl RequestInfo {
    /// As in RBAC, with the group: `deployments.apps/status`.
    #[must_use]
    pub fn full_resource(&self) -> String {
        let mut text = self.resource.clone();
        for (separator, part) in [('.', &self.group), ('/', &self.subresource)] {
            if !part.is_empty() {
                text.push(separator);
                text.push_str(part);
            }
        }
        text
    }

    pub(crate) fn read(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let user_agent = headers.get(USER_AGENT).map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        let user_agent = user_agent.unwrap_or_default();
        let segments: Vec<String> = uri.path().split('/').filter(|it| !it.is_empty()).map(decoded).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => ("", &[][..]),
        };
        // The paths `/api/v1/watch/…` are older than `?watch=true`, and still served.
        let (old_watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            _ => (false, rest),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, inner @ ..] if !matches!(inner, [] | ["status" | "finalize"]) => {
                (*namespace, inner)
            }
            _ => ("", rest),
        };
        let [resource, named @ ..] = rest else {
            let verb = if method == Method::GET || method == Method::HEAD { Verb::Get } else { Verb::Other };
            return Self {
                verb,
                group: String::new(),
                resource: uri.path().to_owned(),
                subresource: String::new(),
                namespace: String::new(),
                name: String::new(),
                limit: 0,
                continues: false,
                user_agent,
            };
        };
        let query = Query::read(uri);
        let name = named.first().map(|it| (*it).to_owned());
        let verb = match *method {
            Method::GET | Method::HEAD if old_watch || (name.is_none() && query.watch) => Verb::Watch,
            Method::GET | Method::HEAD if name.is_none() => Verb::List,
            Method::GET | Method::HEAD => Verb::Get,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if name.is_none() => Verb::DeleteCollection,
            Method::DELETE => Verb::Delete,
            _ => Verb::Other,
        };
        Self {
            verb,
            group: group.to_owned(),
            resource: (*resource).to_owned(),
            subresource: named.get(1..).unwrap_or_default().join("/"),
            namespace: namespace.to_owned(),
            name: name.or(query.name).unwrap_or_default(),
            limit: query.limit,
            continues: query.continues,
            user_agent,
        }
    }
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.full_resource())?;
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

/// The query parameters that decide the meaning.
#[derive(Default)]
struct Query {
    watch: bool,
    name: Option<String>,
    limit: u64,
    continues: bool,
}

impl Query {
    fn read(uri: &Uri) -> Self {
        let mut query = Self::default();
        for pair in uri.query().unwrap_or_default().split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "watch" => query.watch = matches!(value, "" | "1" | "t" | "T" | "true" | "TRUE" | "True"),
                // An API server refuses a limit that is not a number, so such a request need not be counted.
                "limit" => query.limit = value.parse().unwrap_or_default(),
                "continue" => query.continues = !value.is_empty(),
                "fieldSelector" => {
                    let selector = decoded(&value.replace('+', " "));
                    query.name = selector.split(',').find_map(|it| {
                        let value = it.trim().strip_prefix("metadata.name=")?;
                        Some(value.strip_prefix('=').unwrap_or(value).to_owned())
                    });
                }
                _ => {}
            }
        }
        query
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, uri: &str) -> RequestInfo {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, http::HeaderValue::from_static("test/1"));
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        RequestInfo::read(&method, &uri.parse().expect("a URI"), &headers)
    }

    #[test]
    fn requests_are_classified_as_a_kube_apiserver_does() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods", "list pods"),
            ("GET", "/api/v1/pods?watch=true&resourceVersion=7", "watch pods"),
            ("GET", "/api/v1/pods?watch=0", "list pods"),
            ("GET", "/api/v1/watch/namespaces/d/pods", "watch pods d/"),
            ("GET", "/apis/apps/v1/namespaces/d/deployments?watch=1", "watch deployments.apps d/"),
            ("GET", "/apis/apps/v1/namespaces/d/deployments/a%3Ab/scale", "get deployments.apps/scale d/a:b"),
            ("POST", "/api/v1/namespaces", "create namespaces"),
            ("PUT", "/api/v1/namespaces/d/finalize", "update namespaces/finalize d"),
            ("PATCH", "/api/v1/namespaces/d", "patch namespaces d"),
            ("PATCH", "/api/v1/namespaces/d/services/s", "patch services d/s"),
            ("DELETE", "/api/v1/namespaces/d/services/s", "delete services d/s"),
            ("DELETE", "/api/v1/namespaces/d/services", "deletecollection services d/"),
            ("GET", "/api/v1/nodes/n/proxy/a/b", "get nodes/proxy/a/b n"),
            ("GET", "/version", "get /version"),
            ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
            ("TRACE", "/api/v1/pods", "other pods"),
        ] {
            assert_eq!(read(method, uri).to_string(), expected, "{method} {uri}");
        }
    }

    #[test]
    fn a_field_selector_for_one_name_is_that_objects() {
        let watch =
            read("GET", "/api/v1/namespaces/d/pods?fieldSelector=metadata.name%3Dp%2Cspec.nodeName%3Dn&watch=true");
        assert_eq!((watch.verb, watch.name.as_str()), (Verb::Watch, "p"));
        assert_eq!(read("GET", "/api/v1/pods?fieldSelector=metadata.name!=p").name, "");
    }

    #[test]
    fn a_lists_limit_and_continuation_are_recognised() {
        for (uri, page) in [
            ("/api/v1/pods", (0, false)),
            ("/api/v1/pods?limit=500&resourceVersion=0", (500, false)),
            ("/api/v1/pods?continue=abc&limit=500", (500, true)),
            ("/api/v1/pods?limit=many&continue=", (0, false)),
        ] {
            let list = read("GET", uri);
            assert_eq!((list.limit, list.continues), page, "{uri}");
        }
    }

    #[test]
    fn the_user_agent_is_kept_whole() {
        assert_eq!(read("GET", "/api/v1/pods").user_agent, "test/1");
    }
}
