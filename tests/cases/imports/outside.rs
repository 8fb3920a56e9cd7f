//! `metrics` and `http`: data that leaves the host, but not to the API server.

use anyhow::Context;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_tests::probe::Lab;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::on_both_servers;

on_both_servers!(values_of_declared_metrics_are_kept_and_others_dropped, what_is_not_granted_is_not_asked_of_anybody);

async fn metrics(lab: &Lab) -> anyhow::Result<String> {
    let line: Value = serde_json::from_str(&lab.host.says("admin endpoint").await?)?;
    let address = line["address"].as_str().with_context(|| format!("no address in {line}"))?;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn values_of_declared_metrics_are_kept_and_others_dropped(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::on(Server::start(kind).await?, &["--admin-address", "127.0.0.1:0"]).await?;
    let sample = |function: &str, name: &str, value: f64, labels: Value| json!({"call": format!("metrics.{function}"), "name": name, "value": value, "labels": labels});
    let red = || json!([["color", "red"]]);
    let call = lab
        .run([
            sample("add", "counted_total", 2.0, red()),
            sample("add", "counted_total", 0.5, red()),
            sample("set", "level", 7.0, json!([])),
            sample("set", "level", -3.5, json!([])),
            sample("observe", "sizes", 0.5, json!([])),
            sample("observe", "sizes", 5.0, json!([])),
            sample("add", "invented", 1.0, json!([])),
            sample("add", "counted_total", 1.0, json!([])),
            sample("set", "counted_total", 1.0, red()),
            sample("add", "counted_total", -1.0, red()),
        ])
        .await?;
    assert_eq!(call.steps.len(), 10, "none fails the call");
    until("the values are shown", || async {
        let shown = metrics(&lab).await?;
        for line in [
            r#"windlass_plugin_probe_counted_total{plugin="probe",color="red"} 2.5"#,
            r#"windlass_plugin_probe_level{plugin="probe"} -3.5"#,
            r#"windlass_plugin_probe_sizes_count{plugin="probe"} 2"#,
            r#"windlass_plugin_probe_sizes_sum{plugin="probe"} 5.5"#,
            r#"windlass_metric_values_dropped_total{plugin="probe",reason="undeclared"} 1"#,
        ] {
            anyhow::ensure!(shown.lines().any(|it| it == line), "{line} is not in:\n{shown}");
        }
        let dropped =
            shown.lines().filter(|it| it.starts_with("windlass_metric_values_dropped_total{plugin=\"probe\""));
        let dropped: f64 = dropped.filter_map(|it| it.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        anyhow::ensure!((dropped - 4.0).abs() < 0.1, "{dropped} values are dropped:\n{shown}");
        Ok(())
    })
    .await
}

async fn what_is_not_granted_is_not_asked_of_anybody(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let fetch = |method: &str, url: &str| json!({"call": "http.fetch", "request": {"method": method, "url": url}});
    let cases = [
        (fetch("GET", "https://elsewhere.test/"), "not-granted"),
        (fetch("GET", "http://api.probe.test/"), "not-granted"),
        (fetch("POST", "https://api.probe.test/"), "not-granted"),
        (fetch("GET", "https://api.probe.test:8443/"), "not-granted"),
        // The manifest asks for these addresses, but only an operator's policy can open the host's own addresses.
        (fetch("GET", "http://127.0.0.1:9/"), "not-granted"),
        (fetch("GET", "http://[::ffff:127.0.0.1]:9/"), "not-granted"),
        (fetch("GET", "http://2130706433:9/"), "invalid-request"),
        (fetch("GET", "no url"), "invalid-request"),
        (fetch("GE T", "https://api.probe.test/"), "invalid-request"),
    ];
    let call = lab.run(cases.iter().map(|(step, _)| step.clone())).await?;
    for (number, (step, reason)) in cases.iter().enumerate() {
        let error = call.error(number + 1, reason);
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{step}: {error}");
    }
    assert_eq!(lab.sent(), 0);
    Ok(())
}
