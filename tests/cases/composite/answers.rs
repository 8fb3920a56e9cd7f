//! Tests responses of composers: responses that depend on objects around the parent, and invalid ones.

use serde_json::{Value, json};
use windlass_tests::server::Kind;

use super::on_both_servers;
use super::stage::{Stage, map};

async fn related(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    let objects = stage.objects();
    let mut labelled = map("settings", &json!({"colour": "red"}));
    labelled["metadata"]["labels"] = json!({"tests.windlass.dev/for": "shop"});
    objects.apply(&labelled).await?;
    let secret =
        |text: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "named"}, "data": {"a": text}});
    objects.apply(&secret("YQ==")).await?;
    objects.apply(&map("unrelated", &json!({"colour": "grey"}))).await?;
    stage.answer(json!({"copy": true, "secret": "named", "children": [map("a", &json!({}))]})).await?;
    let told = |words: &'static [&'static str]| {
        move |it: &Value| {
            let related = it["data"]["related"].as_str().unwrap_or_default();
            it["data"]["children"] == "a,copied" && words.iter().all(|word| related.contains(word))
        }
    };
    let it = stage.sees("ConfigMap", "copied", told(&["settings", "red", "named", "YQ=="])).await?;
    assert!(!it["data"]["related"].to_string().contains("grey"), "{it}");
    objects.merge("ConfigMap", "settings", &json!({"data": {"colour": "blue"}})).await?;
    stage.sees("ConfigMap", "copied", told(&["blue"])).await?;
    objects.apply(&secret("Yg==")).await?;
    stage.sees("ConfigMap", "copied", told(&["Yg=="])).await?;
    stage.end().await
}

/// Returns every invalid response in turn; after each, the child of the last valid response is unchanged.
async fn wrong_answers(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    stage.answer(json!({"children": [map("a", &json!({}))]})).await?;
    let before = stage.sees("ConfigMap", "a", |_| true).await?;
    let named = |metadata: Value| {
        let mut child = map("", &json!({}));
        child["metadata"] = metadata;
        child
    };
    let good = map("good", &json!({}));
    let wrong = [
        (json!({"children": ["not json", good]}), "children[0]: it is not a JSON object"),
        (json!({"children": [good, "[]"]}), "children[1]: it is not a JSON object"),
        (json!({"children": [good, good]}), "ConfigMap"),
        (json!({"children": [good, named(json!({}))]}), "cannot be the name"),
        (json!({"children": [good, named(json!({"generateName": "x-"}))]}), "generateName"),
        (json!({"children": [good, named(json!({"name": "x", "namespace": "kube-system"}))]}), "kube-system"),
        (json!({"children": [good, named(json!({"name": "../../secrets/x"}))]}), "secrets/x"),
        (json!({"children": [good, named(json!({"name": "x", "uid": "1"}))]}), "metadata.uid"),
        (json!({"children": [good, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}]}), "owns no v1 Pod"),
        (json!({"children": [good], "status": "not json"}), "status: it is not JSON"),
        (json!({"children": [good], "status": "[]"}), "status: it is not a JSON object"),
        (json!({"count": 1001}), "at most 1000"),
    ];
    for (spec, words) in wrong {
        stage.answer(spec).await?;
        stage.host.says(words).await?;
    }
    stage.settle("later").await?;
    stage.sees("ConfigMap", "a", |it| it["metadata"]["uid"] == before["metadata"]["uid"]).await?;
    assert!(stage.objects().get("ConfigMap", "good").await?.is_none(), "half of a wrong answer was applied");
    stage.answer(json!({"children": [good]})).await?;
    stage.gone("ConfigMap", "a").await?;
    stage.end().await
}

/// The composer traps, loops or fails. Other plugins are still served, and its own children are not pruned.
async fn misbehaviour(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    stage.answer(json!({"children": [map("a", &json!({}))]})).await?;
    let before = stage.sees("ConfigMap", "a", |_| true).await?;
    let ways: [(&str, &[&str]); 6] = [
        ("trap", &["told to trap"]),
        ("devour", &["--limit memory="]),
        ("transient", &["told to fail for now"]),
        ("terminal", &["told to fail for good"]),
        ("silent", &["without saying why"]),
        // On a busy machine, the call reaches its deadline first.
        ("loop", &["more than 1s of processor time", "it had not ended after 2s"]),
    ];
    for (how, words) in ways {
        stage.answer(json!({"misbehave": how})).await?;
        stage.host.says_one_of(words).await?;
    }
    stage.settle("later").await?;
    stage.sees("ConfigMap", "a", |it| it["metadata"]["uid"] == before["metadata"]["uid"]).await?;
    stage.answer(json!({"children": [map("b", &json!({}))]})).await?;
    stage.gone("ConfigMap", "a").await?;
    stage.end().await
}

/// A composer gets the same random numbers in each call, so its children stop changing. It runs again if it asks for
/// that.
async fn the_rest(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    let events = json!([{"type": "Warning", "reason": "Drawn", "note": "by chance"}]);
    stage.answer(json!({"draw": true, "events": events, "requeueAfterMs": 50, "status": {"n": 1}})).await?;
    let drawn = stage.sees("ConfigMap", "drawn", |it| it["data"]["clock"] == "stands still").await?;
    assert_eq!(drawn["data"]["config"], "{}");
    stage.event("Drawn", "by chance").await?;
    stage.host.says_times("composing", 5).await?;
    let later = stage.sees("ConfigMap", "drawn", |_| true).await?;
    assert_eq!(later["metadata"]["resourceVersion"], drawn["metadata"]["resourceVersion"], "{later}");
    let parent = stage.sees("Composite", "shop", |it| it["status"]["n"] == 1).await?;
    stage.host.says_times("composing", 10).await?;
    let later = stage.sees("Composite", "shop", |_| true).await?;
    assert_eq!(later["metadata"]["resourceVersion"], parent["metadata"]["resourceVersion"], "no change, no write");
    stage.end().await
}

on_both_servers! {
    related: what_is_related_to_a_parent_composes_it_again_on_the_embedded_server,
        what_is_related_to_a_parent_composes_it_again_on_a_real_kube_apiserver;
    wrong_answers: of_a_wrong_answer_nothing_is_applied_on_the_embedded_server,
        of_a_wrong_answer_nothing_is_applied_on_a_real_kube_apiserver;
    misbehaviour: a_composer_that_misbehaves_hurts_only_itself_on_the_embedded_server,
        a_composer_that_misbehaves_hurts_only_itself_on_a_real_kube_apiserver;
    the_rest: a_composition_comes_to_rest_on_the_embedded_server,
        a_composition_comes_to_rest_on_a_real_kube_apiserver;
}
