//! Plugins that are objects of the cluster: installed, updated, refused and removed with the API alone.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::process::Command;
use windlass_oci::ContentDigest;
use windlass_tests::host::Host;
use windlass_tests::kubectl::Kubectl;
use windlass_tests::objects::{Objects, documents};
use windlass_tests::paths;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use crate::registry::CraneRegistry;

/// A server with the definitions, a registry, and a folder for the host's files.
struct Stage {
    server: Server,
    registry: Option<CraneRegistry>,
    folder: tempfile::TempDir,
    /// The registry's host and port, even after it has ended.
    address: String,
}

impl Stage {
    async fn new(kind: Kind) -> anyhow::Result<Self> {
        let (server, registry) = (Server::start(kind).await?, CraneRegistry::serve().await?);
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("plugins"))?;
        for file in ["clusterplugins.yaml", "clusterpluginpolicies.yaml"] {
            for document in documents(&paths::root().join("deploy/chart/files/definitions").join(file))? {
                server.objects().apply(&document).await?;
            }
        }
        server.install_webapp().await?;
        let namespace = format!("{}-host", server.objects().namespace());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.objects().apply(&namespace).await?;
        let address = registry.address.clone();
        Ok(Self { server, registry: Some(registry), folder, address })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn objects(&self) -> &Objects {
        self.server.objects()
    }

    fn host_namespace(&self) -> String {
        format!("{}-host", self.objects().namespace())
    }

    fn host(&self, more: &[&str]) -> anyhow::Result<Host> {
        let (cache, namespace) = (self.path("cache").display().to_string(), self.host_namespace());
        let mut arguments = vec!["--objects", "--objects-plain-http", &self.address, "--cache-dir", &cache];
        arguments.extend(["--host-namespace", &namespace]);
        arguments.extend(more);
        let namespace = self.objects().namespace();
        Host::run_with(self.server.kubeconfig(), namespace, &self.path("plugins"), &arguments)
    }

    /// Pushes a version of the plugin `webapp`, and returns its image by digest.
    async fn push(&self, note: &str) -> anyhow::Result<String> {
        let file = self.path("webapp.wasm");
        variant(note, &file)?;
        let image = format!("oci://{}:{note}", self.repository());
        let digest = self.windlass(&["push", "webapp.wasm", &image, "--plain-http"]).await?;
        Ok(format!("{}@{}", self.repository(), digest.trim()))
    }

    /// Runs `windlass` in this folder, and returns its output.
    async fn windlass(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(paths::windlass()?)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("DOCKER_CONFIG", self.path("docker"))
            .env("KUBECONFIG", self.path("none"))
            .env("WINDLASS_CACHE_DIR", paths::cache()?)
            .stdin(Stdio::null())
            .output()
            .await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    async fn use_image(&self, image: &str) -> anyhow::Result<()> {
        let object = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "ClusterPlugin", "metadata": {"name": "webapp"},
            "spec": {"source": {"oci": {"image": image}}},
        });
        self.objects().apply(&object).await?;
        Ok(())
    }

    async fn grant(&self, repository: &str) -> anyhow::Result<()> {
        self.objects().apply(&policy(&json!({"repository": repository}))).await?;
        Ok(())
    }

    /// Makes the API server serve policies, or stop to serve them. They still exist then.
    async fn serve_policies(&self, serve: bool) -> anyhow::Result<()> {
        let (kind, name) = ("CustomResourceDefinition", "clusterpluginpolicies.windlass.dev");
        let mut definition = self.objects().get(kind, name).await?.context("it is there")?;
        definition["spec"]["versions"][0]["served"] = json!(serve);
        let versions = json!({"spec": {"versions": definition["spec"]["versions"]}});
        self.objects().merge(kind, name, &versions).await?;
        Ok(())
    }

    fn repository(&self) -> String {
        format!("{}/team/webapp", self.address)
    }

    /// Waits until the condition `kind` of the plugin has this status and reason, and returns the whole status.
    async fn condition(&self, kind: &str, status: &str, reason: &str) -> anyhow::Result<Value> {
        let what = format!("{kind}={status} with the reason {reason}");
        until(&what, || async {
            let object = self.objects().get("ClusterPlugin", "webapp").await?.context("it is there")?;
            let condition = condition(&object, kind).cloned().unwrap_or_default();
            let holds = condition["status"] == status && condition["reason"] == reason;
            ensure!(holds, "{}", object["status"]);
            anyhow::Ok(object["status"].clone())
        })
        .await
    }
}

/// A policy for `webapp` with this source, and rights to everything.
fn policy(source: &Value) -> Value {
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "ClusterPluginPolicy", "metadata": {"name": "webapp"},
        "spec": {
            "plugin": "webapp", "source": source, "rules": [all], "crds": ["webapps.apps.kubedojo.io"],
            "finalizers": ["*"],
        },
    })
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Writes the plugin `webapp` to `to`, with a section that makes its bytes differ.
fn variant(note: &str, to: &Path) -> anyhow::Result<()> {
    let mut bytes = std::fs::read(paths::plugins()?.join("webapp.wasm"))?;
    let name = b"note";
    bytes.extend([0, u8::try_from(1 + name.len() + note.len())?, u8::try_from(name.len())?]);
    bytes.extend(name.iter().chain(note.as_bytes()));
    Ok(std::fs::write(to, bytes)?)
}

async fn installing_updating_and_removing(kind: Kind) -> anyhow::Result<()> {
    let stage = Stage::new(kind).await?;
    let (one, two) = (stage.push("one").await?, stage.push("two").await?);
    let host = stage.host(&["--leases=single"])?;

    // Without a policy, nothing is fetched.
    stage.use_image(&one).await?;
    let status = stage.condition("Granted", "False", "NoPolicy").await?;
    ensure!(status["digest"].is_null() && status["holder"].is_string(), "{status}");
    stage.condition("Fetched", "False", "NotGranted").await?;
    let mut of_another = policy(&json!({"repository": stage.repository()}));
    of_another["spec"]["plugin"] = json!("another");
    let refused = stage.objects().apply(&of_another).await;
    ensure!(refused.is_err_and(|error| format!("{error:#}").contains("name the policy as its plugin")));

    stage.grant(&stage.repository()).await?;
    let kubectl = Kubectl::of_all_namespaces(stage.server.kubeconfig());
    kubectl.run(&["wait", "--for=condition=Running", "clusterplugin/webapp", "--timeout=120s"]).await?;
    let status = stage.condition("Healthy", "True", "Healthy").await?;
    ensure!(status["image"] == one.as_str() && status["version"].is_string(), "{status}");
    let told = until("Events tell the story", || async {
        let told = kubectl.run(&["describe", "clusterplugin/webapp"]).await?;
        ensure!(["NoPolicy", "Granted", "Fetched", "Running"].iter().all(|reason| told.contains(reason)), "{told}");
        anyhow::Ok(told)
    });
    told.await?;

    // Another digest, and one that does not exist.
    stage.use_image(&two).await?;
    until("the new version runs", || async {
        let status = stage.condition("Running", "True", "Running").await?;
        ensure!(status["image"] == two.as_str(), "{status}");
        anyhow::Ok(())
    })
    .await?;
    let missing = format!("{}@sha256:{}", stage.repository(), "0".repeat(64));
    stage.use_image(&missing).await?;
    let status = stage.condition("Fetched", "False", "NotFound").await?;
    ensure!(status["image"] == two.as_str() && condition_of(&status, "Running")["status"] == "True", "{status}");
    // Another source than the policy's.
    stage.use_image(&format!("{}/evil/webapp:one", stage.address)).await?;
    let status = stage.condition("Granted", "False", "SourceNotAllowed").await?;
    ensure!(condition_of(&status, "Running")["status"] == "True", "{status}");
    // The same version by its tag.
    stage.use_image(&format!("{}:two", stage.repository())).await?;
    stage.condition("Progressing", "False", "UpToDate").await?;
    if kind == Kind::Real {
        a_kind_that_is_not_served_for_a_moment_ends_nothing(&stage, &host).await?;
    }
    host.terminate().await?;
    without_the_registry(stage, &two).await
}

/// The embedded server always serves all versions.
async fn a_kind_that_is_not_served_for_a_moment_ends_nothing(stage: &Stage, host: &Host) -> anyhow::Result<()> {
    stage.serve_policies(false).await?;
    host.says("the API server does not serve windlass.dev/v1alpha1 ClusterPluginPolicy").await?;
    stage.serve_policies(true).await?;
    host.says("the watch works again").await?;
    // A change of the policy is seen again, and nothing was ended before it.
    stage.objects().merge("ClusterPluginPolicy", "webapp", &json!({"spec": {"paused": true}})).await?;
    stage.condition("Running", "False", "Paused").await?;
    ensure!(!host.log().contains("the files of the plugin object are removed"), "{}", host.log());
    stage.objects().merge("ClusterPluginPolicy", "webapp", &json!({"spec": {"paused": false}})).await?;
    stage.condition("Running", "True", "Running").await?;
    Ok(())
}

/// Neither a restart nor a policy that comes back needs the registry, although the object names a tag.
async fn without_the_registry(mut stage: Stage, two: &str) -> anyhow::Result<()> {
    stage.registry.take().context("it serves")?.stop().await?;
    let host = stage.host(&["--leases=single"])?;
    host.says("plugin loaded").await?;
    let status = stage.condition("Running", "True", "Running").await?;
    ensure!(status["image"] == two, "{status}");

    // Without its policy the plugin ends, and with it runs again from the store.
    stage.objects().delete("ClusterPluginPolicy", "webapp").await?;
    stage.condition("Running", "False", "NotFetched").await?;
    ensure!(!stage.path("cache/objects/webapp.wasm").exists());
    stage.grant(&stage.repository()).await?;
    stage.condition("Running", "True", "Running").await?;
    stage.objects().delete("ClusterPlugin", "webapp").await?;
    until("nothing is left", || async {
        let left = std::fs::read_dir(stage.path("cache/objects"))?.count();
        ensure!(left == 0, "{left} files");
        anyhow::Ok(())
    })
    .await?;
    stage.objects().delete("ClusterPluginPolicy", "webapp").await?;
    Ok(())
}

fn condition_of(status: &Value, kind: &str) -> Value {
    condition(&json!({"status": status}), kind).cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_object_is_installed_updated_and_removed() -> anyhow::Result<()> {
    installing_updating_and_removing(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_object_is_installed_updated_and_removed_on_kubernetes() -> anyhow::Result<()> {
    installing_updating_and_removing(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_file_takes_precedence_over_an_object_of_its_name() -> anyhow::Result<()> {
    let stage = Stage::new(Kind::Embedded).await?;
    let (one, file) = (stage.push("one").await?, stage.path("plugins/webapp.wasm"));
    // The operator's policy is not for the object, even before there is a file.
    let policy = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: webapp\n";
    std::fs::write(stage.path("plugins/webapp.policy.yaml"), policy)?;
    let host = stage.host(&["--leases=none"])?;
    stage.use_image(&one).await?;
    stage.condition("Granted", "False", "NoPolicy").await?;
    stage.grant(&stage.repository()).await?;
    stage.condition("Running", "True", "Running").await?;
    variant("file", &file)?;
    stage.condition("Running", "False", "NameTaken").await?;
    host.says("plugin gone").await?;
    // The file runs with its own policy, which grants it nothing that it watches.
    host.says("waits").await?;
    std::fs::remove_file(&file)?;
    stage.condition("Running", "True", "Running").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_is_a_source_only_if_its_policy_names_it() -> anyhow::Result<()> {
    let stage = Stage::new(Kind::Embedded).await?;
    let file = stage.path("small.wasm");
    variant("map", &file)?;
    let kubectl = Kubectl::of_all_namespaces(stage.server.kubeconfig());
    let (namespace, from) = (stage.host_namespace(), format!("--from-file=webapp.wasm={}", file.display()));
    kubectl.run(&["create", "configmap", "files", "--namespace", &namespace, &from]).await?;
    let _host = stage.host(&["--leases=none"])?;
    let object = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "ClusterPlugin", "metadata": {"name": "webapp"},
        "spec": {"source": {"configMap": {"name": "files"}}},
    });
    stage.objects().apply(&object).await?;
    stage.grant(&stage.repository()).await?;
    stage.condition("Granted", "False", "SourceNotAllowed").await?;
    let source = json!({"spec": {"source": {"repository": null, "configMap": {"name": "files"}}}});
    stage.objects().merge("ClusterPluginPolicy", "webapp", &source).await?;
    stage.condition("Running", "True", "Running").await?;
    let source = json!({"spec": {"source": {"configMap": {"key": "other.wasm"}}}});
    stage.objects().merge("ClusterPlugin", "webapp", &source).await?;
    let status = stage.condition("Fetched", "False", "ObjectUnusable").await?;
    ensure!(condition_of(&status, "Running")["status"] == "True", "the former file runs on: {status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_the_policy_does_not_list_replaces_nothing() -> anyhow::Result<()> {
    let stage = Stage::new(Kind::Embedded).await?;
    for note in ["listed", "unlisted"] {
        variant(note, &stage.path(note))?;
    }
    let file = |note: &str| std::fs::read(stage.path(note));
    let listed = ContentDigest::of(&file("listed")?).to_string();
    let kubectl = Kubectl::of_all_namespaces(stage.server.kubeconfig());
    let from = ["listed", "unlisted"].map(|note| format!("--from-file={note}={}", stage.path(note).display()));
    let namespace = stage.host_namespace();
    kubectl.run(&["create", "configmap", "files", "--namespace", &namespace, &from[0], &from[1]]).await?;
    let host = stage.host(&["--leases=none"])?;
    let source = json!({"configMap": {"name": "files"}, "digests": [listed]});
    stage.objects().apply(&policy(&source)).await?;
    let object = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "ClusterPlugin", "metadata": {"name": "webapp"},
        "spec": {"source": {"configMap": {"name": "files", "key": "listed"}}},
    });
    stage.objects().apply(&object).await?;
    stage.condition("Running", "True", "Running").await?;
    let edit = json!({"spec": {"source": {"configMap": {"key": "unlisted"}}}});
    stage.objects().merge("ClusterPlugin", "webapp", &edit).await?;
    let status = stage.condition("Granted", "False", "DigestNotAllowed").await?;
    ensure!(status["digest"].as_str() == listed.strip_prefix("sha256:"), "{status}");
    ensure!(std::fs::read(stage.path("cache/objects/webapp.wasm"))? == file("listed")?, "another file is installed");
    // After a restart, the listed one runs all the same.
    host.terminate().await?;
    let host = stage.host(&["--leases=none"])?;
    host.says("plugin loaded").await?;
    let status = stage.condition("Running", "True", "Running").await?;
    ensure!(status["digest"].as_str() == listed.strip_prefix("sha256:"), "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_runs_only_the_objects_that_name_it() -> anyhow::Result<()> {
    let stage = Stage::new(Kind::Embedded).await?;
    let _host = stage.host(&["--leases=none", "--objects-instance=blue"])?;
    stage.use_image(&format!("{}:one", stage.repository())).await?;
    let object = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "ClusterPlugin", "metadata": {"name": "later"},
        "spec": {"source": {"configMap": {"name": "files"}}, "instance": "blue"},
    });
    stage.objects().apply(&object).await?;
    until("the host's own object has a status", || async {
        let object = stage.objects().get("ClusterPlugin", "later").await?.context("it is there")?;
        ensure!(condition(&object, "Granted").is_some(), "{object}");
        anyhow::Ok(())
    })
    .await?;
    let others = stage.objects().get("ClusterPlugin", "webapp").await?.context("it is there")?;
    ensure!(others["status"].is_null(), "{others}");
    stage.objects().merge("ClusterPlugin", "webapp", &json!({"spec": {"instance": "blue"}})).await?;
    stage.condition("Granted", "False", "NoPolicy").await?;
    Ok(())
}

/// The number of status writes that the embedded server has seen.
fn status_writes(server: &Server) -> anyhow::Result<u64> {
    let requests = server.embedded().context("it is embedded")?.requests();
    let writes = requests.iter().filter(|it| it.verb == "patch" && it.resource == "clusterplugins.windlass.dev/status");
    Ok(writes.map(|it| it.count).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_objects_at_rest_is_not_written_again() -> anyhow::Result<()> {
    const RESTING_OBJECTS: u64 = 200;
    /// Each takes two seconds, so all together take longer than a written status is trusted.
    const CHANGES: u64 = 6;
    let stage = Stage::new(Kind::Embedded).await?;
    let object = |name: &str, image: &str| {
        json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "ClusterPlugin", "metadata": {"name": name},
            "spec": {"source": {"oci": {"image": format!("{}/{image}", stage.address)}}},
        })
    };
    for number in 0..RESTING_OBJECTS {
        stage.objects().apply(&object(&format!("plugin-{number}"), "idle")).await?;
    }
    let image = stage.push("one").await?;
    stage.grant(&stage.repository()).await?;
    stage.use_image(&image).await?;
    let _host = stage.host(&["--leases=none"])?;
    // A plugin that has run and lost its policy rests, too.
    stage.condition("Running", "True", "Running").await?;
    stage.objects().delete("ClusterPluginPolicy", "webapp").await?;
    let status = stage.condition("Running", "False", "NotFetched").await?;
    for field in ["version", "digest", "image", "controllers", "queued", "failing", "lastFailure"] {
        ensure!(status[field].is_null(), "{field} stays although nothing runs: {status}");
    }
    until("each object has a status", || async {
        let last = stage.objects().list("ClusterPlugin", "").await?;
        ensure!(last.iter().all(|object| condition(object, "Granted").is_some()));
        anyhow::Ok(())
    })
    .await?;
    let before = status_writes(&stage.server)?;
    // A change of one object is a write, and shows that all others were looked at again.
    for at in 1..=CHANGES {
        stage.objects().apply(&object("plugin-0", &format!("image-{at}"))).await?;
        until("the change is observed", || async {
            let object = stage.objects().get("ClusterPlugin", "plugin-0").await?.context("it is there")?;
            ensure!(object["status"]["observedGeneration"] == object["metadata"]["generation"], "{object}");
            anyhow::Ok(())
        })
        .await?;
        let writes = status_writes(&stage.server)?;
        ensure!(writes == before + at, "{writes} writes after {at} changes, {before} before");
    }
    Ok(())
}

#[tokio::test]
async fn the_objects_that_grant_drafts_run_their_plugin() -> anyhow::Result<()> {
    let stage = Stage::new(Kind::Embedded).await?;
    let image = stage.push("one").await?;
    std::fs::copy(paths::root().join("examples/webapp/crd.yaml"), stage.path("crd.yaml"))?;
    stage.windlass(&["grant", "webapp.wasm", "--image", &image, "--in-force"]).await?;
    let file = "webapp.objects.yaml";
    // No policy file is there: what the plugin may do is in its objects.
    let roles = stage.windlass(&["rbac", "--plugins", ".", "--objects", "--object-file", file]).await?;
    for right in ["deployments", "webapps/status", "clusterplugins/status"] {
        ensure!(roles.contains(right), "{right} is missing in\n{roles}");
    }
    for object in documents(&stage.path(file))? {
        stage.objects().apply(&object).await?;
    }
    let _host = stage.host(&["--leases=single"])?;
    stage.condition("Running", "True", "Running").await?;
    Ok(())
}
