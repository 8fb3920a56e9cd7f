//! A call sees its own writes before the watch shows them, and so does every later call.

use serde_json::{Value, json};
use windlass_proxy::{Fault, Match};
use windlass_tests::probe::Lab;
use windlass_tests::server::Kind;
use windlass_tests::wait::until;

use super::{all, config_map, on_both_servers, target};

on_both_servers!(a_call_sees_its_own_writes);

async fn a_call_sees_its_own_writes(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    lab.put(&config_map("old")).await?;
    let mut waiting = config_map("waiting");
    waiting["metadata"]["finalizers"] = json!(["test.windlass.dev/wait"]);
    lab.put(&waiting).await?;
    // The host gets no watch events of ConfigMaps while the script runs.
    let news = lab.proxy.add(Fault::Hold.on(Match::watches("configmaps")));
    let get = |name: &str| json!({"call": "cache.get", "target": target(name), "fields": ["/data", "/metadata/deletionTimestamp"]});
    let list = |conditions: Value| {
        let mut query = json!({"kind": {"apiVersion": "v1", "kind": "ConfigMap"}, "fields": []});
        for (name, value) in conditions.as_object().into_iter().flatten() {
            query[name] = value.clone();
        }
        json!({"call": "cache.list", "query": query})
    };
    let mut new = config_map("new");
    new["metadata"]["labels"] = json!({"tier": "front"});
    new["data"] = json!({"color": "red"});
    let red = json!({"index": {"index": "by-color", "value": "red"}});
    let blue = json!({"index": {"index": "by-color", "value": "blue"}});
    let call = lab
        .run([
            json!({"call": "writes.create", "object": new, "options": {"owned": true}}),
            get("new"),
            list(json!({"labelSelector": "tier=front"})),
            list(red.clone()),
            list(json!({"owned": true})),
            json!({
                "call": "writes.patch", "target": target("new"), "patchType": "merge",
                "patch": {"data": {"color": "blue"}},
            }),
            get("new"),
            list(red.clone()),
            list(blue),
            json!({"call": "writes.delete", "target": target("old")}),
            get("old"),
            json!({"call": "writes.delete", "target": target("waiting")}),
            get("waiting"),
            json!({"call": "writes.patch", "target": target("new"), "patchType": "merge", "patch": {"data": {"color": "green"}},
                "options": {"dryRun": true}}),
            get("new"),
            json!({"call": "writes.delete", "target": target("new")}),
            get("new"),
            list(json!({"owned": true})),
            list(json!({"limit": 1, "labelSelector": "tier"})),
        ])
        .await?;
    let names = |step: u32| all(&call.ok(step)["items"], "/metadata/name");
    assert_eq!(call.ok(2)["data"], json!({"color": "red"}), "a new object");
    assert_eq!([names(3), names(4), names(5)], [["new"]; 3], "in lists by label, index and owner");
    assert_eq!(call.ok(7)["data"], json!({"color": "blue"}), "a changed one");
    assert_eq!([names(8), names(9)], [vec![], vec!["new"]], "under its new value in an index alone");
    assert_eq!(*call.ok(11), Value::Null, "one that has gone");
    assert!(
        call.ok(13)["metadata"]["deletionTimestamp"].is_string(),
        "one that waits for a finalizer: {}",
        call.ok(13)
    );
    assert_eq!(call.ok(15)["data"], json!({"color": "blue"}), "a dry run has written nothing");
    assert_eq!(*call.ok(17), Value::Null);
    assert_eq!([names(18), names(19)], [Vec::<&str>::new(), vec![]]);
    assert!(news.held() > 0, "the watch has not told of them");
    news.remove();
    lab.server.objects().merge("ConfigMap", "waiting", &json!({"metadata": {"finalizers": null}})).await?;
    until("the cache has caught up", || async {
        let call = lab.run([get("waiting"), get("old")]).await?;
        anyhow::ensure!(call.ok(1).is_null() && call.ok(2).is_null(), "{call:?}");
        Ok(())
    })
    .await
}
