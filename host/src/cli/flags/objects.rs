//! The flags about plugins that are objects of the cluster.

use std::path::Path;

use anyhow::{Context as _, ensure};
use clap::Args;
use windlass_oci::PlainHttp;
use windlass_runtime::{GrantMode, ObjectSettings};

use crate::cli::flags::instance::instance;
use crate::cli::flags::size::ByteSize;

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
    /// The most that artefacts which --objects has fetched may take up in the cache directory. Compiled plugins take up
    /// to 1Gi more.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(ObjectSettings::STORE_BYTES), env = "WINDLASS_OBJECTS_STORE_LIMIT")]
    pub(crate) objects_store_limit: ByteSize,
    /// Run only the objects whose `spec.instance` is this name. Default: those without `spec.instance`.
    #[arg(long, value_name = "NAME", value_parser = instance, env = "WINDLASS_OBJECTS_INSTANCE")]
    pub(crate) objects_instance: Option<String>,
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
            store_bytes: self.objects_store_limit.0 as u64,
            instance: self.objects_instance,
            plain_http: self.objects_plain_http.map_or(PlainHttp::Never, PlainHttp::Named),
        }))
    }
}
