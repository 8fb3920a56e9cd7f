//! Tests the status page at the admin address: its updates, the text that a plugin can put into it, and the whole page
//! in a browser.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;
use windlass_tests::admin::{self, get};
use windlass_tests::objects::Objects;
use windlass_tests::probe::{self, Lab};
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::{self, until};
use windlass_tests::{chameleon, paths};

use crate::admin::watched;

/// The text with which a hostile plugin attacks the page: markup, the end of an event, and right-to-left text.
const HOSTILE: &str = "</script><img src=x onerror=\"window.pwned = true\">\n\nevent: state\ndata: {}\n\n\u{202e}evil";

/// The page's event stream, and the last state of each plugin in it.
struct Watched {
    lines: BufReader<TcpStream>,
    plugins: BTreeMap<String, Value>,
}

impl Watched {
    async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /watch HTTP/1.1\r\nHost: a\r\n\r\n").await?;
        Ok(Self { lines: BufReader::new(stream), plugins: BTreeMap::new() })
    }

    /// Handles the next event, and returns its name. `None` if the stream has ended.
    async fn next(&mut self) -> anyhow::Result<Option<String>> {
        let mut event = None;
        let mut line = String::new();
        // Other lines belong to the response's head or to its chunk sizes.
        while self.lines.read_line(&mut line).await? > 0 {
            if let Some(name) = line.strip_prefix("event: ") {
                event = Some(name.trim_end().to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                let mut told: Value = serde_json::from_str(data)?;
                let Value::Array(plugins) = told["plugins"].take() else { bail!("no plugins in {data}") };
                if event.as_deref() == Some("state") {
                    self.plugins.clear();
                }
                let named = plugins.into_iter().map(|it| (it["name"].as_str().unwrap_or_default().to_owned(), it));
                self.plugins.extend(named);
                return Ok(event);
            }
            line.clear();
        }
        Ok(None)
    }

    /// Waits until the stream shows the plugin in a state that `wanted` accepts.
    async fn until(&mut self, plugin: &str, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let told = async {
            loop {
                if let Some(shown) = self.plugins.get(plugin).filter(|it| wanted(it)) {
                    return Ok(shown.clone());
                }
                ensure!(self.next().await?.is_some(), "the stream has ended");
            }
        };
        let in_time = tokio::time::timeout(wait::CONDITION_TIMEOUT, told).await;
        in_time.map_err(anyhow::Error::from).flatten().with_context(|| format!("it has told {:?}", self.plugins))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_can_write_only_text_into_the_status_page() -> anyhow::Result<()> {
    let lab = Lab::on(Server::start(Kind::Embedded).await?, &["--admin-address", "127.0.0.1:0"]).await?;
    let address = admin::address(&lab.host).await?;
    let mut page = Watched::open(address).await?;
    assert_eq!(page.next().await?.as_deref(), Some("state"), "everything is told first");
    page.until(probe::NAME, |shown| shown["state"] == "running").await?;
    // Each call must fail, because the page no longer shows a failure after a successful call.
    lab.begin(probe::NAME, true, [json!({"call": "fail", "failures": [{"transient": HOSTILE}]})]).await?;
    let failed = page.until(probe::NAME, |shown| shown["failing"] == 1).await?;
    let failure = &failed["failures"][0];
    let key = format!("{}/{}", lab.server.objects().namespace(), probe::NAME);
    assert!(failure["error"].as_str().is_some_and(|it| it.contains(HOSTILE)) && failure["key"] == *key, "{failed}");
    // The page itself is the same for everyone, so it does not contain the hostile text.
    let (status, document) = get(address, "/").await?;
    assert!(status == 200 && !document.contains("pwned") && document.contains("<script>"), "{document}");
    let (status, shown) = get(address, &format!("/plugins/{}", probe::NAME)).await?;
    let shown: Value = serde_json::from_str(&shown)?;
    assert!(status == 200 && shown["controllers"][0]["lastErrors"][0]["key"] == *key, "{shown}");
    let (_, found) = get(address, &format!("/plugins/{}/keys?search={}", probe::NAME, probe::NAME)).await?;
    let found: Value = serde_json::from_str(&found)?;
    assert_eq!((&found["total"], &found["keys"][0]["key"]), (&json!(1), &json!(key)));
    // The stream sends the shutdown's progress, and then ends.
    assert!(lab.host.terminate().await?.success());
    while page.next().await?.is_some() {}
    Ok(())
}

/// An object that the chameleon reconciles.
fn visitor(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"chameleon": "true"}}})
}

/// Keeps the plugins busy until dropped.
async fn busy(objects: &Objects) -> anyhow::Result<()> {
    // The page shows the work of each second. So there must be some work, but less than the machine can do.
    let mut pace = tokio::time::interval(Duration::from_millis(200));
    for round in 0_u32.. {
        pace.tick().await;
        for app in ["shop", "cart", "search"] {
            let replicas = 1 + (round / 5) % 4;
            objects.merge("WebApp", app, &json!({"spec": {"replicas": replicas}})).await?;
        }
    }
    Ok(())
}

/// The folder for screenshots: `target/page`.
fn pictures() -> anyhow::Result<PathBuf> {
    let binary = paths::windlass()?;
    let target = binary.ancestors().nth(2).context("the binary is in a folder of the target folder")?;
    let folder = target.join("page");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: tools/test page says where it is"]
async fn the_status_page_is_clicked_through_in_a_browser() -> anyhow::Result<()> {
    let needs = |name: &str| std::env::var_os(name).with_context(|| format!("{name} is not set: run tools/test page"));
    let (chromium, packages) = (needs("WINDLASS_CHROMIUM")?, needs("WINDLASS_BROWSER")?);
    let server = Server::start(Kind::Embedded).await?;
    let objects = server.objects();
    let plugins = tempfile::tempdir()?;
    let file = |name: &str| plugins.path().join(format!("{name}.wasm"));
    for name in ["webapp", "replicaset"] {
        std::fs::copy(paths::plugins()?.join(format!("{name}.wasm")), file(name))?;
    }
    std::fs::copy(paths::guest("probe")?, file("probe"))?;
    chameleon::write("reconcile-transient", &file("chameleon"))?;
    std::fs::write(file("legacy-import"), b"no component")?;
    server.install_webapp().await?;
    probe::install(objects).await?;
    let (host, address) = watched(&server, plugins.path(), &[]).await?;
    Story::new(objects).create().await?;
    for app in ["cart", "search"] {
        let spec = json!({"image": "nginx:1.29", "replicas": 2, "port": 80});
        objects.apply(&json!({"apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "metadata": {"name": app}, "spec": spec})).await?;
    }
    let steps = json!([{"id": "1", "call": "fail", "failures": [{"transient": HOSTILE}]}]);
    let spec = json!({"run": "1", "always": true, "steps": steps});
    objects.apply(&json!({"apiVersion": "probe.windlass.dev/v1", "kind": "Probe", "metadata": {"name": "hostile"}, "spec": spec})).await?;
    // More keys than two pages show.
    for number in 0..120 {
        objects.apply(&visitor(&format!("visitor-{number:03}"))).await?;
    }
    until("all keys of the chameleon have failed", || async {
        let shown: Value = serde_json::from_str(&get(address, "/plugins/chameleon").await?.1)?;
        ensure!(shown["controllers"][0]["failing"] == 120, "{shown}");
        Ok(())
    })
    .await?;
    let mut browser = Command::new("node");
    browser.arg(paths::root().join("tests/page/story.mjs")).arg(address.to_string()).arg(pictures()?);
    browser.env("WINDLASS_CHROMIUM", chromium).env("WINDLASS_BROWSER", packages).env("NAMESPACE", objects.namespace());
    browser.stdin(Stdio::null()).kill_on_drop(true);
    let told = tokio::select! {
        biased;
        told = browser.output() => told?,
        failed = busy(objects) => bail!("there is nothing to do any more: {failed:?}"),
    };
    let said = [told.stdout, told.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    ensure!(told.status.success(), "{}: {said}", told.status);
    assert!(host.terminate().await?.success());
    Ok(())
}
