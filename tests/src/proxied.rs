//! A fault-injecting proxy in front of either API server.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use windlass_proxy::Proxy;

use crate::server::Server;

/// A [`Proxy`] with a kubeconfig file for its clients.
pub struct Proxied {
    proxy: Proxy,
    kubeconfig: PathBuf,
    _directory: TempDir,
}

impl Proxied {
    /// Starts a proxy in front of `server`. `seed` determines all random choices of the proxy. Requests through the
    /// server's own [`objects`](Server::objects) bypass the proxy.
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

    /// A kubeconfig with all rights that goes through the proxy.
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
