//! Pushes a plugin: component and configuration first, and then the manifest that names them.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};

use crate::Progress;
use crate::artefact::{self, ComponentNames, Documents, MANIFEST_TYPE, StatedContent};
use crate::digest::ContentDigest;
use crate::error::OciError;
use crate::reference::OciReference;
use crate::registry::Registry;
use crate::session::{Scope, Session, expect};
use crate::transport::OciRequest;

/// The most bytes that are read of an answer without a body.
const ANSWER_BYTES: u64 = 0;

/// A plugin to push.
pub struct PluginToPush {
    pub component: Bytes,
    pub names: ComponentNames,
    pub documents: Documents,
}

impl Registry {
    /// Pushes `plugin` to `reference`, and returns the digest of its manifest. What the registry has already is not
    /// sent again.
    pub async fn push(
        &self,
        reference: &OciReference,
        plugin: PluginToPush,
        progress: Option<Progress>,
    ) -> Result<ContentDigest, OciError> {
        let mut session = Session::new(self, reference, Scope::Push)?;
        let PluginToPush { component, names, documents } = plugin;
        let stated = StatedContent::of(&component);
        let (manifest, config) = artefact::written(&stated, &names, &documents);
        let limits = &self.options.limits;
        if config.len() as u64 > limits.config_bytes {
            return Err(artefact::too_large("the configuration", limits.config_bytes));
        }
        upload(&mut session, component, &stated.digest, progress).await?;
        let config = Bytes::from(config);
        let digest = ContentDigest::of(&config);
        upload(&mut session, config, &digest, None).await?;
        let digest = ContentDigest::of(&manifest);
        let target = session.target(&format!("manifests/{}", reference.version()));
        let mut request = OciRequest::new(Method::PUT, target, ANSWER_BYTES);
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(MANIFEST_TYPE));
        request.body = manifest.into();
        expect(session.request(request).await?, &[StatusCode::CREATED])?;
        Ok(digest)
    }
}

/// Sends a content to the repository, unless it is there.
async fn upload(
    session: &mut Session<'_>,
    bytes: Bytes,
    digest: &ContentDigest,
    progress: Option<Progress>,
) -> Result<(), OciError> {
    let there = session.target(&format!("blobs/{digest}"));
    if session.follow(OciRequest::new(Method::HEAD, there, ANSWER_BYTES)).await?.status() == StatusCode::OK {
        return Ok(());
    }
    let begin = OciRequest::new(Method::POST, session.target("blobs/uploads/"), ANSWER_BYTES);
    let answer = expect(session.request(begin).await?, &[StatusCode::ACCEPTED])?;
    let mut target = session.located(&answer)?;
    if !session.is_own(&target) {
        return Err(OciError::UploadElsewhere { server: session.name() });
    }
    let separator = if target.path_and_query.contains('?') { '&' } else { '?' };
    let _ = write!(target.path_and_query, "{separator}digest={}", digest.as_str().replace(':', "%3A"));
    let mut request = OciRequest::new(Method::PUT, target, ANSWER_BYTES);
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    request.body = bytes;
    request.progress = progress;
    expect(session.request(request).await?, &[StatusCode::CREATED])?;
    Ok(())
}
