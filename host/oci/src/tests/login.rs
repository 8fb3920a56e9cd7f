//! Logins: which server gets which credentials.

use super::*;
use crate::{Credentials, Login};

const REGISTRY: &str = "oci://registry.example.com/shop:1";
const BOTH: [&str; 2] = ["registry.example.com", "elsewhere.example.com"];

fn login_for(host: &str) -> RegistryOptions {
    let login = Login::new("ann", "secret").expect("valid");
    RegistryOptions { credentials: Credentials::default().with(host, login), ..RegistryOptions::default() }
}

/// A registry that wants a token of the server at `realm`.
fn wanting_token(realm: &str) -> World {
    let world = World::honest();
    let challenge =
        format!("Www-Authenticate: Bearer realm=\"{realm}\",service=\"the registry\",scope=\"all:*:*\"\r\n");
    for line in ["GET /v2/shop/manifests/1".to_owned(), blob_path(&plugin().1), blob_path(COMPONENT)] {
        let given = world.answer(&line);
        // The login holds for one session: one for manifest and configuration, and one for the component.
        let is_first = !line.contains(StatedContent::of(&plugin().1).digest.as_str());
        let denied = is_first.then(|| Reply::new("401 Unauthorized", &challenge, b""));
        world.replies_to(&line, denied.into_iter().chain([given]).collect());
    }
    world
}

const TOKEN_LINE: &str = "GET /token?service=the%20registry&scope=repository%3Ashop%3Apull";

fn basics(world: &World) -> Vec<String> {
    let with_password = world.seen().into_iter().filter(|it| it.head.contains("\nauthorization: basic "));
    with_password.map(|it| it.server.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_token_server_on_the_same_host_gets_the_password() {
    let world = wanting_token("https://registry.example.com/token");
    world.reply(TOKEN_LINE, Reply::ok("application/json", br#"{"token": "t0k3n"}"#));
    let client = Client::with_tls(world, login_for("registry.example.com"), &BOTH);
    client.pull(REGISTRY).await.expect("it is honest");
    assert_eq!(basics(&client.world), ["93.184.216.10:443"; 2]);
    let with_token = client.world.seen().iter().filter(|it| it.head.contains("\nauthorization: bearer t0k3n")).count();
    assert_eq!(with_token, 3, "manifest, configuration and component");
}

/// The registry's password is not given to the server that the registry names. An anonymous token may still do.
#[tokio::test(start_paused = true)]
async fn a_token_server_elsewhere_gets_no_password_of_the_registry() {
    let world = wanting_token("https://elsewhere.example.com/token");
    world.reply(TOKEN_LINE, Reply::ok("application/json", br#"{"access_token": "t0k3n"}"#));
    let client = Client::with_tls(world, login_for("registry.example.com"), &BOTH);
    client.pull(REGISTRY).await.expect("it may be read without a login");
    assert_eq!(basics(&client.world), Vec::<String>::new());
    let elsewhere: Vec<_> =
        client.world.seen().into_iter().filter(|it| it.server.ip().to_string().ends_with(".20")).collect();
    assert_eq!(elsewhere.len(), 2);
    assert!(elsewhere.iter().all(|it| !it.head.contains("authorization")), "{elsewhere:?}");

    let world = wanting_token("https://elsewhere.example.com/token");
    world.reply(TOKEN_LINE, Reply::new("401 Unauthorized", "", b""));
    let client = Client::with_tls(world, login_for("registry.example.com"), &BOTH);
    let error = client.pull(REGISTRY).await.expect_err("a login is needed");
    assert_eq!(error.reason(), "LoginNeeded");
    assert!(error.to_string().contains("credentials for elsewhere.example.com"), "{error}");
}

/// Credentials for the registry and for the server elsewhere.
fn logins_for_both(elsewhere: &str) -> RegistryOptions {
    let login = |password: &str| Login::new("ann", password).expect("valid");
    let credentials = Credentials::default().with(BOTH[0], login("secret")).with(BOTH[1], login(elsewhere));
    RegistryOptions { credentials, ..RegistryOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn a_token_server_elsewhere_with_the_same_login_gets_the_password() {
    let world = wanting_token("https://elsewhere.example.com/token");
    world.reply(TOKEN_LINE, Reply::ok("application/json", br#"{"token": "t0k3n"}"#));
    let client = Client::with_tls(world, logins_for_both("secret"), &BOTH);
    client.pull(REGISTRY).await.expect("it is honest");
    assert_eq!(basics(&client.world), ["93.184.216.20:443"; 2]);
}

/// A registry that names the token server of another one would get a token that is good at the other one.
#[tokio::test(start_paused = true)]
async fn a_registry_gets_no_token_for_a_login_at_another_registry() {
    let none = login_for("elsewhere.example.com");
    for options in [none, logins_for_both("another")] {
        let world = wanting_token("https://elsewhere.example.com/token");
        world.reply(TOKEN_LINE, Reply::new("401 Unauthorized", "", b""));
        let client = Client::with_tls(world, options, &BOTH);
        let error = client.pull(REGISTRY).await.expect_err("a login is needed");
        assert!(error.to_string().contains("the same login as for registry.example.com"), "{error}");
        assert_eq!(basics(&client.world), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_registry_cannot_aim_at_a_private_server_with_another_login() {
    let world = wanting_token("https://private.example.com/token");
    let client = Client::with_tls(world, login_for("private.example.com"), &[BOTH[0], "private.example.com"]);
    assert_eq!(client.refusal(REGISTRY).await, "AddressRefused");
}

#[tokio::test(start_paused = true)]
async fn token_servers_must_be_public_use_https_and_answer_with_a_token() {
    let ok = |body: &[u8]| Reply::ok("application/json", body);
    for (realm, reply, expected) in [
        ("http://elsewhere.example.com/token", ok(b"{}"), "RedirectRefused"),
        ("https://169.254.169.254/token", ok(b"{}"), "AddressRefused"),
        ("https://private.example.com/token", ok(b"{}"), "AddressRefused"),
        ("https://elsewhere.example.com/token", ok(b"{}"), "NoToken"),
        ("https://elsewhere.example.com/token", ok(b"<html>"), "NoToken"),
        ("https://elsewhere.example.com/token", ok(br#"{"token": "a\r\nb"}"#), "NoToken"),
        ("https://elsewhere.example.com/token", ok(br#"{"token": ""}"#), "NoToken"),
        ("https://elsewhere.example.com/token", Reply::new("500 No", "", b""), "NoToken"),
        ("https://elsewhere.example.com/token", Reply::redirect("https://169.254.169.254/"), "NoToken"),
        ("https://elsewhere.example.com/token", Reply::open("200 OK", "", b"").then(Then::Endless), "TooLarge"),
        ("ftp://elsewhere.example.com/token", ok(b"{}"), "UnknownChallenge"),
    ] {
        let world = wanting_token(realm);
        world.reply(TOKEN_LINE, reply);
        let client = Client::with_tls(world, RegistryOptions::default(), &BOTH);
        assert_eq!(client.refusal(REGISTRY).await, expected, "{realm}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_refuses_every_login_is_asked_twice() {
    let line = "GET /v2/shop/manifests/1";
    for (challenge, options, expected, asked) in [
        ("Basic realm=\"x\"", login_for("registry.example.com"), "LoginRefused", 2),
        ("Basic realm=\"x\"", login_for("elsewhere.example.com"), "LoginNeeded", 1),
        ("Basic realm=\"x\"", RegistryOptions::default(), "LoginNeeded", 1),
        ("Negotiate", login_for("registry.example.com"), "UnknownChallenge", 1),
    ] {
        let world = World::honest();
        world.reply(line, Reply::new("401 Unauthorized", &format!("Www-Authenticate: {challenge}\r\n"), b""));
        let client = Client::with_tls(world, options, &BOTH);
        assert_eq!(client.refusal(REGISTRY).await, expected, "{challenge}");
        assert_eq!(client.world.seen().len(), asked, "{challenge}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_tls_a_password_goes_only_to_this_machine() {
    let world = World::honest();
    let challenge = "Www-Authenticate: Basic realm=\"x\"\r\n";
    let (manifest, _) = plugin();
    let line = "GET /v2/shop/manifests/1";
    world.replies_to(line, vec![Reply::new("401 No", challenge, b""), Reply::ok(MANIFEST_TYPE, &manifest)]);
    let named = PlainHttp::Named("registry.example.com".to_owned());
    let options = RegistryOptions { plain_http: named, ..login_for("registry.example.com") };
    assert_eq!(Client::with(&world, options).refusal(REGISTRY).await, "PasswordUnencrypted");
    assert_eq!(basics(&world), Vec::<String>::new());

    world.replies_to(line, vec![Reply::new("401 No", challenge, b""), Reply::ok(MANIFEST_TYPE, &manifest)]);
    let options = RegistryOptions { plain_http: PlainHttp::OnThisMachine, ..login_for("localhost:5000") };
    Client::with(&world, options).pull("oci://localhost:5000/shop:1").await.expect("it is on this machine");
    assert_eq!(basics(&world), ["127.0.0.1:5000"; 2]);
}

#[tokio::test(start_paused = true)]
async fn plain_http_reaches_only_this_machine_unless_the_registry_is_named() {
    let options = |plain_http| RegistryOptions { plain_http, ..RegistryOptions::default() };
    let world = World::honest();
    let refused = Client::with(&world, options(PlainHttp::OnThisMachine)).refusal(REGISTRY).await;
    assert_eq!((refused, world.seen().len()), ("AddressRefused", 0));
    let other = options(PlainHttp::Named("elsewhere.example.com".to_owned()));
    let refused = Client::with(&world, other).refusal(REGISTRY).await;
    // The server waits for a request, and gets the beginning of TLS.
    assert_eq!((refused, world.seen().len()), ("TimedOut", 0));
    let named = options(PlainHttp::Named("registry.example.com".to_owned()));
    Client::with(&world, named).pull(REGISTRY).await.expect("it was named");
}
