//! A fault-injecting proxy before either API server.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use windlass_proxy::Proxy;

use crate::server::Server;

/// A [`Proxy`] with a kubeconfig file for those who are to go through it.
pub struct Proxied {
    proxy: Proxy,
    kubeconfig: PathBuf,
    _directory: TempDir,
}

impl Proxied {
    /// Starts a proxy before `server`; all its chance comes from `seed`. What the server's own
    /// [`objects`](Server::objects) do goes past it.
    pub async fn start(server: &Server, seed: u64) -> anyhow::Result<Self> {
        let path = server.kubeconfig();
        let read = Kubeconfig::read_from(path).with_context(|| format!("read {}", path.display()))?;
        let upstream = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let proxy = Proxy::start(upstream, seed).await?;
        let directory = tempfile::tempdir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, proxy.kubeconfig())?;
        Ok(Self { proxy, kubeconfig, _directory: directory })
    }

    /// A kubeconfig that leads through the proxy with all rights.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Deref for Proxied {
    type Target = Proxy;

    fn deref(&self) -> &Proxy {
        &self.proxy
    }
}
