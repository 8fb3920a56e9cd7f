//! Pushes and pulls a plugin with a real registry, `crane registry serve`, and logs in to one that has nothing.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use windlass_egress::tls::Trust;
use windlass_oci::{Network, PlainHttp};
use windlass_store::{PluginStore, StoreLimits, WantedPlugin};
use windlass_tests::paths;

use crate::author::texts;

/// A registry on a free port, which ends with this value.
pub(crate) struct CraneRegistry {
    process: Child,
    pub(crate) address: String,
}

impl CraneRegistry {
    pub(crate) async fn serve() -> anyhow::Result<Self> {
        let mut process = Command::new(paths::crane()?)
            .args(["registry", "serve", "--address", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(process.stderr.take().context("its output")?).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some((_, port)) = line.split_once("serving on port ") {
                let address = format!("127.0.0.1:{}", port.trim());
                // It logs each request, and would end if its log could not be written.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(Self { process, address });
            }
        }
        anyhow::bail!("the registry ended before it served")
    }

    /// Ends the registry, and waits for it: until then it may still take connections.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        Ok(self.process.kill().await?)
    }
}

/// A person with an own configuration of docker, and a folder with a plugin.
struct Person {
    folder: tempfile::TempDir,
}

impl Person {
    fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("docker"))?;
        std::fs::copy(paths::plugins()?.join("webapp.wasm"), folder.path().join("webapp.wasm"))?;
        std::fs::copy(paths::root().join("examples/webapp/crd.yaml"), folder.path().join("crd.yaml"))?;
        Ok(Self { folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn run(&self, program: &Path, arguments: &[&str], input: &str) -> anyhow::Result<Output> {
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("DOCKER_CONFIG", self.path("docker"))
            .env("KUBECONFIG", self.path("none"))
            .env("WINDLASS_CACHE_DIR", paths::cache()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut stdin = child.stdin.take().context("its input")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        Ok(child.wait_with_output().await?)
    }

    /// The output of a command of windlass, which must succeed.
    async fn says(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(&paths::windlass()?, arguments, "").await?;
        let (out, errors) = texts(&output);
        ensure!(output.status.success(), "{arguments:?}: {errors}");
        Ok(out.trim().to_owned())
    }

    /// The exit code and the error of a command of windlass.
    async fn fails(&self, arguments: &[&str], input: &str) -> anyhow::Result<(Option<i32>, String)> {
        let output = self.run(&paths::windlass()?, arguments, input).await?;
        Ok((output.status.code(), texts(&output).1))
    }

    async fn crane(&self, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
        let output = self.run(&paths::crane()?, arguments, "").await?;
        ensure!(output.status.success(), "crane {arguments:?}: {}", texts(&output).1);
        Ok(output.stdout)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pushed_plugin_is_read_by_crane_inspected_and_pulled_back() -> anyhow::Result<()> {
    let (registry, person) = (CraneRegistry::serve().await?, Person::new()?);
    let name = format!("{}/team/webapp", registry.address);
    let tagged = format!("oci://{name}:1.2.0");
    let digest = person.says(&["push", "webapp.wasm", &tagged, "--plain-http"]).await?;
    ensure!(digest.starts_with("sha256:") && digest.len() == 71, "{digest}");
    ensure!(person.says(&["push", "webapp.wasm", &tagged, "--plain-http"]).await? == digest, "the same plugin");

    // crane reads it, and finds the component as the only layer.
    ensure!(person.crane(&["digest", &format!("{name}:1.2.0")]).await?.trim_ascii() == digest.as_bytes());
    let manifest: Value = serde_json::from_slice(&person.crane(&["manifest", &format!("{name}:1.2.0")]).await?)?;
    ensure!(manifest["layers"].as_array().is_some_and(|layers| layers.len() == 1), "{manifest}");
    ensure!(manifest["annotations"]["org.opencontainers.image.title"] == "webapp", "{manifest}");
    let layer = manifest["layers"][0]["digest"].as_str().context("a digest")?;
    let component = std::fs::read(person.path("webapp.wasm"))?;
    ensure!(person.crane(&["blob", &format!("{name}@{layer}")]).await? == component, "crane reads another layer");

    // By tag, by digest, and with the documents.
    let by_digest = format!("oci://{name}@{digest}");
    for (reference, file) in [(&tagged, "tagged.wasm"), (&by_digest, "exact.wasm")] {
        let pulled = person.says(&["pull", reference, "--plain-http", "-o", file]).await?;
        ensure!(pulled == digest && std::fs::read(person.path(file))? == component, "{reference}");
    }
    person.says(&["pull", &tagged, "--plain-http", "-o", "exact.wasm", "--documents", "docs"]).await?;
    let same = |file: &str| std::fs::read(person.path("docs").join(file));
    ensure!(same("crd.yaml")? == std::fs::read(person.path("crd.yaml"))?);
    ensure!(String::from_utf8(same("webapp.policy.yaml")?)?.contains("paused: true"));

    // A registry's plugin is shown as its file is, except for the machine code and the places.
    let shown = |arguments: &[&str]| {
        let arguments = [arguments, &["-o", "json", "--policy", "docs/webapp.policy.yaml"]].concat();
        let words: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let person = &person;
        async move {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            anyhow::Ok(serde_json::from_str::<Value>(&person.says(&words).await?)?)
        }
    };
    let mut of_file = shown(&["inspect", "webapp.wasm"]).await?;
    let mut of_registry = shown(&["inspect", &tagged, "--plain-http"]).await?;
    ensure!(of_registry["published"]["digest"] == digest.as_str(), "{of_registry}");
    ensure!(of_registry["compiledBytes"].is_null() && of_registry["file"] == tagged.as_str(), "{of_registry}");
    for json in [&mut of_file, &mut of_registry] {
        for other in ["file", "published", "compiledBytes"] {
            json[other] = Value::Null;
        }
    }
    ensure!(of_file == of_registry, "a file: {of_file:#}\na registry: {of_registry:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn artefacts_that_are_no_plugins_are_refused_with_the_reason() -> anyhow::Result<()> {
    let (registry, person) = (CraneRegistry::serve().await?, Person::new()?);
    let name = format!("{}/team/shop", registry.address);
    let tagged = format!("oci://{name}:1");
    let (code, error) = person.fails(&["pull", &tagged, "--plain-http"], "").await?;
    ensure!(code == Some(2) && error.contains("no such repository, tag or digest"), "{error}");
    let (code, error) = person.fails(&["pull", &tagged], "").await?;
    ensure!(code == Some(2) && error.contains("--plain-http"), "{error}");

    // An image of a tar, as people push it by mistake.
    std::fs::write(person.path("layer.tar"), [0; 10240])?;
    let image = format!("{name}:1");
    person.crane(&["append", "--new_layer", "layer.tar", "--new_tag", &image, "--oci-empty-base"]).await?;
    for command in [&["pull", &tagged, "--plain-http"], &["inspect", &tagged, "--plain-http"]] {
        let (code, error) = person.fails(command, "").await?;
        let expected = if command[0] == "pull" { 1 } else { 2 };
        ensure!(code == Some(expected) && error.contains("the layer is an archive"), "{command:?}: {code:?} {error}");
    }
    ensure!(!person.path("shop.wasm").exists(), "a file is left behind");
    let (code, error) = person.fails(&["push", "crd.yaml", &tagged, "--plain-http"], "").await?;
    ensure!(code == Some(1), "a file that is no plugin is not pushed: {code:?} {error}");
    Ok(())
}

/// A registry that has nothing, but answers so only to the user `ann` with this password.
async fn private_registry(password: &'static str) -> anyhow::Result<String> {
    use base64::Engine as _;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let word = base64::engine::general_purpose::STANDARD.encode(format!("ann:{password}"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut head).await.unwrap_or_default() == 0 {
                    break;
                }
            }
            let is_right = String::from_utf8_lossy(&head).contains(&format!("Basic {word}\r\n"));
            let status =
                if is_right { "404 Not Found" } else { "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a\"" };
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await;
        }
    });
    Ok(address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_comes_from_dockers_file_or_from_standard_input() -> anyhow::Result<()> {
    let (address, person) = (private_registry("right").await?, Person::new()?);
    let reference = format!("oci://{address}/team/webapp:1");
    let pull = ["pull", &reference, "--plain-http"];
    let with_user = [&pull[..], &["--username", "ann", "--password-stdin"]].concat();
    let (code, error) = person.fails(&pull, "").await?;
    ensure!(code == Some(2) && error.contains("without a login") && error.contains(&address), "{error}");
    let (_, error) = person.fails(&with_user, "wrong\n").await?;
    ensure!(error.contains("check user, password") && !error.contains("wrong"), "{error}");
    let (_, error) = person.fails(&with_user, "right\n").await?;
    ensure!(error.contains("no such repository"), "{error}");

    // `crane auth login` writes the file that docker reads, too.
    person.crane(&["auth", "login", &address, "-u", "ann", "-p", "right"]).await?;
    let (_, error) = person.fails(&pull, "").await?;
    ensure!(error.contains("no such repository"), "{error}");
    let helper = format!("{{\"credHelpers\": {{\"{address}\": \"desktop\"}}}}");
    std::fs::write(person.path("docker").join("config.json"), helper)?;
    let (code, error) = person.fails(&pull, "").await?;
    ensure!(code == Some(2) && error.contains("helper program") && error.contains("--username"), "{error}");
    Ok(())
}

/// The store of a host, with the system's network and disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_keeps_what_it_fetched_when_the_registry_is_gone() -> anyhow::Result<()> {
    let (registry, person) = (CraneRegistry::serve().await?, Person::new()?);
    let tagged = format!("oci://{}/team/webapp:1.2.0", registry.address);
    let digest = person.says(&["push", "webapp.wasm", &tagged, "--plain-http"]).await?;
    let component = std::fs::read(person.path("webapp.wasm"))?;
    let directory = person.path("store");
    let open = || {
        let network = Network::of_system(Trust::of_platform("--registry-ca"));
        PluginStore::open(&directory, StoreLimits::default(), network)
    };
    let wanted = |image: &str| {
        let plain_http = PlainHttp::OnThisMachine;
        anyhow::Ok(WantedPlugin { plain_http, ..WantedPlugin::of_cluster(image.parse()?) })
    };
    let by_digest = wanted(&format!("oci://{}/team/webapp@{digest}", registry.address))?;

    let stored = open()?.fetch(&wanted(&tagged)?).await?;
    ensure!(stored.digest.as_str() == digest && std::fs::read(&stored.path)? == component, "{stored:?}");
    ensure!(stored.resolved.is_some_and(|tag| tag.tag == "1.2.0" && tag.server == registry.address));
    registry.stop().await?;

    // Another process, and no registry.
    let store = open()?;
    let again = store.fetch(&by_digest).await?;
    ensure!(std::fs::read(&again.path)? == component);
    let error = store.fetch(&wanted(&tagged)?).await.err().context("the registry is gone")?;
    ensure!(error.reason() == "Unreachable" && !error.is_final(), "{error}");

    // A damaged file is not handed out.
    std::fs::write(&again.path, b"\0asm but not what was fetched")?;
    let error = open()?.fetch(&by_digest).await.err().context("the registry is gone")?;
    ensure!(error.reason() == "Unreachable", "{error}");
    Ok(())
}
