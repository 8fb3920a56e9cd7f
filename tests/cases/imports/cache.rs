//! Tests `cache`: it reads what the declared watches have, and never sends a request.

use serde_json::{Value, json};
use windlass_tests::probe::{Lab, NAME};
use windlass_tests::server::Kind;

use super::{all, config_map, on_both_servers, target};

on_both_servers!(
    an_object_is_read_whole_or_by_its_fields,
    many_are_read_in_the_order_of_their_names,
    a_list_holds_what_all_its_conditions_ask_for,
    a_list_comes_by_pages,
    what_no_watch_covers_is_not_watched,
    what_cannot_be_asked_is_answered_with_what_and_where,
);

/// Starts a lab with `ConfigMap`s that the plugin sees: `red-1`, `red-2` and `blue-1`. Each has its colour as data, and
/// its number as its tier.
async fn with_colors(kind: Kind) -> anyhow::Result<Lab> {
    let lab = Lab::start(kind).await?;
    let mut last = Value::Null;
    for (color, tier) in [("red", "1"), ("red", "2"), ("blue", "1")] {
        let mut object = config_map(&format!("{color}-{tier}"));
        object["metadata"]["labels"] = json!({"tier": tier, "test": "colors"});
        object["data"] = json!({"color": color, "size": "7"});
        last = lab.server.objects().apply(&object).await?;
    }
    lab.until_cached(&last).await?;
    Ok(lab)
}

async fn an_object_is_read_whole_or_by_its_fields(kind: Kind) -> anyhow::Result<()> {
    let lab = with_colors(kind).await?;
    let red = lab.server.objects().get("ConfigMap", "red-1").await?.expect("it is there");
    let (mut another, mut same) = (target("red-1"), target("red-1"));
    another["uid"] = json!("00000000-0000-0000-0000-000000000000");
    same["uid"] = red["metadata"]["uid"].clone();
    let fields = json!(["/data/color", "/metadata/labels/tier", "/none", "/data/color/deeper", "/data/0"]);
    let call = lab
        .run([
            json!({"call": "cache.get", "target": target("red-1")}),
            json!({"call": "cache.get", "target": target("red-1"), "fields": fields}),
            json!({"call": "cache.get", "target": target("red-1"), "fields": []}),
            json!({"call": "cache.get", "target": target("none")}),
            json!({"call": "cache.get", "target": another}),
            json!({"call": "cache.get", "target": same, "fields": [""]}),
        ])
        .await?;
    let (namespace, uid) = (lab.server.objects().namespace(), &red["metadata"]["uid"]);
    let identity = json!({"name": "red-1", "namespace": namespace, "uid": uid});
    for field in ["apiVersion", "kind", "data"] {
        assert_eq!(call.ok(1)[field], red[field]);
    }
    assert_eq!(call.ok(1)["metadata"]["managedFields"], Value::Null, "nobody needs those of others");
    let mut named = identity.clone();
    named["labels"] = json!({"tier": "1"});
    let part = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"color": "red"}});
    assert_eq!(*call.ok(2), part, "what is not there is left out");
    assert_eq!(*call.ok(3), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": identity}));
    assert_eq!(*call.ok(4), Value::Null);
    assert_eq!(*call.ok(5), Value::Null, "the name belongs to another incarnation");
    assert_eq!(call.ok(6), call.ok(1), "the empty pointer is the whole object");
    assert_eq!(lab.sent(), 0, "a read from the cache costs no request");
    Ok(())
}

async fn many_are_read_in_the_order_of_their_names(kind: Kind) -> anyhow::Result<()> {
    let lab = with_colors(kind).await?;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "any"});
    let targets = json!([target("red-2"), target("none"), pod, target("a/b"), target("blue-1")]);
    let call = lab
        .run([
            json!({"call": "cache.get-many", "targets": targets, "fields": ["/data/color"]}),
            json!({"call": "cache.get-many", "targets": []}),
        ])
        .await?;
    let answers = call.ok(1).as_array().expect("a list");
    assert_eq!(answers.len(), 5);
    assert_eq!(answers[0]["ok"]["metadata"]["name"], "red-2");
    assert_eq!(answers[1], json!({"ok": null}));
    assert_eq!(answers[2]["error"]["reason"], "not-watched");
    assert_eq!(answers[3]["error"]["reason"], "invalid");
    assert_eq!(answers[4]["ok"]["data"], json!({"color": "blue"}));
    assert_eq!(*call.ok(2), json!([]));
    assert_eq!(lab.sent(), 0);
    Ok(())
}

fn list(conditions: &Value) -> Value {
    let mut query =
        json!({"kind": {"apiVersion": "v1", "kind": "ConfigMap"}, "fields": [], "labelSelector": "test=colors"});
    for (name, value) in conditions.as_object().into_iter().flatten() {
        query[name] = value.clone();
    }
    json!({"call": "cache.list", "query": query})
}

async fn a_list_holds_what_all_its_conditions_ask_for(kind: Kind) -> anyhow::Result<()> {
    let lab = with_colors(kind).await?;
    let namespace = lab.server.objects().namespace();
    let index = |index: &str, value: &str| json!({"index": index, "value": value});
    let cases = [
        (json!({}), vec!["blue-1", "red-1", "red-2"]),
        (json!({"namespace": namespace}), vec!["blue-1", "red-1", "red-2"]),
        (json!({"labelSelector": "test=colors,tier in (2,3)"}), vec!["red-2"]),
        (json!({"labelSelector": "test,tier notin (2)"}), vec!["blue-1", "red-1"]),
        (json!({"labelSelector": "test == colors, tier != 1"}), vec!["red-2"]),
        (json!({"labelSelector": "test=colors,!tier"}), vec![]),
        (json!({"index": index("by-color", "red")}), vec!["red-1", "red-2"]),
        (json!({"index": index("by-tier", "1")}), vec!["blue-1", "red-1"]),
        (json!({"index": index("by-color", "red"), "labelSelector": "tier=2", "namespace": namespace}), vec!["red-2"]),
        (json!({"index": index("by-color", "green")}), vec![]),
        (json!({"owned": true}), vec![]),
    ];
    let call = lab.run(cases.iter().map(|(conditions, _)| list(conditions))).await?;
    for (number, (conditions, expected)) in cases.iter().enumerate() {
        assert_eq!(all(&call.ok(number + 1)["items"], "/metadata/name"), *expected, "{conditions}");
    }

    let mut owned = config_map("owned");
    owned["metadata"]["labels"] = json!({"test": "colors"});
    let call = lab.run([json!({"call": "writes.create", "object": owned, "options": {"owned": true}})]).await?;
    lab.until_cached(call.ok(1)).await?;
    let of_another = lab.run_as("another", [list(&json!({"owned": true}))]).await?;
    assert_eq!(all(&of_another.ok(1)["items"], "/metadata/name"), Vec::<&str>::new());
    let ours = lab.run([list(&json!({"owned": true}))]).await?;
    assert_eq!(all(&ours.ok(1)["items"], "/metadata/name"), ["owned"], "what {NAME} controls");
    Ok(())
}

async fn a_list_comes_by_pages(kind: Kind) -> anyhow::Result<()> {
    let lab = with_colors(kind).await?;
    let token = json!({"$from": "1", "pointer": "/nextToken"});
    let call = lab
        .run([
            list(&json!({"limit": 2})),
            list(&json!({"limit": 2, "pageToken": token})),
            list(&json!({"maxBytes": 1})),
            json!({
                "call": "cache.walk", "pointers": ["/data/color", "/none"],
                "query": list(&json!({"limit": 1, "fields": ["/data/color"]}))["query"],
            }),
        ])
        .await?;
    assert_eq!(all(&call.ok(1)["items"], "/metadata/name"), ["blue-1", "red-1"]);
    assert_eq!(all(&call.ok(2)["items"], "/metadata/name"), ["red-2"]);
    assert_eq!(call.ok(2)["nextToken"], Value::Null);
    assert_eq!(all(&call.ok(3)["items"], "/metadata/name"), ["blue-1"], "a page holds at least one object");
    assert!(call.ok(3)["nextToken"].is_string());
    let walked = call.ok(4);
    assert_eq!(json!([walked["pages"], walked["objects"], walked["found"]]), json!([3, 3, 3]));
    assert_eq!(lab.sent(), 0);
    Ok(())
}

async fn what_no_watch_covers_is_not_watched(kind: Kind) -> anyhow::Result<()> {
    let lab = with_colors(kind).await?;
    let mut elsewhere = target("kube-root-ca.crt");
    elsewhere["namespace"] = json!("kube-system");
    let hidden = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hidden"}});
    let mut seen = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "seen"}});
    seen["metadata"]["labels"] = json!({"probe.windlass.dev/probe": "nobody"});
    lab.server.objects().apply(&hidden).await?;
    lab.put(&seen).await?;
    let pods = json!({"apiVersion": "v1", "kind": "Pod"});
    let index = json!({"index": "by-shape", "value": "round"});
    let call = lab
        .run([
            json!({"call": "cache.get", "target": {"apiVersion": "v1", "kind": "Pod", "name": "any"}}),
            json!({"call": "cache.get", "target": elsewhere}),
            json!({"call": "cache.list", "query": {"kind": pods}}),
            list(&json!({"namespace": "kube-system"})),
            list(&json!({"index": index})),
            json!({"call": "cache.get", "target": {"apiVersion": "apps/v1", "kind": "ConfigMap", "name": "any"}}),
            json!({"call": "cache.get", "target": {"apiVersion": "v1", "kind": "Secret", "name": "hidden"}}),
        ])
        .await?;
    // If the manifest asks for one namespace, its grants are for that namespace too.
    for step in [2, 4] {
        let error = call.error(step, "not-granted");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("kube-system")), "{error}");
    }
    for (step, words) in [
        (1, "no declared watch covers v1 Pod"),
        (3, "no declared watch covers v1 Pod"),
        (5, "by-shape"),
        (6, "apps/v1 ConfigMap"),
    ] {
        let error = call.error(step, "not-watched");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(words)), "{words:?} is not in {error}");
        assert_eq!((&error["code"], &error["statusReason"]), (&json!(403), &json!("NotWatched")));
    }
    assert_eq!(call.error(2, "not-granted")["object"]["name"], "kube-root-ca.crt");
    assert_eq!(*call.ok(7), Value::Null, "the watch's selector leaves it out");
    assert_eq!(lab.sent(), 0);
    Ok(())
}

async fn what_cannot_be_asked_is_answered_with_what_and_where(kind: Kind) -> anyhow::Result<()> {
    let lab = with_colors(kind).await?;
    let get = |target: Value| json!({"call": "cache.get", "target": target});
    let named = |name: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name});
    let of_kind = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "name": "a"});
    let long = || json!({"$repeat": "x", "times": 5000});
    let with_fields = |fields: Value| json!({"call": "cache.get", "target": target("red-1"), "fields": fields});
    let many: Vec<_> = (0..65).map(|number| format!("/data/{number}")).collect();
    let in_namespace = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "a/b"});
    let cases = [
        (get(named(json!("../secrets/a"))), "invalid", "name"),
        (get(named(json!(""))), "invalid", "name"),
        (get(named(long())), "invalid", "name"),
        (get(in_namespace), "invalid", "namespace"),
        (get(of_kind("a/b/c", "ConfigMap")), "invalid", "`a/b/c` is not an apiVersion"),
        (get(of_kind("v1", "Config Map")), "invalid", "`Config Map` is not a kind"),
        (with_fields(json!(["data"])), "invalid", "\"data\" is not a JSON pointer"),
        (with_fields(json!(["/a~2"])), "invalid", "\"/a~2\" is not a JSON pointer"),
        (with_fields(json!(many)), "invalid", "fields"),
        (list(&json!({"fields": ["data"]})), "invalid", "\"data\" is not a JSON pointer"),
        (list(&json!({"labelSelector": "a in (b"})), "invalid", "a in (b"),
        (list(&json!({"labelSelector": "a=b=c"})), "invalid", "a=b=c"),
        (list(&json!({"labelSelector": "-a"})), "invalid", "-a"),
        (list(&json!({"labelSelector": long()})), "invalid", "selector"),
        (list(&json!({"limit": 0})), "invalid", "limit"),
        (list(&json!({"pageToken": "invented"})), "expired", "page token"),
        (list(&json!({"namespace": "A/b"})), "invalid", "namespace"),
    ];
    let call = lab.run(cases.iter().map(|(step, ..)| step.clone())).await?;
    for (number, (step, reason, words)) in cases.iter().enumerate() {
        let error = call.error(number + 1, reason);
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains(words)),
            "{words:?} is not in {error}: {step}"
        );
        let verb = if step["call"] == "cache.list" { "list" } else { "get" };
        assert_eq!(error["verb"], verb, "{error}");
    }
    assert_eq!(lab.sent(), 0);
    Ok(())
}
