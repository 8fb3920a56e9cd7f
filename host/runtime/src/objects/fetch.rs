//! Fetches the files of objects: from registries by way of the store, and from `ConfigMaps`.

use std::path::Path;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use windlass_kube::{OwnObjectError, OwnObjects};
use windlass_objects::{ConfigMapSource, FetchFailure, InstalledArtefact, OciSource, PluginSource};
use windlass_oci::{ContentDigest, Credentials, CredentialsError, OciReference, ReferenceError};
use windlass_store::{Collected, FetchError, FetchScope, PluginStore, Stored, WantedPlugin};

use super::directory::{KeptFile, ObjectDirectory, digest_text};
use crate::object_settings::ObjectSettings;

/// The longest time for which a registry can put off the next attempt.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

/// The number of `ConfigMaps` that are read at once. Each is in memory as text and decoded.
pub(super) const CONFIG_MAP_READS_MAX: usize = 4;

/// A fetched file.
#[derive(Clone, Debug)]
pub(super) struct FetchedFile {
    pub(super) artefact: InstalledArtefact,
    pub(super) place: FilePlace,
}

/// Where a fetched file is. Keeps it from being removed.
#[derive(Clone, Debug)]
pub(super) enum FilePlace {
    /// In the store.
    Store(Stored),
    /// Beside the installed files.
    Directory(KeptFile),
}

impl FilePlace {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Store(stored) => &stored.path,
            Self::Directory(kept) => kept.path(),
        }
    }
}

/// Why a file was not fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArtefactError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Object(#[from] OwnObjectError),
    #[error("the pull secret cannot be used: {0}")]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error("the file cannot be kept: {0}")]
    Disk(#[from] std::io::Error),
    #[error("the source names no file: set exactly one of oci and configMap")]
    NoSource,
    #[error("the file has {bytes} bytes, but the host accepts {most}; raise --limit file, or make it smaller")]
    TooLarge { bytes: u64, most: u64 },
}

impl ArtefactError {
    /// For the condition of the object.
    pub(super) fn failure(&self) -> FetchFailure {
        let reason = match self {
            Self::Fetch(error) => error.reason(),
            Self::Object(error) => error.reason(),
            Self::Credentials(_) => "InvalidCredentials",
            Self::Reference(_) | Self::NoSource => "InvalidReference",
            Self::Disk(_) => "CannotWrite",
            Self::TooLarge { .. } => "TooLarge",
        };
        FetchFailure { reason, message: self.to_string() }
    }

    /// Whether only a change of the object helps.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Fetch(error) => error.is_final(),
            Self::Reference(_) | Self::NoSource => true,
            Self::Object(_) | Self::Credentials(_) | Self::Disk(_) | Self::TooLarge { .. } => false,
        }
    }

    /// The shortest wait before the next attempt.
    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Self::Fetch(error) => error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX),
            _ => Duration::ZERO,
        }
    }
}

/// Where files come from: registries and the API server, or a test double.
pub(super) trait ArtefactSource: Send + Sync {
    /// Fetches the file of `plugin`.
    fn fetch<'a>(
        &'a self,
        plugin: &'a str,
        source: &'a PluginSource,
    ) -> BoxFuture<'a, Result<FetchedFile, ArtefactError>>;

    /// The file of an artefact that was fetched before, if it is still there. Sends no request. Blocks.
    fn stored(&self, artefact: &InstalledArtefact) -> Option<FetchedFile>;

    /// Keeps these artefacts, which are installed, and may remove others. Blocks.
    fn retain(&self, installed: &[InstalledArtefact]);
}

/// The sources of a host.
pub(super) struct HostSources {
    pub(super) settings: ObjectSettings,
    pub(super) store: PluginStore,
    pub(super) objects: OwnObjects,
    pub(super) directory: ObjectDirectory,
    /// The largest file, in bytes.
    pub(super) file_bytes: u64,
    /// A permit for each read of a `ConfigMap`. The store limits fetches from registries itself.
    pub(super) reads: Semaphore,
}

impl ArtefactSource for HostSources {
    fn fetch<'a>(
        &'a self,
        plugin: &'a str,
        source: &'a PluginSource,
    ) -> BoxFuture<'a, Result<FetchedFile, ArtefactError>> {
        async move {
            match (&source.oci, &source.config_map) {
                (Some(oci), None) => self.pull(source, oci).await,
                (None, Some(config_map)) => self.read(plugin, source, config_map).await,
                _ => Err(ArtefactError::NoSource),
            }
        }
        .boxed()
    }

    fn stored(&self, artefact: &InstalledArtefact) -> Option<FetchedFile> {
        let image: OciReference = format!("oci://{}", artefact.source.oci.as_ref()?.image).parse().ok()?;
        let digest = ContentDigest::parse(artefact.digest.as_deref()?)?;
        let stored = self.store.stored(&FetchScope::Cluster, &image, &digest)?;
        Some(FetchedFile { artefact: artefact.clone(), place: FilePlace::Store(stored) })
    }

    fn retain(&self, installed: &[InstalledArtefact]) {
        let digests = installed.iter().filter_map(|artefact| ContentDigest::parse(artefact.digest.as_deref()?));
        match self.store.retain(&digests.collect()) {
            Ok(collected) if collected.plugins > 0 => {
                let Collected { plugins, bytes } = collected;
                tracing::info!(plugins, bytes, "fetched plugins that are not in use were removed");
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "fetched plugins that are not in use cannot be removed; the disk may fill up");
            }
        }
    }
}

impl HostSources {
    async fn pull(&self, source: &PluginSource, oci: &OciSource) -> Result<FetchedFile, ArtefactError> {
        let image: OciReference = format!("oci://{}", oci.image).parse()?;
        let mut wanted = WantedPlugin::of_cluster(image);
        wanted.plain_http = self.settings.plain_http.clone();
        if let Some(secret) = &oci.pull_secret {
            let text = self.objects.docker_config(&self.settings.namespace, secret).await?;
            wanted.credentials = Credentials::of_json(&format!("the Secret {secret}"), text.as_bytes())?;
        }
        let stored = self.store.fetch(&wanted).await?;
        let artefact = InstalledArtefact {
            source: source.clone(),
            digest: Some(stored.digest.to_string()),
            file_digest: stored.file_digest.to_string(),
        };
        Ok(FetchedFile { artefact, place: FilePlace::Store(stored) })
    }

    async fn read(
        &self,
        plugin: &str,
        source: &PluginSource,
        config_map: &ConfigMapSource,
    ) -> Result<FetchedFile, ArtefactError> {
        let key = config_map.key.clone().unwrap_or_else(|| format!("{plugin}.wasm"));
        let _turn = self.reads.acquire().await.map_err(std::io::Error::other)?;
        let bytes = self.objects.file(&self.settings.namespace, &config_map.name, &key).await?;
        if bytes.len() as u64 > self.file_bytes {
            return Err(ArtefactError::TooLarge { bytes: bytes.len() as u64, most: self.file_bytes });
        }
        let file_digest = digest_text(&bytes);
        let (directory, plugin) = (self.directory.clone(), plugin.to_owned());
        let kept = windlass_world::spawn_blocking(move || directory.keep(&plugin, &bytes)).await;
        let kept = kept.map_err(std::io::Error::other)??;
        let artefact = InstalledArtefact { source: source.clone(), digest: None, file_digest };
        Ok(FetchedFile { artefact, place: FilePlace::Directory(kept) })
    }
}
