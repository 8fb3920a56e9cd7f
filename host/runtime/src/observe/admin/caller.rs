//! Refuses requests that a foreign web page makes in the browser of a user who can connect. Any other client that can
//! connect may read. A page reveals itself by `Origin` or `Sec-Fetch-Site`. With DNS rebinding, a page makes its own
//! name resolve to this address and sends neither header, but the request names that host. So requests for names that
//! an attacker could register are refused, unless `Sec-Fetch-Site: none` says that no page made the request: a page
//! cannot make a browser send that. `windlass status` sends it, because the API server's proxy passes on the host name
//! under which the API server was asked.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Request};

/// Name suffixes that cannot be registered in the public DNS. A Service is `NAME.NAMESPACE.svc`, whatever follows.
const PRIVATE: [&str; 4] = [".svc", ".cluster.local", ".internal", ".localhost"];

/// Headers that proxies add to requests that they forward.
const FORWARDED: [&str; 3] = ["forwarded", "via", "x-forwarded-for"];

/// Whether a header shows that a proxy forwards another client's request. A proxy in the same Pod looks local, but its
/// clients are not. `kubectl port-forward` adds no such header.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    FORWARDED.iter().any(|name| headers.contains_key(*name))
}

/// Why a request is refused, as a sentence for its sender. `None` if it is answered.
pub(super) fn refusal<B>(request: &Request<B>) -> Option<&'static str> {
    let headers = request.headers();
    let sites = || headers.get_all("sec-fetch-site").iter();
    let is_foreign = sites().any(|site| site != "none" && site != "same-origin");
    if headers.contains_key(ORIGIN) || (is_foreign && !(request.uri().path() == "/" && is_visit(headers))) {
        return Some("web pages get no answer here");
    }
    let no_page = sites().next().is_some() && sites().all(|site| site == "none");
    let mut hosts = headers.get_all(HOST).iter().filter_map(|host| host.to_str().ok().and_then(|it| it.parse().ok()));
    // A name in the request line takes precedence over the header. Without any name, DNS rebinding is not possible.
    let named: Option<Authority> = request.uri().authority().cloned().or_else(|| hosts.next());
    let is_unreadable = named.is_none() && headers.contains_key(HOST);
    if is_unreadable || hosts.next().is_some() || named.is_some_and(|named| !no_page && !is_ours(named.host())) {
        return Some("ask by an IP address, localhost, NAME.NAMESPACE.svc, or a name without a dot");
    }
    None
}

/// Whether a user has followed a link that opens in a window, such as a dashboard's link to the status page. The page
/// contains no data yet, and the page that has opened it cannot look into it.
fn is_visit(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().is_some_and(|it| it == value) && values.next().is_none()
    };
    is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

/// Whether `host` is a name that no attacker could have registered for this address.
fn is_ours(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    bare.parse::<IpAddr>().is_ok() || !name.contains('.') || PRIVATE.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::get("/plugins");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request")
    }

    #[test]
    fn probes_and_monitoring_are_answered() {
        for host in [
            "10.244.0.17:8080",
            "[fd00::17]:8080",
            "127.0.0.1",
            "localhost:8080",
            "LOCALHOST",
            "windlass",
            "windlass.ops.svc:8080",
            "windlass.ops.svc.cluster.local.",
            "ip-10-0-0-1.eu-west-1.compute.internal:8080",
        ] {
            assert_eq!(refusal(&request(&[("host", host)])), None, "{host}");
        }
        assert_eq!(refusal(&request(&[])), None, "HTTP/1.0 has no Host");
        // The user has typed the address, or reloads the page.
        assert_eq!(refusal(&request(&[("host", "localhost"), ("sec-fetch-site", "none")])), None);
        assert_eq!(refusal(&request(&[("host", "localhost"), ("sec-fetch-site", "same-origin")])), None);
        let by_an_api_server = [("host", "api.prod.example.com:6443"), ("sec-fetch-site", "none")];
        assert_eq!(refusal(&request(&by_an_api_server)), None);
    }

    #[test]
    fn a_link_leads_to_the_status_page_alone_and_into_a_window_alone() {
        let asked = |path: &str, mode: &str, destination: &str| {
            let request = Request::get(path).header("host", "localhost").header("sec-fetch-site", "cross-site");
            let request = request.header("sec-fetch-mode", mode).header("sec-fetch-dest", destination);
            refusal(&request.body(()).expect("a request"))
        };
        assert_eq!(asked("/", "navigate", "document"), None);
        for (path, mode, destination) in [
            ("/plugins", "navigate", "document"),
            ("/watch", "navigate", "document"),
            ("/", "navigate", "iframe"),
            ("/", "no-cors", "script"),
            ("/", "cors", "empty"),
        ] {
            assert!(asked(path, mode, destination).is_some(), "{path} {mode} {destination}");
        }
    }

    #[test]
    fn a_page_gets_no_answer_by_its_own_name_or_by_ours() {
        for headers in [
            &[("host", "127.0.0.1:8080"), ("origin", "https://example.com")][..],
            &[("host", "127.0.0.1:8080"), ("origin", "null")],
            &[("host", "127.0.0.1:8080"), ("sec-fetch-site", "cross-site")],
            &[("host", "127.0.0.1:8080"), ("sec-fetch-site", "same-site")],
            &[("host", "127.0.0.1:8080"), ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")],
            &[("host", "rebound.example.com:8080"), ("sec-fetch-site", "same-origin")],
            &[("host", "rebound.example.com:8080"), ("sec-fetch-site", "none"), ("sec-fetch-site", "same-origin")],
            &[("host", "rebound.example.com:8080"), ("x-forwarded-uri", "/api/v1/namespaces/a/pods/b/proxy/plugins")],
            &[("host", "windlass.ops.svc.example.com")],
            &[("host", "127.0.0.1.example.com")],
            &[("host", "10.0.0.1@example.com")],
            &[("host", "localhost"), ("host", "example.com")],
            &[("host", "")],
            &[("host", "a b")],
        ] {
            assert!(refusal(&request(headers)).is_some(), "{headers:?}");
        }
        let absolute = Request::get("http://example.com/plugins").header("host", "localhost").body(());
        assert!(refusal(&absolute.expect("a request")).is_some());
    }
}
