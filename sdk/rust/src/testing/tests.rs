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
fn an_applied_object_exists_and_is_owned() {
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
fn writes_check_the_stored_object_like_a_server() {
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
fn ensure_creates_or_patches_only_if_needed() {
    let host = Host::new();
    assert!(matches!(writes::ensure(&map("m")).unwrap(), writes::Ensured::Created(_)));
    let unchanged = writes::ensure(&map("m")).unwrap();
    assert!(matches!(unchanged, writes::Ensured::Unchanged(_)));
    assert_eq!(unchanged.object::<Value>().unwrap(), host.object(&target("m")).unwrap());
    writes::merge(target("m"), &json!({"data": {"theirs": "v"}})).send().unwrap();
    let mut changed = map("m");
    changed["data"]["k"] = json!("w");
    assert!(matches!(writes::ensure(&changed).unwrap(), writes::Ensured::Patched(_)));
    let now = host.object(&target("m")).unwrap();
    assert_eq!(now["data"], json!({"k": "w", "theirs": "v"}));
    assert_eq!(host.writes()[2].target.uid.as_deref(), now["metadata"]["uid"].as_str());
    let verbs: Vec<_> = host.writes().iter().map(|write| write.verb).collect();
    assert_eq!(verbs, ["create", "patch", "patch"]);
}

/// A kind in an author's YAML, with comments, blocks and flows.
const CRD: &str = "
# The kind Shop.
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  names: {kind: Shop, plural: shops}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [n]
            properties:
              n: {type: integer, minimum: 1, maximum: 9}
              size: {type: string, enum: [small, large], default: small}
              port: {x-kubernetes-int-or-string: true}
              name: {type: string, minLength: 2, nullable: true}
              labels: {type: object, additionalProperties: {type: string}}
              extra: {type: object, x-kubernetes-preserve-unknown-fields: true}
              parts: {type: array, maxItems: 2, items: {type: object, properties: {on: {type: boolean, default: true}}}}
          status: {type: object, properties: {ready: {type: boolean}}}
";

fn in_prod(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": name, "namespace": "prod"}, "spec": spec})
}

#[test]
fn an_object_that_does_not_fit_its_definition_is_refused_with_the_paths() {
    let mut host = Host::new();
    host.define(CRD);
    for (spec, expected) in [
        (json!({}), ".spec.n: is required"),
        (json!({"n": "1"}), ".spec.n: text where a whole number is wanted"),
        (json!({"n": 1.5}), ".spec.n: a number where a whole number is wanted"),
        (json!({"n": 10}), ".spec.n: 10 is too large for the maximum 9"),
        (json!({"n": 0}), ".spec.n: 0 is too small for the minimum 1"),
        (json!({"n": 1, "sise": "small"}), ".spec.sise: there is no such field"),
        (json!({"n": 1, "size": "huge"}), r#".spec.size: "huge" is not one of "small", "large""#),
        (json!({"n": 1, "port": true}), ".spec.port: a boolean where a whole number or text is wanted"),
        (json!({"n": 1, "name": "a"}), ".spec.name: its size is 1, and minLength is 2"),
        (json!({"n": 1, "labels": {"a": 1}}), ".spec.labels.a: a whole number where text is wanted"),
        (json!({"n": 1, "parts": [{}, {"on": "x"}]}), ".spec.parts[1].on: text where a boolean is wanted"),
        (json!({"n": 1, "parts": [{}, {}, {}]}), ".spec.parts: its size is 3, and maxItems is 2"),
    ] {
        let crate::Error::Api(error) = writes::create(&in_prod("b", &spec)).send().unwrap_err() else { panic!() };
        assert_eq!(error.reason, ApiReason::Invalid);
        assert_eq!(error.message, format!("the object does not fit its definition: {expected}"));
    }
    assert_eq!(host.object(&ObjectRef::namespaced("example.com/v1", "Shop", "prod", "b")), None);
    writes::create(&map("of-a-kind-that-is-not-defined")).send().unwrap();
}

#[test]
fn defaults_are_filled_in_and_undeclared_fields_kept_if_allowed() {
    let mut host = Host::new();
    host.define(CRD);
    let spec = json!({"n": 1.0, "size": null, "port": "http", "name": null, "extra": {"a": 1}, "parts": [{}]});
    let written: Value = writes::apply(&in_prod("b", &spec)).send().unwrap().object().unwrap();
    let filled =
        json!({"n": 1.0, "size": "small", "port": "http", "name": null, "extra": {"a": 1}, "parts": [{"on": true}]});
    assert_eq!(written["spec"], filled);
    host.put(&in_prod("c", &json!({"n": 2})));
    let kept = host.object(&ObjectRef::namespaced("example.com/v1", "Shop", "prod", "c")).unwrap();
    assert_eq!(kept["spec"], json!({"n": 2, "size": "small"}));
}

#[test]
fn a_status_write_is_validated_by_the_status_alone() {
    let mut host = Host::new();
    host.define(CRD);
    host.put(&in_prod("b", &json!({})));
    let target = ObjectRef::namespaced("example.com/v1", "Shop", "prod", "b");
    writes::apply_status(&target, &json!({"ready": true})).send().unwrap();
    let refused = writes::apply_status(&target, &json!({"redy": true})).send().unwrap_err();
    assert!(refused.to_string().contains(".status.redy: there is no such field"), "{refused}");
}

#[test]
fn controlled_objects_are_deleted_with_their_owner() {
    let mut host = Host::new();
    host.request("shops", &shop());
    let owner = ObjectRef::namespaced("example.com/v1", "Shop", "prod", "a");
    let controlled = |uid: &str, name: &str, finalizers: &[&str]| {
        let owners = json!([{"uid": uid, "controller": true, "name": "x", "apiVersion": "v1", "kind": "X"}]);
        let mut map = map(name);
        map["metadata"]["ownerReferences"] = owners;
        map["metadata"]["uid"] = json!(name);
        map["metadata"]["finalizers"] = json!(finalizers);
        map
    };
    host.put(&controlled("u-1", "child", &[]));
    host.put(&controlled("child", "grandchild", &[]));
    host.put(&controlled("u-1", "waits", &["example.com/x"]));
    host.put(&controlled("other", "not-ours", &[]));
    writes::delete(owner).send().unwrap();
    assert_eq!((host.object(&target("child")), host.object(&target("grandchild"))), (None, None));
    assert!(host.object(&target("not-ours")).is_some());
    assert!(host.object(&target("waits")).unwrap()["metadata"]["deletionTimestamp"].is_string());
    writes::merge(target("waits"), &json!({"metadata": {"finalizers": []}})).send().unwrap();
    assert_eq!(host.object(&target("waits")), None);
}

#[test]
fn a_request_set_to_fail_fails_with_its_class_until_it_is_reset() {
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
fn events_logs_and_requests_of_a_plugin_are_recorded() {
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
fn a_read_without_a_test_host_names_the_missing_host() {
    let _ = cache::get::<u8>(&ObjectRef::cluster_scoped("v1", "Node", "n"));
}

#[test]
fn live_reads_have_views_and_parts() {
    let mut host = Host::new();
    host.put(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "prod", "uid": "u-1"},
        "spec": {"replicas": 3, "paused": true},
    }));
    let deployment = ObjectRef::namespaced("apps/v1", "Deployment", "prod", "d");
    let metadata: Value = live::get_metadata(&deployment).unwrap().unwrap();
    assert_eq!((&metadata["metadata"]["uid"], &metadata["spec"]), (&json!("u-1"), &Value::Null));
    let fields: Value = live::get_fields(&deployment, &["/spec/replicas"]).unwrap().unwrap();
    assert_eq!(fields["spec"], json!({"replicas": 3}));
    let scale: Value = live::get_subresource(&deployment, "scale").unwrap().unwrap();
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    let all = live::list("apps/v1", "Deployment").metadata().iter::<Value>();
    assert!(all.map(Result::unwrap).all(|object| object["spec"].is_null()));
}

#[test]
fn logs_and_served_kinds_are_set_by_the_test() {
    let mut host = Host::new();
    let pod = ObjectRef::namespaced("v1", "Pod", "prod", "p");
    let missing = live::log(pod.clone()).read().unwrap_err();
    assert_eq!(missing.reason(), Some(ApiReason::NotFound));
    host.set_log(&pod, "one\ntwo\nthree\n");
    assert_eq!(live::log(pod.clone()).tail_lines(2).read().unwrap(), "two\nthree\n");
    assert_eq!(live::log(pod).container("c").limit_bytes(5).read().unwrap(), "one\nt");
    assert_eq!(live::served("v1", "Pod").unwrap().map(|kind| kind.resource), Some("pods".to_owned()));
    host.unserve("v1", "Pod");
    assert_eq!(live::served("v1", "Pod").unwrap(), None);
}

#[test]
fn the_kinds_of_the_host_are_listed_once_by_group_and_kind() {
    let mut host = Host::new();
    host.put(&shop());
    host.put(&map("a"));
    host.put(&map("b"));
    host.put(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "prod"}}));
    host.unserve("v1", "Pod");
    let kinds: Vec<_> = live::kinds().unwrap().into_iter().map(|listed| listed.kind.kind).collect();
    assert_eq!(kinds, ["ConfigMap", "Shop"]);
    host.fail("kinds", "", ApiReason::ServerError);
    assert_eq!(live::kinds().unwrap_err().reason(), Some(ApiReason::ServerError));
}

#[test]
fn a_write_returns_the_fields_that_it_names_and_keeps_the_rest() {
    let host = Host::new();
    let written: Value = writes::apply(&map("m")).fields(&["/data/k"]).send().unwrap().object().unwrap();
    assert_eq!((&written["data"], &written["metadata"]["name"]), (&json!({"k": "v"}), &json!("m")));
    assert_eq!(written["metadata"].get("labels"), None);
    assert_eq!(host.object(&target("m")).unwrap()["metadata"]["labels"], json!({"app": "web"}));
    let identity: Value = writes::apply(&map("m")).fields(&[]).send().unwrap().object().unwrap();
    assert_eq!((identity.get("data"), &identity["kind"]), (None, &json!("ConfigMap")));
    assert_eq!(identity["metadata"].get("resourceVersion"), None);
    assert_eq!(host.writes()[0].fields, Some(vec!["/data/k".to_owned()]));
}

#[test]
fn a_review_is_answered_and_not_stored() {
    let mut host = Host::new();
    host.answer("SubjectAccessReview", &json!({"status": {"allowed": true}}));
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {}});
    let answered: Value = writes::create(&review).send().unwrap().object().unwrap();
    assert_eq!(answered["status"]["allowed"], true);
    assert_eq!(host.writes()[0].target.name, "");
}

#[test]
fn a_collection_is_deleted_by_its_labels() {
    let mut host = Host::new();
    host.put(&map("a"));
    host.put(&map("b"));
    host.put(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "prod"}}));
    let nothing = writes::delete_collection("v1", "ConfigMap").send().unwrap_err();
    assert_eq!(nothing.reason(), Some(ApiReason::Invalid));
    let deleted = writes::delete_collection("v1", "ConfigMap").labels("app=web").send().unwrap().unwrap();
    assert_eq!(deleted.iter().map(|target| &*target.name).collect::<Vec<_>>(), ["a", "b"]);
    assert!(host.object(&target("a")).is_none() && host.object(&target("c")).is_some());
    let part = writes::apply(&map("d")).manager_suffix("tls").send();
    part.unwrap();
    assert_eq!(host.writes().last().unwrap().manager_suffix.as_deref(), Some("tls"));
}

#[test]
fn evicting_a_missing_pod_succeeds() {
    let mut host = Host::new();
    let pod = ObjectRef::namespaced("v1", "Pod", "prod", "p");
    host.fail("create", "Pod", ApiReason::NotFound);
    writes::evict(&pod).send().unwrap();
    host.recover();
    host.fail("create", "Pod", ApiReason::TooManyRequests);
    assert_eq!(writes::evict(&pod).send().unwrap_err().reason(), Some(ApiReason::TooManyRequests));
}
