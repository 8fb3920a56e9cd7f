//! Pushes a plugin to an OCI registry, and pulls it from one. `windlass push`, `pull` and `inspect` use it.
//!
//! A registry is not trusted: it may answer anything, for any time. Everything that it sends is bounded in size and
//! time, a plugin's bytes go to a temporary file while their digest is computed, and nothing is unpacked. Errors are a
//! fixed list ([`OciError`]) and quote no text of the registry. The HTTP is that of `windlass-egress`; this crate
//! decides where requests may go and which credentials they carry ([`Registry`]).

mod artefact;
mod challenge;
mod credentials;
mod digest;
mod error;
mod limits;
mod pull;
mod push;
mod reference;
mod registry;
mod session;
#[cfg(test)]
mod tests;
mod transport;

pub use artefact::{ComponentNames, Documents, PUBLISHED_DOCUMENTS_BYTES_MAX};
pub use credentials::{Credentials, CredentialsError, Login};
pub use digest::ContentDigest;
pub use error::OciError;
pub use limits::RegistryLimits;
pub use pull::{ComponentDownload, ManifestBytes, PluginManifest, PublishedPlugin};
pub use push::PluginToPush;
pub use reference::{OciReference, OciVersion, ReferenceError};
pub use registry::{PlainHttp, Registry, RegistryOptions};
pub use transport::{Dial, DialedStream, Network, SystemDial};

/// Is called with the bytes that were transferred so far, and with their total.
pub type Progress = std::sync::Arc<dyn Fn(u64, u64) + Send + Sync>;
