//! Tests the host's `/metrics`. It must have the names that Prometheus and users of controller-runtime expect, and
//! everything that the alerts and the dashboard use. Prometheus' own code checks expressions, rules and names
//! (tools/promlint).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;
use windlass_tests::{admin, chameleon, paths};

use crate::admin::watched;
use crate::webapp::plugin_directory;

/// The metrics of controller-runtime, as recorded by `tools/record-peer-metrics`: name, type and labels.
const PEER: &str = include_str!("metrics/peer.tsv");

/// The metrics of controller-runtime that a host lacks, or has with another type or without some labels, and the
/// reason. A name that ends with `*` is a prefix.
const NOT_AS_THE_PEER: [(&str, &str); 6] = [
    ("certwatcher_*", "a host has no watcher of certificates in the form of controller-runtime's"),
    ("controller_runtime_conversion_webhook_panics_total", "a host serves no webhooks"),
    ("controller_runtime_webhook_panics_total", "a host serves no webhooks"),
    ("process_network_*", "the kernel has them of a Pod and not of a process, and the kubelet shows those"),
    ("process_virtual_memory_max_bytes", "address space has no limit where a host runs, and guests reserve much of it"),
    (
        "workqueue_depth",
        "keys of a start or a swap run after others, but priorities are no numbers that a label could have",
    ),
];

/// Names that break Prometheus' conventions, and the reason.
const NOT_AS_PROMETHEUS: [(&str, &str); 0] = [];

/// A family of metrics: its type and, if it has a sample, its labels.
#[derive(Debug, Default)]
struct Shape {
    kind: String,
    labels: BTreeSet<String>,
    has_lines: bool,
}

/// The families of an `OpenMetrics` page. Counters have the names of their samples.
fn shapes(page: &str) -> BTreeMap<String, Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            let total = if kind == "counter" { "_total" } else { "" };
            current = format!("{name}{total}");
            shapes.insert(current.clone(), Shape { kind: kind.to_owned(), ..Shape::default() });
        } else if let Some((_, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let shape = shapes.get_mut(&current).expect("a type comes first");
            shape.has_lines = true;
            shape.labels.extend(label_names(labels).into_iter().filter(|name| name != "le"));
        }
    }
    shapes
}

/// The label names of `a="1",b="2"} 3`.
fn label_names(labels: &str) -> Vec<String> {
    static NAME: std::sync::LazyLock<regex::Regex> =
        std::sync::LazyLock::new(|| regex::Regex::new(r#"^,?([a-z_]+)="(?:[^"\\]|\\.)*""#).expect("it is one"));
    let (mut names, mut rest) = (Vec::new(), labels);
    while let Some(found) = NAME.captures(rest) {
        names.push(found[1].to_owned());
        rest = &rest[found[0].len()..];
    }
    names
}

/// Runs `promlint COMMAND`. The error contains its findings.
fn promlint(command: &str, input: &str) -> anyhow::Result<Vec<String>> {
    let mut file = tempfile::tempfile()?;
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    let output = Command::new(paths::promlint()?).arg(command).stdin(Stdio::from(file)).output()?;
    ensure!(output.status.success(), "promlint {command}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

fn chart_file(name: &str) -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(paths::root().join("deploy/chart/files").join(name))?)
}

/// The metrics page of a host that has run the example and a call that traps.
async fn page(address: SocketAddr) -> anyhow::Result<String> {
    let of = r#"controller="webapp",plugin="webapp",kind="WebApp""#;
    let done = &format!(r#"windlass_primary_conditions{{{of},condition="Ready",status="True"}} 1"#);
    let trapped = r#"windlass_calls_trapped_total{controller="chameleon",plugin="chameleon",reason="trap"}"#;
    until("the WebApp is ready, and a call has trapped, on /metrics", || async {
        let page = admin::get(address, "/metrics").await?.1;
        let has = |start: &str| page.lines().any(|line| line.starts_with(start));
        ensure!(has(done) && has(trapped), "{done} or {trapped} is not in {page}");
        Ok(page)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_the_names_known_from_prometheus_and_controller_runtime() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let (plugins, recordings) = (plugin_directory()?, tempfile::tempdir()?);
    let recordings = recordings.path().display().to_string();
    server.install_webapp().await?;
    // Make a call trap, because a series has no sample until it is written.
    chameleon::write("reconcile-traps", &plugins.path().join("chameleon.wasm"))?;
    let trapping =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"chameleon": "true"}}});
    server.objects().apply(&trapping).await?;
    let (host, address) = watched(&server, plugins.path(), &["--record", &recordings]).await?;
    Story::new(server.objects()).create().await?;
    let page = page(address).await?;
    is_as_prometheus_wants_it(&page)?;
    is_as_the_peer_has_it(&shapes(&page))?;
    has_what_is_used(&shapes(&page))?;
    leads_to_a_trace(&page, &host)?;
    for line in [r#"reason="first"} 1"#, "windlass_informer_silence_seconds{watch="] {
        ensure!(page.contains(line), "{line} is not in {page}");
    }
    assert!(host.terminate().await?.success());
    Ok(())
}

fn is_as_prometheus_wants_it(page: &str) -> anyhow::Result<()> {
    let found = promlint("metrics", page)?;
    let known: Vec<_> = NOT_AS_PROMETHEUS.iter().map(|(name, _)| *name).collect();
    let named = |line: &String| line.split(':').next().unwrap_or_default().to_owned();
    let unknown: Vec<_> = found.iter().filter(|line| !known.contains(&named(line).as_str())).collect();
    ensure!(unknown.is_empty(), "{unknown:#?}");
    let found: BTreeSet<_> = found.iter().map(named).collect();
    let needless: Vec<_> = known.iter().filter(|name| !found.contains(**name)).collect();
    ensure!(needless.is_empty(), "nothing is wrong with {needless:?}");
    Ok(())
}

fn is_as_the_peer_has_it(ours: &BTreeMap<String, Shape>) -> anyhow::Result<()> {
    let mut used = BTreeSet::new();
    for line in PEER.lines() {
        let [name, kind, labels] = *line.split('\t').collect::<Vec<_>>() else {
            anyhow::bail!("three columns: {line}")
        };
        let labels: BTreeSet<String> = labels.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
        let is_alike = |shape: &Shape| shape.kind == kind && shape.has_lines && labels.is_subset(&shape.labels);
        let is_excepted =
            |of: &&(&str, &str)| of.0.strip_suffix('*').map_or(of.0 == name, |start| name.starts_with(start));
        match (ours.get(name).is_some_and(is_alike), NOT_AS_THE_PEER.iter().find(is_excepted)) {
            (true, None) => {}
            (false, Some((exception, _))) => {
                used.insert(*exception);
            }
            (true, Some(_)) => anyhow::bail!("{name} is as the peer has it, and an exception"),
            (false, None) => anyhow::bail!("the peer has {line:?}, and a host {:?}", ours.get(name)),
        }
    }
    let needless: Vec<_> = NOT_AS_THE_PEER.iter().filter(|(name, _)| !used.contains(name)).collect();
    ensure!(needless.is_empty(), "the peer does not have {needless:?}");
    Ok(())
}

/// The expressions of the alerts and the dashboard.
fn expressions() -> anyhow::Result<Vec<String>> {
    let rules: Value = serde_saphyr::from_str(&chart_file("alerts.yaml")?)?;
    let rules = rules["groups"].as_array().context("groups")?.iter().filter_map(|group| group["rules"].as_array());
    let of_alerts = rules.flatten().filter_map(|rule| rule["expr"].as_str());
    let board: Value = serde_json::from_str(&chart_file("dashboard.json")?)?;
    let targets = board["panels"].as_array().context("panels")?.iter().filter_map(|panel| panel["targets"].as_array());
    let of_board = targets.flatten().filter_map(|target| target["expr"].as_str());
    // Replace the variables that Grafana would fill in.
    let all = of_alerts.chain(of_board).map(|it| it.replace("$__rate_interval", "5m").replace('\n', " "));
    Ok(all.collect())
}

fn has_what_is_used(ours: &BTreeMap<String, Shape>) -> anyhow::Result<()> {
    let uses = promlint("uses", &expressions()?.join("\n"))?;
    ensure!(uses.len() > 30, "{uses:?}");
    for line in uses {
        let mut words = line.split(' ');
        let name = words.next().context("a name")?;
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        let shape = ours.get(name).or_else(|| ours.get(family)).with_context(|| format!("no host has {name}"))?;
        // A family without a sample has no labels yet, and Prometheus itself adds the namespace.
        let has =
            |label: &&str| !shape.has_lines || ["namespace", "le"].contains(label) || shape.labels.contains(*label);
        let lacking: Vec<_> = words.filter(|label| !has(label)).collect();
        ensure!(lacking.is_empty(), "{name} has no label {lacking:?}: {shape:?}");
    }
    Ok(())
}

/// The histogram of call durations has the trace ID of a call as an exemplar, and the log has the same trace ID.
fn leads_to_a_trace(page: &str, host: &Host) -> anyhow::Result<()> {
    let bucket = "controller_runtime_reconcile_time_seconds_bucket{";
    let examples =
        page.lines().filter(|line| line.starts_with(bucket)).filter_map(|line| line.split_once(" # {trace_id=\""));
    let traces: Vec<_> = examples.filter_map(|(_, rest)| rest.split('"').next()).collect();
    let log = host.log();
    ensure!(!traces.is_empty() && traces.iter().any(|trace| log.contains(*trace)), "{traces:?} not in {log}");
    Ok(())
}

#[test]
fn prometheus_reads_the_alerts() -> anyhow::Result<()> {
    let text = chart_file("alerts.yaml")?;
    ensure!(promlint("rules", &text)?.len() >= 15, "each has a name");
    for (right, wrong) in
        [("windlass_keys_given_up > 0", "windlass_keys_given_up >"), ("$labels.lease", "$labels lease")]
    {
        ensure!(text.contains(right), "{right} is there");
        let error =
            promlint("rules", &text.replace(right, wrong)).err().with_context(|| format!("{wrong} is refused"))?;
        ensure!(error.to_string().contains("could not parse") || error.to_string().contains("template"), "{error}");
    }
    Ok(())
}
