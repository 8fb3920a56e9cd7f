//! Tests children of a kind that a new version of a composite plugin no longer owns. They are reported, listed, and
//! deleted on request.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::Context;
use serde_json::{Value, json};
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;
use windlass_tests::{marker, paths};

use super::on_both_servers;
use super::stage::{CREATED_BY, OWNS, Stage, fixed_secret, map};
use crate::admin;

/// Runs `windlass children ARGUMENTS`. Returns whether it succeeded, and its output.
async fn children(server: &Server, arguments: &[&str]) -> anyhow::Result<(bool, String)> {
    let mut command = tokio::process::Command::new(paths::windlass()?);
    command.arg("children").args(arguments).arg("--kubeconfig").arg(server.kubeconfig());
    command.args(["--namespace", server.objects().namespace()]).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().await?;
    Ok((status.success(), format!("{}{}", String::from_utf8(stdout)?, String::from_utf8(stderr)?)))
}

/// A Secret with this label and controller that no host has created.
fn secret(name: &str, mark: Option<&str>, controller: Option<&Value>) -> Value {
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    if let Some(mark) = mark {
        secret["metadata"]["labels"] = json!({CREATED_BY: mark});
    }
    if let Some(owner) = controller {
        let reference = json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true,
        });
        secret["metadata"]["ownerReferences"] = json!([reference]);
    }
    secret
}

/// Creates objects that resemble children in some way but must not be deleted.
async fn others(stage: &Stage, parent: &Value) -> anyhow::Result<[&'static str; 4]> {
    let objects = stage.objects();
    let map = objects.get("ConfigMap", "a").await?.context("it was composed")?;
    objects.apply(&secret("adopted", None, Some(parent))).await?;
    objects.apply(&secret("anothers", Some("webapp"), Some(parent))).await?;
    objects.apply(&secret("copied", Some("composer"), None)).await?;
    objects.apply(&secret("grandchild", Some("composer"), Some(&map))).await?;
    Ok(["adopted", "anothers", "copied", "grandchild"])
}

async fn a_narrower_version(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    let both = json!([map("a", &json!({})), fixed_secret("key", "YQ=="), fixed_secret("lock", "YQ==")]);
    let parent = stage.answer(json!({"children": both})).await?;
    for name in ["key", "lock"] {
        stage.sees("Secret", name, |it| it["metadata"]["labels"][CREATED_BY] == "composer").await?;
    }
    let others = others(&stage, &parent).await?;
    let Stage { server, host, plugins } = stage;
    assert!(host.terminate().await?.success());

    let file = plugins.path().join("composer.wasm");
    marker::write("composer", OWNS, "maps", &file)?;
    let file = file.to_str().context("a path")?;
    server.objects().merge("Composite", "shop", &json!({"spec": {"children": [map("a", &json!({}))]}})).await?;
    let (host, address) = admin::watched(&server, plugins.path(), &[]).await?;
    let warning = host.says("children that an earlier version of the plugin has created").await?;
    let remedy = format!("windlass children prune composer --left-behind {file} --kind secrets");
    assert!(warning.contains("objects=2") && warning.contains(&remedy), "{warning}");
    until("/plugins shows what was left behind", || async {
        let shown = admin::plugin(address, "composer").await?;
        anyhow::ensure!(shown["leftBehind"] == json!([{"resource": "secrets", "count": 2}]), "{shown}");
        Ok(())
    })
    .await?;

    listed(&server, file).await?;
    pruned(&server, Path::new(file), &others).await?;
    assert!(server.objects().get("ConfigMap", "a").await?.is_some(), "what is owned stays");
    assert!(host.terminate().await?.success());
    Ok(())
}

async fn listed(server: &Server, file: &str) -> anyhow::Result<()> {
    let (success, text) = children(server, &["list", "--plugin", "composer"]).await?;
    assert!(success && text.contains("composer  Composite/shop"), "{text}");
    for name in ["configmaps  a ", "key", "lock", "copied", "grandchild"] {
        assert!(text.contains(name), "{name} is not in:\n{text}");
    }
    assert!(!text.contains("adopted") && !text.contains("anothers"), "{text}");
    let (success, text) = children(server, &["list", "--left-behind", file, "-o", "json"]).await?;
    assert!(success, "{text}");
    let left: Vec<Value> = serde_json::from_str(text[..=text.rfind(']').unwrap_or(0)].trim())?;
    let names: Vec<_> = left.iter().map(|it| (&it["name"], &it["parent"]["name"])).collect();
    assert_eq!(names, [(&json!("key"), &json!("shop")), (&json!("lock"), &json!("shop"))], "{text}");
    Ok(())
}

async fn pruned(server: &Server, file: &Path, others: &[&str]) -> anyhow::Result<()> {
    let file = file.to_str().context("a path")?;
    let there =
        async |name: &'static str| Ok::<_, anyhow::Error>(server.objects().get("Secret", name).await?.is_some());
    let prune = ["prune", "composer", "--left-behind", file];
    let (success, text) = children(server, &["prune", "composer"]).await?;
    assert!(!success && text.contains("--left-behind"), "some kind must be named: {text}");
    let (success, text) = children(server, &prune).await?;
    assert!(!success && text.contains("--yes"), "nobody can be asked: {text}");
    let (success, text) = children(server, &[&prune[..], &["--kind", "configmaps", "--yes"]].concat()).await?;
    assert!(success && text.contains("no object"), "they are owned: {text}");
    let (success, text) = children(server, &["prune", "webapp", "--left-behind", file, "--yes"]).await?;
    assert!(!success && text.contains("is the plugin composer"), "{text}");
    let (success, text) = children(server, &[&prune[..], &["--dry-run"]].concat()).await?;
    assert!(success && text.contains("secrets/key") && text.contains("nothing was done"), "{text}");
    let (success, text) = children(server, &["prune", "composer", "--kind", "secrets", "--dry-run"]).await?;
    assert!(success && text.contains("secrets/lock"), "{text}");
    assert!(!text.contains("adopted") && !text.contains("anothers") && !text.contains("copied"), "{text}");
    assert!(there("key").await? && there("lock").await?, "nothing was to be done");

    let (success, text) = children(server, &[&prune[..], &["--yes"]].concat()).await?;
    assert!(success && text.matches(": deleted").count() == 2, "{text}");
    until("what was left behind is gone", || async {
        anyhow::ensure!(!there("key").await? && !there("lock").await?, "not yet");
        Ok(())
    })
    .await?;
    for name in others {
        assert!(server.objects().get("Secret", name).await?.is_some(), "{name} is gone");
    }
    let (success, text) = children(server, &["list", "--left-behind", file]).await?;
    assert!(success && text.contains("no object"), "{text}");
    Ok(())
}

on_both_servers! {
    a_narrower_version: children_of_a_kind_that_a_new_version_does_not_own_are_told_and_pruned_on_request_on_the_embedded_server,
        children_of_a_kind_that_a_new_version_does_not_own_are_told_and_pruned_on_request_on_a_real_kube_apiserver;
}
