//! Lists and watches over HTTP: pages, selectors, resource versions, bookmarks, expiry.

mod support;

use http::StatusCode;
use serde_json::json;
use support::{CONFIG_MAPS, Cluster, MERGE, config_map, version_of};
use windlass_apiserver::{Config, StandIns};

async fn with_config_maps(names: &[&str]) -> Cluster {
    let cluster = Cluster::quiet().await;
    for name in names {
        cluster.post(CONFIG_MAPS, &config_map(name)).await.expect(StatusCode::CREATED);
    }
    cluster
}

fn names(list: &serde_json::Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn all_pages_show_the_same_state() {
    let cluster = with_config_maps(&["a", "b", "c"]).await;
    let first = cluster.get(&format!("{CONFIG_MAPS}?limit=2")).await.expect(StatusCode::OK);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    cluster.delete(&format!("{CONFIG_MAPS}/c")).await.expect(StatusCode::OK);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let next = format!("{CONFIG_MAPS}?limit=2&continue={token}");
    let second = cluster.get(&next).await.expect(StatusCode::OK);
    assert_eq!(names(&second), ["c"]);
    assert_eq!(version_of(&second), version_of(&first));
    cluster.server.compact();
    let expired = cluster.get(&next).await;
    let token = expired.body["metadata"]["continue"].as_str().expect("a token").to_owned();
    assert!(expired.refused(410, "Expired").starts_with("The provided continue parameter is too old"));
    // The new token continues with the current state.
    cluster.post(CONFIG_MAPS, &config_map("d")).await.expect(StatusCode::CREATED);
    let rest = cluster.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(StatusCode::OK);
    assert_eq!(names(&rest), ["d"]);
}

#[tokio::test]
async fn a_page_of_a_selection_may_be_followed_by_an_empty_one() {
    let cluster = with_config_maps(&["a", "b"]).await;
    let labels = json!({ "metadata": { "labels": { "on": "yes" } } });
    cluster.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &labels).await.expect(StatusCode::OK);
    let path = format!("{CONFIG_MAPS}?limit=1&labelSelector=on");
    let first = cluster.get(&path).await.expect(StatusCode::OK);
    assert_eq!(names(&first), ["a"]);
    assert!(first["metadata"].get("remainingItemCount").is_none());
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let second = cluster.get(&format!("{path}&continue={token}")).await.expect(StatusCode::OK);
    assert!(names(&second).is_empty() && second["metadata"].get("continue").is_none());
}

#[tokio::test]
async fn an_exact_version_shows_the_state_at_that_version() {
    let cluster = with_config_maps(&["a", "c"]).await;
    let then = cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    cluster.post(CONFIG_MAPS, &config_map("b")).await.expect(StatusCode::CREATED);
    cluster.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &json!({ "data": { "a": "x" } })).await.expect(StatusCode::OK);
    cluster.delete(&format!("{CONFIG_MAPS}/c")).await.expect(StatusCode::OK);
    let version = version_of(&then);
    let exact = format!("{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(cluster.get(&exact).await.expect(StatusCode::OK), then);
    // With a limit the version is exact by default, and further pages show the same state.
    let first = cluster.get(&format!("{CONFIG_MAPS}?resourceVersion={version}&limit=1")).await.expect(StatusCode::OK);
    assert_eq!((names(&first), version_of(&first)), (vec!["a"], version));
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let second = cluster.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(StatusCode::OK);
    assert_eq!(second["items"][0], then["items"][1]);

    let now = cluster.get(&format!("{CONFIG_MAPS}?resourceVersion={version}")).await.expect(StatusCode::OK);
    assert_eq!(names(&now), ["a", "b"]);
    cluster.server.compact();
    let message = cluster.get(&exact).await.refused(410, "Expired");
    assert_eq!(message, "The resourceVersion for the provided list is too old.");
}

#[tokio::test]
async fn a_limit_is_ignored_with_version_zero() {
    let cluster = with_config_maps(&["a", "b"]).await;
    let list = cluster.get(&format!("{CONFIG_MAPS}?resourceVersion=0&limit=1")).await.expect(StatusCode::OK);
    assert_eq!(names(&list), ["a", "b"]);
    assert!(list["metadata"].get("continue").is_none());
}

#[tokio::test]
async fn objects_are_listed_in_the_order_of_their_storage_keys() {
    let cluster = with_config_maps(&["a"]).await;
    cluster
        .post("/api/v1/namespaces", &json!({ "metadata": { "name": "default-b" } }))
        .await
        .expect(StatusCode::CREATED);
    let path = CONFIG_MAPS.replace("default", "default-b");
    cluster.post(&path, &config_map("b")).await.expect(StatusCode::CREATED);
    let all = cluster.get("/api/v1/configmaps?fieldSelector=metadata.name!%3Dkube-root-ca.crt").await;
    assert_eq!(names(&all.expect(StatusCode::OK)), ["b", "a"]);
    assert_eq!(names(&cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK)), ["a"]);
}

#[tokio::test]
async fn the_deprecated_watch_paths_work() {
    let cluster = with_config_maps(&["a", "b"]).await;
    let old = CONFIG_MAPS.replace("/v1/", "/v1/watch/");
    let mut all = cluster.watch(&old).await;
    let mut one = cluster.watch(&format!("{old}/b")).await;
    assert_eq!((all.next_name().await.1, one.next_name().await.1), ("a".to_owned(), "b".to_owned()));
    let message = cluster.get(&format!("{old}/b?fieldSelector=metadata.name%3Da")).await.refused(400, "BadRequest");
    assert_eq!(message, "fieldSelector metadata.name doesn't match requested name");
    cluster.delete(&old).await.refused(405, "MethodNotAllowed");
    cluster.get(&format!("{old}/b/status")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn options_that_exclude_each_other_are_refused() {
    let cluster = with_config_maps(&[]).await;
    let forbidden = "ListOptions.meta.k8s.io \"\" is invalid: ";
    for (options, why) in [
        ("sendInitialEvents=false", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "resourceVersionMatch=Exact&continue=x",
            "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, \
             resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided]",
        ),
        (
            "watch=true&sendInitialEvents=x",
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "watch=true&resourceVersionMatch=Odd",
            "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is \
             provided, resourceVersionMatch: Unsupported value: \"Odd\": supported values: \"NotOlderThan\"]",
        ),
    ] {
        let message = cluster.get(&format!("{CONFIG_MAPS}?{options}")).await.refused(422, "Invalid");
        assert_eq!(message, format!("{forbidden}{why}"));
    }
}

#[tokio::test]
async fn an_option_that_should_be_a_number_is_read_as_go_does() {
    let cluster = with_config_maps(&[]).await;
    for (options, why) in [
        ("limit=x", "parsing \"x\": invalid syntax"),
        ("limit=", "parsing \"\": invalid syntax"),
        ("limit=99999999999999999999", "parsing \"99999999999999999999\": value out of range"),
        ("watch=true&timeoutSeconds=1.5", "parsing \"1.5\": invalid syntax"),
    ] {
        let message = cluster.get(&format!("{CONFIG_MAPS}?{options}")).await.refused(400, "BadRequest");
        assert_eq!(message, format!("strconv.ParseInt: {why}"));
    }
}

#[tokio::test]
async fn an_object_is_read_at_a_version_that_is_reached() {
    let cluster = with_config_maps(&["a"]).await;
    let path = format!("{CONFIG_MAPS}/a");
    for version in ["", "0", "1"] {
        cluster.get(&format!("{path}?resourceVersion={version}")).await.expect(StatusCode::OK);
    }
    let answer = cluster.get(&format!("{path}?resourceVersion=99999")).await;
    let causes = json!([{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }]);
    assert_eq!(answer.body["details"], json!({ "causes": causes, "retryAfterSeconds": 1 }));
    answer.refused(504, "Timeout");
    for path in [format!("{path}?resourceVersion=x"), format!("{CONFIG_MAPS}?watch=true&resourceVersion=x")] {
        let refused = cluster.get(&path).await.expect(StatusCode::INTERNAL_SERVER_ERROR);
        let why = "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax";
        assert_eq!(refused["message"], why);
    }
}

#[tokio::test]
async fn selectors_filter_lists_and_watches() {
    let cluster = with_config_maps(&["a", "b"]).await;
    let labels = json!({ "metadata": { "labels": { "tier": "front" } } });
    cluster.patch(&format!("{CONFIG_MAPS}/b"), MERGE, &labels).await.expect(StatusCode::OK);
    let by_label = cluster.get(&format!("{CONFIG_MAPS}?labelSelector=tier%20in%20(front,back)")).await;
    assert_eq!(names(&by_label.expect(StatusCode::OK)), ["b"]);
    let by_field = cluster.get(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name!%3Db")).await;
    assert_eq!(names(&by_field.expect(StatusCode::OK)), ["a"]);
    let message = cluster.get(&format!("{CONFIG_MAPS}?fieldSelector=data.a%3Db")).await.refused(400, "BadRequest");
    assert_eq!(message, "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
}

#[tokio::test]
async fn a_watch_resumes_after_a_version_without_gap() {
    let cluster = with_config_maps(&["a"]).await;
    let list = cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    cluster.post(CONFIG_MAPS, &config_map("b")).await.expect(StatusCode::CREATED);
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", version_of(&list));
    let mut watch = cluster.watch(&path).await;
    assert_eq!(watch.next_name().await, ("ADDED".to_owned(), "b".to_owned()));
    cluster.delete(&format!("{CONFIG_MAPS}/b")).await.expect(StatusCode::OK);
    let (kind, object) = watch.next().await.expect("the watch goes on");
    assert_eq!(kind, "DELETED");
    let number = |object| version_of(object).parse::<u64>().expect("a number");
    assert!(number(&object) > number(&list));
}

#[tokio::test]
async fn a_watch_shows_an_object_that_leaves_its_selector_as_deleted() {
    let cluster = with_config_maps(&[]).await;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=true&labelSelector=on%3Dyes")).await;
    let mut object = config_map("a");
    object["metadata"]["labels"] = json!({ "on": "yes" });
    cluster.post(CONFIG_MAPS, &object).await.expect(StatusCode::CREATED);
    assert_eq!(watch.next_name().await.0, "ADDED");
    let off = json!({ "metadata": { "labels": { "on": "no" } } });
    let changed = cluster.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &off).await.expect(StatusCode::OK);
    let (kind, last) = watch.next().await.expect("the watch goes on");
    assert_eq!((kind.as_str(), &last["metadata"]["labels"]["on"]), ("DELETED", &json!("yes")));
    assert_eq!(version_of(&last), version_of(&changed));
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let cluster = with_config_maps(&["a"]).await;
    let options = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?{options}")).await;
    assert_eq!(watch.next_name().await, ("ADDED".to_owned(), "a".to_owned()));
    let (kind, bookmark) = watch.next().await.expect("the watch goes on");
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    // A watch without a version also begins with the initial events by default.
    let mut plain = cluster.watch(&format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true")).await;
    assert_eq!(plain.next_name().await.0, "ADDED");
    assert_eq!(plain.next().await.expect("the watch goes on"), (kind, bookmark));
}

#[tokio::test]
async fn a_quiet_watch_learns_the_revision_before_it_ends() {
    let cluster = with_config_maps(&[]).await;
    let list = cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    let version = version_of(&list);
    let path = format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={version}");
    let mut watch = cluster.watch(&path).await;
    let namespace = json!({ "metadata": { "name": "elsewhere" } });
    let created = cluster.post("/api/v1/namespaces", &namespace).await.expect(StatusCode::CREATED);
    let (kind, bookmark) = watch.next().await.expect("a bookmark");
    assert_eq!((kind.as_str(), version_of(&bookmark)), ("BOOKMARK", version_of(&created)));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn compaction_ends_watches_with_expired() {
    let cluster = with_config_maps(&["a"]).await;
    let list = cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", version_of(&list));
    let mut running = cluster.watch(&path).await;
    cluster.server.compact();
    for watch in [&mut running, &mut cluster.watch(&path).await] {
        let (kind, status) = watch.next().await.expect("an error event");
        assert_eq!((kind.as_str(), &status["code"], &status["reason"]), ("ERROR", &json!(410), &json!("Expired")));
        assert!(watch.next().await.is_none());
    }
    let fresh = cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", version_of(&fresh));
    let mut again = cluster.watch(&path).await;
    cluster.post(CONFIG_MAPS, &config_map("b")).await.expect(StatusCode::CREATED);
    assert_eq!(again.next_name().await, ("ADDED".to_owned(), "b".to_owned()));
}

#[tokio::test]
async fn a_short_history_expires_by_itself() {
    let cluster = Cluster::start(Config { stand_ins: StandIns::NONE, watch_history: 2, ..Config::default() }).await;
    let list = cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    for name in ["a", "b", "c"] {
        cluster.post(CONFIG_MAPS, &config_map(name)).await.expect(StatusCode::CREATED);
    }
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", version_of(&list));
    let (kind, _) = cluster.watch(&path).await.next().await.expect("an error event");
    assert_eq!(kind, "ERROR");
}

#[tokio::test]
async fn a_future_version_is_refused() {
    let cluster = with_config_maps(&[]).await;
    cluster.get(&format!("{CONFIG_MAPS}?resourceVersion=99999")).await.refused(504, "Timeout");
    cluster.get(&format!("{CONFIG_MAPS}?resourceVersion=x")).await.refused(400, "BadRequest");
    let initial = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    cluster.get(&format!("{CONFIG_MAPS}?{initial}&resourceVersion=99999")).await.refused(504, "Timeout");
    cluster.get(&format!("{CONFIG_MAPS}?resourceVersion=1&resourceVersionMatch=Odd")).await.refused(422, "Invalid");
    cluster.get(&format!("{CONFIG_MAPS}?limit=-1")).await.expect(StatusCode::OK);
    cluster.get(&format!("{CONFIG_MAPS}?limit=x")).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn a_watch_may_ask_for_any_time() {
    let cluster = with_config_maps(&["a"]).await;
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds={}", i64::MAX);
    assert_eq!(cluster.watch(&path).await.next_name().await, ("ADDED".to_owned(), "a".to_owned()));
}

#[tokio::test]
async fn a_running_watch_does_not_hold_up_the_shutdown() {
    let cluster = with_config_maps(&[]).await;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    cluster.server.shutdown().await;
    assert!(watch.next().await.is_none());
}
