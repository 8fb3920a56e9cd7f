//! Hooks as their senders see them: what a delivery runs, what strangers learn, and which replica answers.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_tests::host::Host;
use windlass_tests::process::Process;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;
use windlass_tests::{admin, chameleon};

use crate::admin::get;
use crate::caches::runs;

const SECRET: &str = "the secret of the stories about hooks";
/// The growth of the host's memory that many connections may cause: less than they send.
const FLOOD_GROWTH_BYTES_MAX: u64 = 48 << 20;

/// A server with the Services `web` and `api`, and a directory with the chameleon, whose policy opens its hooks.
struct Stage {
    server: Server,
    plugins: tempfile::TempDir,
}

/// An answer to a request.
#[derive(Debug, PartialEq, Eq)]
struct HookAnswer {
    status: u16,
    /// The headers, without the date.
    headers: Vec<String>,
    body: String,
}

impl Stage {
    async fn new(kind: Kind) -> anyhow::Result<Self> {
        let (server, plugins) = (Server::start(kind).await?, tempfile::tempdir()?);
        for name in ["web", "api"] {
            let spec = json!({"selector": {"app": name}, "ports": [{"port": 80}]});
            let metadata = json!({"name": name, "labels": {"chameleon": "true"}});
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
            server.objects().apply(&service).await?;
        }
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hooks"}, "stringData": {"key": SECRET}});
        server.objects().apply(&secret).await?;
        chameleon::write("mapping", &plugins.path().join("chameleon.wasm"))?;
        let mut policy = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: chameleon\nrules:\n\
                          - {apiGroups: [\"*\"], resources: [\"*\"], verbs: [\"*\"]}\nhooks:\n"
            .to_owned();
        for hook in ["named", "mapped", "everything"] {
            let namespace = server.objects().namespace();
            writeln!(policy, "- {{name: {hook}, secretKeyRefs: [{{namespace: {namespace}, name: hooks, key: key}}]}}")?;
        }
        std::fs::write(plugins.path().join("chameleon.policy.yaml"), policy)?;
        Ok(Self { server, plugins })
    }

    /// Starts a host whose hooks are open, and returns the addresses of its hooks and of its admin endpoint.
    async fn host(&self, leases: &str) -> anyhow::Result<(Host, SocketAddr, SocketAddr)> {
        let flags = ["--hooks-address=127.0.0.1:0", "--admin-address=127.0.0.1:0", leases];
        let (kubeconfig, namespace) = (self.server.kubeconfig(), self.server.objects().namespace());
        let host = Host::run_with(kubeconfig, namespace, self.plugins.path(), &flags)?;
        let (hooks, admin) = (admin::address_in(&host, "address of hooks").await?, admin::address(&host).await?);
        host.says_times("the hook is open", 3).await?;
        Ok((host, hooks, admin))
    }
}

/// Waits until both Services ran, and returns how often.
async fn ran(host: &Host) -> anyhow::Result<[usize; 2]> {
    let now = || ["web", "api"].map(|name| runs(host, name));
    until("both ran", || async { if now().iter().all(|runs| *runs > 0) { Ok(now()) } else { Err(now()) } }).await
}

/// Waits until the Service has run more often than `before`.
async fn runs_again(host: &Host, name: &str, before: usize) -> anyhow::Result<()> {
    until("it ran again", || async { if runs(host, name) > before { Ok(()) } else { Err(runs(host, name)) } }).await
}

/// The text of an authentic request, sent this many seconds ago.
fn signed(path: &str, id: &str, body: &str, ago: u64) -> anyhow::Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() - ago;
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes())?;
    mac.update(format!("{id}.{now}.{body}").as_bytes());
    let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
    let length = body.len();
    Ok(format!(
        "POST {path} HTTP/1.1\r\nHost: hooks\r\nContent-Length: {length}\r\nWebhook-Id: {id}\r\nWebhook-Timestamp: {now}\r\n\
         Webhook-Signature: v1,{signature}\r\n\r\n{body}"
    ))
}

async fn sent(address: SocketAddr, request: &str) -> anyhow::Result<HookAnswer> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("an answer to {request}: {answer}"))?;
    let (line, headers) = head.split_once("\r\n").context("headers")?;
    let headers = headers.lines().filter(|header| !header.to_lowercase().starts_with("date:")).map(str::to_owned);
    let status = line.split(' ').nth(1).context("a status")?.parse()?;
    Ok(HookAnswer { status, headers: headers.collect(), body: body.to_owned() })
}

async fn delivered(address: SocketAddr, hook: &str, id: &str, payload: &Value) -> anyhow::Result<(u16, Value)> {
    let request = signed(&format!("/hooks/chameleon/{hook}"), id, &payload.to_string(), 0)?;
    let HookAnswer { status, body, .. } = sent(address, &request).await?;
    Ok((status, serde_json::from_str(&body)?))
}

async fn a_delivery_runs_the_objects_that_it_names(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    let (host, hooks, admin) = stage.host("--leases=none").await?;
    let [web, api] = ran(&host).await?;
    let namespace = stage.server.objects().namespace();
    let named = json!({"services": [format!("{namespace}/web"), format!("{namespace}/missing"), "else/web", 7]});
    assert_eq!(delivered(hooks, "named", "a", &named).await?, (202, json!({"queued": 1})));
    runs_again(&host, "web", web).await?;
    assert_eq!(runs(&host, "api"), api, "it was not named:\n{}", host.log());

    let mapped = json!({"namespace": namespace, "service": "api"});
    assert_eq!(delivered(hooks, "mapped", "b", &mapped).await?, (202, json!({"queued": 1})));
    runs_again(&host, "api", api).await?;
    let before = ["web", "api"].map(|name| runs(&host, name));
    assert_eq!(delivered(hooks, "mapped", "b", &mapped).await?, (202, json!({"duplicate": true})));
    let failing = json!({"misbehave": "fail", "service": "web"});
    assert_eq!(delivered(hooks, "mapped", "c", &failing).await?.0, 500);
    host.says("the mapper failed about a delivery: nothing runs for it").await?;
    assert_eq!(["web", "api"].map(|name| runs(&host, name)), before, "{}", host.log());

    assert_eq!(delivered(hooks, "everything", "d", &json!(null)).await?, (202, json!({"queued": 2})));
    for (name, before) in ["web", "api"].into_iter().zip(before) {
        runs_again(&host, name, before).await?;
    }
    let mut shown: Value = serde_json::from_str(&get(admin, "/plugins/chameleon").await?.1)?;
    for hook in shown["hooks"].as_array_mut().context("hooks")? {
        let last = hook.as_object_mut().and_then(|hook| hook.remove("lastDelivery"));
        assert!(last.is_some_and(|last| last.as_str().is_some_and(|time| time.ends_with('Z'))), "{hook}");
    }
    let expected = json!([
        {"name": "everything", "served": true, "problem": null, "requests": {"queued": 1}},
        {"name": "mapped", "served": true, "problem": null, "requests": {"duplicate": 1, "mapper_failed": 1, "queued": 1}},
        {"name": "named", "served": true, "problem": null, "requests": {"queued": 1}},
    ]);
    assert_eq!(shown["hooks"], expected);
    let metrics = get(admin, "/metrics").await?.1;
    let counted = r#"windlass_hook_requests_total{plugin="chameleon",hook="named",result="queued"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
    assert!(!host.log().contains(SECRET), "{}", host.log());
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_runs_the_objects_that_it_names_on_the_embedded_server() -> anyhow::Result<()> {
    a_delivery_runs_the_objects_that_it_names(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_runs_the_objects_that_it_names_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_delivery_runs_the_objects_that_it_names(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_replica_that_runs_the_plugin_acknowledges() -> anyhow::Result<()> {
    let stage = Stage::new(Kind::Embedded).await?;
    let (first, at_first, _) = stage.host("--leases=single").await?;
    ran(&first).await?;
    let (standby, at_standby, _) = stage.host("--leases=single").await?;
    let payload = json!({"services": []});
    assert_eq!(delivered(at_first, "named", "a", &payload).await?.0, 202);
    let request = signed("/hooks/chameleon/named", "b", "{}", 0)?;
    let refused = sent(at_standby, &request).await?;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.headers.iter().any(|header| header.eq_ignore_ascii_case("retry-after: 5")), "{refused:?}");
    let stranger = sent(at_standby, &request.replace("Webhook-Id: b", "Webhook-Id: c")).await?;
    assert_eq!(stranger.status, 404, "only an authentic sender learns that the hook exists");
    drop(first);
    until("the standby acknowledges", || async {
        let answer = delivered(at_standby, "named", "d", &payload).await?;
        anyhow::ensure!(answer.0 == 202, "{answer:?}");
        Ok(())
    })
    .await?;
    drop(standby);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_learn_nothing_and_cost_little() -> anyhow::Result<()> {
    let stage = Stage::new(Kind::Embedded).await?;
    let (host, hooks, admin) = stage.host("--leases=none").await?;
    ran(&host).await?;
    let authentic = signed("/hooks/chameleon/named", "a", "{}", 0)?;
    let forged = authentic.replace("Webhook-Id: a", "Webhook-Id: b");
    let first = sent(hooks, &forged).await?;
    assert_eq!((first.status, first.body.as_str()), (404, "{\"error\":\"not found\"}\n"));
    let large = "Content-Length: 1000000";
    for request in [
        signed("/hooks/chameleon/none", "a", "{}", 0)?,
        signed("/hooks/lizard/named", "a", "{}", 0)?,
        signed("/plugins", "a", "{}", 0)?,
        signed("/hooks/chameleon/named", "a", "{}", 400)?,
        authentic.replace("POST", "PUT"),
        authentic.replace("{}", "[]"),
        authentic.replace("Webhook-Signature", "X-Signature"),
        authentic.replace("Content-Length: 2", large),
        signed("/hooks/lizard/named", "a", "{}", 0)?.replace("Content-Length: 2", large),
        // Their bodies never arrive.
        authentic.replace("Content-Length: 2", "Content-Length: 3"),
        signed("/hooks/lizard/named", "a", "{}", 0)?.replace("Content-Length: 2", "Content-Length: 3"),
    ] {
        assert_eq!(sent(hooks, &request).await?, first, "{request}");
    }
    // A flood of headers is cut off, whatever hook it is for.
    let flood = format!("X-Flood: {}\r\n", "a".repeat(1_000)).repeat(100);
    let flooded = authentic.replace("Host: hooks\r\n", &flood);
    let other = flooded.replace("chameleon", "lizard");
    assert_eq!(sent(hooks, &flooded).await.ok(), sent(hooks, &other).await.ok());

    let process = Process(host.id().context("it runs")?);
    let before = process.memory()?.anonymous;
    let (mut held, part) = (Vec::new(), vec![b' '; 200 << 10]);
    let begun = forged.replace("Content-Length: 2", "Content-Length: 262144");
    for number in 0..400 {
        let mut stream = TcpStream::connect(hooks).await?;
        // Every second one stays silent. The host may already have closed the others.
        if number % 2 == 0 {
            let _ = stream.write_all(begun.as_bytes()).await;
            let _ = stream.write_all(&part).await;
        }
        held.push(stream);
    }
    let answer = tokio::time::timeout(Duration::from_secs(10), sent(hooks, &authentic)).await??;
    assert_eq!(answer.status, 202, "an authentic sender is heard among all of them: {answer:?}");
    let grown = process.memory()?.anonymous.saturating_sub(before);
    assert!(grown < FLOOD_GROWTH_BYTES_MAX, "{grown} bytes");
    let metrics = get(admin, "/metrics").await?.1;
    assert!(!metrics.contains("lizard"), "strangers' names are no labels: {metrics}");
    drop(held);
    assert!(host.terminate().await?.success());
    Ok(())
}
