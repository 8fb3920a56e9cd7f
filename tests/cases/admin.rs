//! A running host as its operator sees it: `/healthz`, `/readyz`, `/metrics`, `/plugins`, and one trace ID in all log
//! lines of a call.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
pub(crate) use windlass_tests::admin::get;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;
use windlass_tests::{admin, chameleon, paths};

use crate::webapp::plugin_directory;

/// A host with an admin endpoint, and its address.
pub(crate) async fn watched(server: &Server, plugins: &Path, more: &[&str]) -> anyhow::Result<(Host, SocketAddr)> {
    watched_at(server.kubeconfig(), server.objects().namespace(), plugins, more).await
}

/// A host with an admin endpoint that uses the given kubeconfig, and its address.
pub(crate) async fn watched_at(
    kubeconfig: &Path,
    namespace: &str,
    plugins: &Path,
    more: &[&str],
) -> anyhow::Result<(Host, SocketAddr)> {
    let mut arguments: Vec<OsString> = vec!["run".into(), "--kubeconfig".into(), kubeconfig.into()];
    arguments.extend(["--namespace".into(), namespace.into()]);
    arguments.extend(["--plugins".into(), plugins.into(), "--admin-address".into(), "127.0.0.1:0".into()]);
    if !more.iter().any(|argument| argument.starts_with("--grants")) {
        arguments.push("--grants=manifest".into());
    }
    arguments.extend(more.iter().map(OsString::from));
    let host = Host::start(&arguments, None)?;
    let address = admin::address(&host).await?;
    Ok((host, address))
}

pub(crate) async fn plugin(address: SocketAddr, name: &str) -> anyhow::Result<Value> {
    let shown: Value = serde_json::from_str(&get(address, "/plugins").await?.1)?;
    let plugins = shown["plugins"].as_array().context("a list")?;
    plugins.iter().find(|it| it["name"] == name).cloned().with_context(|| format!("no {name} in {shown}"))
}

async fn shows(address: SocketAddr, lines: &[&str]) -> anyhow::Result<()> {
    until(&format!("/metrics has {lines:?}"), || async {
        let text = get(address, "/metrics").await?.1;
        let missing: Vec<_> = lines.iter().filter(|line| !text.lines().any(|it| it.starts_with(**line))).collect();
        anyhow::ensure!(missing.is_empty(), "{missing:?} not in:\n{text}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_what_a_host_does_and_waits_for() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let plugins = plugin_directory()?;
    std::fs::write(plugins.path().join("broken.wasm"), b"no component")?;
    let (host, address) = watched(&server, plugins.path(), &[]).await?;
    assert_eq!(get(address, "/healthz").await?.0, 200);
    // The plugin's kind does not exist: the host reports this, and stays ready.
    until("the host is ready", || async {
        let (status, why) = get(address, "/readyz").await?;
        anyhow::ensure!(status == 200, "{why}");
        Ok(())
    })
    .await?;
    // The host is ready even while the plugin waits for its lease. The plugin looks for the kind only after that.
    let webapp = until("its plugin waits for the kind", || async {
        let webapp = plugin(address, "webapp").await?;
        let states = (&webapp["state"], &webapp["controllers"][0]["state"]);
        anyhow::ensure!(states == (&json!("waiting"), &json!("waiting")), "{webapp}");
        Ok(webapp)
    })
    .await?;
    assert!(webapp["controllers"][0]["reason"].as_str().is_some_and(|it| it.contains("WebApp")), "{webapp}");
    let (status, warnings) = get(address, "/readyz").await?;
    assert!(status == 200 && warnings.contains("warning: webapp is waiting: controller "), "{status}: {warnings}");
    let metrics = get(address, "/metrics").await?.1;
    assert!(metrics.contains(r#"windlass_plugin_state{plugin="webapp",state="waiting"} 1"#), "{metrics}");
    assert_eq!(webapp["digest"].as_str().map(str::len), Some(64), "{webapp}");
    let broken = plugin(address, "broken").await?;
    assert_eq!(broken["state"], "not-loaded", "{broken}");
    assert!(broken["reason"].as_str().is_some_and(|it| it.contains("WebAssembly")), "{broken}");

    server.install_webapp().await?;
    Story::new(server.objects()).create().await?;
    Story::new(server.objects()).run().await?;
    assert_eq!(plugin(address, "webapp").await?["controllers"][0]["state"], "running");
    let of = |name: &str| format!(r#"{name}{{controller="webapp",plugin="webapp""#);
    let reconciled = of("controller_runtime_reconcile_total");
    shows(
        address,
        &[
            &reconciled,
            &of("controller_runtime_reconcile_time_seconds_count"),
            &of("controller_runtime_active_workers"),
            &of("workqueue_depth"),
            &of("workqueue_adds_total"),
            &of("workqueue_queue_duration_seconds_bucket").replace('{', r#"{le="0.001","#),
            r#"windlass_writes_total{plugin="webapp",verb="patch",code="",outcome="committed"}"#,
            r#"windlass_mutations_total{outcome="committed"}"#,
            r#"windlass_mutations_total{outcome="skipped"}"#,
            r#"windlass_cache_reads_total{plugin="webapp",verb="get",result="ok"}"#,
            r#"windlass_events_total{plugin="webapp"}"#,
            r#"windlass_loaded_plugin{plugin="webapp",version=""#,
            r#"windlass_informer_objects{watch=""#,
            "# EOF",
        ],
    )
    .await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

/// A server that answers every request with its path.
async fn echo() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&request[..read]).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Ok(port)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugins_metrics_and_denials_are_shown_under_its_name() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let plugins = tempfile::tempdir()?;
    chameleon::write(&format!("outside-{}", echo().await?), &plugins.path().join("chameleon.wasm"))?;
    let (host, address) = watched(&server, plugins.path(), &[]).await?;
    host.says("controller started").await?;
    let visitor = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"path": "/secret-path"},
        "metadata": {"name": "visitor", "labels": {"chameleon": "true"}},
    });
    server.objects().apply(&visitor).await?;
    // Loopback is closed whatever a manifest asks for; only an operator's policy opens it.
    let refused = host.says("chameleon got nothing").await?;
    assert!(refused.contains("loopback") && refused.contains("addresses: ["), "{refused}");
    shows(
        address,
        &[
            r#"windlass_http_requests_total{plugin="chameleon",reason="not-granted"} 1"#,
            r#"windlass_plugin_chameleon_visits_total{plugin="chameleon",result="failed"} 1"#,
            r"# HELP windlass_plugin_chameleon_visits Visits, by what came of them.\nOf all time.",
            r#"windlass_metric_values_dropped_total{plugin="chameleon",reason="undeclared"} 1"#,
            r#"windlass_grants_denied_total{plugin="chameleon",verb="GET",resource="http://127.0.0.1:"#,
        ],
    )
    .await?;
    let shown = plugin(address, "chameleon").await?;
    assert_eq!(shown["denials"][0]["count"], 1, "{shown}");
    assert!(!shown.to_string().contains("secret-path"), "{shown}");
    assert!(host.terminate().await?.success());
    Ok(())
}

/// A plugin reaches hosts outside the cluster only where its operator allows it.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_policy_that_names_addresses_opens_blocked_ones() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let plugins = tempfile::tempdir()?;
    let port = echo().await?;
    chameleon::write(&format!("outside-{port}"), &plugins.path().join("chameleon.wasm"))?;
    let policy = |addresses: &str| {
        let text = format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: chameleon\n\
             rules: [{{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch]}}]\n\
             http: [{{scheme: http, host: 127.0.0.1, port: {port}, methods: [GET]{addresses}}}]\n"
        );
        let (new, file) = (plugins.path().join(".new"), plugins.path().join("chameleon.policy.yaml"));
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file))
    };
    policy("")?;
    let (host, _) = watched(&server, plugins.path(), &["--grants=policy"]).await?;
    host.says("controller started").await?;
    let visitor = |name: &str, path: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"path": path},
            "metadata": {"name": name, "labels": {"chameleon": "true"}},
        })
    };
    server.objects().apply(&visitor("first", "/closed")).await?;
    let refused = host.says("chameleon got nothing").await?;
    assert!(refused.contains("loopback") && refused.contains("its policy"), "{refused}");
    policy(", addresses: [127.0.0.0/8]")?;
    // A denied key runs again when its grants change, without a change of its object.
    host.says("chameleon got 200: /closed").await?;
    server.objects().apply(&visitor("second", "/open")).await?;
    host.says("chameleon got 200: /open").await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

/// Runs `windlass` with the arguments `words` against the host at `address`.
async fn asked(address: SocketAddr, words: &[&str]) -> anyhow::Result<Output> {
    let mut windlass = tokio::process::Command::new(paths::windlass()?);
    Ok(windlass.args(words).args(["--admin-address", &address.to_string()]).output().await?)
}

/// The whole output of a command, which must end with `code`.
pub(crate) async fn says(address: SocketAddr, words: &[&str], code: i32) -> anyhow::Result<String> {
    let Output { status, stdout, stderr } = asked(address, words).await?;
    let said = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    anyhow::ensure!(status.code() == Some(code), "windlass {}: {status}: {said}", words.join(" "));
    Ok(said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_fails_says_why_at_the_admin_address_and_on_the_command_line() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let plugins = tempfile::tempdir()?;
    chameleon::write("reconcile-transient", &plugins.path().join("chameleon.wasm"))?;
    let (host, address) = watched(&server, plugins.path(), &[]).await?;
    host.says("controller started").await?;
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stuck", "labels": {"chameleon": "true"}},
    });
    server.objects().apply(&object).await?;
    until("its last error is shown", || async {
        let shown = plugin(address, "chameleon").await?;
        let error = &shown["controllers"][0]["lastErrors"][0];
        anyhow::ensure!(error["error"].as_str().is_some_and(|it| it.contains("told to fail for now")), "{shown}");
        Ok(())
    })
    .await?;
    // The key is retried for minutes, with pauses in between.
    let key = format!("{}/stuck", server.objects().namespace());
    let story = until("the key waits for its next attempt", || async {
        let story = says(address, &["keys", "chameleon", &key], 0).await?;
        anyhow::ensure!(story.contains("state     backoff") && story.contains("runs in"), "{story}");
        Ok(story)
    })
    .await?;
    assert!(story.contains("ago: ") && story.contains("told to fail for now"), "{story}");
    assert!(story.contains("OUTCOME") && story.contains(" failed "), "{story}");
    assert!(story.contains("logged    INFO chameleon: about to fail attempt="), "{story}");
    let listed = says(address, &["keys", "chameleon"], 0).await?;
    assert!(listed.contains(&key) && listed.contains("told to fail for now"), "{listed}");
    let missing = says(address, &["keys", "chameleon", "nowhere/other"], 1).await?;
    assert!(missing.contains("knows no nowhere/other") && missing.contains(&key), "{missing}");
    let unknown = says(address, &["keys", "camelion"], 1).await?;
    assert!(unknown.contains("there are: chameleon"), "{unknown}");
    let status = says(address, &["status"], 0).await?;
    let line = status.lines().find(|line| line.starts_with("chameleon ")).context("a line")?;
    assert!(line.contains(" running "), "{status}");
    let top: Value = serde_json::from_str(&says(address, &["top", "--once", "-o", "json"], 0).await?)?;
    for used in ["cpuSeconds", "memoryPeakBytes", "cacheBytes"] {
        assert!(top[0]["usage"][used].as_f64().is_some_and(|used| used > 0.0), "{used} in {top}");
    }
    assert!(top[0]["cpuPercent"].is_number(), "of the time between two looks: {top}");
    let nobody = says("127.0.0.1:1".parse()?, &["status"], 2).await?;
    assert!(nobody.contains("--admin-address"), "{nobody}");
    for words in [&["status"][..], &["keys", "chameleon"], &["top", "--once"]] {
        let mut windlass = std::process::Command::new(paths::windlass()?);
        windlass.args(words).args(["--admin-address", &address.to_string()]);
        let Output { status, stderr, .. } = windlass.stdout(std::fs::File::create("/dev/full")?).output()?;
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.code() == Some(2) && said.contains("standard output"), "{words:?}: {status}: {said}");
    }
    let gates = [("WatchList", "ALPHA", 0), ("AutomaticExpectations", "", 1), ("AllBeta", "BETA", 0)];
    let gates = gates
        .map(|(name, stage, value)| format!(r#"kubernetes_feature_enabled{{name="{name}",stage="{stage}"}} {value}"#));
    let errors = r#"controller_runtime_reconcile_errors_total{controller="chameleon",plugin="chameleon"}"#;
    shows(address, &[&gates[0], &gates[1], &gates[2], errors, "process_cpu_seconds_total{} "]).await?;
    shows(address, &[r#"windlass_plugin_cpu_seconds_total{plugin="chameleon"} "#]).await?;
    drop(host);
    Ok(())
}

/// Every line that a call causes has its trace ID: the guest's own lines, the host's and the audit log's. Its requests
/// have it too.
#[tokio::test(flavor = "multi_thread")]
async fn a_trace_leads_through_every_line_of_a_call() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    let more = ["--log-format", "json", "--log-level", "windlass=debug,windlass_kube=debug,windlass_wasm=debug"];
    let (host, _) = watched(&server, plugins.path(), &more).await?;
    host.says("controller started").await?;
    Story::new(server.objects()).create().await?;
    let trace_of = |line: &Value| line["trace_id"].as_str().map(str::to_owned);
    let lines = || host.log().lines().filter_map(|it| serde_json::from_str::<Value>(it).ok()).collect::<Vec<_>>();
    until("a call is told from all sides under one trace", || async {
        let lines = lines();
        let guest = lines.iter().filter(|it| it["target"] == "windlass::plugin").filter_map(&trace_of);
        let told = |trace: &str| {
            let of = |target: &str| {
                let own = |it: &&Value| it["target"] == target && trace_of(it).as_deref() == Some(trace);
                lines.iter().filter(own).count()
            };
            of("windlass::audit") > 0 && of("windlass::dispatch") > 0
        };
        anyhow::ensure!(guest.into_iter().any(|trace| told(&trace)), "not yet");
        Ok(())
    })
    .await?;
    // Events of many calls are sent together later: their lines name the role of the host, and have no trace ID.
    for line in lines().into_iter().filter(|line| line["role"].is_null()) {
        let target = line["target"].as_str().unwrap_or_default();
        if matches!(target, "windlass::plugin" | "windlass::audit" | "windlass::dispatch")
            && line["message"] != "controller started"
        {
            let trace = trace_of(&line).with_context(|| format!("no trace in {line}"))?;
            assert!(trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_waiting_for_its_configuration_says_so_and_the_host_is_ready() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let plugins = tempfile::tempdir()?;
    chameleon::write("configured", &plugins.path().join("chameleon.wasm"))?;
    let (host, address) = watched(&server, plugins.path(), &[]).await?;
    until("the host is ready", || async {
        let (code, body) = get(address, "/readyz").await?;
        anyhow::ensure!(code == 200, "{body}");
        Ok(())
    })
    .await?;
    let controller = until("it waits", || async {
        let controller = plugin(address, "chameleon").await?["controllers"][0].clone();
        // The plugin waits for its lease first: the replica is ready, and another replica may run the plugin.
        if controller["state"] == "waiting" { Ok(controller) } else { Err(anyhow::anyhow!("{controller}")) }
    })
    .await?;
    assert!(controller["reason"].to_string().contains("configuration"), "{controller}");
    std::fs::write(
        plugins.path().join("chameleon.config.yaml"),
        "apiVersion: windlass.dev/v1alpha1\nkind: PluginConfig\nplugin: chameleon\nconfig: {greeting: hello}\n",
    )?;
    host.says("controller started").await?;
    assert!(host.terminate().await?.success());
    Ok(())
}
