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
async fn pages_show_one_moment() {
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
    cluster.get(&next).await.refused(410, "Expired");
}

#[tokio::test]
async fn selectors_choose_what_is_listed() {
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
async fn an_object_that_leaves_the_selector_is_deleted_to_the_watch() {
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
    cluster.get(&format!("{CONFIG_MAPS}?watch=true&sendInitialEvents=true")).await.refused(422, "Invalid");
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
async fn a_version_of_the_future_is_refused() {
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
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds={}", u64::MAX);
    assert_eq!(cluster.watch(&path).await.next_name().await, ("ADDED".to_owned(), "a".to_owned()));
}

#[tokio::test]
async fn a_running_watch_does_not_hold_up_the_shutdown() {
    let cluster = with_config_maps(&[]).await;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    cluster.server.shutdown().await;
    assert!(watch.next().await.is_none());
}
