//! Every way in which a fetch fails.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_oci::OciError;

use crate::words;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory cannot be read or created.
    #[error("cannot use {} as the store of plugins: {source}", directory.display())]
    Use { directory: PathBuf, source: io::Error },
    /// Other users could place plugins there.
    #[error(
        "{} {why}: anyone who can write there can choose the plugins that run; name a directory that only this user may \
         write to, such as a new one within it, which the host creates", directory.display()
    )]
    Unsafe { directory: PathBuf, why: &'static str },
}

/// A mirror that did not give the plugin.
#[derive(Clone, Debug)]
pub struct MirrorFailure {
    /// The host of the mirror.
    pub mirror: String,
    pub source: Arc<OciError>,
}

/// The mirrors that failed, for the end of a message.
#[derive(Clone, Debug, Default)]
pub struct MirrorFailures(pub(crate) Vec<MirrorFailure>);

impl fmt::Display for MirrorFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "; before it, mirrors failed: ";
        for MirrorFailure { mirror, source } in &self.0 {
            write!(f, "{separator}{mirror} ({})", source.reason())?;
            separator = ", ";
        }
        Ok(())
    }
}

/// Why a plugin was not fetched. The messages are fixed words, with names from the wanted plugin and numbers. They
/// quote no text of a server, so they may be shown to anyone. The `source` may quote what TLS says of a certificate.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FetchError {
    /// The registry is not on the list for this tenant.
    #[error("plugins may not come from {registry}: an operator must add it to the registries that are allowed here")]
    RegistryNotAllowed { registry: String },
    /// The manifest is no plugin's.
    #[error("the artefact at {registry} is refused: {}", words::of(source))]
    Artefact {
        registry: String,
        /// Whether the plugin was named by digest, so that the manifest will never be another one.
        by_digest: bool,
        source: Arc<OciError>,
    },
    /// No server gave the plugin. The registry itself was the last one.
    #[error("{registry}: {}{mirrors}", words::of(source))]
    Registry { registry: String, source: Arc<OciError>, mirrors: MirrorFailures },
    /// The store has no room.
    #[error(
        "the plugin's {bytes} bytes do not fit into {}, which may have {limit} bytes and is full of plugins in use: \
         remove plugins, or raise --objects-store-limit", directory.display()
    )]
    StoreFull { directory: PathBuf, bytes: u64, limit: u64 },
    /// The disk is full.
    #[error("the disk with {} is full: free some space, or enlarge the volume", directory.display())]
    DiskFull { directory: PathBuf, source: Arc<io::Error> },
    /// The directory cannot be written to.
    #[error("cannot write to {}: {source}; check the volume and its permissions", directory.display())]
    CannotWrite { directory: PathBuf, source: Arc<io::Error> },
    /// The host's task for the disk broke off.
    #[error("the host broke off the work on its disk: it is stopping, or its log names a panic")]
    Interrupted,
}

impl FetchError {
    pub(crate) fn registry(registry: &str, source: OciError) -> Self {
        let mirrors = MirrorFailures::default();
        Self::Registry { registry: registry.to_owned(), source: Arc::new(source), mirrors }
    }

    pub(crate) fn disk(directory: PathBuf, source: io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let is_full = matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        let source = Arc::new(source);
        if is_full { Self::DiskFull { directory, source } } else { Self::CannotWrite { directory, source } }
    }

    /// A word for conditions and metrics. It is one of a fixed list.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::RegistryNotAllowed { .. } => "RegistryNotAllowed",
            Self::Artefact { source, .. } | Self::Registry { source, .. } => source.reason(),
            Self::StoreFull { .. } => "StoreFull",
            Self::DiskFull { .. } => "DiskFull",
            Self::CannotWrite { .. } => "CannotWrite",
            Self::Interrupted => "Interrupted",
        }
    }

    /// Whether the same fetch will always fail, until the object that wants the plugin changes, or the host's settings.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::RegistryNotAllowed { .. } => true,
            Self::Artefact { by_digest, .. } => *by_digest,
            Self::Registry { source, .. } => matches!(**source, OciError::Reference(_)),
            _ => false,
        }
    }

    /// The wait for which a busy registry asks. It may be any time.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Registry { source, .. } => match **source {
                OciError::Busy { retry_after, .. } => retry_after,
                _ => None,
            },
            _ => None,
        }
    }
}
