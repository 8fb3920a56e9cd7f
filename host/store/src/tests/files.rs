//! Files that were damaged, and the bounds of the directory.

use std::os::unix::fs::PermissionsExt as _;

use crate::StoreError;

use super::*;

fn in_use(digests: &[&str]) -> HashSet<ContentDigest> {
    digests.iter().map(|text| digest(text)).collect()
}

/// Fetches a plugin with the component `id` of `bytes` bytes. Returns the digest of its manifest.
async fn fetched(client: &Client, id: u8, bytes: usize) -> String {
    let digest = client.servers.has(&component(id, bytes));
    client.fetch(&by_tag()).await.expect("it is honest");
    digest
}

/// Gives each manifest another time, in the order of `digests`, because they were stored within one.
fn aged(client: &Client, digests: &[&str]) {
    let folder = client.directory.path().join("manifests");
    for (file, age) in list(&folder).into_iter().filter_map(|file| {
        let at = digests.iter().position(|it| file.contains(it.trim_start_matches("sha256:")));
        at.map(|at| (file, at))
    }) {
        let time = std::time::UNIX_EPOCH + Duration::from_secs(1000 + age as u64);
        let file = std::fs::File::options().write(true).open(folder.join(file)).expect("it is there");
        file.set_modified(time).expect("touched");
    }
}

/// Makes a named pipe, which no host can read.
fn pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
}

/// The digests that are in the store.
fn there(client: &Client, digests: &[&str]) -> Vec<usize> {
    let image = by_tag().parse().expect("a reference");
    let is_there = |text: &str| client.store.stored(&FetchScope::Cluster, &image, &digest(text)).is_some();
    (0..digests.len()).filter(|at| is_there(digests[*at])).collect()
}

#[tokio::test(start_paused = true)]
async fn a_damaged_component_is_noticed_and_fetched_again() {
    for is_restarted in [false, true] {
        for damage in [&b"\0asm\x0d\0\x01\0 and so oN"[..], b"", b"\0asm\x0d\0\x01\0 and so on and more"] {
            let client = Client::of(&LyingServers::honest());
            let fetched = client.fetch(&by_tag()).await.expect("it is honest");
            std::fs::write(&fetched.path, damage).expect("written");
            let client = if is_restarted { client.reopened() } else { client };
            let before = client.requests();
            let again = client.fetch(&by_digest(fetched.digest.as_str())).await.expect("it is honest");
            assert_eq!(std::fs::read(&again.path).expect("it is there"), COMPONENT);
            assert_eq!(client.requests(), before + 2, "it is fetched again");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_is_not_what_its_name_says_is_not_believed() {
    let client = Client::of(&LyingServers::honest());
    let first = client.fetch(&by_tag()).await.expect("it is honest").digest;
    let evil = client.servers.has(&component(1, 100));
    client.fetch(&by_tag()).await.expect("it is honest");
    let folder = client.directory.path().join("manifests");
    let file = |digest: &str| {
        let name = list(&folder).into_iter().find(|file| file.contains(digest.trim_start_matches("sha256:")));
        folder.join(name.expect("it is there"))
    };
    std::fs::copy(file(&evil), file(first.as_str())).expect("copied");
    assert_eq!(there(&client, &[first.as_str(), &evil]), [1]);
    std::fs::write(folder.join("other.json"), "{}").expect("written");
    let client = client.reopened();
    assert_eq!(list(&folder).len(), 1, "both are removed");
    assert_eq!(list(&client.directory.path().join("components")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn plugins_not_in_use_stay_within_their_bounds_and_others_stay() {
    let limits = StoreLimits { unused_plugins: 2, unused_bytes: 10_000, ..StoreLimits::default() };
    let client = Client::limited(&LyingServers::default(), limits);
    let mut digests = Vec::new();
    for id in 0..5 {
        digests.push(fetched(&client, id, 1000).await);
    }
    let digests: Vec<&str> = digests.iter().map(String::as_str).collect();
    aged(&client, &digests);
    assert_eq!(there(&client, &digests).len(), 5, "nothing is removed before the host says what it uses");
    let collected = client.store.retain(&in_use(&[digests[0], digests[1]])).expect("removed");
    assert_eq!((collected.plugins, collected.bytes), (1, 1000));
    assert_eq!(there(&client, &digests), [0, 1, 3, 4]);
    // The use of the first one ends now, so it was used last.
    client.store.retain(&in_use(&[digests[1]])).expect("removed");
    assert_eq!(there(&client, &digests), [0, 1, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_was_just_fetched_stays_until_it_is_dropped() {
    let limits = StoreLimits { unused_plugins: 0, ..StoreLimits::default() };
    let client = Client::limited(&LyingServers::honest(), limits);
    let stored = client.fetch(&by_tag()).await.expect("it is honest");
    let clone = stored.clone();
    drop(stored);
    client.store.retain(&HashSet::new()).expect("nothing to remove");
    assert!(clone.path.exists());
    drop(clone);
    assert_eq!(client.store.retain(&HashSet::new()).expect("removed").plugins, 1);
    assert_eq!(client.files(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_full_store_makes_room_from_what_is_not_in_use_and_else_says_so() {
    let client = Client::limited(&LyingServers::default(), StoreLimits { bytes: 4000, ..StoreLimits::default() });
    let used = fetched(&client, 1, 1000).await;
    let unused = fetched(&client, 2, 1000).await;
    client.servers.has(&component(3, 1500));
    let error = client.fetch(&by_tag()).await.expect_err("the host has not said what it uses");
    assert_eq!((error.reason(), error.is_final()), ("StoreFull", false));
    client.store.retain(&in_use(&[&used])).expect("all fit");
    client.fetch(&by_tag()).await.expect("there is room without the unused one");
    assert_eq!(there(&client, &[&used, &unused]), [0]);
    client.servers.has(&component(4, 2600));
    let before = client.requests();
    let error = client.fetch(&by_tag()).await.expect_err("there is no room beside the plugin in use");
    let directory = client.directory.path().display().to_string();
    assert!(error.to_string().contains(&directory) && error.to_string().contains("4000 bytes"), "{error}");
    assert_eq!(client.requests(), before + 1, "the component is not asked for");
}

/// Pulls in progress count, too: together they cannot fill the disk.
#[tokio::test(start_paused = true)]
async fn concurrent_pulls_share_the_room_that_is_left() {
    let servers = LyingServers::default();
    servers.has(&component(1, 1500));
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1500\r\n\r\n\0asm";
    servers.reply(&blob_path(&component(1, 1500)), Reply::raw(head).then(Then::Hang));
    let client = Client::limited(&servers, StoreLimits { bytes: 3500, ..StoreLimits::default() });
    let (store, first) = (client.store.clone(), wanted(&by_tag()));
    let hanging = tokio::spawn(async move { store.fetch(&first).await.map(|stored| stored.bytes) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = by_digest(&servers.has(&component(2, 1500)));
    assert_eq!(client.fetch(&second).await.expect_err("no room").reason(), "StoreFull");
    assert!(hanging.await.expect("it ends").is_err(), "it hangs");
    client.fetch(&second).await.expect("the room is free again");
}

#[tokio::test(start_paused = true)]
async fn what_another_host_writes_or_has_written_is_left_and_found() {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n\0asm", COMPONENT.len());
    let client = Client::of(&LyingServers::with_component(Reply::raw(head).then(Then::Hang)));
    let (store, first) = (client.store.clone(), wanted(&by_tag()));
    let pulling = tokio::spawn(async move { store.fetch(&first).await.map(|stored| stored.bytes) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let unfinished = client.directory.path().join("unfinished");
    assert_eq!(list(&unfinished).len(), 1);
    std::fs::write(unfinished.join("0"), "of a host that has stopped").expect("written");
    client.servers.has(COMPONENT);
    let other = open(client.directory.path(), &client.servers, StoreLimits::default(), Arc::new(SystemDisk));
    assert_eq!(list(&unfinished).len(), 1, "only the one that a host writes stays");
    let stored = other.fetch(&wanted(&by_tag())).await.expect("it is honest");
    let image = by_tag().parse().expect("a reference");
    let found = client.store.stored(&FetchScope::Cluster, &image, &stored.digest);
    assert_eq!(found.expect("the other host has stored it").path, stored.path);
    assert!(pulling.await.expect("it ends").is_err());
    assert_eq!(list(&unfinished), Vec::<String>::new());
}

/// The manifest may be one of a plugin in use, so its component is no orphan.
#[tokio::test(start_paused = true)]
async fn a_manifest_that_cannot_be_read_costs_no_plugin() {
    let client = Client::of(&LyingServers::honest());
    let stored = client.fetch(&by_tag()).await.expect("it is honest");
    let folder = client.directory.path().join("manifests");
    let file = folder.join(&list(&folder)[0]);
    let bytes = std::fs::read(&file).expect("it is there");
    std::fs::remove_file(&file).expect("removed");
    pipe(&file);
    let path = stored.path.clone();
    drop(stored);
    let client = client.reopened();
    client.store.retain(&HashSet::new()).expect("it removes nothing");
    assert!(path.exists());
    assert_eq!(client.fetch(&by_tag()).await.expect_err("it may be full").reason(), "CannotWrite");
    std::fs::remove_file(&file).expect("removed");
    std::fs::write(&file, bytes).expect("written");
    client.fetch(&by_tag()).await.expect("it is honest");
}

/// A running plugin has a link to the file, so a copy would take its room once more.
#[tokio::test(start_paused = true)]
async fn a_component_that_is_there_is_not_replaced_by_another_tenants_copy() {
    use std::os::unix::fs::MetadataExt as _;
    let client = Client::of(&LyingServers::honest());
    let inode = |stored: Stored| std::fs::metadata(stored.path).expect("it is there").ino();
    let first = client.fetch(&by_tag()).await.expect("it is honest");
    // Whatever is looked up has been verified.
    let image = by_tag().parse().expect("a reference");
    assert!(client.store.stored(&FetchScope::Cluster, &image, &first.digest).is_some());
    let scope = FetchScope::Namespace("tenant".to_owned());
    let second = client.store.fetch(&WantedPlugin { scope, ..wanted(&by_tag()) }).await.expect("it is honest");
    assert_eq!(inode(first), inode(second));
    assert_eq!(list(&client.directory.path().join("unfinished")), Vec::<String>::new());
}

/// Between the look at a shared component and its use, the host says that it uses nothing.
#[tokio::test(start_paused = true)]
async fn a_component_that_a_fetch_builds_on_is_not_removed_meanwhile() {
    let client = Client::of(&LyingServers::honest());
    let first = client.fetch(&by_tag()).await.expect("it is honest");
    let image = by_tag().parse().expect("a reference");
    let name = crate::names::StoredName::new(&FetchScope::Cluster, &image, &first.digest);
    let bytes = windlass_lying_registry::plugin_of(COMPONENT).0;
    let plugin = windlass_oci::ManifestBytes::new(bytes.into()).read(&StoreLimits::default().registry).expect("valid");
    drop(first);
    let limits = StoreLimits { unused_plugins: 0, ..StoreLimits::default() };
    let shelf = crate::shelf::Shelf::open(client.directory.path(), limits, Arc::new(SystemDisk)).expect("opened");
    let held = shelf.hold_component(&name, &plugin).expect("read");
    assert!(held.is_some());
    assert_eq!(shelf.retain(&HashSet::new()).expect("nothing to remove").plugins, 0);
    drop(held);
    assert_eq!(shelf.retain(&HashSet::new()).expect("removed").plugins, 1);
    assert!(shelf.hold_component(&name, &plugin).expect("read").is_none());
}

/// The operator has lowered the limit.
#[tokio::test(start_paused = true)]
async fn plugins_in_use_beyond_a_lowered_limit_stay_alone() {
    let client = Client::of(&LyingServers::default());
    let used = fetched(&client, 1, 1000).await;
    let unused = fetched(&client, 2, 1000).await;
    let limits = StoreLimits { bytes: 500, ..StoreLimits::default() };
    let store = open(client.directory.path(), &client.servers, limits, Arc::new(SystemDisk));
    assert_eq!(store.retain(&in_use(&[&used])).expect("removed").plugins, 1);
    assert_eq!(there(&client, &[&used, &unused]), [0]);
}

#[test]
fn a_directory_where_others_may_write_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = |path: &Path| PluginStore::open(path, StoreLimits::default(), network(&LyingServers::default()));
    let at = directory.path().join("store");
    assert!(open(&at).is_ok(), "it is created");
    let mode = std::fs::metadata(&at).expect("metadata").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    std::fs::set_permissions(at.join("manifests"), std::fs::Permissions::from_mode(0o777)).expect("changed");
    assert!(matches!(open(&at), Err(StoreError::Unsafe { .. })));
    std::fs::write(directory.path().join("file"), "").expect("written");
    assert!(matches!(open(&directory.path().join("file")), Err(StoreError::Use { .. })));
}

#[tokio::test(start_paused = true)]
async fn special_files_in_the_place_of_plugins_do_not_stop_the_host() {
    let client = Client::of(&LyingServers::honest());
    let stored = client.fetch(&by_tag()).await.expect("it is honest");
    std::fs::remove_file(&stored.path).expect("removed");
    pipe(&stored.path);
    assert_eq!(there(&client, &[stored.digest.as_str()]), Vec::<usize>::new());
    pipe(&client.directory.path().join("unfinished/0"));
    let client = client.reopened();
    client.fetch(&by_tag()).await.expect("it replaces the pipe");
    assert_eq!(std::fs::read(client.component_file(COMPONENT)).expect("it is there"), COMPONENT);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_removed_takes_plugins_again() {
    let client = Client::of(&LyingServers::honest());
    let first = client.fetch(&by_tag()).await.expect("it is honest");
    for removed in ["manifests", "components", "unfinished"] {
        std::fs::remove_dir_all(client.directory.path().join(removed)).expect("it is there");
    }
    let again = client.fetch(&by_digest(first.digest.as_str())).await.expect("the folders are made again");
    assert_eq!(std::fs::read(&again.path).expect("it is there"), COMPONENT);
    std::fs::remove_dir_all(client.directory.path()).expect("it is there");
    client.store.retain(&HashSet::new()).expect("there is nothing to remove");
    client.fetch(&by_tag()).await.expect("the directory is made again");
}
