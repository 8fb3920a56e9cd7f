//! Fetches at the same time, and the places for pulls.

use futures::future::join_all;
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn fetches_of_one_plugin_at_the_same_time_are_one_pull() {
    let servers = LyingServers::default();
    let image = by_digest(&servers.has(COMPONENT));
    let client = Client::of(&servers);
    let fetched = join_all((0..50).map(|_| client.fetch(&image))).await;
    assert!(fetched.iter().all(Result::is_ok));
    assert_eq!(client.requests(), 2);
    servers.reply(&blob_path(COMPONENT), Reply::new("500 No", "", b""));
    let client = Client::of(&servers);
    let failed = join_all((0..50).map(|_| client.fetch(&image))).await;
    assert!(failed.iter().all(Result::is_err));
    assert_eq!(client.requests(), 4, "they share a failure, too");
}

/// A user who moves a tag and then edits the object must not get the answer to an earlier question.
#[tokio::test(start_paused = true)]
async fn a_fetch_by_tag_never_gets_a_digest_that_was_resolved_before() {
    let servers = LyingServers::honest();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n\0asm", COMPONENT.len());
    servers.reply(&blob_path(COMPONENT), Reply::raw(head).then(Then::Hang));
    let client = Client::of(&servers);
    let earlier = tokio::spawn(fetch(client.store.clone(), wanted(&by_tag())));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let moved = servers.has(&component(1, 100));
    let stored = client.fetch(&by_tag()).await.expect("it is honest");
    assert_eq!(stored.digest.as_str(), moved);
    assert!(earlier.await.expect("it ends").is_err());
}

async fn fetch(store: PluginStore, wanted: WantedPlugin) -> Result<Stored, FetchError> {
    store.fetch(&wanted).await
}

#[tokio::test(start_paused = true)]
async fn fetches_of_one_digest_with_other_settings_pull_its_component_once() {
    let servers = LyingServers::honest();
    let digest = servers.has(COMPONENT);
    let client = Client::of(&servers);
    let other = WantedPlugin {
        addresses: crate::AddressPolicy { registries: Some(vec![LOCAL.to_owned()]), ..crate::AddressPolicy::any() },
        ..wanted(&by_tag())
    };
    let all = [wanted(&by_tag()), wanted(&by_digest(&digest)), other];
    let fetched = join_all(all.map(|wanted| fetch(client.store.clone(), wanted))).await;
    assert!(fetched.iter().all(Result::is_ok));
    let component = blob_path(COMPONENT);
    assert_eq!(client.servers.seen().iter().filter(|it| it.line == component).count(), 1);
}

/// A fetch that was given up does not take the others with it.
#[tokio::test(start_paused = true)]
async fn a_dropped_fetch_leaves_the_pull_to_those_that_still_wait() {
    let servers = LyingServers::default();
    let image = by_digest(&servers.has(COMPONENT));
    let client = Client::of(&servers);
    let first = tokio::spawn(fetch(client.store.clone(), wanted(&image)));
    let second = tokio::spawn(fetch(client.store.clone(), wanted(&image)));
    tokio::task::yield_now().await;
    first.abort();
    second.await.expect("it ends").expect("it is honest");
    assert_eq!(client.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_pull_ends_and_leaves_nothing() {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n\0asm", COMPONENT.len());
    let servers = LyingServers::with_component(Reply::raw(head).then(Then::Hang));
    let client = Client::of(&servers);
    let given_up = tokio::time::timeout(Duration::from_secs(1), client.fetch(&by_tag())).await;
    assert!(given_up.is_err());
    assert_eq!(client.files(), Vec::<String>::new());
    servers.has(COMPONENT);
    client.fetch(&by_tag()).await.expect("it may be fetched again");
}

/// A server that says nothing holds its own places only.
#[tokio::test(start_paused = true)]
async fn a_hanging_registry_leaves_places_for_others() {
    let servers = LyingServers::honest();
    servers.reply("GET /v2/hangs/manifests/1", Reply::raw("").then(Then::Hang));
    let client = Client::limited(&servers, StoreLimits { pulls: 3, pulls_per_server: 2, ..StoreLimits::default() });
    let began = Instant::now();
    let hanging: Vec<_> = (0..6)
        .map(|id| {
            let scope = FetchScope::Namespace(id.to_string());
            let wanted = WantedPlugin { scope, ..wanted("oci://127.0.0.3:5000/hangs:1") };
            tokio::spawn(fetch(client.store.clone(), wanted))
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    client.fetch(&by_tag()).await.expect("it is honest");
    assert!(began.elapsed() < Duration::from_secs(1), "it waited for others: {:?}", began.elapsed());
    let ended = join_all(hanging).await;
    assert!(ended.into_iter().all(|it| it.expect("it ends").is_err_and(|error| error.reason() == "TimedOut")));
    assert_eq!(began.elapsed().as_secs(), 90, "two at a time");
}

#[tokio::test(start_paused = true)]
async fn few_pulls_run_at_once_from_all_servers_together() {
    let servers = LyingServers::default();
    servers.reply("GET /v2/hangs/manifests/1", Reply::raw("").then(Then::Hang));
    let client = Client::limited(&servers, StoreLimits { pulls: 2, ..StoreLimits::default() });
    let began = Instant::now();
    let images: Vec<_> = (1..=6).map(|id| format!("oci://127.0.0.{id}:5000/hangs:1")).collect();
    let ended = join_all(images.iter().map(|image| client.fetch(image))).await;
    assert!(ended.iter().all(Result::is_err));
    assert_eq!(began.elapsed().as_secs(), 90, "two at a time");
}

/// The schedule waits instead, without a place for a pull.
#[tokio::test(start_paused = true)]
async fn a_busy_registry_is_not_waited_for_during_a_pull() {
    let servers = LyingServers::default();
    servers.reply(FIRST, Reply::new("429 Too Many Requests", "Retry-After: 20\r\n", b""));
    let began = Instant::now();
    let error = Client::of(&servers).fetch(&by_tag()).await.expect_err("it is busy");
    assert_eq!((error.retry_after(), began.elapsed().as_secs()), (Some(Duration::from_secs(20)), 0));
}

/// A repository's second version with the same component needs only its manifest.
#[tokio::test(start_paused = true)]
async fn a_component_of_the_same_repository_is_not_pulled_again() {
    let servers = LyingServers::honest();
    let client = Client::of(&servers);
    client.fetch(&by_tag()).await.expect("it is honest");
    let mut manifest = windlass_lying_registry::manifest();
    manifest["annotations"]["org.opencontainers.image.version"] = "1.0.1".into();
    let bytes = manifest.to_string();
    let line = format!("GET /v2/shop/manifests/{}", digest_of(bytes.as_bytes()));
    servers.reply(&line, Reply::ok("application/vnd.oci.image.manifest.v1+json", bytes.as_bytes()));
    let stored = client.fetch(&by_digest(&digest_of(bytes.as_bytes()))).await.expect("it is honest");
    assert_eq!((client.requests(), std::fs::read(stored.path).expect("there").as_slice()), (3, COMPONENT));
}
