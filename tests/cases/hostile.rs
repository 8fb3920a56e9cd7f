//! One host runs all hostile guests of its directory at once, beside a plugin that does its work. The test checks the
//! host, that plugin, and the objects that the guests attack. `tests/guests/hostile/README.md` has the table.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use windlass_proxy::Match;
use windlass_tests::host::Host;
use windlass_tests::objects::{Objects, documents};
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;
use windlass_tests::{busy, hostile, paths};

use crate::admin::{get, plugin, watched_at};

/// The content of the guarded Secrets, as stored. No plugin may read it.
const PASSWORD: &str = "bm90LWZvci1wbHVnaW5z";
const PLAIN: &str = "not-for-plugins";
/// The number of objects that the working plugin must finish.
const NEIGHBOURS: usize = 8;
/// The maximum memory of the host, in KiB. The guests use most of it.
const HOST_MEMORY_KIB_MAX: u64 = 700_000;

/// Attackers that are stopped, each with a word of the reason in `/plugins`.
const STOPPED: [(&str, &str); 11] = [
    ("traps", "trapped"),
    ("loops", "it had not ended after 400ms"),
    ("fills", "it had not ended after 400ms"),
    ("recurses", "of stack"),
    ("devours", "of memory"),
    ("logs-much", "to the host at once"),
    ("answers-much", "to the host at once"),
    ("floods-reads", "calls to the host"),
    ("floods-live-reads", "was stopped"),
    ("floods-events", "calls to the host"),
    ("floods-writes", "was stopped"),
];

/// Attackers that try one operation after the other, and the denials that `/metrics` shows for them: verb and resource.
const TRYING: [(&str, &[(&str, &str)]); 10] = [
    ("reads-secrets", &[("get", "secrets"), ("list", "secrets")]),
    ("reads-elsewhere", &[("get", "configmaps"), ("list", "configmaps")]),
    ("writes-secrets", &[("create", "secrets"), ("update", "secrets"), ("patch", "secrets"), ("delete", "secrets")]),
    ("writes-elsewhere", &[("create", "configmaps"), ("patch", "configmaps"), ("delete", "configmaps")]),
    ("takes-rights", &[]),
    ("takes-finalizers", &[("update", "finalizers")]),
    ("takes-children", &[]),
    ("crafts-names", &[]),
    ("nests-deeply", &[]),
    ("writes-much", &[]),
];

/// Attackers that run for ever or end by themselves. They must have no other effect.
const OTHERS: [&str; 4] = ["floods-logs", "floods-metrics", "forges-outage", "requeues"];

/// Attackers that do not load, each with a word of the reason.
const REFUSED: [(&str, &str); 4] = [
    ("describe-traps", "trap"),
    ("describe-other", "webapp"),
    ("describe-path", "DNS label"),
    ("bombs-config", "config.schema"),
];

/// A server behind a counting proxy, the guarded objects, and a directory with the attackers and the working plugin.
struct Siege {
    server: Server,
    proxy: Proxied,
    plugins: TempDir,
    policies: TempDir,
    inside: Inside,
    /// The guarded objects as they were at the start.
    before: Vec<Value>,
}

impl Siege {
    async fn begin() -> anyhow::Result<Self> {
        let server = Server::start(Kind::Embedded).await?;
        server.install_webapp().await?;
        let proxy = Proxied::start(&server, 5).await?;
        let (plugins, policies, inside) = (tempfile::tempdir()?, tempfile::tempdir()?, Inside::start().await?);
        let mut siege = Self { server, proxy, plugins, policies, inside, before: vec![] };
        siege.guard().await?;
        siege.before = siege.guarded().await?;
        siege.lay_out()?;
        Ok(siege)
    }

    fn elsewhere(&self) -> Objects {
        Objects::new(self.server.objects().client().clone(), "elsewhere")
    }

    async fn guard(&self) -> anyhow::Result<()> {
        let elsewhere = self.elsewhere();
        elsewhere.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})).await?;
        for objects in [self.server.objects(), &elsewhere] {
            for kind in ["Secret", "ConfigMap"] {
                let guarded = json!({
                    "apiVersion": "v1", "kind": kind, "data": {"password": PASSWORD},
                    "metadata": {"name": "guarded", "finalizers": ["neighbour.dev/keep"]},
                });
                objects.apply(&guarded).await?;
            }
        }
        Ok(())
    }

    async fn guarded(&self) -> anyhow::Result<Vec<Value>> {
        let mut found = Vec::new();
        for objects in [self.server.objects(), &self.elsewhere()] {
            for kind in ["Secret", "ConfigMap"] {
                found.push(objects.get(kind, "guarded").await?.with_context(|| format!("the {kind} is still there"))?);
            }
        }
        Ok(found)
    }

    /// All modes for which the directory has a file.
    fn modes(&self) -> Vec<String> {
        let named = STOPPED.map(|it| it.0).into_iter().chain(TRYING.map(|it| it.0)).chain(OTHERS);
        let named = named.chain(REFUSED.map(|it| it.0)).chain(["watches-secrets"]).map(str::to_owned);
        named.chain([format!("fetches-{}", self.inside.port)]).collect()
    }

    fn lay_out(&self) -> anyhow::Result<()> {
        let namespace = self.server.objects().namespace();
        std::fs::copy(paths::plugins()?.join("webapp.wasm"), self.plugins.path().join("webapp.wasm"))?;
        let all = "[get, list, watch, create, update, patch, delete]";
        let work = format!(
            "rules:\n- {{apiGroups: [apps.kubedojo.io], resources: [webapps, webapps/status], verbs: {all}}}\n\
             - {{apiGroups: [apps], resources: [deployments], verbs: {all}}}\n\
             - {{apiGroups: [\"\"], resources: [services], verbs: {all}}}\n"
        );
        self.permit("webapp", &work)?;
        for mode in self.modes() {
            hostile::write(&mode, self.plugins.path())?;
            let verbs = if mode == "crafts-names" { all } else { "[get, list, watch]" };
            let rule = |verbs: &str, rest: &str| {
                format!(
                    "- {{apiGroups: [\"\"], resources: [configmaps], verbs: {verbs}, namespaces: [{namespace}]{rest}}}\n"
                )
            };
            let mut rules = format!("rules:\n{}", rule(verbs, ""));
            if mode == "takes-finalizers" {
                rules.push_str(&rule("[update, patch]", ", names: [guarded]"));
            }
            if mode.starts_with("fetches") {
                rules.push_str(&self.inside.rules());
            }
            self.permit(&mode, &rules)?;
        }
        Ok(())
    }

    fn permit(&self, plugin: &str, rules: &str) -> anyhow::Result<()> {
        let head = format!("apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: {plugin}\n");
        Ok(std::fs::write(self.policies.path().join(format!("{plugin}.policy.yaml")), format!("{head}{rules}"))?)
    }

    async fn host(&self) -> anyhow::Result<(Host, SocketAddr)> {
        let policies = self.policies.path().to_string_lossy();
        let more = ["--grants=policy", "--policy-dir", &policies, "--leases=none", "--log-format", "json"];
        let namespace = self.server.objects().namespace();
        let (host, address) = watched_at(self.proxy.kubeconfig(), namespace, self.plugins.path(), &more).await?;
        ready(address).await.with_context(|| host.log())?;
        Ok((host, address))
    }

    /// An object that makes the host call all attackers.
    async fn bait(&self, name: &str) -> anyhow::Result<()> {
        let bait = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"hostile": "true"}},
        });
        self.server.objects().apply(&bait).await?;
        Ok(())
    }

    /// Waits until the neighbour has this many `WebApps` with all their children.
    async fn neighbour_works(&self) -> anyhow::Result<()> {
        let objects = self.server.objects();
        let mut webapp = documents(&paths::example("webapp.yaml"))?.remove(0);
        let names: Vec<String> = (0..NEIGHBOURS).map(|at| format!("shop-{at}")).collect();
        for name in &names {
            webapp["metadata"]["name"] = name.as_str().into();
            objects.apply(&webapp).await?;
        }
        for (round, replicas) in [2, 3].into_iter().enumerate() {
            for name in names.iter().filter(|_| round > 0) {
                objects.merge("WebApp", name, &json!({"spec": {"replicas": replicas}})).await?;
            }
            for name in &names {
                until(&format!("{name} runs with {replicas} replicas"), || async {
                    let webapp = objects.get("WebApp", name).await?.context("it is there")?;
                    let seen = (&webapp["status"]["phase"], &webapp["status"]["readyReplicas"]);
                    ensure!(seen == (&json!("Running"), &json!(replicas)), "{webapp}");
                    Ok(())
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Checks that the attackers changed, added, read and requested only what was granted.
    async fn nothing_was_taken(&self, host: &Host) -> anyhow::Result<()> {
        assert_eq!(self.guarded().await?, self.before, "the guarded objects");
        let maps = self.server.objects().list("ConfigMap", "").await?;
        let mut names: Vec<_> = maps.iter().filter_map(|it| it["metadata"]["name"].as_str()).collect();
        names.retain(|name| !name.starts_with("bait"));
        assert_eq!(names, ["guarded"], "all ConfigMaps of the namespace");
        assert_eq!(self.server.objects().get("ClusterRoleBinding", "planted").await?, None);
        let log = host.log();
        let wrote = |mode: &String| {
            let by = |requests: Match| self.proxy.count(&requests.agent(&format!("({mode}@")));
            // This attacker may write names that Kubernetes allows, but they must not lead to another resource.
            let may_write = if mode == "crafts-names" { by(Match::writes().resource("configmaps")) } else { 0 };
            by(Match::writes()) > by(Match::writes().resource("events")) + may_write
        };
        let wrote: Vec<_> = self.modes().into_iter().filter(wrote).collect();
        let gained: Vec<_> = log.lines().filter(|line| line.contains("GAINED")).collect();
        assert!(wrote.is_empty() && gained.is_empty(), "{wrote:?} have written: {gained:#?}");
        assert_eq!(self.proxy.count(&Match::any().resource("secrets/*")), 0, "Secrets are not even asked for");
        assert!(!log.contains(PASSWORD) && !log.contains(PLAIN), "no Secret's content is in the log");
        // A forged line would not be JSON, or would not have the host's fields.
        for line in log.lines() {
            let parsed: Value =
                serde_json::from_str(line).with_context(|| format!("not a line of the host's: {line}"))?;
            ensure!(parsed["level"].is_string(), "{line}");
        }
        assert_eq!(self.inside.asked(), vec!["GET /moved HTTP/1.1"], "what the server inside was asked");
        Ok(())
    }
}

/// A server on loopback that only the host should reach. One path is open to all, and redirects to another.
struct Inside {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Inside {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let all = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap_or_default();
                let text = String::from_utf8_lossy(&request[..read]).into_owned();
                let line = text.lines().next().unwrap_or_default().to_owned();
                let answer = if line.contains("/moved") {
                    format!("302 Found\r\nLocation: http://localhost:{port}/secret\r\nContent-Length: 0\r\n\r\n")
                } else {
                    format!("200 OK\r\nContent-Length: {}\r\n\r\n{PLAIN}", PLAIN.len())
                };
                all.lock().expect("not poisoned").push(line);
                let _ = stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).await;
            }
        });
        Ok(Self { port, asked })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").clone()
    }

    /// A policy that grants every host name, but only the address `127.0.0.1`. So no other address may be reached.
    fn rules(&self) -> String {
        let hosts =
            ["localhost", "\"[::1]\"", "\"[::ffff:127.0.0.1]\"", "\"[::ffff:7f00:1]\"", "0.0.0.0", "169.254.169.254"];
        let rule = |host: &str, rest: &str| {
            format!("- {{scheme: http, host: {host}, port: {}, methods: [GET]{rest}}}\n", self.port)
        };
        let named: String = hosts.iter().map(|host| rule(host, "")).collect();
        format!("http:\n{named}{}", rule("127.0.0.1", ", addresses: [127.0.0.1/32]"))
    }
}

async fn ready(address: SocketAddr) -> anyhow::Result<()> {
    until("the host is ready", || async {
        let (status, why) = get(address, "/readyz").await?;
        ensure!(status == 200, "{why}");
        Ok(())
    })
    .await
}

async fn is_stopped(address: SocketAddr, mode: &str, word: &str) -> anyhow::Result<()> {
    until(&format!("{mode} is stopped"), || async {
        let shown = plugin(address, mode).await?;
        let error = shown["controllers"][0]["lastErrors"][0]["error"].as_str().unwrap_or_default();
        ensure!(error.contains(word), "{word:?} is not in {shown}");
        Ok(())
    })
    .await
}

async fn is_denied(address: SocketAddr, mode: &str, (verb, resource): (&str, &str)) -> anyhow::Result<()> {
    let metrics = get(address, "/metrics").await?.1;
    let line = format!(r#"windlass_grants_denied_total{{plugin="{mode}",verb="{verb}",resource="{resource}""#);
    ensure!(metrics.contains(&line), "{line} is not in {}", lines_of(&metrics, mode));
    Ok(())
}

fn lines_of(metrics: &str, mode: &str) -> String {
    metrics.lines().filter(|line| line.contains(mode)).collect::<Vec<_>>().join("\n")
}

/// The peak memory of the process, in KiB. `None` if the system does not report it.
fn peak_kib(host: &Host) -> Option<u64> {
    let status = Path::new("/proc").join(host.id()?.to_string()).join("status");
    let status = std::fs::read_to_string(status).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn attackers_take_nothing_and_their_neighbour_does_its_work() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let siege = Siege::begin().await?;
    let (host, address) = siege.host().await?;
    for (mode, word) in REFUSED {
        let shown = plugin(address, mode).await?;
        let reason = shown["reason"].as_str().unwrap_or_default();
        assert!(shown["state"] == "not-loaded" && reason.contains(word), "{mode}: {shown}");
    }
    siege.bait("bait").await?;
    // Some attackers have failed already and continue: their retries, floods and busy loops run beside the working
    // plugin.
    siege.neighbour_works().await.with_context(|| host.log())?;
    for (mode, word) in STOPPED {
        is_stopped(address, mode, word).await?;
    }
    let fetches = format!("fetches-{}", siege.inside.port);
    for mode in TRYING.map(|it| it.0).into_iter().chain([fetches.as_str()]) {
        host.says(&format!("hostile {mode} has tried all")).await?;
    }
    for (mode, denials) in TRYING {
        for denial in denials {
            is_denied(address, mode, *denial).await?;
        }
    }
    let metrics = get(address, "/metrics").await?.1;
    assert!(!metrics.lines().any(|line| line.starts_with("hostile_forged")), "{}", lines_of(&metrics, "forged"));
    assert!(lines_of(&metrics, "floods-metrics").lines().count() < 2_000, "its series are bounded");
    // The host does not watch kinds that the plugin may not watch, and reports why the plugin waits.
    let watching = plugin(address, "watches-secrets").await?["controllers"][0].clone();
    assert!(watching["state"] == "waiting" && watching["reason"].to_string().contains("secrets"), "{watching}");
    siege.nothing_was_taken(&host).await?;
    ready(address).await?;
    let peak = peak_kib(&host);
    assert!(peak.is_none_or(|peak| peak < HOST_MEMORY_KIB_MAX), "the host has had {peak:?} KiB");
    println!("the host's peak: {peak:?} KiB");
    assert!(host.terminate().await?.success(), "it stops as if nothing had been");
    Ok(())
}
