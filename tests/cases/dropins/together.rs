//! All drop-ins in one host on a real kube-apiserver, while objects come and go.
//!
//! `make test` plays each part once. `WINDLASS_DROPINS_MINUTES=60` plays the parts again and again for so long, and
//! starts the host anew every ten minutes: `make soak STORIES=dropins`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use windlass_tests::host::Host;
use windlass_tests::kubectl::Kubectl;
use windlass_tests::objects::Objects;
use windlass_tests::process::{Process, mebibytes};
use windlass_tests::server::Server;
use windlass_tests::wait::{until, until_within};
use windlass_tests::{admin, cluster};

use super::s3_bucket::SmallS3;
use super::{COMPILE_LIMITS, DROPIN_START_TIMEOUT, installed, sources};

const NAMES: [&str; 9] = [
    "replicator",
    "imagepullsecret-patcher",
    "csr-approver",
    "rbac-manager",
    "reloader",
    "janitor",
    "downscaler",
    "cronjob",
    "s3-bucket",
];

/// The time between two starts of the host.
const HOST_RUN_TIME: Duration = Duration::from_mins(10);

/// The pause after a round of a part, so that the parts leave the processors to others most of the time.
const ROUND_PAUSE: Duration = Duration::from_secs(3);

/// How long an effect may take. It includes a start of the host.
const ROUND_EFFECT_TIMEOUT: Duration = Duration::from_mins(5);

/// The users' side of the cluster.
struct Scene {
    server: Server,
    s3: SmallS3,
    plugins: TempDir,
}

impl Scene {
    /// The definitions, roles and credentials that the drop-ins need, and a directory with all drop-ins.
    async fn new(server: Server) -> anyhow::Result<Self> {
        let plugins = tempfile::tempdir()?;
        for name in NAMES {
            for file in std::fs::read_dir(installed(name)?.path())? {
                let file = file?;
                std::fs::copy(file.path(), plugins.path().join(file.file_name()))?;
            }
        }
        let config = plugins.path().join("downscaler.config.yaml");
        let text = std::fs::read_to_string(&config)?;
        std::fs::write(&config, text.replace("gracePeriodSeconds: 900", "gracePeriodSeconds: 0"))?;
        let scene = Self { server, s3: SmallS3::start().await?, plugins };
        let kubectl = scene.kubectl();
        for name in ["rbac-manager", "cronjob", "s3-bucket"] {
            kubectl.run(&["apply", "-f", &sources(name).join("crd.yaml").display().to_string()]).await?;
        }
        kubectl.run(&["wait", "--for=condition=Established", "crd", "--all"]).await?;
        kubectl.run(&["create", "namespace", "imagepullsecret-patcher"]).await?;
        let credentials = ["secret", "generic", "image-pull-secret-src", "--from-literal=.dockerconfigjson={}"];
        kubectl.run(&[&["create", "-n", "imagepullsecret-patcher"], &credentials[..]].concat()).await?;
        let verbs = ["--verb=create", "--resource=certificatesigningrequests.certificates.k8s.io"];
        kubectl.run(&[&["create", "clusterrole", "nodes-ask"][..], &verbs].concat()).await?;
        let bound = ["--clusterrole=nodes-ask", "--group=system:nodes"];
        kubectl.run(&[&["create", "clusterrolebinding", "nodes-ask"][..], &bound].concat()).await?;
        Ok(scene)
    }

    fn kubectl(&self) -> Kubectl<'_> {
        Kubectl::of_all_namespaces(self.server.kubeconfig())
    }

    fn objects(&self) -> &Objects {
        self.server.objects()
    }

    /// Starts the host with all drop-ins, and waits until each works.
    async fn host(&self) -> anyhow::Result<Host> {
        let [kubeconfig, plugins] = [self.server.kubeconfig(), self.plugins.path()].map(|it| it.display().to_string());
        let run = ["run", "--kubeconfig", &kubeconfig, "--plugins", &plugins, "--grants=policy", "--leases=none"];
        let host = Host::start(&[&run[..], &["--admin-address", "127.0.0.1:0"], &COMPILE_LIMITS].concat(), None)?;
        let address = admin::address(&host).await?;
        until_within(DROPIN_START_TIMEOUT, "all drop-ins work", || async {
            let working = controllers(address).await?.into_iter().filter(|it| it["state"] == "running").count();
            ensure!(working >= NAMES.len(), "{working} controllers work:\n{}", host.log());
            Ok(())
        })
        .await?;
        Ok(host)
    }

    /// Waits until the object has this value at the pointer; null also if the object is not there.
    async fn has(&self, kind: &str, name: &str, pointer: &str, value: Value) -> anyhow::Result<()> {
        until_within(ROUND_EFFECT_TIMEOUT, &format!("{kind} {name} has {value} at {pointer:?}"), || async {
            let found = self.objects().get(kind, name).await?;
            let seen = found.as_ref().and_then(|it| it.pointer(pointer)).cloned().unwrap_or_default();
            ensure!(seen == value, "{found:?}");
            Ok(())
        })
        .await
    }

    /// Waits until the object is there, if `yes`, or is gone.
    async fn exists(&self, yes: bool, kind: &str, name: &str) -> anyhow::Result<()> {
        until_within(ROUND_EFFECT_TIMEOUT, &format!("{kind} {name}: {yes}"), || async {
            let found = self.kubectl().run(&["get", kind, name, "-o", "name", "--ignore-not-found"]).await?;
            ensure!(found.trim().is_empty() != yes, "{found}");
            Ok(())
        })
        .await
    }

    async fn create(&self, document: &Value) -> anyhow::Result<()> {
        self.objects().apply(document).await.map(|_| ())
    }

    /// Applies an object of a drop-in's own kind, in the namespace `default` if it has one.
    async fn apply(&self, name: &str, document: &Value) -> anyhow::Result<()> {
        let file = self.plugins.path().join(format!("{name}.json"));
        std::fs::write(&file, document.to_string())?;
        self.kubectl().run(&["apply", "-n", "default", "-f", &file.display().to_string()]).await?;
        Ok(std::fs::remove_file(file)?)
    }

    /// Plays the part of one drop-in once, and returns the time until it first did something. Afterwards its objects
    /// are gone.
    async fn play(&self, part: &str, round: u32) -> anyhow::Result<Duration> {
        let name = format!("{part}-{round}");
        match part {
            "replicator" => self.replicator(&name).await,
            "imagepullsecret-patcher" => self.imagepullsecret_patcher(&name).await,
            "csr-approver" => self.csr_approver(&name).await,
            "rbac-manager" => self.rbac_manager(&name).await,
            "reloader" => self.reloader(&name).await,
            "janitor" => self.janitor(&name).await,
            "downscaler" => self.downscaler(&name).await,
            "cronjob" => self.cronjob(&name).await,
            _ => self.s3_bucket(&name).await,
        }
    }

    async fn replicator(&self, name: &str) -> anyhow::Result<Duration> {
        let own = self.objects().namespace();
        let target = Objects::new(self.objects().client().clone(), "default");
        let copied = async |data: Value| {
            until_within(ROUND_EFFECT_TIMEOUT, &format!("the copy of {own}/{name} has {data}"), || async {
                let found = target.get("ConfigMap", name).await?.unwrap_or_default();
                ensure!(found["data"] == data, "{found}");
                Ok(())
            })
            .await
        };
        let metadata = json!({"name": name, "annotations": {"replicator.v1.mittwald.de/replicate-to": "default"}});
        self.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}))
            .await?;
        let began = Instant::now();
        copied(json!({"a": "1"})).await?;
        let took = began.elapsed();
        self.objects().merge("ConfigMap", name, &json!({"data": {"a": "2"}})).await?;
        copied(json!({"a": "2"})).await?;
        self.objects().delete("ConfigMap", name).await?;
        copied(Value::Null).await?;
        Ok(took)
    }

    async fn imagepullsecret_patcher(&self, name: &str) -> anyhow::Result<Duration> {
        let kubectl = self.kubectl();
        kubectl.run(&["create", "namespace", name]).await?;
        let began = Instant::now();
        let path = "jsonpath={.imagePullSecrets[*].name}";
        until_within(ROUND_EFFECT_TIMEOUT, &format!("the account of {name} pulls with the secret"), || async {
            let found = kubectl.run(&["get", "serviceaccount", "default", "-n", name, "-o", path]).await?;
            ensure!(found == "image-pull-secret", "{found}");
            kubectl.run(&["get", "secret", "image-pull-secret", "-n", name]).await
        })
        .await?;
        let took = began.elapsed();
        kubectl.run(&["delete", "namespace", name]).await?;
        Ok(took)
    }

    async fn csr_approver(&self, name: &str) -> anyhow::Result<Duration> {
        let kubectl = self.kubectl();
        let sample = std::fs::read_to_string(sources("csr-approver").join("request.yaml"))?;
        let file = self.plugins.path().join(format!("{name}.request"));
        std::fs::write(&file, sample.replace("name: node-1\n", &format!("name: {name}\n")))?;
        let node = ["--as", "system:node:node-1", "--as-group", "system:nodes"];
        kubectl.run(&[&["create", "-f", &file.display().to_string()][..], &node].concat()).await?;
        let began = Instant::now();
        until_within(ROUND_EFFECT_TIMEOUT, &format!("{name} is approved"), || async {
            let path = "jsonpath={.status.conditions[*].type}";
            let found = kubectl.run(&["get", "csr", name, "-o", path]).await?;
            ensure!(found == "Approved", "{found}");
            Ok(())
        })
        .await?;
        let took = began.elapsed();
        kubectl.run(&["delete", "csr", name]).await?;
        std::fs::remove_file(file)?;
        Ok(took)
    }

    async fn rbac_manager(&self, name: &str) -> anyhow::Result<Duration> {
        let subjects = json!([{"kind": "Group", "name": name}]);
        let bindings =
            json!([{"name": "viewers", "subjects": subjects, "clusterRoleBindings": [{"clusterRole": "view"}]}]);
        let document = json!({
            "apiVersion": "rbacmanager.reactiveops.io/v1beta1", "kind": "RBACDefinition", "metadata": {"name": name},
            "rbacBindings": bindings,
        });
        self.apply(name, &document).await?;
        let began = Instant::now();
        let binding = format!("{name}-viewers-view");
        self.exists(true, "clusterrolebinding", &binding).await?;
        let took = began.elapsed();
        self.kubectl().run(&["delete", "rbacdefinition", name]).await?;
        self.exists(false, "clusterrolebinding", &binding).await?;
        Ok(took)
    }

    /// A Deployment without Pods, whose container has its environment from the `ConfigMap` of the same name.
    fn deployment(name: &str, annotations: &Value) -> Value {
        let labels = json!({"app": name});
        let container = json!({"name": "main", "image": "main", "envFrom": [{"configMapRef": {"name": name}}]});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
        let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
        let metadata = json!({"name": name, "annotations": annotations});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    }

    async fn reloader(&self, name: &str) -> anyhow::Result<Duration> {
        let config = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}});
        self.create(&config("1")).await?;
        self.create(&Self::deployment(name, &json!({"reloader.stakater.com/auto": "true"}))).await?;
        until_within(ROUND_EFFECT_TIMEOUT, &format!("{name} is seen"), || async {
            let found = self.objects().get("Deployment", name).await?.unwrap_or_default();
            ensure!(found["metadata"]["annotations"]["reloader.windlass.dev/seen"].is_string(), "{found}");
            Ok(())
        })
        .await?;
        self.create(&config("2")).await?;
        let began = Instant::now();
        until_within(ROUND_EFFECT_TIMEOUT, &format!("{name} reloads"), || async {
            let found = self.objects().get("Deployment", name).await?.unwrap_or_default();
            let variable = found.pointer("/spec/template/spec/containers/0/env/0/name").and_then(Value::as_str);
            ensure!(variable.is_some_and(|it| it.starts_with("STAKATER_")), "{found}");
            Ok(())
        })
        .await?;
        let took = began.elapsed();
        self.objects().delete("Deployment", name).await?;
        self.objects().delete("ConfigMap", name).await?;
        Ok(took)
    }

    async fn janitor(&self, name: &str) -> anyhow::Result<Duration> {
        let metadata = json!({"name": name, "annotations": {"janitor/ttl": "1s"}});
        self.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await?;
        let began = Instant::now();
        self.has("ConfigMap", name, "", Value::Null).await?;
        Ok(began.elapsed())
    }

    async fn downscaler(&self, name: &str) -> anyhow::Result<Duration> {
        let always = json!({"downscaler/downtime": "Mon-Sun 00:00-24:00 UTC"});
        self.create(&Self::deployment(name, &always)).await?;
        let began = Instant::now();
        self.has("Deployment", name, "/spec/replicas", json!(0)).await?;
        let took = began.elapsed();
        let times = json!({"downscaler/downtime": null, "downscaler/uptime": "Mon-Sun 00:00-24:00 UTC"});
        let up = json!({"metadata": {"annotations": times}});
        self.objects().merge("Deployment", name, &up).await?;
        self.has("Deployment", name, "/spec/replicas", json!(1)).await?;
        self.objects().delete("Deployment", name).await?;
        Ok(took)
    }

    async fn cronjob(&self, name: &str) -> anyhow::Result<Duration> {
        let kubectl = self.kubectl();
        let container = json!({"name": "main", "image": "main"});
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
        let document = json!({
            "apiVersion": "batch.tutorial.kubebuilder.io/v1", "kind": "CronJob", "metadata": {"name": name},
            "spec": {
                "schedule": "@every 1s", "concurrencyPolicy": "Forbid",
                "jobTemplate": {"spec": {"template": template}},
            },
        });
        self.apply(name, &document).await?;
        let began = Instant::now();
        let jobs = async |yes: bool| {
            until_within(ROUND_EFFECT_TIMEOUT, &format!("jobs of {name}: {yes}"), || async {
                let found = kubectl.run(&["get", "jobs", "-n", "default", "-o", "name"]).await?;
                ensure!(found.lines().any(|line| line.contains(&format!("/{name}-"))) == yes, "{found}");
                Ok(())
            })
            .await
        };
        jobs(true).await?;
        let took = began.elapsed();
        kubectl.run(&["delete", "cronjobs.batch.tutorial.kubebuilder.io", "-n", "default", name]).await?;
        jobs(false).await?;
        Ok(took)
    }

    async fn s3_bucket(&self, name: &str) -> anyhow::Result<Duration> {
        let document = json!({"apiVersion": "s3.services.k8s.aws/v1alpha1", "kind": "Bucket", "metadata": {"name": name}, "spec": {"name": name}});
        self.apply(name, &document).await?;
        let began = Instant::now();
        let exists = async |yes: bool| {
            until_within(ROUND_EFFECT_TIMEOUT, &format!("bucket {name}: {yes}"), || async {
                ensure!(self.s3.bucket(name).is_some() == yes, "{:?}", self.s3.bucket(name));
                Ok(())
            })
            .await
        };
        exists(true).await?;
        let took = began.elapsed();
        self.kubectl().run(&["delete", "bucket", "-n", "default", name]).await?;
        exists(false).await?;
        Ok(took)
    }
}

/// All controllers of the host, as its admin endpoint shows them.
async fn controllers(address: SocketAddr) -> anyhow::Result<Vec<Value>> {
    let shown: Value = serde_json::from_str(&admin::get(address, "/plugins").await?.1)?;
    let plugins = shown["plugins"].as_array().context("plugins")?;
    Ok(plugins.iter().filter_map(|it| it["controllers"].as_array()).flatten().cloned().collect())
}

/// Waits until no key fails or waits for a call, which shows that no key was left behind.
async fn all_is_well(host: &Host) -> anyhow::Result<()> {
    let address = admin::address(host).await?;
    until("no key fails", || async {
        for controller in controllers(address).await? {
            ensure!(controller["state"] == "running" && controller["failing"] == 0, "{controller}");
        }
        Ok(())
    })
    .await?;
    let log = host.log();
    let trap = log.lines().find(|line| line.contains("panicked") || line.contains("trapped"));
    ensure!(trap.is_none(), "{trap:?}");
    Ok(())
}

/// Plays the part again and again until `end`, at least once. Returns how long each first effect took.
async fn played(scene: Arc<Scene>, part: &'static str, end: Instant) -> anyhow::Result<(&'static str, Vec<Duration>)> {
    let mut times = Vec::new();
    while times.is_empty() || Instant::now() < end {
        let round = u32::try_from(times.len())?;
        times.push(scene.play(part, round).await.with_context(|| format!("{part}, round {round}"))?);
        if Instant::now() < end {
            tokio::time::sleep(ROUND_PAUSE).await;
        }
    }
    times.sort_unstable();
    Ok((part, times))
}

#[tokio::test(flavor = "multi_thread")]
async fn nine_drop_ins_work_in_one_host() -> anyhow::Result<()> {
    let minutes = std::env::var("WINDLASS_DROPINS_MINUTES").map_or(Ok(0), |text| text.parse::<u64>())?;
    let cluster = tokio::task::spawn_blocking(|| cluster::start(&[])).await??;
    let scene = Arc::new(Scene::new(Server::join(&cluster).await?).await?);
    let mut host = scene.host().await?;
    let (began, mut starts) = (Instant::now(), 1);
    let end = began + Duration::from_mins(minutes);
    let mut playing: JoinSet<_> = NAMES.into_iter().map(|part| played(scene.clone(), part, end)).collect();
    let mut all = BTreeMap::new();
    loop {
        match tokio::time::timeout(HOST_RUN_TIME, playing.join_next()).await {
            Ok(Some(ended)) => all.extend([ended??]),
            Ok(None) => break,
            Err(_) => {
                ensure!(host.terminate().await?.success());
                host = scene.host().await?;
                starts += 1;
            }
        }
    }
    all_is_well(&host).await?;
    let memory = Process(host.id().context("the host runs")?).memory()?.proportional;
    for (part, times) in &all {
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!(
            "figures: {part}: {} rounds, first effect p50 {:.2?}, p99 {:.2?}, most {:.2?}",
            times.len(),
            at(50),
            at(99),
            at(100)
        );
    }
    println!(
        "figures: {:.0?} with {starts} starts of the host; its memory: {:.0} MiB in the end",
        began.elapsed(),
        mebibytes(memory)
    );
    ensure!(host.terminate().await?.success());
    Ok(())
}
