//! The two API servers on which every story runs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tempfile::TempDir;
use windlass_apiserver::{ApiServer, Authorization, Config as ServerConfig};

use crate::cluster::Cluster;
use crate::objects::Objects;
use crate::{cluster, wait};

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Windlass's own, in this process.
    Embedded,
    /// kube-apiserver with etcd and the real controllers.
    Real,
}

/// A server for one test, with a namespace for this test.
pub struct Server {
    /// Which of the two servers it is.
    pub kind: Kind,
    kubeconfig: PathBuf,
    objects: Objects,
    embedded: Option<ApiServer>,
    _directory: Option<TempDir>,
}

static NAMESPACES: AtomicU32 = AtomicU32::new(0);

impl Server {
    /// Starts the server, or joins the shared one of this run, and creates a namespace.
    pub async fn start(kind: Kind) -> anyhow::Result<Self> {
        if kind == Kind::Real {
            return Self::join(tokio::task::spawn_blocking(cluster::shared).await??).await;
        }
        Self::embed(ServerConfig::default()).await
    }

    /// Starts an embedded server that authorizes by roles. The kubeconfig has an administrator's rights.
    pub async fn with_roles() -> anyhow::Result<Self> {
        Self::embed(ServerConfig { authorization: Authorization::Rbac, ..ServerConfig::default() }).await
    }

    async fn embed(config: ServerConfig) -> anyhow::Result<Self> {
        let server = ApiServer::start(config).await?;
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, server.kubeconfig())?;
        Self::with_namespace(Kind::Embedded, path, Some(server), Some(directory)).await
    }

    /// Creates a namespace in a real cluster.
    pub async fn join(cluster: &Cluster) -> anyhow::Result<Self> {
        Self::with_namespace(Kind::Real, cluster.kubeconfig().to_owned(), None, None).await
    }

    async fn with_namespace(
        kind: Kind,
        kubeconfig: PathBuf,
        embedded: Option<ApiServer>,
        directory: Option<TempDir>,
    ) -> anyhow::Result<Self> {
        let namespace = format!("case-{}", NAMESPACES.fetch_add(1, Ordering::Relaxed));
        let objects = Objects::new(client(&kubeconfig).await?, &namespace);
        let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        objects.apply(&made).await?;
        Ok(Self { kind, kubeconfig, objects, embedded, _directory: directory })
    }

    /// The objects of the test's namespace.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// A kubeconfig with all rights.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The embedded server, for tests of what only this server can do. `None` for a real cluster.
    #[must_use]
    pub fn embedded(&self) -> Option<&ApiServer> {
        self.embedded.as_ref()
    }

    /// Installs the CRD of `WebApp` and waits until the server serves it.
    pub async fn install_webapp(&self) -> anyhow::Result<()> {
        install_webapp(&self.objects).await
    }
}

/// Installs the CRD of `WebApp` and waits until the server serves it.
pub async fn install_webapp(objects: &Objects) -> anyhow::Result<()> {
    for document in crate::objects::documents(&crate::paths::example("crd.yaml"))? {
        objects.apply(&document).await?;
    }
    wait::until("the server serves the CRD", || async { objects.list("WebApp", "").await.map(|_| ()) }).await
}

/// Creates a client for the current context of a kubeconfig.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let read = Kubeconfig::read_from(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
