//! Pulls a plugin: its manifest and configuration into memory, its component part by part, or into a file.

use std::path::Path;

use bytes::Bytes;
use http::Method;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt as _;

use crate::Progress;
use crate::artefact::{
    self, ComponentNames, Contents, Documents, INDEX_TYPES, MANIFEST_TYPE, StatedContent, WASM_MAGIC,
};
use crate::digest::ContentDigest;
use crate::error::OciError;
use crate::limits::RegistryLimits;
use crate::reference::{OciReference, OciVersion};
use crate::registry::Registry;
use crate::session::{Scope, Session, expect};
use crate::transport::{OciAnswer, OciRequest};

/// The header in which a registry states the digest of a manifest.
const DIGEST_HEADER: &str = "docker-content-digest";
const COMPONENT: &str = "the layer";

/// The bytes of a manifest, which match every digest that is known for it. Their contents are not checked yet.
#[derive(Clone, Debug)]
pub struct ManifestBytes {
    digest: ContentDigest,
    bytes: Bytes,
}

impl ManifestBytes {
    /// The bytes of a manifest that was kept.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self { digest: ContentDigest::of(&bytes), bytes }
    }

    /// The digest of the bytes.
    #[must_use]
    pub fn digest(&self) -> &ContentDigest {
        &self.digest
    }

    /// The bytes as they are in the registry.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Reads the manifest. An error holds for this digest for ever, because other bytes have another digest.
    pub fn read(&self, limits: &RegistryLimits) -> Result<PluginManifest, OciError> {
        let contents = artefact::read_manifest(&self.bytes, limits)?;
        Ok(PluginManifest { digest: self.digest.clone(), contents })
    }
}

/// The manifest of a plugin. It names the plugin's component.
#[derive(Clone, Debug)]
pub struct PluginManifest {
    digest: ContentDigest,
    contents: Contents,
}

impl PluginManifest {
    /// The digest of the manifest, which selects exactly this plugin.
    #[must_use]
    pub fn digest(&self) -> &ContentDigest {
        &self.digest
    }

    /// The digest of the component.
    #[must_use]
    pub fn component_digest(&self) -> &ContentDigest {
        &self.contents.component.digest
    }

    /// The size of the component in bytes.
    #[must_use]
    pub fn component_bytes(&self) -> u64 {
        self.contents.component.size
    }
}

/// A plugin in a registry, as its manifest and configuration describe it.
#[derive(Clone, Debug)]
pub struct PublishedPlugin {
    pub manifest: PluginManifest,
    /// The imports and exports that the publisher states.
    pub names: ComponentNames,
    /// `None` if another tool has pushed the component.
    pub documents: Option<Documents>,
}

impl Registry {
    /// Reads the manifest at `reference`, and checks its digest. It is one request, besides those of a login.
    pub async fn manifest(&self, reference: &OciReference) -> Result<ManifestBytes, OciError> {
        let mut session = Session::new(self, reference, Scope::Pull)?;
        manifest(&mut session, reference, self.options.limits.manifest_bytes).await
    }

    /// Reads the manifest and the configuration of the plugin at `reference`, and checks both digests.
    pub async fn look_up(&self, reference: &OciReference) -> Result<PublishedPlugin, OciError> {
        let mut session = Session::new(self, reference, Scope::Pull)?;
        let limits = &self.options.limits;
        let manifest = manifest(&mut session, reference, limits.manifest_bytes).await?.read(limits)?;
        let (what, stated) = ("the configuration", &manifest.contents.config);
        let answer = blob(&mut session, stated, what).await?;
        let config = answer.read(what).await?;
        if config.len() as u64 != stated.size {
            return Err(OciError::Length { what, stated: stated.size });
        }
        if ContentDigest::of(&config) != stated.digest {
            return Err(OciError::DigestMismatch { what });
        }
        let (names, documents) = artefact::read_config(&config)?;
        Ok(PublishedPlugin { manifest, names, documents })
    }

    /// Begins to pull the component that `manifest` names, from the repository of `reference`.
    pub async fn component(
        &self,
        reference: &OciReference,
        manifest: &PluginManifest,
    ) -> Result<ComponentDownload, OciError> {
        let mut session = Session::new(self, reference, Scope::Pull)?;
        let component = &manifest.contents.component;
        let answer = blob(&mut session, component, COMPONENT).await?;
        Ok(ComponentDownload { answer, received: Received::new(component.clone()) })
    }

    /// Pulls the component of `plugin`, which is the one at `reference`, and puts it at `path` in one step. The file
    /// has the stated length and digest. If anything fails, no file is left behind, and one that was there is
    /// unchanged.
    pub async fn pull(
        &self,
        reference: &OciReference,
        plugin: &PublishedPlugin,
        path: &Path,
        progress: Option<Progress>,
    ) -> Result<(), OciError> {
        let unwritable = |source| OciError::Write { path: path.to_owned(), source };
        let mut download = self.component(reference, &plugin.manifest).await?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = new_file(folder).map_err(unwritable)?;
        let mut to = tokio::fs::File::from_std(file.reopen().map_err(unwritable)?);
        while let Some(part) = download.chunk().await? {
            to.write_all(&part).await.map_err(unwritable)?;
            if let Some(progress) = &progress {
                progress(download.received.bytes, plugin.manifest.component_bytes());
            }
        }
        to.sync_all().await.map_err(unwritable)?;
        file.persist(path).map_err(|error| unwritable(error.error))?;
        Ok(())
    }
}

/// The bytes of a component, which the caller reads part by part.
pub struct ComponentDownload {
    answer: OciAnswer,
    received: Received,
}

impl ComponentDownload {
    /// The next part. `None` at the end, after the whole component was found to have the stated length and digest.
    /// If the caller drops the download before that, it must not use the parts.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, OciError> {
        let part = self.answer.chunk().await?;
        match &part {
            Some(part) => self.received.take(part)?,
            None => self.received.check_whole()?,
        }
        Ok(part)
    }
}

/// A new file beside the final one, with the permissions that the user's other files have.
fn new_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".windlass-pull-").permissions(std::fs::Permissions::from_mode(0o666)).tempfile_in(folder)
}

/// The bytes of a component as they come. They are hashed and counted, and refused as soon as they are wrong.
struct Received {
    stated: StatedContent,
    hash: Sha256,
    first: Vec<u8>,
    bytes: u64,
}

impl Received {
    fn new(stated: StatedContent) -> Self {
        Self { stated, hash: Sha256::new(), first: Vec::new(), bytes: 0 }
    }

    fn take(&mut self, part: &Bytes) -> Result<(), OciError> {
        self.bytes += part.len() as u64;
        if self.bytes > self.stated.size {
            return Err(self.other_length());
        }
        let lacking = WASM_MAGIC.len() - self.first.len();
        self.first.extend(part.iter().take(lacking));
        if !WASM_MAGIC.starts_with(&self.first) {
            return Err(OciError::NotWasm);
        }
        self.hash.update(part);
        Ok(())
    }

    fn check_whole(&self) -> Result<(), OciError> {
        if self.bytes != self.stated.size {
            return Err(self.other_length());
        }
        if ContentDigest::finished(self.hash.clone()) != self.stated.digest {
            return Err(OciError::DigestMismatch { what: COMPONENT });
        }
        if self.first != WASM_MAGIC {
            return Err(OciError::NotWasm);
        }
        Ok(())
    }

    fn other_length(&self) -> OciError {
        OciError::Length { what: COMPONENT, stated: self.stated.size }
    }
}

/// The manifest at `reference`.
async fn manifest(session: &mut Session<'_>, reference: &OciReference, most: u64) -> Result<ManifestBytes, OciError> {
    let what = "the manifest";
    let target = session.target(&format!("manifests/{}", reference.version()));
    let mut request = OciRequest::new(Method::GET, target, most);
    // Indexes are accepted only so that the error can name them.
    let types = format!("{MANIFEST_TYPE}, {}", INDEX_TYPES.join(", "));
    request.headers.extend(HeaderValue::from_str(&types).map(|value| (ACCEPT, value)));
    let answer = expect(session.follow(request).await?, &[StatusCode::OK])?;
    match answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) {
        Some(MANIFEST_TYPE) => {}
        Some(index) if INDEX_TYPES.contains(&index) => return Err(OciError::Index),
        _ => return Err(OciError::MediaType { what, expected: MANIFEST_TYPE }),
    }
    let stated = answer.headers().get(DIGEST_HEADER).map(|value| value.as_bytes().to_owned());
    let manifest = ManifestBytes::new(answer.read(what).await?.into());
    let is_stated = stated.is_none_or(|stated| stated == manifest.digest.as_str().as_bytes());
    let is_asked = match reference.version() {
        OciVersion::Tag(_) => true,
        OciVersion::Digest(asked) => *asked == manifest.digest,
    };
    if is_stated && is_asked { Ok(manifest) } else { Err(OciError::DigestMismatch { what }) }
}

/// The answer with a content, whose body is still to be read.
async fn blob(session: &mut Session<'_>, content: &StatedContent, what: &'static str) -> Result<OciAnswer, OciError> {
    let target = session.target(&format!("blobs/{}", content.digest));
    let request = OciRequest::new(Method::GET, target, content.size);
    let answer = expect(session.follow(request).await?, &[StatusCode::OK])?;
    if answer.headers().contains_key(CONTENT_ENCODING) {
        return Err(OciError::Encoded { what });
    }
    match answer.length() {
        Some(length) if length != content.size => Err(OciError::Length { what, stated: content.size }),
        _ => Ok(answer),
    }
}
