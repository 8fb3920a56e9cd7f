//! Tests caches with a `where`: what they keep, which events subscribers see, and how they prove to be fresh.

use serde_json::{Value, json};
use windlass_core::cache::freshness::{Evidence, Proof};
use windlass_core::cache::watch::{Projection, WatchSpec};
use windlass_core::cache::where_clause::{WhereClause, WhereCondition};
use windlass_kube::{Discovery, InformerOptions, Informers};

use crate::informer::events;
use crate::script::{Reply, Script, key, line, list, pod, pods};

fn filtered(conditions: Value, projection: Projection) -> WatchSpec {
    let conditions: Vec<WhereCondition> = serde_json::from_value(conditions).expect("conditions");
    WatchSpec { where_clause: WhereClause::new(&conditions), projection, ..pods() }
}

/// Pods with the annotation `auto: "true"`.
fn auto() -> WatchSpec {
    filtered(json!([{"annotation": "auto", "is": "true"}]), Projection::Full)
}

fn annotated(name: &str, version: u32, auto: &str) -> Value {
    let mut pod = pod(name, "u", version);
    pod["metadata"]["annotations"] = json!({"auto": auto});
    pod
}

fn informers(script: &Script) -> Informers {
    let client = script.client();
    Informers::new(client.clone(), Discovery::new(client))
}

#[tokio::test(start_paused = true)]
async fn an_object_enters_and_leaves_with_its_annotation() {
    let script =
        Script::default().lists([list(10, &[annotated("a", 5, "true"), annotated("b", 6, "false")])]).watches([
            Reply::Open(vec![
                line("MODIFIED", &annotated("b", 11, "no")),
                line("MODIFIED", &annotated("a", 12, "no")),
                line("MODIFIED", &annotated("a", 13, "nor this")),
                line("MODIFIED", &annotated("b", 14, "true")),
                line("DELETED", &annotated("b", 15, "no")),
                line("DELETED", &annotated("a", 16, "no")),
                line("ADDED", &annotated("c", 17, "true")),
            ]),
        ]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(auto());
    let seen = events(&mut subscription, 5).await;
    assert_eq!(seen, ["+a@5", "-a@12", "b@14", "-b@15", "c@17"], "a leaves once, with the version of that change");
    assert_eq!((subscription.store().len(), subscription.store().version()), (1, Some("17".into())));
}

#[tokio::test(start_paused = true)]
async fn a_version_advances_with_objects_that_are_not_kept() {
    let script = Script::default().lists([list(10, &[])]).watches([
        Reply::Closed(vec![line("MODIFIED", &annotated("b", 11, "no"))]),
        Reply::Open(vec![line("ADDED", &annotated("c", 12, "true"))]),
    ]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(auto());
    assert_eq!(events(&mut subscription, 1).await, ["c@12"]);
    assert_eq!(script.watches_asked()[1].parameter("resourceVersion"), Some("11"), "nothing is sent twice");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_leaves_out_what_changed_before_its_end() {
    let end = json!({"kind": "Pod", "metadata": {
        "resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"},
    }});
    let script = Script::default().watches([Reply::Open(vec![
        line("ADDED", &annotated("a", 5, "true")),
        line("ADDED", &annotated("b", 6, "no")),
        line("ADDED", &annotated("c", 7, "true")),
        line("MODIFIED", &annotated("a", 8, "no")),
        line("DELETED", &annotated("d", 9, "true")),
        line("BOOKMARK", &end),
    ])]);
    let (client, streaming) = (script.client(), InformerOptions { streaming_lists: true, ..Default::default() });
    let informers = Informers::with_options(client.clone(), Discovery::new(client), streaming);
    let mut subscription = informers.subscribe(auto());
    assert_eq!(events(&mut subscription, 1).await, ["+c@7"]);
    assert_eq!((subscription.store().len(), script.asked().len()), (1, 2), "discovery, and one watch");
}

#[tokio::test(start_paused = true)]
async fn conditions_read_fields_that_the_cache_does_not_keep() {
    let mut on_node = annotated("a", 5, "x");
    on_node["spec"] = json!({"nodeName": "n", "other": 1});
    let conditions = || json!([{"field": "/spec/nodeName", "exists": true}]);
    let script = Script::default().lists([list(10, &[on_node, pod("b", "v", 6)])]);
    let informers = informers(&script);
    let subscription = informers.subscribe(filtered(conditions(), Projection::fields(["/spec/other".into()])));
    subscription.synced().await;
    let kept = subscription.store().get(&key("a")).expect("in the store").text();
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    assert_eq!((subscription.store().len(), &kept["spec"]), (1, &json!({"other": 1})));
    assert_ne!(filtered(conditions(), Projection::Full), pods(), "a cache of its own");
}

/// The `Accept` header of the first list and of the list that a proof of freshness compares with.
async fn forms(spec: &WatchSpec) -> [String; 2] {
    let mut item = annotated("a", 5, "true");
    item["spec"] = json!({"nodeName": "n"});
    let items = [item, annotated("b", 6, "no")];
    let script = Script::default()
        .comparable()
        .lists([list(10, &items), list(20, &[]), list(20, &items)])
        .watches([Reply::Open(Vec::new()), Reply::Closed(Vec::new())]);
    let client = script.client();
    let informers = Informers::new(client.clone(), Discovery::new(client).compare_versions(true));
    let subscription = informers.subscribe(spec.clone());
    subscription.synced().await;
    assert_eq!(informers.prove(spec).await, Proof::Proven(Evidence::Compared));
    assert_eq!(subscription.store().len(), 1);
    let lists = script.asked().into_iter().filter(|asked| asked.parameter("limit") == Some("500"));
    lists.map(|asked| asked.accept).collect::<Vec<_>>().try_into().expect("two lists")
}

#[tokio::test(start_paused = true)]
async fn a_filtered_cache_is_compared_with_what_its_conditions_need() {
    let whole = "application/json";
    let [listed, compared] = forms(&auto()).await;
    assert_eq!(listed, whole);
    assert!(compared.contains("PartialObjectMetadataList"), "annotations are metadata: {compared}");
    let fields = json!([{"field": "/spec/nodeName", "is": "n"}, {"annotation": "auto", "is": "true"}]);
    assert_eq!(forms(&filtered(fields, Projection::Full)).await, [whole, whole]);
    let metadata = json!([{"annotation": "auto", "notIn": ["no"]}]);
    let [listed, compared] = forms(&filtered(metadata, Projection::Metadata)).await;
    assert!(listed.contains("PartialObjectMetadataList") && listed == compared, "{listed}");
}
