//! Attacks through HTTP that try to reach, through a plugin, addresses that only the host can reach.

use windlass_sdk::bindings::exports::windlass::plugin::reconciler::Outcome;
use windlass_sdk::bindings::windlass::plugin::http::{self, Body, Request as HttpRequest, Response};
use windlass_sdk::bindings::windlass::plugin::types::Request;

use crate::trials::Trials;
use crate::{Answer, marker};

/// Spellings of hosts that are denied. The manifest asks for all of them.
pub(crate) const HOSTS: [&str; 13] = [
    "localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "0.0.0.0",
    "[::]",
    "169.254.169.254",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "10.0.0.1",
    // The operator's policy grants this host, with its address.
    "127.0.0.1",
];

/// Addresses that some resolvers read as `127.0.0.1`, and URLs that parsers read in different ways.
const ODD: [&str; 10] = [
    "http://2130706433:PORT/",
    "http://0x7f.1:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://127.1:PORT/",
    "http://127.0.0.1:PORT@localhost:PORT/",
    "http://127.0.0.1\\@localhost:PORT/",
    "http:/\\localhost:PORT/",
    "http://localhost:PORT\t/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:PORT/_GET",
];

/// Carries out an attack. `None` if `mode` is not one of these attacks.
pub(crate) fn reconcile(mode: &str, _: &Request) -> Option<Answer> {
    if mode == "waits" {
        // The test makes sure that no server responds at this address.
        let _ = http::fetch(&get("http://waits.test/"));
        return Some(Ok(Outcome { requeue: None }));
    }
    let port = marker::number(mode, "fetches")?;
    let trials = Trials(mode);
    for host in HOSTS.iter().filter(|host| **host != "127.0.0.1") {
        trials.of(host, http::fetch(&get(&format!("http://{host}:{port}/secret"))));
    }
    for url in ODD {
        let url = url.replace("PORT", &port.to_string());
        trials.of(url.split(char::is_whitespace).next().unwrap_or_default(), http::fetch(&get(&url)));
    }
    let granted = format!("http://127.0.0.1:{port}/moved");
    for (name, value) in [("Host", "localhost"), ("X", "a\r\nHost: localhost"), ("Transfer-Encoding", "chunked")] {
        let request = HttpRequest { headers: vec![(name.to_owned(), value.to_owned())], ..get(&granted) };
        trials.of(&format!("header-{name}"), http::fetch(&request));
    }
    let split = HttpRequest { method: "GET /secret HTTP/1.1\r\n\r\nGET".to_owned(), ..get(&granted) };
    trials.of("method", http::fetch(&split));
    // A redirect is a response and is not followed. The guest then requests its target like any other URL.
    match http::fetch(&get(&granted)) {
        Ok(Response { status: 302, headers, body: Body::Text(body) }) if body.is_empty() => {
            let location = headers.into_iter().find(|(name, _)| name == "location").map(|(_, value)| value);
            trials.of("redirected", http::fetch(&get(&location.unwrap_or_default())));
        }
        other => trials.of("no-redirect", other),
    }
    Some(Ok(trials.end()))
}

/// A GET request to `url`.
pub(crate) fn get(url: &str) -> HttpRequest {
    HttpRequest { method: "GET".to_owned(), url: url.to_owned(), headers: vec![], body: None, timeout_ms: None }
}
