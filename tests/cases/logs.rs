//! Tests the log at its usual level, and the audit log beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::ensure;
use serde_json::Value;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;

use crate::admin::watched;
use crate::webapp::plugin_directory;

fn lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The number of writes of each call, by trace ID: first as the log counts them, then as the audit log lists them.
fn writes(log: &str, audit: &str) -> [BTreeMap<String, u64>; 2] {
    let trace = |line: &Value| line["trace_id"].as_str().unwrap_or_default().to_owned();
    let called = lines(log).into_iter().filter(|line| line["message"] == "called");
    let counted = called.map(|line| (trace(&line), line["writes"].as_u64().unwrap_or_default()));
    let mut listed = BTreeMap::new();
    for line in lines(audit).iter().filter(|line| line["outcome"] == "committed") {
        *listed.entry(trace(line)).or_default() += 1;
    }
    [counted.collect(), listed]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_writes_is_one_line_and_its_writes_stand_in_the_audit_log() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let (plugins, directory) = (plugin_directory()?, tempfile::tempdir()?);
    let file = directory.path().join("audit.log");
    let more = ["--log-format", "json", "--audit-log", file.to_str().expect("a name")];
    let (host, _) = watched(&server, plugins.path(), &more).await?;
    let story = Story::new(server.objects());
    story.create().await?;
    story.run().await?;
    until("each write of a call is counted and listed", || async {
        let [counted, listed] = writes(&host.log(), &std::fs::read_to_string(&file)?);
        ensure!(!counted.is_empty() && counted == listed, "{counted:?} counted, {listed:?} listed");
        Ok(())
    })
    .await?;
    let log = lines(&host.log());
    assert!(log.iter().all(|line| line["target"] != "windlass::audit"), "{}", host.log());
    let first = log.iter().find(|line| line["message"] == "called").expect("one has written");
    assert!(first["written"].as_str().is_some_and(|it| it.contains("Deployment ")), "{first}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_keeps_to_its_level_without_an_audit_log_too() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    let (host, _) = watched(&server, plugins.path(), &["--log-format", "json"]).await?;
    Story::new(server.objects()).create().await?;
    host.says("called").await?;
    let levels: BTreeSet<_> = lines(&host.log()).iter().map(|line| line["level"].to_string()).collect();
    assert!(levels.is_subset(&["\"INFO\"", "\"WARN\""].map(str::to_owned).into()), "{levels:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_continues_while_its_audit_log_cannot_be_written() -> anyhow::Result<()> {
    if !Path::new("/dev/full").exists() {
        println!("not run: this system has no /dev/full");
        return Ok(());
    }
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    let (host, _) = watched(&server, plugins.path(), &["--audit-log", "/dev/full"]).await?;
    let story = Story::new(server.objects());
    story.create().await?;
    story.run().await?;
    host.says("the audit log cannot be written").await?;
    assert_eq!(host.log().matches("the audit log cannot be written").count(), 1, "{}", host.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_log_that_cannot_be_opened_is_named_and_nothing_starts() -> anyhow::Result<()> {
    let plugins = plugin_directory()?;
    let program = windlass_tests::paths::windlass()?;
    let directory = plugins.path().join("missing/audit.log");
    let ended = std::process::Command::new(program)
        .args(["run", "--plugins"])
        .arg(plugins.path())
        .arg("--audit-log")
        .arg(&directory)
        .output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("missing/audit.log (--audit-log)"), "{said}");
    Ok(())
}
