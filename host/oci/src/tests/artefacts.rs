//! Artefacts that are no plugins, and contents that are not what they are stated to be.

use super::*;

/// The manifest with another value at `pointer`.
fn altered(pointer: &str, value: Value) -> World {
    let mut manifest = manifest();
    *manifest.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is there")) = value;
    World::with_manifest(&manifest)
}

fn with_manifest_reply(reply: Reply) -> World {
    let world = World::honest();
    world.reply("GET /v2/shop/manifests/1", reply);
    world
}

/// An artefact of another kind is refused before any of its contents is asked for.
#[tokio::test(start_paused = true)]
async fn artefacts_that_are_no_plugins_are_refused_before_they_are_read() {
    let layer = || manifest()["layers"][0].clone();
    let digits = "0".repeat(128);
    let index = "application/vnd.oci.image.index.v1+json";
    let inner = json!({"mediaType": index, "digest": StatedContent::of(b"a").digest.as_str(), "size": 1});
    let of_index = json!({"schemaVersion": 2, "mediaType": index, "manifests": [inner]});
    let unnamed = json!({"schemaVersion": 2, "manifests": []});
    let cases = [
        ("a tar", "Archive", altered("/layers/0/mediaType", json!("application/vnd.oci.image.layer.v1.tar"))),
        ("gzip", "Archive", altered("/layers/0/mediaType", json!("application/vnd.oci.image.layer.v1.tar+gzip"))),
        (
            "a layer of docker",
            "Archive",
            altered(
                "/layers",
                json!([
                    {"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "digest": "sha256:0", "size": 1},
                    layer(),
                ]),
            ),
        ),
        ("another layer", "OtherMediaType", altered("/layers/0/mediaType", json!("application/octet-stream"))),
        ("another config", "OtherMediaType", altered("/config/mediaType", json!("application/vnd.oci.empty.v1+json"))),
        ("two layers", "NotOneLayer", altered("/layers", json!([layer(), layer()]))),
        ("no layer", "NotOneLayer", altered("/layers", json!([]))),
        ("an index of an index", "Index", with_manifest_reply(Reply::ok(index, of_index.to_string().as_bytes()))),
        ("an index as a manifest", "Index", World::with_manifest(&of_index)),
        ("an index without a type", "Index", World::with_manifest(&unnamed)),
        ("a manifest of docker", "OtherMediaType", altered("/mediaType", json!("application/vnd.docker.x+json"))),
        ("another answer", "OtherMediaType", with_manifest_reply(Reply::ok("text/html", b"<html>"))),
        ("no type of the answer", "OtherMediaType", with_manifest_reply(Reply::new("200 OK", "", b"{}"))),
        ("sha512", "OtherDigest", altered("/layers/0/digest", json!(format!("sha512:{digits}")))),
        ("md5 for the config", "OtherDigest", altered("/config/digest", json!("md5:00000000000000000000000000000000"))),
        ("a path as a digest", "OtherDigest", altered("/layers/0/digest", json!("sha256:../../../etc/passwd"))),
        ("another place", "ForeignUrls", {
            let mut layer = layer();
            layer["urls"] = json!(["https://elsewhere.example.com/a"]);
            altered("/layers", json!([layer]))
        }),
        ("a stated size beyond the limit", "TooLarge", altered("/layers/0/size", json!((64_u64 << 20) + 1))),
        ("a huge size", "TooLarge", altered("/layers/0/size", json!(u64::MAX))),
        ("a negative size", "Malformed", altered("/layers/0/size", json!(-1))),
        ("a huge config", "TooLarge", altered("/config/size", json!(9 << 20))),
        ("another schema", "Malformed", altered("/schemaVersion", json!(1))),
        ("no JSON", "Malformed", with_manifest_reply(Reply::ok(MANIFEST_TYPE, b"{\"schemaVersion\": 2"))),
        ("nested JSON", "Malformed", with_manifest_reply(Reply::ok(MANIFEST_TYPE, "[".repeat(100_000).as_bytes()))),
    ];
    for (name, expected, world) in cases {
        assert_eq!(refusal(&world).await, expected, "{name}");
        let asked = world.seen();
        assert_eq!(asked.len(), 1, "{name}: no content is asked for: {asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_with_a_manifest_are_bounded_and_must_match_its_digest() {
    let (manifest, _) = plugin();
    let typed = format!("Content-Type: {MANIFEST_TYPE}\r\n");
    let big = vec![b' '; (1 << 20) + 1];
    let chunked = format!("{typed}Transfer-Encoding: chunked\r\n");
    let tiny = "1\r\n \r\n".repeat(2 << 20);
    let other = format!("{typed}Docker-Content-Digest: {}\r\n", StatedContent::of(b"a").digest);
    let gzip = format!("{typed}Content-Encoding: gzip\r\n");
    for (name, expected, reply) in [
        ("oversized", "TooLarge", Reply::ok(MANIFEST_TYPE, &big)),
        ("oversized, unstated", "TooLarge", Reply::open("200 OK", &typed, &big)),
        ("endless", "TooLarge", Reply::open("200 OK", &typed, b"").then(Then::Endless)),
        ("tiny chunks", "TooMuchOverhead", Reply::open("200 OK", &chunked, tiny.as_bytes())),
        ("another digest", "DigestMismatch", Reply::new("200 OK", &other, &manifest)),
        ("compressed", "Compressed", Reply::new("200 OK", &gzip, &[0x1f, 0x8b, 8, 0])),
    ] {
        assert_eq!(refusal(&with_manifest_reply(reply)).await, expected, "{name}");
    }
    let digest = StatedContent::of(b"another").digest;
    let world = World::honest();
    world.reply(&format!("GET /v2/shop/manifests/{digest}"), Reply::ok(MANIFEST_TYPE, &manifest));
    let asked = format!("oci://{LOCAL}/shop@{digest}");
    assert_eq!(Client::of(&world).refusal(&asked).await, "DigestMismatch");
    let digest = StatedContent::of(&manifest).digest;
    world.reply(&format!("GET /v2/shop/manifests/{digest}"), Reply::ok(MANIFEST_TYPE, &manifest));
    assert_eq!(Client::of(&world).refusal(&format!("oci://{LOCAL}/shop@{digest}")).await, "pulled");
}

#[tokio::test(start_paused = true)]
async fn a_component_must_have_its_stated_length_and_digest() {
    let changed: Vec<u8> = COMPONENT.iter().rev().copied().collect();
    let mut same_start = COMPONENT.to_vec();
    *same_start.last_mut().expect("not empty") ^= 1;
    let (half, longer) = (&COMPONENT[..8], [COMPONENT, b"x"].concat());
    let stated = |length: usize, body: &[u8]| Reply::open("200 OK", &format!("Content-Length: {length}\r\n"), body);
    for (name, expected, reply) in [
        ("another length", "LengthMismatch", stated(longer.len(), &longer)),
        ("shorter", "LengthMismatch", Reply::open("200 OK", "", half)),
        ("longer", "LengthMismatch", Reply::open("200 OK", "", &longer)),
        ("endless", "LengthMismatch", Reply::open("200 OK", "", COMPONENT).then(Then::Endless)),
        ("cut off", "BrokenAnswer", stated(COMPONENT.len(), half)),
        ("changed", "DigestMismatch", Reply::ok(LAYER_TYPE, &same_start)),
        ("no wasm", "NotWasm", Reply::ok(LAYER_TYPE, &changed)),
        ("a gzip bomb", "Compressed", Reply::new("200 OK", "Content-Encoding: gzip\r\n", COMPONENT)),
        ("gone", "NotFound", Reply::new("404 Not Found", "", b"")),
        ("a part", "UnexpectedStatus", Reply::new("206 Partial Content", "", half)),
    ] {
        assert_eq!(refusal(&World::with_component(reply)).await, expected, "{name}");
    }
}

/// The digest is right, but the contents are an archive: the media type has lied.
#[tokio::test(start_paused = true)]
async fn an_archive_under_the_type_of_a_component_is_refused() {
    for archive in
        [[0x1f, 0x8b, 8, 0].repeat(4), b"plugin.wasm\0\0\0\0\0".to_vec(), b"PK\x03\x04zip-zip-zip-".to_vec(), vec![]]
    {
        let stated = StatedContent::of(&archive);
        let mut manifest = manifest();
        manifest["layers"][0]["digest"] = json!(stated.digest.as_str());
        manifest["layers"][0]["size"] = json!(stated.size);
        let world = World::with_manifest(&manifest);
        world.reply(&blob_path(&archive), Reply::ok(LAYER_TYPE, &archive));
        assert_eq!(refusal(&world).await, "NotWasm");
    }
}

#[tokio::test(start_paused = true)]
async fn a_configuration_must_match_its_digest_and_be_json() {
    let (_, config) = plugin();
    let mut changed = config.clone();
    *changed.last_mut().expect("not empty") = b' ';
    let world = World::honest();
    world.reply(&blob_path(&config), Reply::ok(CONFIG_TYPE, &changed));
    assert_eq!(refusal(&world).await, "DigestMismatch");
    let other = b"no JSON";
    let mut manifest = manifest();
    manifest["config"]["digest"] = json!(StatedContent::of(other).digest.as_str());
    manifest["config"]["size"] = json!(other.len());
    let world = World::with_manifest(&manifest);
    world.reply(&blob_path(other), Reply::ok(CONFIG_TYPE, other));
    assert_eq!(refusal(&world).await, "Malformed");
}

#[tokio::test(start_paused = true)]
async fn a_failed_pull_leaves_the_file_that_was_there() {
    let client = Client::of(&World::with_component(Reply::open("200 OK", "", b"\0asm")));
    let path = client.folder.path().join("shop.wasm");
    std::fs::write(&path, "the last version").expect("written");
    let error = client.pull(&format!("oci://{LOCAL}/shop:1")).await.expect_err("it is cut off");
    assert_eq!((error.reason(), client.files()), ("LengthMismatch", vec!["shop.wasm".to_owned()]));
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "the last version");
    assert!(error.is_of_the_artefact());
}
