use serde_json::{Value, json};

use super::Host;
use crate::http::Body;
use crate::{ApiReason, ObjectRef, cache, clock, config, events, http, info, live, owners, random, writes};

fn shop() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Shop",
        "metadata": {"name": "a", "namespace": "prod", "uid": "u-1"}, "spec": {"n": 1},
    })
}

fn map(name: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "prod", "labels": {"app": "web"}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}})
}

fn target(name: &str) -> ObjectRef {
    ObjectRef::namespaced("v1", "ConfigMap", "prod", name)
}

#[test]
fn what_is_applied_is_there_and_is_owned() {
    let mut host = Host::new();
    let request = host.request("shops", &shop());
    assert_eq!((request.name.as_str(), request.uid.as_deref(), request.deleting), ("a", Some("u-1"), false));
    let written = writes::apply(&map("m")).owned().force().send().unwrap();
    let object: Value = written.object().unwrap();
    assert_eq!(host.object(&target("m")), Some(object));
    writes::apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "prod"}, "data": {"l": "w"}}))
        .send()
        .unwrap();
    assert_eq!(host.object(&target("m")).unwrap()["data"], json!({"k": "v", "l": "w"}));
    let owned: Vec<Value> = cache::list("v1", "ConfigMap").owned().iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(owned.len(), 1);
    let [first, _] = &host.writes()[..] else { panic!() };
    assert_eq!((first.verb, first.owned, first.force), ("apply", true, true));
}

#[test]
fn writes_end_as_an_api_server_ends_them() {
    let host = Host::new();
    writes::create(&map("m")).send().unwrap();
    let refused = |result: Result<writes::Written, crate::Error>| result.unwrap_err().reason();
    assert_eq!(refused(writes::create(&map("m")).send()), Some(ApiReason::AlreadyExists));
    assert_eq!(refused(writes::update(&map("x")).send()), Some(ApiReason::NotFound));
    assert_eq!(refused(writes::update(&map("m")).if_version("other").send()), Some(ApiReason::Conflict));
    assert_eq!(refused(writes::merge(target("m").with_uid("other"), &json!({})).send()), Some(ApiReason::NotFound));
    writes::merge(target("m"), &json!({"data": {"k": null, "n": "1"}})).send().unwrap();
    writes::json_patch(target("m"), &json!([{"op": "add", "path": "/data/a~1b", "value": "c"}])).send().unwrap();
    assert_eq!(host.object(&target("m")).unwrap()["data"], json!({"n": "1", "a/b": "c"}));
    assert_eq!(writes::delete(target("m")).send().unwrap(), None);
    assert_eq!(host.object(&target("m")), None);
}

#[test]
fn a_request_that_is_to_fail_fails_with_its_class_until_it_is_not_to() {
    let mut host = Host::new();
    host.fail("apply", "ConfigMap", ApiReason::Forbidden);
    assert_eq!(writes::apply(&map("m")).send().unwrap_err().reason(), Some(ApiReason::Forbidden));
    assert_eq!((host.object(&target("m")), host.writes().len()), (None, 1));
    host.recover();
    assert!(writes::apply(&map("m")).send().is_ok());
}

#[test]
fn reads_find_by_labels_index_and_fields() {
    let mut host = Host::new();
    host.put(&map("m"));
    host.index("by-k", "/data/k");
    let found = |query: cache::Query| query.iter::<Value>().count();
    assert_eq!(found(cache::list("v1", "ConfigMap").labels("app in (web)").index("by-k", "v")), 1);
    assert_eq!(found(cache::list("v1", "ConfigMap").labels("app=x")), 0);
    assert_eq!(found(cache::list("v1", "ConfigMap").in_namespace("test")), 0);
    let part: Value = cache::get_fields(&target("m"), &["/data/k"]).unwrap().unwrap();
    assert_eq!((&part["data"]["k"], &part["metadata"]["labels"]), (&json!("v"), &Value::Null));
    assert!(live::get::<Value>(&target("m")).unwrap().is_some());
    assert!(cache::get::<Value>(&target("x")).unwrap().is_none());
}

#[test]
fn what_a_plugin_tells_is_recorded() {
    let mut host = Host::new();
    host.set_config(&json!({"greeting": "hello"}));
    host.respond("https://a.dev/", 201, Body::Text("made".into()));
    events::normal("Made", "Make", "a map");
    info!("made", name = "m");
    assert_eq!(config::get::<Value>().unwrap()["greeting"], "hello");
    assert_eq!(http::post("https://a.dev/").send().unwrap().text(), Some("made"));
    assert!(http::get("https://b.dev/").send().is_err());
    assert_eq!(clock::now().to_string(), "2026-11-21T10:48:45Z");
    assert_ne!(random::bytes(8), random::bytes(8));
    assert_eq!(host.events()[0].reason, "Made");
    assert_eq!((host.lines()[0].message.as_str(), host.requests().len()), ("made", 2));
    host.forget();
    assert!(host.events().is_empty() && host.lines().is_empty());
}

#[test]
fn orphans_are_claimed_by_their_labels() {
    let mut host = Host::new();
    host.request("shops", &shop());
    host.put(&map("m"));
    let claimed = owners::claim("v1", "ConfigMap", "app=web").unwrap();
    assert_eq!(claimed.adopted.len(), 1);
    assert_eq!(owners::claim("v1", "ConfigMap", "app=other").unwrap().released.len(), 1);
}

#[test]
#[should_panic(expected = "cache::get needs the Windlass host")]
fn without_a_host_a_read_says_what_it_lacks() {
    let _ = cache::get::<u8>(&ObjectRef::cluster_scoped("v1", "Node", "n"));
}
