//! Tests what happens to children: they are created, changed, restored, replaced, left alone, and pruned.

use serde_json::{Value, json};
use windlass_tests::server::Kind;

use super::on_both_servers;
use super::stage::{CREATED_BY, Stage, fixed_secret, map};

fn service(name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": port}]},
    })
}

fn is_owned(it: &Value, parent: &Value) -> bool {
    let owner = &it["metadata"]["ownerReferences"][0];
    owner["uid"] == parent["metadata"]["uid"] && owner["controller"] == true
}

async fn a_life(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    let two = |value: &str| json!({"children": [map("a", &json!({"x": value})), map("b", &json!({}))], "status": {"is": value}});
    let parent = stage.answer(two("1")).await?;
    for name in ["a", "b"] {
        let right = |it: &Value| is_owned(it, &parent) && it["metadata"]["labels"][CREATED_BY] == "composer";
        stage.sees("ConfigMap", name, right).await?;
    }
    stage.sees("Composite", "shop", |it| it["status"] == json!({"is": "1"})).await?;

    let before = stage.sees("ConfigMap", "a", |it| it["data"]["x"] == "1").await?;
    stage.answer(two("2")).await?;
    stage
        .sees("ConfigMap", "a", |it| it["data"]["x"] == "2" && it["metadata"]["uid"] == before["metadata"]["uid"])
        .await?;
    stage.sees("Composite", "shop", |it| it["status"] == json!({"is": "2"})).await?;

    stage.objects().delete("ConfigMap", "b").await?;
    stage.sees("ConfigMap", "b", |it| is_owned(it, &parent)).await?;

    stage.objects().merge("ConfigMap", "a", &json!({"data": {"x": "by hand"}})).await?;
    stage.sees("ConfigMap", "a", |it| it["data"]["x"] == "2").await?;

    stage.answer(json!({"children": [map("a", &json!({}))]})).await?;
    stage.gone("ConfigMap", "b").await?;
    stage.sees("ConfigMap", "a", |it| it["data"]["x"].is_null()).await?;
    // A response without a status leaves the status as it is.
    stage.sees("Composite", "shop", |it| it["status"] == json!({"is": "2"})).await?;

    stage.objects().delete("Composite", "shop").await?;
    stage.gone("ConfigMap", "a").await?;
    stage.end().await
}

async fn emptiness(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    stage.answer(json!({"children": [map("a", &json!({}))]})).await?;
    let before = stage.sees("ConfigMap", "a", |_| true).await?;
    stage.answer(json!({"nothing": true})).await?;
    stage.event("EmptyComposition", "allow-empty").await?;
    stage.host.says("composed no children, but 1 of its children exist").await?;
    stage.settle("later").await?;
    stage.sees("ConfigMap", "a", |it| it["metadata"]["uid"] == before["metadata"]["uid"]).await?;
    stage.answer(json!({"allowEmpty": true})).await?;
    stage.gone("ConfigMap", "a").await?;
    stage.end().await
}

/// One of two children cannot be applied, so nothing is pruned until it can be.
async fn half_a_failure(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    stage.answer(json!({"children": [map("old", &json!({}))]})).await?;
    let before = stage.sees("ConfigMap", "old", |_| true).await?;
    let bad =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad", "labels": {"l": "no label!"}}});
    stage.answer(json!({"children": [bad, map("new", &json!({}))], "status": {"written": "all the same"}})).await?;
    stage.sees("ConfigMap", "new", |_| true).await?;
    stage.sees("Composite", "shop", |it| it["status"]["written"] == "all the same").await?;
    stage.host.says("no label!").await?;
    stage.host.says("nothing is pruned").await?;
    stage.settle("later").await?;
    stage.sees("ConfigMap", "old", |it| it["metadata"]["uid"] == before["metadata"]["uid"]).await?;
    stage.answer(json!({"children": [map("new", &json!({}))]})).await?;
    stage.gone("ConfigMap", "old").await?;
    stage.end().await
}

async fn somebody_elses(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    let objects = stage.objects();
    // The owner must exist, or the garbage collector would delete the object.
    let other = objects.apply(&map("other-owner", &json!({}))).await?;
    let mut foreign = map("foreign", &json!({"theirs": "1"}));
    foreign["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "other-owner", "uid": other["metadata"]["uid"], "controller": true,
    }]);
    objects.apply(&foreign).await?;
    objects.apply(&map("orphan", &json!({"theirs": "1"}))).await?;
    objects.apply(&map("disputed", &json!({"ours": "another value"}))).await?;
    // The object must be in the cache: the host cannot know that an object exists before the cache shows it.
    objects.apply(&json!({
        "apiVersion": "tests.windlass.dev/v1", "kind": "Composite", "metadata": {"name": "looks"}, "spec": {"copy": true},
    })).await?;
    stage.sees("ConfigMap", "copied", |_| true).await?;

    let ours = json!({"ours": "1"});
    let children = ["foreign", "orphan", "disputed"].map(|name| map(name, &ours));
    let parent = stage.answer(json!({"children": children})).await?;
    let orphan = stage.sees("ConfigMap", "orphan", |it| is_owned(it, &parent)).await?;
    assert_eq!(orphan["data"], json!({"theirs": "1", "ours": "1"}));
    assert!(orphan["metadata"]["labels"][CREATED_BY].is_null(), "what is adopted carries no mark: {orphan}");
    stage.event("Adopted", "orphan").await?;
    stage.event("NotOurs", "other-owner").await?;
    stage.host.says("disputed").await?;
    let foreign = stage.sees("ConfigMap", "foreign", |it| it["data"] == json!({"theirs": "1"})).await?;
    assert_eq!(foreign["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1), "{foreign}");
    let disputed = stage.sees("ConfigMap", "disputed", |it| it["data"] == json!({"ours": "another value"})).await?;
    assert!(disputed["metadata"]["ownerReferences"].is_null(), "{disputed}");

    // Everything works now, and the objects of other owners are still there.
    stage.answer(json!({"children": [map("own", &json!({}))]})).await?;
    stage.sees("ConfigMap", "own", |_| true).await?;
    stage.answer(json!({"allowEmpty": true})).await?;
    stage.gone("ConfigMap", "own").await?;
    stage.settle("later").await?;
    stage.sees("ConfigMap", "orphan", |it| is_owned(it, &parent)).await?;
    stage.sees("ConfigMap", "foreign", |_| true).await?;
    stage.end().await
}

async fn strategies(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    let answer = |secret: &str, port: u16, data: &str| {
        let mut fixed = map("fixed", &json!({"x": data}));
        fixed["immutable"] = json!(true);
        json!({"children": [fixed_secret("key", secret), service("front", port), fixed]})
    };
    stage.answer(answer("YQ==", 80, "1")).await?;
    let secret = stage.sees("Secret", "key", |it| it["data"]["password"] == "YQ==").await?;
    stage.sees("Service", "front", |it| it["spec"]["ports"][0]["port"] == 80).await?;
    stage.sees("ConfigMap", "fixed", |it| it["data"]["x"] == "1").await?;

    // Only the metadata of a Secret changes, so the host need not replace it.
    let mut labelled = answer("YQ==", 80, "1");
    labelled["children"][0]["metadata"]["labels"] = json!({"new": "label"});
    stage.answer(labelled).await?;
    let same = stage.sees("Secret", "key", |it| it["metadata"]["labels"]["new"] == "label").await?;
    assert_eq!(same["metadata"]["uid"], secret["metadata"]["uid"]);

    stage.answer(answer("Yg==", 81, "2")).await?;
    let replaced = stage.sees("Secret", "key", |it| it["data"]["password"] == "Yg==").await?;
    assert_ne!(replaced["metadata"]["uid"], secret["metadata"]["uid"]);
    // With in-place updates, a forbidden change is reported once, with a remedy.
    stage.host.says("failed for good").await?;
    stage.event("ReconcileFailed", "updateStrategy: recreate").await?;
    stage.settle("later").await?;
    stage.sees("ConfigMap", "fixed", |it| it["data"]["x"] == "1").await?;
    let tries = stage.host.log().matches("failed for good").count();
    assert!(tries <= 4, "{tries} tries of one change that cannot be made:\n{}", stage.host.log());
    // If the strategy is to wait for a deletion, the new version is created once the old one is deleted.
    stage.sees("Service", "front", |it| it["spec"]["ports"][0]["port"] == 80).await?;
    stage.objects().delete("Service", "front").await?;
    stage.sees("Service", "front", |it| it["spec"]["ports"][0]["port"] == 81).await?;
    stage.end().await
}

/// A child is not deleted if the server would refuse its replacement.
async fn an_invalid_replacement(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    stage.answer(json!({"children": [fixed_secret("key", "YQ==")]})).await?;
    let before = stage.sees("Secret", "key", |_| true).await?;
    let mut invalid = fixed_secret("key", "Yg==");
    invalid["metadata"]["labels"] = json!({"l": "no label!"});
    stage.answer(json!({"children": [invalid]})).await?;
    stage.host.says("no label!").await?;
    stage.settle("later").await?;
    stage.sees("Secret", "key", |it| it["metadata"]["uid"] == before["metadata"]["uid"]).await?;
    stage.end().await
}

async fn waiting(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    let answer = |x: &str| json!({"children": [map("slow", &json!({"x": x})), map("quick", &json!({"x": x}))]});
    stage.answer(answer("1")).await?;
    let before = stage.sees("ConfigMap", "slow", |_| true).await?;
    stage
        .objects()
        .merge("ConfigMap", "slow", &json!({"metadata": {"finalizers": ["tests.windlass.dev/slow"]}}))
        .await?;
    stage.objects().delete("ConfigMap", "slow").await?;
    // As long as the host has not seen the deletion of an object, it may still update the object.
    stage.host.says("waiting until the child has been deleted").await?;
    stage.answer(answer("2")).await?;
    stage.sees("ConfigMap", "quick", |it| it["data"]["x"] == "2").await?;
    stage.settle("later").await?;
    stage
        .sees("ConfigMap", "slow", |it| it["data"]["x"] == "1" && it["metadata"]["uid"] == before["metadata"]["uid"])
        .await?;
    stage.objects().merge("ConfigMap", "slow", &json!({"metadata": {"finalizers": null}})).await?;
    let again = stage.sees("ConfigMap", "slow", |it| it["data"]["x"] == "2").await?;
    assert_ne!(again["metadata"]["uid"], before["metadata"]["uid"]);
    stage.end().await
}

/// A parent with a finalizer is composed until its composer releases it.
async fn a_farewell(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::with(kind, "ends").await?;
    let [a, b] = ["a", "b"].map(|name| map(name, &json!({})));
    let answer =
        |last: Value, finalized: bool| json!({"children": [a, b], "lastChildren": last, "finalized": finalized});
    stage.answer(answer(json!([b]), false)).await?;
    let kept = stage.sees("ConfigMap", "b", |_| true).await?;
    stage.sees("ConfigMap", "a", |_| true).await?;
    let has_finalizer = |it: &Value| it["metadata"]["finalizers"] == json!(["windlass.dev/composer"]);
    stage.sees("Composite", "shop", has_finalizer).await?;

    stage.objects().delete("Composite", "shop").await?;
    stage.gone("ConfigMap", "a").await?;
    stage.settle("later").await?;
    stage.sees("ConfigMap", "b", |it| it["metadata"]["uid"] == kept["metadata"]["uid"]).await?;
    stage.sees("Composite", "shop", |it| it["metadata"]["deletionTimestamp"].is_string() && has_finalizer(it)).await?;

    let spec = answer(json!([]), true);
    stage.objects().merge("Composite", "shop", &json!({"spec": spec})).await?;
    stage.gone("ConfigMap", "b").await?;
    stage.gone("Composite", "shop").await?;
    stage.end().await
}

on_both_servers! {
    a_life: children_are_made_changed_mended_and_pruned_on_the_embedded_server,
        children_are_made_changed_mended_and_pruned_on_a_real_kube_apiserver;
    a_farewell: a_parent_with_a_finalizer_is_composed_until_it_may_go_on_the_embedded_server,
        a_parent_with_a_finalizer_is_composed_until_it_may_go_on_a_real_kube_apiserver;
    emptiness: an_empty_answer_prunes_nothing_unless_it_says_so_on_the_embedded_server,
        an_empty_answer_prunes_nothing_unless_it_says_so_on_a_real_kube_apiserver;
    half_a_failure: a_child_that_cannot_be_applied_keeps_the_others_from_being_pruned_on_the_embedded_server,
        a_child_that_cannot_be_applied_keeps_the_others_from_being_pruned_on_a_real_kube_apiserver;
    somebody_elses: what_is_somebody_elses_is_left_alone_and_what_is_nobodys_adopted_on_the_embedded_server,
        what_is_somebody_elses_is_left_alone_and_what_is_nobodys_adopted_on_a_real_kube_apiserver;
    strategies: each_kind_changes_by_its_strategy_on_the_embedded_server,
        each_kind_changes_by_its_strategy_on_a_real_kube_apiserver;
    an_invalid_replacement: a_child_is_not_deleted_for_an_invalid_one_on_the_embedded_server,
        a_child_is_not_deleted_for_an_invalid_one_on_a_real_kube_apiserver;
    waiting: a_child_that_is_being_deleted_is_waited_for_on_the_embedded_server,
        a_child_that_is_being_deleted_is_waited_for_on_a_real_kube_apiserver;
}
