//! Tests objects that a composer relates to its parents by its own code, and parents of kinds that another
//! project defines.

use serde_json::{Value, json};
use windlass_tests::server::Kind;

use super::on_both_servers;
use super::stage::Stage;

fn secret(name: &str, value: &str) -> Value {
    let metadata = json!({"name": name, "labels": {"of": "shop"}});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"value": value}})
}

fn related(copied: &Value) -> &str {
    copied["data"]["related"].as_str().unwrap_or_default()
}

async fn a_life(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::with(kind, "asks").await?;
    stage.objects().apply(&secret("one", "MQ==")).await?;
    stage.objects().apply(&secret("two", "Mg==")).await?;
    let asking = |rules: Value| json!({"rules": rules, "copy": true});
    stage.answer(asking(json!([{"names": ["one"]}]))).await?;
    // Without the labels, which are not among the fields that the manifest asks for.
    stage.sees("ConfigMap", "copied", |it| related(it) == r#""Secret" one {"value":"MQ=="}"#).await?;
    // A change of a related object composes the parent again.
    stage.objects().apply(&secret("one", "MTE=")).await?;
    stage.sees("ConfigMap", "copied", |it| related(it).contains("MTE=")).await?;
    // By labels: the result has all matching objects, also an object that is created later, but not an object
    // that is deleted.
    stage.answer(asking(json!([{"labelSelector": "of=shop"}]))).await?;
    stage.sees("ConfigMap", "copied", |it| related(it).lines().count() == 2).await?;
    stage.objects().apply(&secret("three", "Mw==")).await?;
    stage.sees("ConfigMap", "copied", |it| related(it).lines().count() == 3).await?;
    stage.objects().delete("Secret", "two").await?;
    stage.sees("ConfigMap", "copied", |it| related(it).lines().count() == 2 && !related(it).contains("two")).await?;
    stage.answer(asking(json!([]))).await?;
    stage.sees("ConfigMap", "copied", |it| related(it).is_empty()).await?;
    stage.end().await
}

async fn decoration(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::with(kind, "deco").await?;
    let namespace = stage.objects().namespace().to_owned();
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "default-limits", "namespace": namespace},
        "data": {"cpu": "1"},
    });
    let spec = json!({"children": [child]}).to_string();
    let metadata = json!({
        "name": namespace, "labels": {"tests.windlass.dev/decorated": "yes"},
        "annotations": {"tests.windlass.dev/spec": spec},
    });
    let parent = stage.objects().apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await?;
    let owned = |it: &Value| it["metadata"]["ownerReferences"][0]["uid"] == parent["metadata"]["uid"];
    stage.sees("ConfigMap", "default-limits", owned).await?;
    stage.objects().delete("ConfigMap", "default-limits").await?;
    stage.sees("ConfigMap", "default-limits", owned).await?;
    stage.end().await
}

async fn mistakes(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::with(kind, "asks").await?;
    for (spec, words) in [
        (json!({"misbehave": "rules"}), "told to have no rules for now"),
        (json!({"rules": [{"watch": "maps"}]}), "the manifest maps no watch `maps` by `customize`"),
        (
            json!({"rules": [{}, {"labelSelector": "a in"}]}),
            "the answer of `customize` is wrong: [1]: in the label selector",
        ),
    ] {
        stage.answer(spec).await?;
        stage.host.says(words).await?;
    }
    // The parent recovers once the response is valid.
    stage.answer(json!({"rules": [{}], "copy": true})).await?;
    stage.sees("ConfigMap", "copied", |_| true).await?;
    stage.end().await
}

on_both_servers! {
    a_life: a_parent_follows_what_its_own_rules_relate_to_it_on_the_embedded_server,
        a_parent_follows_what_its_own_rules_relate_to_it_on_a_real_kube_apiserver;
    decoration: a_parent_of_anybodys_kind_gets_children_on_the_embedded_server,
        a_parent_of_anybodys_kind_gets_children_on_a_real_kube_apiserver;
    mistakes: wrong_rules_are_named_and_can_be_mended_on_the_embedded_server,
        wrong_rules_are_named_and_can_be_mended_on_a_real_kube_apiserver;
}
