//! The flags about plugins that are objects of the cluster.

use std::path::Path;

use anyhow::{Context as _, ensure};
use clap::Args;
use windlass_oci::PlainHttp;
use windlass_runtime::{GrantMode, ObjectSettings};

/// The flags about plugins that are objects.
#[derive(Debug, Args)]
pub(crate) struct ObjectArgs {
    /// Also run the plugins that are objects of the cluster: each `ClusterPlugin` of which a `ClusterPluginPolicy`
    /// covers the name and the source. Needs --grants policy.
    #[arg(long, env = "WINDLASS_OBJECTS")]
    pub(crate) objects: bool,
    /// The host and port of a registry to which --objects speaks without TLS.
    #[arg(long, value_name = "HOST", env = "WINDLASS_OBJECTS_PLAIN_HTTP")]
    pub(crate) objects_plain_http: Option<String>,
}

impl ObjectArgs {
    /// The settings of a host whose cache directory is `cache`, and which runs in the namespace `host`.
    pub(crate) fn settings(
        self,
        cache: Option<&Path>,
        host: Option<&str>,
        grants: GrantMode,
    ) -> anyhow::Result<Option<ObjectSettings>> {
        if !self.objects {
            return Ok(None);
        }
        ensure!(
            grants == GrantMode::Policy,
            "--objects needs --grants policy: otherwise everyone who may write a ClusterPlugin could give it all rights"
        );
        let cache =
            cache.context("--objects keeps files, and there is no home directory; name a place with --cache-dir")?;
        let namespace = host.context(
            "--objects needs the host's namespace, for ConfigMaps and pull secrets; name it with --host-namespace",
        )?;
        Ok(Some(ObjectSettings {
            directory: cache.join("objects"),
            store: cache.join("store"),
            namespace: namespace.to_owned(),
            plain_http: self.objects_plain_http.map_or(PlainHttp::Never, PlainHttp::Named),
        }))
    }
}
