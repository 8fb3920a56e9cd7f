//! Pushes, and registries that lie to them.

use super::*;
use crate::PluginToPush;

const UPLOAD: &str = "POST /v2/shop/blobs/uploads/";

fn to_push() -> PluginToPush {
    let documents = Documents { manifest: json!({"name": "shop", "version": "1.0.0"}), ..Documents::default() };
    PluginToPush { component: COMPONENT.to_vec().into(), names: ComponentNames::default(), documents }
}

async fn push(world: &World) -> Result<String, OciError> {
    let reference = format!("oci://{LOCAL}/shop:1").parse().expect("valid");
    Client::of(world).registry.push(&reference, to_push(), None).await.map(|digest| digest.to_string())
}

/// A registry that has nothing, and takes uploads at `location`.
fn empty(location: &str) -> World {
    let world = World::default();
    world.reply(UPLOAD, Reply::new("202 Accepted", &format!("Location: {location}\r\n"), b""));
    for content in [COMPONENT, &plugin().1] {
        let digest = StatedContent::of(content).digest.as_str().replace(':', "%3A");
        world.reply(&format!("PUT /upload?state=1&digest={digest}"), Reply::new("201 Created", "", b""));
    }
    world.reply("PUT /v2/shop/manifests/1", Reply::new("201 Created", "", b""));
    world
}

fn lines(world: &World) -> Vec<String> {
    world.seen().iter().map(|request| request.line.split(['?', '@']).next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_push_sends_the_contents_before_the_manifest() {
    let world = empty("/upload?state=1");
    let digest = push(&world).await.expect("it is honest");
    assert_eq!(digest, StatedContent::of(&plugin().0).digest.to_string());
    let (component, config) = (blob_path(COMPONENT), blob_path(&plugin().1));
    let head = |path: &str| path.replace("GET", "HEAD");
    let upload = "PUT /upload".to_owned();
    let manifest = "PUT /v2/shop/manifests/1".to_owned();
    let expected =
        [head(&component), UPLOAD.to_owned(), upload.clone(), head(&config), UPLOAD.to_owned(), upload, manifest];
    assert_eq!(lines(&world), expected);
}

#[tokio::test(start_paused = true)]
async fn contents_that_the_registry_has_are_not_sent_again() {
    let world = empty("/upload?state=1");
    world.reply(&blob_path(COMPONENT).replace("GET", "HEAD"), Reply::open("200 OK", "Content-Length: 18\r\n", b""));
    push(&world).await.expect("it is honest");
    assert_eq!(lines(&world).iter().filter(|line| line.starts_with("PUT /upload")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_upload_goes_only_to_the_registry_itself() {
    for (location, expected) in [
        ("https://elsewhere.example.com/upload", "UploadElsewhere"),
        ("http://127.0.0.1:5001/upload?state=1", "UploadElsewhere"),
        ("https://127.0.0.1:5000/upload?state=1", "UploadElsewhere"),
        ("http://169.254.169.254/upload", "UploadElsewhere"),
        ("upload", "RedirectRefused"),
    ] {
        let world = empty(location);
        assert_eq!(push(&world).await.expect_err("elsewhere").reason(), expected, "{location}");
        assert_eq!(world.seen().len(), 2, "{location}");
    }
    push(&empty("http://127.0.0.1:5000/upload?state=1")).await.expect("it is the registry");
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_does_not_take_a_content_ends_the_push() {
    for (line, status, expected) in [
        (UPLOAD, "200 OK", "UnexpectedStatus"),
        (UPLOAD, "403 Forbidden", "LoginRefused"),
        (UPLOAD, "404 Not Found", "NotFound"),
        ("PUT /v2/shop/manifests/1", "400 Bad Request", "UnexpectedStatus"),
        ("PUT /v2/shop/manifests/1", "202 Accepted", "UnexpectedStatus"),
    ] {
        let world = empty("/upload?state=1");
        world.reply(line, Reply::new(status, "", b"{\"errors\": []}"));
        assert_eq!(push(&world).await.expect_err(status).reason(), expected, "{line} {status}");
    }
}
