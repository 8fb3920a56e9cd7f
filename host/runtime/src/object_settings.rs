//! The settings of plugins that are objects.

use std::path::PathBuf;

use windlass_oci::PlainHttp;

/// Where the host keeps the files of objects, and which objects of its namespace they may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSettings {
    /// The directory of the files that the host writes for objects. The host alone may write to it.
    pub directory: PathBuf,
    /// The directory of fetched artefacts.
    pub store: PathBuf,
    /// The host's own namespace, in which `ConfigMaps` and pull secrets are.
    pub namespace: String,
    /// The size of all fetched artefacts together, in bytes.
    pub store_bytes: u64,
    /// The installation of the host. It runs the objects that name it, or those that name none.
    pub instance: Option<String>,
    /// Which registry is used without TLS.
    pub plain_http: PlainHttp,
}

impl ObjectSettings {
    /// The default of `store_bytes`.
    pub const STORE_BYTES: usize = 4 << 30;
}
