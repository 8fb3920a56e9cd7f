//! Tests that every write names its author: for every write of a plugin, the real API server's audit log names host,
//! plugin, digest and replica.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::{Value, json};
use windlass_tests::cluster;
use windlass_tests::probe::Lab;
use windlass_tests::server::Server;
use windlass_tests::wait::until;

use super::{config_map, target};

/// Version, plugin, digest and replica of `windlass/<version> (<plugin>@<digest>; <replica>)`.
fn parts(agent: &str) -> Option<(&str, &str, &str, &str)> {
    let (version, rest) = agent.strip_prefix("windlass/")?.split_once(" (")?;
    let (plugin, rest) = rest.split_once('@')?;
    let (digest, replica) = rest.strip_suffix(')')?.split_once("; ")?;
    Some((version, plugin, digest, replica))
}

/// The finished mutations in a namespace.
fn mutations(log: &str, namespace: &str) -> anyhow::Result<Vec<Value>> {
    let entries: Vec<Value> = log.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let is_one = |entry: &Value| {
        entry["stage"] == "ResponseComplete"
            && entry["objectRef"]["namespace"] == namespace
            // Leave out leases, which the host itself writes to be allowed to run the plugin.
            && entry["objectRef"]["resource"] != "leases"
            && entry["verb"].as_str().is_some_and(|verb| !["get", "list", "watch"].contains(&verb))
    };
    Ok(entries.into_iter().filter(is_one).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_write_of_a_plugin_names_it_in_the_audit_log() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("audit.log");
    let cluster = cluster::start(&["--audit-log", &path.to_string_lossy()])?;
    let lab = Lab::on(Server::join(&cluster).await?, &[]).await?;
    let event = json!({"reason": "Probed", "action": "Probe", "note": "to be audited"});
    let scale = json!({"name": "status"});
    let call = lab
        .run([
            json!({"call": "writes.create", "object": config_map("a")}),
            json!({"call": "writes.update", "object": config_map("a")}),
            json!({"call": "writes.patch", "target": target("a"), "patchType": "merge", "patch": {"data": {"a": "b"}}}),
            json!({"call": "writes.apply", "object": config_map("a")}),
            json!({"call": "writes.delete", "target": target("a")}),
            json!({"call": "writes.delete", "target": target("a")}),
            json!({
                "call": "writes.patch", "target": {"apiVersion": "probe.windlass.dev/v1", "kind": "Probe", "name": "probe"},
                "patchType": "merge", "patch": {"status": {"seen": "yes"}}, "options": {"subresource": scale},
            }),
            json!({"call": "events.emit", "event": event}),
        ])
        .await?;
    assert_eq!(call.error(6, "not-found")["code"], 404, "what is refused is audited, too");
    let namespace = lab.server.objects().namespace();
    let audited = until("everything is in the audit log", || async {
        let found = mutations(&std::fs::read_to_string(&path)?, namespace)?;
        let ours: Vec<_> = found.iter().filter(|entry| agent(entry).contains("windlass/")).cloned().collect();
        let has = |resource: &str| ours.iter().any(|entry| entry["objectRef"]["resource"] == resource);
        anyhow::ensure!(has("events") && has("configmaps"), "{found:?}");
        Ok(ours)
    })
    .await?;
    let verbs = audited.iter().filter(|entry| entry["objectRef"]["resource"] == "configmaps");
    let verbs: Vec<_> = verbs.filter_map(|entry| entry["verb"].as_str()).collect();
    assert_eq!(verbs, ["create", "update", "patch", "patch", "delete", "delete"]);
    let mut replicas = BTreeSet::new();
    for entry in &audited {
        let (version, plugin, digest, replica) = parts(agent(entry)).with_context(|| format!("{entry}"))?;
        assert_eq!((version, plugin), (env!("CARGO_PKG_VERSION"), "probe"), "{entry}");
        assert!(digest.len() == 12 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{entry}");
        assert!(!replica.is_empty(), "{entry}");
        replicas.insert((digest.to_owned(), replica.to_owned()));
    }
    assert_eq!(replicas.len(), 1, "one generation of the plugin, and one host: {replicas:?}");
    Ok(())
}

fn agent(entry: &Value) -> &str {
    entry["userAgent"].as_str().unwrap_or_default()
}
