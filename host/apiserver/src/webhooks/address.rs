//! The address of a webhook on this machine, and the URL by which client-go reaches it.

use std::net::IpAddr;

use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::consultation::Endpoint;
use crate::object::text;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::state::Shared;

/// The characters that Go escapes in a path: `shouldEscape` with `encodePath` in `net/url/url.go`.
const ESCAPED_IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The URL of a webhook, split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebhookAddress {
    /// Host and port as the URL names them.
    authority: String,
    host: String,
    port: u16,
    path: String,
    query: String,
    /// Namespace and name, if the host is a Service.
    service: Option<(String, String)>,
}

/// The address to connect to, and the name expected in its certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WebhookPlace {
    /// A loopback address, or `localhost`.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) server_name: String,
}

impl WebhookAddress {
    /// The URL that client-go posts to. client-go cleans the configuration's path, so the `//` that envtest writes
    /// never reaches the webhook: `DefaultVersionedAPIPath` in `k8s.io/client-go/rest/url_utils.go`.
    pub(super) fn of(endpoint: &Endpoint, query: String) -> WebhookAddress {
        match endpoint {
            Endpoint::Url(url) => {
                // Validation has refused texts that are not URLs; an empty host is refused below.
                let uri: Uri = url.parse().unwrap_or_default();
                let path = percent_decode_str(uri.path()).decode_utf8_lossy();
                WebhookAddress { path: escaped(&cleaned(&path)), query, ..WebhookAddress::at(&uri) }
            }
            Endpoint::Service { namespace, name, path, port } => {
                let host = format!("{name}.{namespace}.svc");
                let service = Some((namespace.clone(), name.clone()));
                let (authority, path) = (format!("{host}:{port}"), escaped(&cleaned(path)));
                WebhookAddress { authority, host, port: *port, path, query, service }
            }
        }
    }

    fn at(uri: &Uri) -> WebhookAddress {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        WebhookAddress {
            authority,
            host,
            port: uri.port_u16().unwrap_or(443),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            service: None,
        }
    }

    /// The address of a `Location`, relative to this one; `None` if it is not an HTTPS URL.
    pub(super) fn redirected(&self, location: &str) -> Option<WebhookAddress> {
        let location = location.split('#').next().unwrap_or_default();
        if let Some(rest) = location.strip_prefix("//") {
            return self.redirected(&format!("https://{rest}"));
        }
        if location.contains("://") {
            let uri: Uri = location.parse().ok()?;
            let found = WebhookAddress::at(&uri);
            let service = self.service.clone().filter(|_| found.authority == self.authority);
            return (uri.scheme_str() == Some("https")).then_some(WebhookAddress { service, ..found });
        }
        let (path, query) = location.split_once('?').unwrap_or((location, ""));
        let folder = self.path.rfind('/').map_or("/", |end| &self.path[..=end]);
        let path = match path {
            "" => self.path.clone(),
            _ if path.starts_with('/') => path.to_owned(),
            _ => cleaned(&format!("{folder}{path}")),
        };
        Some(WebhookAddress { path, query: query.to_owned(), ..self.clone() })
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}{}", self.authority, self.path_and_query())
    }

    pub(super) fn path_and_query(&self) -> String {
        let mark = if self.query.is_empty() { "" } else { "?" };
        format!("{}{mark}{}", self.path, self.query)
    }

    /// The address, if it is on this machine. A service is on this machine if it is of type `ExternalName` with the
    /// name `localhost`.
    pub(super) fn resolve(&self, shared: &Shared) -> Result<WebhookPlace, String> {
        let host = match &self.service {
            None => self.host.clone(),
            Some((namespace, name)) => external_name(shared, namespace, name)?,
        };
        if !is_loopback(&host) {
            return Err(format!("the embedded API server calls loopback addresses only, and not {host:?}"));
        }
        Ok(WebhookPlace { host, port: self.port, server_name: self.host.clone() })
    }
}

/// Go's `path.Join("/", path)`: merges slashes, resolves dots, and drops the slash at the end.
fn cleaned(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

fn escaped(path: &str) -> String {
    utf8_percent_encode(path, ESCAPED_IN_PATH).to_string()
}

fn external_name(shared: &Shared, namespace: &str, name: &str) -> Result<String, String> {
    let resource = GroupResource::new("", "services");
    let key = ObjectKey { resource, namespace: namespace.to_owned(), name: name.to_owned() };
    let state = shared.lock();
    let service = state.store.get(&key).ok_or_else(|| format!("service {name:?} not found"))?;
    if text(service, "/spec/type") != "ExternalName" {
        return Err(format!(
            "nothing runs behind service {name:?}: the embedded API server follows services of type ExternalName only"
        ));
    }
    Ok(text(service, "/spec/externalName").to_owned())
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    fn address(url: &str) -> WebhookAddress {
        WebhookAddress::of(&Endpoint::Url(url.to_owned()), "timeout=10s".to_owned())
    }

    fn resolved(url: &str) -> Result<(String, u16), String> {
        let shared = Shared::new(10, Clock::Wall, None);
        let place = address(url).resolve(&shared)?;
        Ok((place.host, place.port))
    }

    #[test]
    fn only_this_machine_is_called() {
        assert_eq!(resolved("https://127.0.0.1:9443/x"), Ok(("127.0.0.1".to_owned(), 9443)));
        assert_eq!(resolved("https://[::1]/x"), Ok(("::1".to_owned(), 443)));
        assert_eq!(resolved("https://LOCALHOST:1"), Ok(("LOCALHOST".to_owned(), 1)));
        for elsewhere in ["https://example.com/x", "https://10.0.0.1", "https://localhost.example.com", "https://"] {
            let why = resolved(elsewhere).expect_err(elsewhere);
            assert!(why.contains("loopback addresses only"), "{why}");
        }
    }

    #[test]
    fn a_path_is_cleaned_as_client_go_does() {
        for (given, posted) in [
            ("", "/"),
            ("/", "/"),
            ("//mutate", "/mutate"),
            ("/a//b/", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/../a", "/a"),
            ("/a%20b(c)", "/a%20b%28c%29"),
            ("/%2F%2Fa", "/a"),
        ] {
            assert_eq!(
                address(&format!("https://127.0.0.1:9443{given}")).url(),
                format!("https://127.0.0.1:9443{posted}?timeout=10s")
            );
        }
    }

    #[test]
    fn a_redirect_is_resolved_against_its_own_address() {
        let from = address("https://127.0.0.1:9443/a/b");
        for (location, to) in [
            ("/x//y", "https://127.0.0.1:9443/x//y"),
            ("/x?timeout=1s", "https://127.0.0.1:9443/x?timeout=1s"),
            ("c", "https://127.0.0.1:9443/a/c"),
            ("../c", "https://127.0.0.1:9443/c"),
            ("?q=1", "https://127.0.0.1:9443/a/b?q=1"),
            ("//localhost:1/x", "https://localhost:1/x"),
            ("https://localhost/x#y", "https://localhost/x"),
        ] {
            assert_eq!(from.redirected(location).map(|found| found.url()), Some(to.to_owned()), "{location}");
        }
        assert_eq!(from.redirected("http://localhost/x"), None);
    }

    #[test]
    fn only_a_redirect_to_another_host_leaves_the_service() {
        let endpoint = Endpoint::Service {
            namespace: "default".to_owned(),
            name: "hook".to_owned(),
            path: "//x".to_owned(),
            port: 443,
        };
        let from = WebhookAddress::of(&endpoint, String::new());
        assert_eq!(from.url(), "https://hook.default.svc:443/x");
        let service_of = |location: &str| from.redirected(location).expect("an address").service;
        assert!(service_of("/y").is_some());
        assert!(service_of("https://hook.default.svc:443/y").is_some());
        assert_eq!(service_of("https://127.0.0.1:443/y"), None);
    }
}
