//! A host with the guest `composer`, and one parent that controls it.

use anyhow::Context;
use serde_json::{Value, json};
use windlass_tests::host::Host;
use windlass_tests::objects::{Objects, documents};
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;
use windlass_tests::{marker, paths};

/// The label by which the host knows what it created.
pub(crate) const CREATED_BY: &str = "windlass.dev/created-by";

/// The bytes before the version in the guest's file.
pub(crate) const OWNS: (&[u8], usize) = (b"COMPOSER-OWNS=", 16);

/// The stage of a story: server, host and parent.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) host: Host,
    pub(crate) plugins: tempfile::TempDir,
}

/// A `ConfigMap` as a composer returns it.
pub(crate) fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// An immutable `Secret` as a composer returns it.
pub(crate) fn fixed_secret(name: &str, password: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "immutable": true, "data": {"password": password},
    })
}

impl Stage {
    /// Starts a host in a namespace of `kind`.
    pub(crate) async fn new(kind: Kind) -> anyhow::Result<Self> {
        Self::with(kind, "all").await
    }

    /// Starts a host with the version `version` of the guest.
    pub(crate) async fn with(kind: Kind, version: &str) -> anyhow::Result<Self> {
        let server = Server::start(kind).await?;
        install(server.objects()).await?;
        let plugins = tempfile::tempdir()?;
        marker::write("composer", OWNS, version, &plugins.path().join("composer.wasm"))?;
        // Logs every failure, however many there are in a minute.
        let more = ["--grants=manifest", "--leases=none", "--log-level", "info,windlass::dispatch=debug"];
        let host = Host::run_with(server.kubeconfig(), server.objects().namespace(), plugins.path(), &more)?;
        host.says("controller started").await?;
        Ok(Self { server, host, plugins })
    }

    pub(crate) fn objects(&self) -> &Objects {
        self.server.objects()
    }

    /// Makes the parent `shop` return `spec` from now on.
    pub(crate) async fn answer(&self, spec: Value) -> anyhow::Result<Value> {
        let parent = json!({
            "apiVersion": "tests.windlass.dev/v1", "kind": "Composite", "metadata": {"name": "shop"}, "spec": spec,
        });
        self.objects().apply(&parent).await
    }

    /// Waits until an object is `right`.
    pub(crate) async fn sees(&self, kind: &str, name: &str, right: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let what = format!("the {kind} {name} is as it should be");
        let seen = until(&what, || async {
            let it = self.objects().get(kind, name).await?.context("it does not exist")?;
            anyhow::ensure!(right(&it), "{it}");
            Ok::<_, anyhow::Error>(it)
        });
        seen.await.with_context(|| format!("the host logged:\n{}", self.host.log()))
    }

    /// Waits until an object is deleted.
    pub(crate) async fn gone(&self, kind: &str, name: &str) -> anyhow::Result<()> {
        let what = format!("the {kind} {name} is gone");
        let gone = until(&what, || async {
            self.objects().get(kind, name).await?.map_or(Ok(()), |it| Err(anyhow::anyhow!("{it}")))
        });
        gone.await.with_context(|| format!("the host logged:\n{}", self.host.log()))
    }

    /// Waits for an Event about the parent.
    pub(crate) async fn event(&self, reason: &str, words: &str) -> anyhow::Result<()> {
        let what = format!("an Event {reason} tells of {words:?}");
        let seen = until(&what, || async {
            let events = self.objects().list("Event", "").await?;
            let told = |it: &&Value| it["reason"] == reason && it["note"].to_string().contains(words);
            events.iter().find(told).map(|_| ()).with_context(|| format!("{events:?}"))
        });
        seen.await.with_context(|| format!("the host logged:\n{}", self.host.log()))
    }

    /// Waits until the host has composed another parent and written its status. By then it has also finished the work
    /// that it had begun for the first parent, unless that never ends.
    pub(crate) async fn settle(&self, marker: &str) -> anyhow::Result<()> {
        let parent = json!({
            "apiVersion": "tests.windlass.dev/v1", "kind": "Composite", "metadata": {"name": marker},
            "spec": {"children": [map(marker, &json!({}))], "status": {"settled": true}},
        });
        self.objects().apply(&parent).await?;
        self.sees("Composite", marker, |it| it["status"]["settled"] == true).await?;
        Ok(())
    }

    /// Stops the host, which must end cleanly.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        let log = self.host.log();
        let status = self.host.terminate().await?;
        anyhow::ensure!(status.success(), "SIGTERM must stop the host cleanly: {status}; it logged:\n{log}");
        Ok(())
    }
}

/// Installs the CRD of the parents, whose schema accepts whatever a test writes.
async fn install(objects: &Objects) -> anyhow::Result<()> {
    for document in documents(&paths::root().join("tests/guests/composer/crd.yaml"))? {
        objects.apply(&document).await?;
    }
    until("the CRD is served", || async { objects.list("Composite", "").await.map(|_| ()) }).await
}
