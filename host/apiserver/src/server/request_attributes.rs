//! Finds the attributes of a request for the authorizer. They follow only from the method, path and query, because
//! authorization comes before the lookup of the resource. The parsing follows `k8s.io/apiserver/pkg/endpoints/request`.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::authz::{Attributes, ResourceAttributes};
use crate::request::Query;

/// The subresources of namespaces. Any other word after a namespace is a resource in that namespace.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

pub(super) fn attributes(method: &Method, path: &str, query: &Query) -> Attributes {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let segments: Vec<&str> = decoded.trim_matches('/').split('/').collect();
    let (group, rest) = match segments.as_slice() {
        ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
        ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
        _ => return Attributes::Path { verb: method.as_str().to_lowercase(), path: decoded.into_owned() },
    };
    Attributes::Resource(resource(method, group, rest, query))
}

fn resource(method: &Method, group: &str, rest: &[&str], query: &Query) -> ResourceAttributes {
    let (rest, special) = match rest {
        [verb @ ("watch" | "proxy"), inner @ ..] if !inner.is_empty() => (inner, Some(*verb)),
        _ => (rest, None),
    };
    let (namespace, parts) = match rest {
        ["namespaces", namespace, inner @ ..] => match inner.first() {
            Some(word) if !OF_NAMESPACES.contains(word) => (*namespace, inner),
            _ => (*namespace, rest),
        },
        _ => ("", rest),
    };
    let part = |index: usize| parts.get(index).copied().unwrap_or_default().to_owned();
    let whole = part(1).is_empty();
    let verb = match (special, method.as_str()) {
        (Some(special), _) => special,
        (None, "GET" | "HEAD") if whole && query.flag("watch") => "watch",
        (None, "GET" | "HEAD") if whole => "list",
        (None, "GET" | "HEAD") => "get",
        (None, "POST") => "create",
        (None, "PUT") => "update",
        (None, "PATCH") => "patch",
        (None, "DELETE") if whole => "deletecollection",
        (None, "DELETE") => "delete",
        (None, _) => "",
    };
    let mut asked = ResourceAttributes {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: part(0),
        subresource: part(2),
        namespace: namespace.to_owned(),
        name: part(1),
    };
    if whole && matches!(verb, "list" | "watch") {
        asked.name = query.name_by_field_selector();
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The attributes as `verb group resource[/subresource] namespace name` or `verb path`.
    fn read(method: &Method, path: &str, query: &[(&str, &str)]) -> String {
        let query = Query(query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
        match attributes(method, path, &query) {
            Attributes::Path { verb, path } => format!("{verb} {path}"),
            Attributes::Resource(asked) => {
                let (verb, group, namespace, name) = (&asked.verb, &asked.group, &asked.namespace, &asked.name);
                format!("{verb} {group} {} {namespace} {name}", asked.combined())
            }
        }
    }

    #[test]
    fn a_request_has_the_attributes_that_rules_name() {
        let cases = [
            (Method::GET, "/api/v1/namespaces/d/pods", "list  pods d "),
            (Method::GET, "/api/v1/pods/", "list  pods  "),
            (Method::GET, "/api/v1/namespaces/d/pods/x/log", "get  pods/log d x"),
            (Method::POST, "/apis/apps/v1/namespaces/d/deployments", "create apps deployments d "),
            (Method::PUT, "/api/v1/namespaces/d/finalize", "update  namespaces/finalize d d"),
            (Method::GET, "/api/v1/namespaces/d", "get  namespaces d d"),
            (Method::DELETE, "/api/v1/nodes", "deletecollection  nodes  "),
            (Method::DELETE, "/api/v1/nodes/x", "delete  nodes  x"),
            (Method::PATCH, "/apis/a.b/v1/things/x%3Ay/scale", "patch a.b things/scale  x:y"),
            (Method::GET, "/api/v1/watch/namespaces/d/pods", "watch  pods d "),
            (Method::DELETE, "/api/v1/watch/pods", "watch  pods  "),
            (Method::GET, "/api/v1/proxy/nodes/x", "proxy  nodes  x"),
            (Method::GET, "/apis/apps/v1", "get /apis/apps/v1"),
            (Method::GET, "/api/v1", "get /api/v1"),
            (Method::POST, "/healthz", "post /healthz"),
            (Method::GET, "/", "get /"),
        ];
        for (method, path, expected) in cases {
            assert_eq!(read(&method, path, &[]), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_query_makes_a_list_a_watch_and_names_its_object() {
        let pods = "/api/v1/namespaces/d/pods";
        assert_eq!(read(&Method::GET, pods, &[("watch", "true")]), "watch  pods d ");
        assert_eq!(read(&Method::GET, pods, &[("fieldSelector", "metadata.name=x")]), "list  pods d x");
        assert_eq!(read(&Method::GET, pods, &[("fieldSelector", "spec.nodeName=x,metadata.name=y")]), "list  pods d y");
        assert_eq!(read(&Method::GET, pods, &[("fieldSelector", "metadata.name!=x")]), "list  pods d ");
    }
}
