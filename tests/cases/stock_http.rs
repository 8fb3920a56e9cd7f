//! HTTP by the clients of stock toolchains: `fetch` under `ComponentizeJS`, the bindings of `wasi:http` under
//! componentize-py, and the crate `wstd` under Rust (`tests/stock`), against a server in the test.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::{until, until_within};
use windlass_tests::{busy, paths};

use crate::review::windlass;
use crate::traces::request;

/// The address in the plugins' manifests. It is fixed, because another port would change the components, and each run
/// would have to compile them again.
const ADDRESS: &str = "127.0.0.1:28765";

/// How long to wait for the address if another run of these tests uses it.
const ADDRESS_TIMEOUT: Duration = Duration::from_mins(4);

/// The time limit for loading three components for the first time, beside other tests.
const LOAD_TIMEOUT: Duration = Duration::from_mins(6);

const FLAGS: [&str; 6] =
    ["--grants=policy", "--leases=none", "--limit", "compile-deadline=6m", "--limit", "compile-cpu=6m"];

/// Another name for the same server, which no policy grants.
const MOVED: &str = "302 Found\r\nLocation: http://localhost:28765/elsewhere";

const RULES: &str = "\
instances: reuse
rules:
- {apiGroups: [apps.kubedojo.io], resources: [webapps], verbs: [get, list, watch]}
- {apiGroups: [apps.kubedojo.io], resources: [webapps/status], verbs: [get, update, patch]}
- {apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, update, patch, delete]}
";

const GRANTED: &str = "\
http:
- {scheme: http, host: 127.0.0.1, port: 28765, methods: [GET, POST], addresses: [127.0.0.1/32]}
";

/// A plugin, and the error text of its client.
struct Client {
    toolchain: &'static str,
    late: &'static str,
    denied: &'static str,
}

const CLIENTS: [Client; 3] = [
    Client { toolchain: "js", late: "TimeoutError", denied: "NetworkError" },
    Client { toolchain: "python", late: "ErrorCode_HttpResponseTimeout", denied: "ErrorCode_HttpRequestDenied" },
    Client { toolchain: "rust", late: "timed out", denied: "HttpRequestDenied" },
];

/// A server that has a different response for each path, and records the requests.
struct Answers {
    kept: Arc<Kept>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Kept {
    /// The answer to `/get`.
    word: Mutex<&'static str>,
    /// The first line of each request and its toolchain.
    asked: Mutex<Vec<String>>,
    /// The barriers at which each toolchain's two requests for `/both` wait for each other.
    pairs: Mutex<BTreeMap<String, Arc<Barrier>>>,
}

impl Answers {
    async fn start(word: &'static str) -> anyhow::Result<Self> {
        let bound = || TcpListener::bind(ADDRESS);
        let listener = until_within(ADDRESS_TIMEOUT, &format!("{ADDRESS} is free"), bound).await?;
        let kept = Arc::new(Kept { word: Mutex::new(word), ..Kept::default() });
        let (mut serving, all) = (JoinSet::new(), kept.clone());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let kept = all.clone();
                // If a request gets no response, the client has an error, which the stories check.
                connections.spawn(async move { kept.answer(stream).await });
            }
        });
        Ok(Self { kept, _serving: serving })
    }

    fn say(&self, word: &'static str) {
        *locked(&self.kept.word) = word;
    }

    fn asked(&self) -> Vec<String> {
        locked(&self.kept.asked).clone()
    }
}

impl Kept {
    async fn answer(&self, mut stream: TcpStream) -> anyhow::Result<()> {
        let (head, body) = request(&mut stream).await?;
        let line = head.lines().next().unwrap_or_default().trim_end_matches(" http/1.1").to_owned();
        let toolchain =
            head.lines().find_map(|it| it.strip_prefix("x-toolchain: ")).context("its toolchain")?.to_owned();
        locked(&self.asked).push(format!("{toolchain}: {line}"));
        let body = match &*line {
            "get /get" => locked(&self.word).to_string(),
            "post /post" => String::from_utf8(body)?,
            "get /moved" => "elsewhere".to_owned(),
            "get /both" => {
                let pair = locked(&self.pairs).entry(toolchain).or_insert_with(|| Arc::new(Barrier::new(2))).clone();
                pair.wait().await;
                "of two".to_owned()
            }
            // Until the client gives up.
            "get /never" => return stream.read(&mut [0]).await.map(|_| ()).or(Ok(())),
            _ => anyhow::bail!("nobody asks for {line}"),
        };
        let status = if line == "get /moved" { MOVED } else { "201 Created" };
        let head = format!("HTTP/1.1 {status}\r\nX-Answer: a-header\r\nContent-Length: {}\r\n\r\n", body.len());
        Ok(stream.write_all(format!("{head}{body}").as_bytes()).await?)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces a plugin's policy as a whole.
fn grant(plugins: &Path, toolchain: &str, http: &str) -> anyhow::Result<()> {
    let plugin = format!("stock-{toolchain}");
    let head = format!("apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: {plugin}\n");
    let (file, new) = (plugins.join(format!("{plugin}.policy.yaml")), plugins.join(format!("{plugin}.new")));
    std::fs::write(&new, format!("{head}{RULES}{http}"))?;
    Ok(std::fs::rename(new, file)?)
}

/// The plugins, with the server's address as their configuration, but no right to call it.
fn plugins() -> anyhow::Result<tempfile::TempDir> {
    let plugins = tempfile::tempdir()?;
    for Client { toolchain, .. } in &CLIENTS {
        let plugin = format!("stock-{toolchain}");
        std::fs::copy(paths::stock(&plugin)?, plugins.path().join(format!("{plugin}.wasm")))?;
        grant(plugins.path(), toolchain, "")?;
        let config = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginConfig", "plugin": plugin,
            "config": {"url": format!("http://{ADDRESS}")},
        });
        std::fs::write(plugins.path().join(format!("{plugin}.config.yaml")), config.to_string())?;
    }
    Ok(plugins)
}

/// Waits until `right` accepts the `ConfigMap` of each plugin.
async fn each_says(
    server: &Server,
    host: &Host,
    what: &str,
    right: impl Fn(&Client, &Value) -> bool,
) -> anyhow::Result<()> {
    for client in &CLIENTS {
        let what = format!("{}: {what}", client.toolchain);
        let waited = until(&what, || async {
            let name = format!("shop-stock-{}", client.toolchain);
            let it = server.objects().get("ConfigMap", &name).await?.context("it is not there")?;
            ensure!(right(client, &it["data"]), "{}", it["data"]);
            Ok(())
        });
        waited.await.with_context(|| host.log())?;
    }
    Ok(())
}

fn has(data: &Value, key: &str, words: &str) -> bool {
    data[key].as_str().is_some_and(|it| it.contains(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn http_clients_of_stock_toolchains_reach_only_granted_hosts() -> anyhow::Result<()> {
    let answers = Answers::start("one").await?;
    let plugins = plugins()?;
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let objects = server.objects();
    let host = {
        let _turn = busy::turn().await?;
        let host = Host::run_with(server.kubeconfig(), objects.namespace(), plugins.path(), &FLAGS)?;
        let started = until_within(LOAD_TIMEOUT, "all have started", || async {
            ensure!(host.log().matches("controller started").count() == CLIENTS.len(), "not yet");
            Ok(())
        });
        started.await.with_context(|| host.log())?;
        host
    };
    let webapp = json!({
        "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
        "metadata": {"name": "shop"}, "spec": {"image": "nginx"},
    });
    objects.apply(&webapp).await?;
    let all = ["get", "post", "both", "moved", "late", "denied"];
    let denied = |client: &Client, data: &Value| all.iter().all(|key| has(data, key, client.denied));
    each_says(&server, &host, "its client is refused", denied).await?;
    assert_eq!(answers.asked(), Vec::<String>::new());

    for Client { toolchain, .. } in &CLIENTS {
        let reason = format!("WARN \"POST http://{ADDRESS}: nothing in its policy allows it");
        let plugin = format!("plugin=stock-{toolchain} ");
        until("the log has the reason", || async {
            let is_it = |line: &str| line.contains(&reason) && line.contains(&plugin);
            ensure!(host.log().lines().any(is_it), "{plugin}: {}", host.log());
            Ok(())
        })
        .await?;
        grant(plugins.path(), toolchain, GRANTED)?;
    }
    let answered = |word: &'static str| {
        move |client: &Client, data: &Value| {
            data["get"] == format!("201 a-header {word}")
                && data["post"] == "201 a-header a body"
                && data["both"] == "201 a-header of two, 201 a-header of two"
                && data["moved"] == "302 a-header elsewhere"
                && has(data, "late", client.late)
                && has(data, "denied", client.denied)
        }
    };
    each_says(&server, &host, "what is granted is answered, and nothing else", answered("one")).await?;
    // The next call runs in the same instance, after the call that has given up its request.
    answers.say("two");
    objects.merge("WebApp", "shop", &json!({"spec": {"replicas": 3}})).await?;
    each_says(&server, &host, "the next call is answered, too", answered("two")).await?;
    let asked = answers.asked();
    let is_known = |line: &String| {
        ["get /get", "post /post", "get /both", "get /moved", "get /never"].iter().any(|it| line.ends_with(it))
    };
    ensure!(asked.iter().all(is_known), "{asked:?}");
    ensure!(host.terminate().await?.success(), "it ends well");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_reports_wasi_http_and_its_missing_grants() -> anyhow::Result<()> {
    let plugins = tempfile::tempdir()?;
    let inspect = async |plugin: &str| {
        let file = plugins.path().join(format!("{plugin}.wasm"));
        std::fs::copy(paths::stock(plugin)?, &file)?;
        windlass(&["inspect", &file.to_string_lossy()], plugins.path()).await
    };
    let speaks = "wasi:http: requests to granted hosts";
    let lacking = inspect("stock-rust").await?;
    ensure!(lacking.code == Some(1) && lacking.printed.contains(speaks), "{}{}", lacking.printed, lacking.said);
    let rule = "http:\n- scheme: http\n  host: \"127.0.0.1\"\n  port: 28765\n  methods: [\"GET\", \"POST\"]";
    for words in ["LACKS    HTTP GET POST http://\"127.0.0.1\" port 28765", rule] {
        ensure!(lacking.printed.contains(words), "{words} is not in {}", lacking.printed);
    }
    grant(plugins.path(), "rust", GRANTED)?;
    let granted = inspect("stock-rust").await?;
    ensure!(granted.code == Some(0) && granted.printed.contains("has      HTTP GET POST"), "{}", granted.printed);
    let without = inspect("stock-c").await?;
    ensure!(!without.printed.contains("wasi:http") && !without.printed.contains("HTTP GET"), "{}", without.printed);
    Ok(())
}
