//! Tests `windlass status`, `keys`, `top` and `rollout` without an address. They reach the host's Pods through the API
//! server's proxy.
//!
//! The embedded API server has no such proxy, and a real one refuses loopback addresses. So a front server answers
//! these paths as kube-apiserver does, and forwards all other requests to the embedded server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;
use windlass_tests::{admin, chameleon, paths};

use crate::leases::TIMES;
use crate::webapp::plugin_directory;

/// The loopback address of each Pod, by name.
type Pods = Arc<BTreeMap<String, u16>>;

/// An API server that proxies to Pods.
struct Front {
    kubeconfig: PathBuf,
    _directory: TempDir,
    _answers: AbortOnDropHandle<()>,
}

impl Front {
    async fn start(server: &Server, pods: Pods) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let config = std::fs::read_to_string(server.kubeconfig())?;
        let behind = config.split("http://").nth(1).context("plain HTTP")?;
        let behind: String = behind.chars().take_while(|it| it.is_ascii_digit() || ".:".contains(*it)).collect();
        let directory = tempfile::tempdir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, config.replace(&behind, &listener.local_addr()?.to_string()))?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (pods, behind) = (pods.clone(), behind.clone());
                tokio::spawn(async move {
                    // Ignore an error: the client notices that its request has failed.
                    let _ = answer(stream, &pods, &behind).await;
                });
            }
        });
        Ok(Self { kubeconfig, _directory: directory, _answers: AbortOnDropHandle::new(task) })
    }
}

/// Answers one request, and closes the connection.
async fn answer(mut stream: TcpStream, pods: &Pods, behind: &str) -> anyhow::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let path = head.split(' ').nth(1).context("a path")?;
    let proxied = path.split_once("/pods/").and_then(|(_, rest)| rest.split_once("/proxy"));
    let (address, path) = match proxied {
        // As in a real server, the target must name the port by number.
        Some((target, path)) => {
            let (pod, port) = target.split_once(':').context("a port")?;
            ensure!(pods.get(pod) == Some(&port.parse()?), "no Pod {pod} at port {port}");
            (format!("127.0.0.1:{port}"), path)
        }
        None => (behind.to_owned(), path),
    };
    let refused = |error: std::io::Error| {
        let message = format!("error trying to reach service: {error}");
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503, "message": message});
        let body = status.to_string();
        format!("HTTP/1.1 503 Service Unavailable\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    };
    let mut there = match TcpStream::connect(&address).await {
        Ok(there) => there,
        Err(error) => return Ok(stream.write_all(refused(error).as_bytes()).await?),
    };
    // Headers are forwarded, including the host name that the client used.
    let kept = head.lines().skip(1).filter(|line| {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        !line.is_empty() && name != "host" && name != "connection"
    });
    let headers: String = kept.flat_map(|line| [line, "\r\n"]).collect();
    let host = if proxied.is_some() { "api.prod.example.com:6443" } else { "localhost" };
    there
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n").as_bytes())
        .await?;
    tokio::io::copy(&mut there, &mut stream).await?;
    Ok(())
}

/// Two replicas with two plugins, their Pods, and the front server.
struct Fleet {
    server: Server,
    hosts: BTreeMap<String, Host>,
    front: Front,
    _plugins: TempDir,
}

impl Fleet {
    async fn start() -> anyhow::Result<Self> {
        let server = Server::start(Kind::Embedded).await?;
        server.install_webapp().await?;
        let plugins = plugin_directory()?;
        chameleon::write("requeue", &plugins.path().join("chameleon.wasm"))?;
        let (mut hosts, mut pods) = (BTreeMap::new(), BTreeMap::new());
        for name in ["windlass-a", "windlass-b"] {
            let (host, port) = replica(&server, plugins.path(), name).await?;
            object(&server, name, port).await?;
            hosts.insert(name.to_owned(), host);
            pods.insert(name.to_owned(), port);
        }
        let front = Front::start(&server, Arc::new(pods)).await?;
        Ok(Self { server, hosts, front, _plugins: plugins })
    }

    /// Runs `windlass ARGUMENTS` against the front.
    async fn windlass(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = tokio::process::Command::new(paths::windlass()?);
        command.args(arguments).arg("--kubeconfig").arg(&self.front.kubeconfig);
        command.args(["-n", self.server.objects().namespace()]).env_remove("WINDLASS_ADMIN_ADDRESS");
        Ok(command.output().await?)
    }

    /// Waits until every plugin runs. Returns the plugins and the replicas.
    async fn settled(&self) -> anyhow::Result<Value> {
        until("both plugins run", || async {
            let output = self.windlass(&["status", "-o", "json"]).await?;
            let shown: Value = serde_json::from_slice(&output.stdout).with_context(|| said(&output))?;
            let plugins = shown["plugins"].as_array().context("a list")?;
            let all_run =
                plugins.iter().all(|it| it["health"]["state"] == "running" && it["lease"]["heldHere"] == true);
            ensure!(plugins.len() == 2 && all_run && output.status.success(), "{shown}");
            Ok(shown)
        })
        .await
    }
}

async fn replica(server: &Server, plugins: &Path, name: &str) -> anyhow::Result<(Host, u16)> {
    let (kubeconfig, plugins) = (server.kubeconfig().to_string_lossy(), plugins.to_string_lossy());
    let namespace = server.objects().namespace();
    let mut arguments = vec!["run", "--kubeconfig", &kubeconfig, "--namespace", namespace, "--plugins", &plugins];
    arguments.extend(["--grants=manifest", "--admin-address", "127.0.0.1:0"]);
    arguments.extend(TIMES);
    let host = Host::start_as(name, &arguments)?;
    let port = admin::address(&host).await?.port();
    Ok((host, port))
}

/// A replica's Pod, with the fields of the chart's Pod that the commands read.
async fn object(server: &Server, name: &str, port: u16) -> anyhow::Result<()> {
    let labels = json!({"app.kubernetes.io/name": "windlass", "app.kubernetes.io/instance": "main"});
    let container =
        json!({"name": "windlass", "image": "windlass", "ports": [{"name": "admin", "containerPort": port}]});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]},
    });
    let api = server.objects().api("Pod")?;
    server.objects().apply(&pod).await?;
    let running = kube::api::Patch::Merge(json!({"status": {"phase": "Running"}}));
    api.patch_status(name, &kube::api::PatchParams::default(), &running).await?;
    Ok(())
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{}\n{out}{err}", output.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_appear_as_one_host_and_a_missing_one_hides_no_other() -> anyhow::Result<()> {
    let mut fleet = Fleet::start().await?;
    let shown = fleet.settled().await?;
    let of = |plugin: &str| {
        let plugins = shown["plugins"].as_array().into_iter().flatten();
        let replica = plugins.filter(|it| it["name"] == plugin).map(|it| it["replica"].as_str().unwrap_or_default());
        replica.collect::<String>()
    };
    let replicas = json!([{"pod": "windlass-a", "problem": null}, {"pod": "windlass-b", "problem": null}]);
    ensure!(shown["replicas"] == replicas, "{shown}");
    let wide = said(&fleet.windlass(&["status", "-o", "wide"]).await?);
    ensure!(wide.contains(" REPLICA ") && wide.contains(&of("webapp")), "{wide}");
    let narrow = said(&fleet.windlass(&["status"]).await?);
    ensure!(!narrow.contains("REPLICA") && narrow.matches("webapp ").count() == 1, "{narrow}");

    Story::new(fleet.server.objects()).create().await?;
    let key = format!("{}/shop", fleet.server.objects().namespace());
    let story = said(&fleet.windlass(&["keys", "webapp", &key]).await?);
    ensure!(story.contains("of webapp, controller") && story.contains("AGO"), "{story}");
    let all = said(&fleet.windlass(&["keys", "webapp", "--all"]).await?);
    ensure!(all.contains(&key), "{all}");
    let none = fleet.windlass(&["keys", "nonesuch"]).await?;
    ensure!(none.status.code() == Some(1) && said(&none).contains("there are: chameleon, webapp"), "{}", said(&none));
    let top = said(&fleet.windlass(&["top", "--once", "-o", "wide"]).await?);
    ensure!(top.contains("REPLICA") && top.contains("chameleon"), "{top}");
    let rollout = said(&fleet.windlass(&["rollout", "status", "webapp"]).await?);
    ensure!(rollout.contains("no next version"), "{rollout}");

    // `resume` needs the replica's own address, so it tells the user how to reach the right replica.
    until("the way to the replica that runs it", || async {
        let shown: Value = serde_json::from_slice(&fleet.windlass(&["status", "webapp", "-o", "json"]).await?.stdout)?;
        let replica = shown["plugins"][0]["replica"].as_str().context("a replica")?;
        let (resume, way) = (fleet.windlass(&["resume", "webapp"]).await?, format!("pod/{replica} 8080:admin"));
        ensure!(resume.status.code() == Some(2) && said(&resume).contains(&way), "{way} in {}", said(&resume));
        Ok(())
    })
    .await?;

    // Once the other replica has taken over the stopped replica's plugins, the other replica reports them.
    fleet.hosts.remove("windlass-b").context("it runs")?.kill().await?;
    let gone = fleet.windlass(&["status"]).await?;
    let text = said(&gone);
    ensure!(gone.status.code() == Some(1) && text.contains("the replica windlass-b does not answer"), "{text}");
    ensure!(text.contains("NetworkPolicy") && text.contains("webapp ") && text.contains("chameleon "), "{text}");
    let taken = until("the other replica runs all", || async {
        let output = fleet.windlass(&["status", "-o", "json"]).await?;
        let shown: Value = serde_json::from_slice(&output.stdout).with_context(|| said(&output))?;
        let plugins = shown["plugins"].as_array().context("a list")?;
        ensure!(plugins.len() == 2 && plugins.iter().all(|it| it["health"]["state"] == "running"), "{shown}");
        Ok(shown)
    })
    .await?;
    ensure!(taken["replicas"][1]["problem"].as_str().is_some_and(|why| why.contains("503")), "{taken}");
    fleet.hosts.remove("windlass-a").context("it runs")?.kill().await?;
    let nobody = fleet.windlass(&["status"]).await?;
    ensure!(
        nobody.status.code() == Some(2) && said(&nobody).contains("no replica of the host answers"),
        "{}",
        said(&nobody)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn if_no_pod_is_found_the_search_and_the_flags_to_change_it_are_shown() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let windlass = paths::windlass()?;
    let ask = async |more: &[&str]| {
        let mut command = tokio::process::Command::new(&windlass);
        command.args(["status", "--kubeconfig"]).arg(server.kubeconfig()).args(more);
        command.env_remove("WINDLASS_ADMIN_ADDRESS").output().await
    };
    let none = ask(&["-n", "empty", "-l", "app=mine"]).await?;
    let text = said(&none);
    ensure!(none.status.code() == Some(2), "{text}");
    for part in ["labels app=mine", "the namespace empty", "kubeconfig", "-n", "-l", "--admin-address"] {
        ensure!(text.contains(part), "{part} in {text}");
    }
    let both = ask(&["-n", "empty", "--admin-address", "127.0.0.1:1"]).await?;
    ensure!(both.status.code() == Some(2) && said(&both).contains("cannot be used with"), "{}", said(&both));
    let context = ask(&["--context", "nonesuch"]).await?;
    ensure!(context.status.code() == Some(2) && said(&context).contains("nonesuch"), "{}", said(&context));
    Ok(())
}

/// The real server checks rights before it looks up a Pod's address.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_missing_on_a_real_kube_apiserver_is_named() -> anyhow::Result<()> {
    let server = Server::start(Kind::Real).await?;
    let namespace = server.objects().namespace();
    let account = format!("system:serviceaccount:{namespace}:operator");
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    let config = std::fs::read_to_string(server.kubeconfig())?;
    ensure!(config.contains("\n  user:\n"), "another form of kubeconfig");
    std::fs::write(&kubeconfig, config.replace("\n  user:\n", &format!("\n  user:\n    as: {account}\n")))?;
    let windlass = paths::windlass()?;
    let says = async |text: &str| {
        until(text, || async {
            let mut command = tokio::process::Command::new(&windlass);
            command.args(["status", "-n", namespace, "--kubeconfig"]).arg(&kubeconfig);
            let output = command.env_remove("WINDLASS_ADMIN_ADDRESS").output().await?;
            ensure!(output.status.code() == Some(2) && said(&output).contains(text), "{}", said(&output));
            Ok(())
        })
        .await
    };
    object(&server, "windlass-a", 8080).await?;
    says(&format!("may not list pods in the namespace {namespace}")).await?;
    allow(&server, "list", "pods").await?;
    says(&format!("may not get pods/proxy in the namespace {namespace}")).await?;
    allow(&server, "get", "pods/proxy").await?;
    // The real server does not proxy to addresses of its own machine.
    says("the replica windlass-a does not answer").await
}

/// Allows the account `operator` these verbs in the test's namespace.
async fn allow(server: &Server, verb: &str, resource: &str) -> anyhow::Result<()> {
    let name = format!("may-{verb}");
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": server.objects().namespace()}],
    });
    server.objects().apply(&role).await?;
    server.objects().apply(&binding).await?;
    Ok(())
}
