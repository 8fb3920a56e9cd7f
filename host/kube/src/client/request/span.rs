//! The span of a request made by a call, using OpenTelemetry's conventions for HTTP clients.

use std::borrow::Cow;

use http::Method;
use windlass_core::call::trace::OpenSpan;
use windlass_core::object::path_segment;

use super::RequestError;
use crate::client::headers::RequestHeaders;

/// Starts the span of a request to `uri`.
pub(super) fn begin(headers: &RequestHeaders, method: &Method, uri: &str) -> OpenSpan {
    let mut span = headers.begin_span();
    let server = span.trace().api_server().map(|(host, port)| (host.to_owned(), port));
    span.describe(|span| {
        let path = uri.split_once('?').map_or(uri, |(path, _)| path);
        span.set("http.request.method", method.as_str());
        // Without the query: selectors may reveal more about objects than a trace needs.
        span.set("url.path", path);
        if let Some((host, port)) = server {
            span.set("server.address", host);
            span.set("server.port", port);
        }
        let Some(resource_path) = ResourcePath::in_path(path) else {
            span.name = method.to_string().into();
            return;
        };
        let verb = resource_path.verb(method);
        span.name = format!("{verb} {}", resource_path.resource).into();
        span.set("windlass.verb", verb);
        span.set("windlass.resource", resource_path.resource.as_str());
        for (name, value) in
            [("k8s.namespace.name", resource_path.namespace), ("windlass.object.name", resource_path.name)]
        {
            if let Some(value) = value {
                span.set(name, &*path_segment::decode(value));
            }
        }
    });
    span
}

/// Records how the request ended. `code` returns the status of a success. `None` stands for 200.
pub(super) fn end<T>(span: &mut OpenSpan, result: &Result<T, RequestError>, code: impl FnOnce(&T) -> Option<u16>) {
    span.ends(|span| {
        let code = match result {
            Ok(answer) => Some(code(answer).unwrap_or(200)),
            Err(error) => error.code(),
        };
        if let Some(code) = code {
            span.set("http.response.status_code", code);
        }
        if let Err(error) = result {
            let kind = match error {
                RequestError::Refused { status, .. } => Cow::from(status.code.to_string()),
                RequestError::NotSent { .. } => "not_sent".into(),
                RequestError::Broken { .. } => "broken".into(),
                RequestError::TimedOut { .. } => "timeout".into(),
                RequestError::TooLarge { .. } => "too_large".into(),
                RequestError::NotText(_) => "not_text".into(),
            };
            span.set("error.type", kind.as_ref());
            span.error = Some(described(error));
        }
    });
}

/// The error in a form that may be exported. The server's message quotes refused values, which may come from a Secret.
fn described(error: &RequestError) -> String {
    match error {
        RequestError::Refused { status, .. } => {
            format!("the API server answered {} {}", status.code, status.reason).trim_end().to_owned()
        }
        _ => error.to_string(),
    }
}

/// The resource and object in a path of the API server.
#[derive(Debug, PartialEq, Eq)]
struct ResourcePath<'a> {
    /// `deployments.apps`, or with a subresource `pods/log`.
    resource: String,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
}

impl<'a> ResourcePath<'a> {
    /// `None` if the path is not about a resource.
    fn in_path(path: &'a str) -> Option<Self> {
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match *parts {
            ["api", _, ref rest @ ..] => (None, rest),
            ["apis", group, _, ref rest @ ..] => (Some(group), rest),
            _ => return None,
        };
        let (namespace, rest) = match *rest {
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, _, ..] => (Some(namespace), &rest[2..]),
            _ => (None, rest),
        };
        let (plural, name, subresource) = match *rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(name), None),
            [plural, name, subresource, ..] => (plural, Some(name), Some(subresource)),
            [] => return None,
        };
        let mut resource = plural.to_owned();
        for (separator, part) in [('.', group), ('/', subresource)] {
            resource.extend(part.map(|part| format!("{separator}{part}")));
        }
        Some(Self { resource, namespace, name })
    }

    /// The Kubernetes verb of `method` for this path.
    fn verb(&self, method: &Method) -> &'static str {
        match (method.as_str(), self.name) {
            ("GET", Some(_)) => "get",
            ("GET", None) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", Some(_)) => "delete",
            ("DELETE", None) => "deletecollection",
            _ => "request",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_does_not_repeat_values_quoted_by_the_server() {
        let status = kube::core::Status::failure("Invalid value: \"hunter22\"", "Invalid").with_code(422);
        let refused = RequestError::Refused { status: Box::new(status), retry_after: None };
        assert_eq!(described(&refused), "the API server answered 422 Invalid");
    }

    #[test]
    fn a_path_names_the_resource_and_the_object() {
        for (path, resource, namespace, name) in [
            ("/api/v1/namespaces/prod/pods/a/log", "pods/log", Some("prod"), Some("a")),
            ("/apis/apps/v1/namespaces/prod/deployments/web", "deployments.apps", Some("prod"), Some("web")),
            ("/apis/apps/v1/deployments", "deployments.apps", None, None),
            ("/api/v1/namespaces/prod", "namespaces", None, Some("prod")),
            ("/api/v1/namespaces/prod/finalize", "namespaces/finalize", None, Some("prod")),
            ("/apis/a.b/v1/things/x/status", "things.a.b/status", None, Some("x")),
        ] {
            let resource_path = ResourcePath::in_path(path).expect("a resource");
            assert_eq!(resource_path, ResourcePath { resource: resource.to_owned(), namespace, name }, "{path}");
        }
        for other in ["/version", "/apis", "/api/v1", "/"] {
            assert_eq!(ResourcePath::in_path(other), None, "{other}");
        }
    }

    #[test]
    fn a_method_is_a_verb_of_kubernetes() {
        let object = ResourcePath::in_path("/api/v1/namespaces/prod/pods/a").expect("one");
        let all = ResourcePath::in_path("/api/v1/namespaces/prod/pods").expect("some");
        let verbs = [
            (object.verb(&Method::GET), "get"),
            (all.verb(&Method::GET), "list"),
            (all.verb(&Method::POST), "create"),
            (object.verb(&Method::DELETE), "delete"),
            (all.verb(&Method::DELETE), "deletecollection"),
        ];
        assert!(verbs.iter().all(|(verb, wanted)| verb == wanted), "{verbs:?}");
    }
}
