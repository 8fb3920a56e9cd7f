//! Reactors: the effects of rules on requests, and how rules are set, from Rust, over HTTP and in the published format.

mod support;

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use support::{CONFIG_MAPS, Cluster, JSON, MERGE, config_map, version_of};
use windlass_apiserver::{Config, ReactorDocument, Reactors};

/// Sets the rules, which are in a file's form but without its header.
fn set(reactors: &Reactors, rules: &str) {
    let text = format!("apiVersion: windlass.dev/v1alpha1\nkind: Reactors\nseed: 3\nrules:\n{rules}");
    reactors.set(ReactorDocument::parse(&text).expect("rules")).expect("valid rules");
}

async fn with(rules: &str) -> Cluster {
    let cluster = Cluster::quiet().await;
    set(&cluster.server.reactors(), rules);
    cluster
}

fn counts(cluster: &Cluster) -> Vec<(u64, u64)> {
    cluster.server.reactors().counts().iter().map(|count| (count.matched, count.acted)).collect()
}

fn item_names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn a_rule_responds_with_an_error_to_the_calls_that_it_matches() {
    let cluster = with(
        "- name: full\n  when:\n    verbs: [create]\n    resources: [configmaps]\n    names: ['a*']\n    calls: {first: 2}\n  \
         then:\n  - error: {code: 429, message: slow down, retryAfterSeconds: 1}\n",
    )
    .await;
    for name in ["a1", "a2"] {
        let answer = cluster.post(CONFIG_MAPS, &config_map(name)).await;
        assert_eq!(answer.body["details"]["retryAfterSeconds"], 1);
        assert_eq!(answer.refused(429, "TooManyRequests"), "slow down");
    }
    cluster.post(CONFIG_MAPS, &config_map("b")).await.expect(StatusCode::CREATED);
    cluster.post(CONFIG_MAPS, &config_map("a3")).await.expect(StatusCode::CREATED);
    assert_eq!(counts(&cluster), [(3, 2)]);
}

#[tokio::test]
async fn an_error_after_the_commit_hides_the_successful_write() {
    let cluster =
        with("- name: late\n  when: {verbs: [create]}\n  then:\n  - error: {code: 504, at: afterCommit}\n").await;
    cluster.post(CONFIG_MAPS, &config_map("a")).await.refused(504, "Timeout");
    cluster.get(&format!("{CONFIG_MAPS}/a")).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn a_dropped_connection_has_no_response() {
    for (at, is_made) in [("beforeCommit", false), ("afterCommit", true)] {
        let rules =
            format!("- name: gone\n  when: {{verbs: [create], calls: {{nth: 1}}}}\n  then:\n  - drop: {{at: {at}}}\n");
        let cluster = with(&rules).await;
        let body = config_map("a").to_string();
        let error = cluster.try_send("POST", CONFIG_MAPS, &[("content-type", JSON)], body.as_bytes()).await;
        assert!(error.is_err(), "{error:?}");
        let found = cluster.get(&format!("{CONFIG_MAPS}/a")).await.code;
        assert_eq!(found == StatusCode::OK, is_made);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_passes_on_the_virtual_clock() {
    let cluster = InProcess::new("- name: slow\n  when: {verbs: [get]}\n  then:\n  - delay: {by: 2h}\n");
    let begun = tokio::time::Instant::now();
    cluster.send("GET", CONFIG_MAPS, &Value::Null).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "a list is not a get");
    cluster.send("GET", &format!("{CONFIG_MAPS}/a"), &Value::Null).await;
    assert_eq!(begun.elapsed().as_secs(), 7200);
}

#[tokio::test]
async fn older_lists_and_objects_are_served_from_the_history() {
    let cluster = Cluster::quiet().await;
    let first = cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    cluster.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &json!({ "data": { "a": "new" } })).await.expect(StatusCode::OK);
    cluster.post(CONFIG_MAPS, &config_map("b")).await.expect(StatusCode::CREATED);
    cluster.delete(&format!("{CONFIG_MAPS}/b")).await.expect(StatusCode::OK);

    set(&cluster.server.reactors(), "- name: stale\n  then:\n  - older: {changes: 1}\n");
    let list = cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    assert_eq!(item_names(&list), ["a", "b"]);
    set(&cluster.server.reactors(), "- name: stale\n  then:\n  - older: {changes: 3}\n");
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/a")).await.expect(StatusCode::OK), first);
    let list = cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    assert_eq!((item_names(&list), version_of(&list)), (vec!["a"], version_of(&first)));
    set(&cluster.server.reactors(), "- name: stale\n  then:\n  - older: {changes: 4}\n");
    cluster.get(&format!("{CONFIG_MAPS}/a")).await.refused(404, "NotFound");
    // A watch from that version sees all later changes.
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    for expected in ["ADDED", "MODIFIED", "ADDED", "DELETED"] {
        assert_eq!(watch.next().await.expect("an event").0, expected);
    }
}

#[tokio::test]
async fn an_edit_reaction_causes_a_conflict_for_the_caller() {
    let cluster = Cluster::quiet().await;
    let made = cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let rule = "- name: rival\n  when: {verbs: [update], calls: {nth: 1}}\n  then:\n  - edit: {change: {merge: {data: {rival: was here}}}}\n";
    set(&cluster.server.reactors(), rule);
    let path = format!("{CONFIG_MAPS}/a");
    cluster.put(&path, &made).await.refused(409, "Conflict");
    let found = cluster.get(&path).await.expect(StatusCode::OK);
    assert_eq!(found["data"]["rival"], "was here");
    assert!(found["metadata"]["managedFields"].to_string().contains("somebody-else"), "{found}");
    cluster.put(&path, &found).await.expect(StatusCode::OK);

    let rules = "- name: first\n  when: {verbs: [create]}\n  then:\n  - edit:\n      change: {create: {metadata: {name: b}}}\n\
                 - name: deleter\n  when: {verbs: [patch]}\n  then:\n  - edit: {change: {delete: {}}}\n";
    set(&cluster.server.reactors(), rules);
    cluster.post(CONFIG_MAPS, &config_map("b")).await.refused(409, "AlreadyExists");
    cluster.patch(&path, MERGE, &json!({ "data": {} })).await.refused(404, "NotFound");
}

#[tokio::test]
async fn watches_are_cut_expire_and_repeat_events() {
    let cluster = with(
        "- name: cut\n  when: {verbs: [watch], calls: {nth: 1}}\n  then:\n  - cut: {after: 1}\n\
         - name: hidden\n  when: {verbs: [watch], calls: {nth: 2}}\n  then:\n  - hide: {events: 2}\n\
         - name: twice\n  when: {verbs: [watch], calls: {nth: 3}}\n  then:\n  - duplicate: {events: 1}\n",
    )
    .await;
    for name in ["a", "b"] {
        cluster.post(CONFIG_MAPS, &config_map(name)).await.expect(StatusCode::CREATED);
    }
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion=1");
    let mut watch = cluster.watch(&path).await;
    assert_eq!(watch.next_name().await.1, "a");
    assert!(watch.next().await.is_none());
    let (kind, status) = cluster.watch(&path).await.next().await.expect("an event");
    assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &json!(410)));
    let mut watch = cluster.watch(&path).await;
    for expected in ["a", "a", "b"] {
        assert_eq!(watch.next_name().await.1, expected);
    }
}

#[tokio::test]
async fn a_rule_can_expire_the_history() {
    let cluster = with("- name: old\n  when: {verbs: [watch], calls: {nth: 2}}\n  then:\n  - expire: {}\n").await;
    cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion=1");
    let mut running = cluster.watch(&path).await;
    assert_eq!(running.next_name().await.1, "a");
    for mut watch in [cluster.watch(&path).await, running] {
        assert_eq!(watch.next().await.expect("an event").1["code"], 410);
    }
}

#[tokio::test]
async fn a_jump_of_the_clock_changes_creation_times() {
    let cluster = with("- name: leap\n  when: {verbs: [create], calls: {nth: 2}}\n  then:\n  - jump: -48h\n").await;
    let moment = |object: &Value| object["metadata"]["creationTimestamp"].as_str().expect("a time").to_owned();
    let before = moment(&cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED));
    let after = moment(&cluster.post(CONFIG_MAPS, &config_map("b")).await.expect(StatusCode::CREATED));
    assert!(after < before, "{before} {after}");
}

#[tokio::test]
async fn the_seed_determines_the_probable_reactions() {
    let rule = "- name: coin\n  when: {verbs: [get], probability: 0.5}\n  then:\n  - error: {code: 500}\n";
    let mut runs = Vec::new();
    for _ in 0..2 {
        let cluster = with(rule).await;
        let mut codes = Vec::new();
        for _ in 0..40 {
            codes.push(cluster.get(&format!("{CONFIG_MAPS}/a")).await.code.as_u16());
        }
        assert!(codes.contains(&500) && codes.contains(&404), "{codes:?}");
        runs.push(codes);
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn rules_are_read_and_set_over_http() {
    let cluster = Cluster::quiet().await;
    let rules = "apiVersion: windlass.dev/v1alpha1\nkind: Reactors\nrules:\n- name: no\n  when: {userAgents: ['test/*']}\n  \
                 then:\n  - error: {code: 503}\n";
    let put = cluster.send("PUT", "/reactors", &[], rules.as_bytes()).await.expect(StatusCode::OK);
    cluster.get(CONFIG_MAPS).await.refused(503, "ServiceUnavailable");
    let got = cluster.get("/reactors").await.expect(StatusCode::OK);
    assert_eq!(got["status"]["rules"], json!([{ "name": "no", "matched": 1, "acted": 1, "struck": 1 }]));
    assert_eq!(got["rules"], put["rules"]);
    // The response of a GET is a valid body of a PUT.
    cluster.send("PUT", "/reactors", &[], got.to_string().as_bytes()).await.expect(StatusCode::OK);
    let wrong = rules.replace("userAgents", "userAgent");
    let said = cluster.send("PUT", "/reactors", &[], wrong.as_bytes()).await.refused(400, "BadRequest");
    assert!(said.contains("userAgent") && said.contains("line 5"), "{said}");
    assert_eq!(cluster.server.reactors().counts().len(), 1, "the old rules stay");
    cluster.delete("/reactors").await.expect(StatusCode::OK);
    cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
}

/// One rule that uses every field.
const EVERYTHING: &str = "apiVersion: windlass.dev/v1alpha1
kind: Reactors
seed: 7
rules:
- name: everything
  when:
    verbs: [watch]
    resources: ['*.apps/status']
    namespaces: [default]
    names: [web]
    userAgents: ['kubectl/*']
    calls: {every: 2}
    probability: 0.5
  then:
  - error: {code: 500, reason: InternalError, message: m, details: {uid: u}, retryAfterSeconds: 1, at: afterCommit}
  - delay: {by: 1500ms, at: afterCommit}
  - drop: {at: beforeCommit}
  - older: {resourceVersion: 5}
  - older: {changes: 5}
  - hold: {for: 1m}
  - hold: {events: 2}
  - reorder: {events: 2}
  - duplicate: {events: 2}
  - hide: {after: 1, events: 2}
  - cut: {after: 1, with: expired}
  - expire: {}
  - edit: {resource: pods, namespace: a, name: b, manager: c, change: {merge: {a: 1}}}
  - edit: {change: {json: [{op: remove, path: /a}]}}
  - edit: {change: {create: {a: 1}}}
  - edit: {change: {delete: {}}}
  - jump: -1h
";

#[test]
fn a_written_document_parses_to_the_same_document() {
    let document = ReactorDocument::parse(EVERYTHING).expect("it is right");
    let text = serde_json::to_string(&document).expect("it is JSON");
    assert_eq!(ReactorDocument::parse(&text).expect("it is right"), document);
}

#[test]
fn an_invalid_rule_is_refused_with_its_place() {
    for (from, to, expected) in [
        ("verbs: [watch]", "verbs: [watches]", "rules[0] (everything).when.verbs"),
        ("probability: 0.5", "probability: 5", "rules[0] (everything).when.probability"),
        ("every: 2", "every: 0", "rules[0] (everything).when.calls"),
        ("code: 500", "code: 200", "rules[0] (everything).then[0]"),
        ("by: 1500ms", "by: 1500 apples", "1500 apples"),
        ("hold: {events: 2}", "hold: {events: 0}", "then[6]"),
        ("'*.apps/status'", "'[apps'", ".when.resources"),
        ("calls:", "call:", "line 12"),
        ("at: beforeCommit", "on: beforeCommit", "line 17"),
        ("kind: Reactors", "kind: Reactor", "`kind: Reactors`"),
        ("expire:", "explode:", "explode"),
    ] {
        let text = EVERYTHING.replace(from, to);
        let said = ReactorDocument::parse(&text).expect_err(to).to_string();
        assert!(said.contains(expected), "{to}: {said}");
    }
}

/// Checks that the schema has every field of the document, with a description.
fn check_against(schema: &Value, root: &Value, value: &Value, place: &str) {
    let resolved = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).expect("the reference is valid"),
        None => schema,
    };
    match value {
        Value::Object(fields) => {
            if resolved["additionalProperties"] != false {
                return;
            }
            for (key, field) in fields {
                let property = &resolved["properties"][key];
                assert!(property.is_object(), "{place}.{key} is not in the schema");
                assert!(property["description"].is_string() || property["$ref"].is_string(), "{place}.{key}");
                check_against(property, root, field, &format!("{place}.{key}"));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| check_against(&resolved["items"], root, item, place)),
        _ => {}
    }
}

#[test]
fn the_published_schema_has_every_field() {
    let text = include_str!("../../../docs/schema/reactors.schema.json");
    let schema: Value = serde_json::from_str(text).expect("the schema is JSON");
    let document = serde_json::to_value(ReactorDocument::parse(EVERYTHING).expect("right")).expect("JSON");
    check_against(&schema, &schema, &document, "");
    // Also the reverse: the document above has each reaction of the schema.
    let used: Vec<&String> = document["rules"][0]["then"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|it| it.as_object().expect("one").keys())
        .collect();
    for reaction in schema["$defs"]["reaction"]["properties"].as_object().expect("reactions").keys() {
        assert!(used.contains(&reaction), "{reaction}");
    }
}

/// A server without a socket, so that time can be paused.
struct InProcess(windlass_apiserver::ApiServer);

impl InProcess {
    fn new(rules: &str) -> InProcess {
        let server = windlass_apiserver::ApiServer::in_process(&Config { seed: Some(1), ..Config::default() });
        set(&server.reactors(), rules);
        InProcess(server)
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> StatusCode {
        use tower::ServiceExt as _;
        let request = http::Request::builder().method(method).uri(path).header("content-type", JSON);
        let body = if body.is_null() { axum::body::Body::empty() } else { axum::body::Body::from(body.to_string()) };
        self.0.service().oneshot(request.body(body).expect("a request")).await.expect("an answer").status()
    }
}
