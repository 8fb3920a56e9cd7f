//! Tests feature gates: their effects, where they are shown, and which values are refused.

use std::process::{Command, Output};

use anyhow::Context as _;
use futures::future::try_join_all;
use serde_json::Value;
use windlass_proxy::{Match, Verb};
use windlass_tests::host::Host;
use windlass_tests::paths;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;

use crate::webapp::plugin_directory;

/// clap's exit code for an invalid command line.
const USAGE: Option<i32> = Some(2);

fn windlass(arguments: &[&str], environment: Option<&str>) -> anyhow::Result<Output> {
    let mut command = Command::new(paths::windlass()?);
    command.args(arguments).env_remove("WINDLASS_FEATURE_GATES");
    if let Some(gates) = environment {
        command.env("WINDLASS_FEATURE_GATES", gates);
    }
    Ok(command.output()?)
}

#[test]
fn an_invalid_feature_gate_ends_every_command_before_it_begins() -> anyhow::Result<()> {
    for (gates, word) in [
        ("WatchLists=true", "there are AllAlpha, AllBeta, AutomaticExpectations,"),
        ("WatchList", "WatchList=true"),
        ("WatchList=on", "neither true nor false"),
    ] {
        let flag = format!("--feature-gates={gates}");
        // The directory does not exist, but the command must fail before it looks for it.
        for command in [&["run", "--plugins", "/nowhere"][..], &["dev", "--plugins", "/nowhere"], &["features"]] {
            let by_flag = windlass(&[command, &[&flag]].concat(), None)?;
            let by_environment = windlass(command, Some(gates))?;
            for Output { status, stderr, .. } in [by_flag, by_environment] {
                let said = String::from_utf8(stderr)?;
                assert_eq!(status.code(), USAGE, "{command:?} {gates}: {said}");
                assert!(said.contains("--feature-gates") && said.contains(word), "{command:?} {gates}: {said}");
            }
        }
    }
    Ok(())
}

#[test]
fn the_gates_are_listed_for_people_and_for_scripts() -> anyhow::Result<()> {
    let Output { status, stdout, .. } = windlass(&["features"], None)?;
    let text = String::from_utf8(stdout)?;
    assert!(status.success() && text.contains("WatchList") && text.contains("ALPHA"), "{text}");

    let arguments =
        ["features", "-o", "json", "--feature-gates=AllAlpha=true", "--feature-gates=AutomaticExpectations=false"];
    let Output { status, stdout, stderr } = windlass(&arguments, None)?;
    let (gates, said): (Vec<Value>, _) = (serde_json::from_slice(&stdout)?, String::from_utf8(stderr)?);
    let enabled = |name: &str| gates.iter().find(|gate| gate["name"] == name).map(|gate| gate["enabled"] == true);
    assert!(status.success());
    assert_eq!((enabled("WatchList"), enabled("AutomaticExpectations")), (Some(true), Some(false)), "{gates:?}");
    assert!(said.contains("AutomaticExpectations=false was set, which is generally available"), "{said}");
    Ok(())
}

/// Runs the story with each gate that may be changed set to the opposite of its default.
async fn a_webapp_with_watch_lists(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    server.install_webapp().await?;
    let proxy = Proxied::start(&server, 1).await?;
    let plugins = plugin_directory()?;
    let gates = "--feature-gates=WatchList=true,FairDispatch=false,ColdCompression=false";
    let more = ["--grants=manifest", gates];
    let host = Host::run_with(proxy.kubeconfig(), server.objects().namespace(), plugins.path(), &more)?;
    for gate in ["WatchList=true", "FairDispatch=false", "ColdCompression=false"] {
        host.says(&format!("gate={gate}")).await?;
    }
    let story = Story::new(server.objects());
    story.create().await?;
    story.run().await?;
    for resource in ["webapps", "deployments", "services"] {
        let lists = proxy.count(&Match::verb(Verb::List).resource(resource));
        assert_eq!(lists, 0, "{resource} come as the beginning of a watch: {:?}", proxy.requests());
    }
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feature_gate_streams_first_lists_on_the_embedded_server() -> anyhow::Result<()> {
    a_webapp_with_watch_lists(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feature_gate_streams_first_lists_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_webapp_with_watch_lists(Kind::Real).await
}

/// The hosts run in parallel, each with its own server, so this takes no longer than one story.
#[tokio::test(flavor = "multi_thread")]
async fn the_story_of_a_webapp_is_the_same_with_each_beta_gate_flipped() -> anyhow::Result<()> {
    let Output { stdout, .. } = windlass(&["features", "-o", "json"], None)?;
    let gates: Vec<Value> = serde_json::from_slice(&stdout)?;
    let flipped = gates.iter().filter(|gate| gate["stage"] == "BETA" && gate["locked"].is_null());
    let flipped: Vec<_> = flipped.filter_map(|gate| Some((gate["name"].as_str()?, gate["default"] != true))).collect();
    assert!(!flipped.is_empty(), "{gates:?}");
    let stories = flipped.iter().map(async |(name, value)| {
        let wish = format!("{name}={value}");
        a_webapp_with(&wish).await.with_context(|| wish)
    });
    try_join_all(stories).await?;
    Ok(())
}

async fn a_webapp_with(gates: &str) -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    let flag = format!("--feature-gates={gates}");
    let more = ["--grants=manifest", &flag];
    let host = Host::run_with(server.kubeconfig(), server.objects().namespace(), plugins.path(), &more)?;
    host.says(&format!("gate={gates}")).await?;
    let story = Story::new(server.objects());
    story.whole().await?;
    assert!(host.terminate().await?.success());
    Ok(())
}
