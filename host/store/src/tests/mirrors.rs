//! Mirrors: which one is asked for what.

use windlass_oci::{Credentials, Login};

use super::*;

/// Another server on this machine.
const MIRROR: &str = "127.0.0.2:5001";

fn mirror(location: &str) -> Mirror {
    let mut mirror = Mirror::new(location).expect("a host and a path");
    mirror.plain_http = PlainHttp::OnThisMachine;
    mirror
}

/// The servers that were asked, with the last part of each path.
fn asked(client: &Client) -> Vec<(String, String)> {
    let seen = client.servers.seen().into_iter();
    seen.map(|it| (it.server.to_string(), it.line.rsplit('/').nth(1).unwrap_or_default().to_owned())).collect()
}

fn pair(server: &str, what: &str) -> (String, String) {
    (server.to_owned(), what.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_mirror_gives_contents_and_the_registry_resolves_the_tag() {
    let client = Client::of(&LyingServers::honest());
    let wanted = WantedPlugin { mirrors: vec![mirror(MIRROR)], ..wanted(&by_tag()) };
    let stored = client.store.fetch(&wanted).await.expect("it is honest");
    assert_eq!(stored.resolved.expect("by tag").server, LOCAL);
    assert_eq!(asked(&client), [pair(LOCAL, "manifests"), pair(MIRROR, "blobs")]);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_may_resolve_tags_is_asked_first_and_is_named() {
    let client = Client::of(&LyingServers::honest());
    let mut mirror = mirror(MIRROR);
    mirror.resolves_tags = true;
    let mirrors = vec![mirror];
    let stored = client.store.fetch(&WantedPlugin { mirrors, ..wanted(&by_tag()) }).await.expect("it is honest");
    assert_eq!(stored.resolved.expect("by tag").server, MIRROR);
    assert_eq!(asked(&client), [pair(MIRROR, "manifests"), pair(MIRROR, "blobs")]);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_fails_or_lies_is_passed_over_and_the_digest_decides() {
    let servers = LyingServers::honest();
    let honest = servers.has(COMPONENT);
    let lie = || Reply::ok("application/vnd.oci.image.manifest.v1+json", b"{}");
    servers.reply(&format!("GET /v2/lies/shop/manifests/{honest}"), lie());
    let client = Client::of(&servers);
    // The second one has no such repository.
    let mirrors = vec![mirror(&format!("{MIRROR}/lies")), mirror(&format!("{MIRROR}/none/"))];
    let stored = client.store.fetch(&WantedPlugin { mirrors, ..wanted(&by_digest(&honest)) }).await;
    assert_eq!(stored.expect("the registry is honest").digest.as_str(), honest);
    let asked = asked(&client);
    assert_eq!(asked.iter().filter(|(server, _)| server == MIRROR).count(), 4, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_says_what_was_wrong_with_each_server() {
    let client = Client::of(&LyingServers::default());
    let digest = digest_of(b"none");
    let mirrors = vec![mirror(MIRROR), Mirror::new("unknown.example.com/cache").expect("valid")];
    let error = client.store.fetch(&WantedPlugin { mirrors, ..wanted(&by_digest(&digest)) }).await.expect_err("none");
    let text = error.to_string();
    assert!(text.starts_with(&format!("{LOCAL}: it has no such repository")), "{text}");
    assert!(text.ends_with("mirrors failed: 127.0.0.2:5001 (NotFound), unknown.example.com (Unreachable)"), "{text}");
    assert!(!error.is_final());
}

#[tokio::test(start_paused = true)]
async fn the_credentials_of_the_registry_never_reach_a_mirror() {
    let servers = LyingServers::honest();
    let challenge = Reply::new("401 No", "Www-Authenticate: Basic realm=\"x\"\r\n", b"");
    let honest = servers.has(COMPONENT);
    servers.reply(&format!("GET /v2/shop/manifests/{honest}"), challenge);
    let login = |user: &str| Login::new(user, "secret").expect("valid");
    // They have a login for the mirror's host, too.
    let credentials = Credentials::default().with(LOCAL, login("ann")).with(MIRROR, login("ann"));
    let mirrors = vec![mirror(MIRROR)];
    let wanted = WantedPlugin { mirrors, credentials, ..wanted(&by_digest(&honest)) };
    let client = Client::of(&servers);
    let error = client.store.fetch(&wanted).await.expect_err("the password is refused");
    assert_eq!(error.reason(), "LoginRefused");
    let with_password = client.servers.seen().into_iter().filter(|it| it.head.contains("\nauthorization"));
    let servers: Vec<_> = with_password.map(|it| it.server.to_string()).collect();
    assert_eq!(servers, [LOCAL]);
}

#[test]
fn a_mirror_is_a_host_and_a_path() {
    for good in ["mirror.example.com", "mirror.example.com:5000/", "mirror.example.com/cache/docker.io"] {
        assert!(Mirror::new(good).is_ok(), "{good}");
    }
    for bad in ["", "/", "https://mirror.example.com", "user@mirror.example.com", "mirror.example.com/../x", "a b"] {
        assert!(Mirror::new(bad).is_err(), "{bad}");
    }
}
