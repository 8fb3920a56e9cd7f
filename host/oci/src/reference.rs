//! The name of a plugin in a registry, such as `oci://registry.example.com/team/shop:1.2.0`.

use std::fmt;
use std::str::FromStr;

use windlass_core::rights::egress::HttpTarget;
use windlass_core::rights::grants::Scheme;

use crate::digest::ContentDigest;

const PREFIX: &str = "oci://";
/// The longest name of a repository, as in the specification of registries.
const REPOSITORY_BYTES_MAX: usize = 255;
/// The longest tag.
const TAG_BYTES_MAX: usize = 128;
/// The tag of a reference that names none.
const DEFAULT_TAG: &str = "latest";
/// The name under which people know Docker Hub, and the server that is its registry.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// The reason why a text names no plugin in a registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The text begins otherwise.
    #[error("the reference does not begin with oci://: write oci://HOST/REPOSITORY:TAG")]
    Prefix,
    /// The host is missing or invalid.
    #[error("the reference has no valid host: write oci://HOST[:PORT]/REPOSITORY:TAG")]
    Host,
    /// The repository is missing or invalid.
    #[error(
        "the reference has no valid repository: a repository has lower-case letters, digits and `.`, `_`, `-` between \
         them, in parts separated by `/`"
    )]
    Repository,
    /// The tag is invalid.
    #[error("the reference has an invalid tag: a tag has up to {TAG_BYTES_MAX} letters, digits, `.`, `_` and `-`")]
    Tag,
    /// The digest is no SHA-256.
    #[error("the reference has an invalid digest: a digest is `sha256:` and 64 lower-case hexadecimal digits")]
    Digest,
}

/// The part of a reference that selects one artefact of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OciVersion {
    /// A tag, which the registry may move.
    Tag(String),
    /// The digest of the artefact's manifest.
    Digest(ContentDigest),
}

impl fmt::Display for OciVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

/// The name of a plugin in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciReference {
    /// The registry's host and port as it was written.
    host: String,
    repository: String,
    version: OciVersion,
    /// Whether the reference itself names its tag or digest.
    names_version: bool,
}

impl OciReference {
    /// The registry's host and port, as people wrote them.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The repository, without the host.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag or digest. The tag `latest` if the reference names none.
    #[must_use]
    pub fn version(&self) -> &OciVersion {
        &self.version
    }

    /// Whether the reference itself names a tag or digest.
    #[must_use]
    pub fn names_version(&self) -> bool {
        self.names_version
    }

    /// The last part of the repository's name.
    #[must_use]
    pub fn last_name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }

    /// The same repository with another version.
    #[must_use]
    pub fn at(&self, version: OciVersion) -> Self {
        Self { version, names_version: true, ..self.clone() }
    }

    /// The registry's server, by this `scheme`.
    pub(crate) fn server(&self, scheme: Scheme) -> Result<HttpTarget, ReferenceError> {
        let host = if self.host == DOCKER_HUB.0 { DOCKER_HUB.1 } else { &self.host };
        server(scheme, host)
    }
}

fn server(scheme: Scheme, host: &str) -> Result<HttpTarget, ReferenceError> {
    HttpTarget::parse(&format!("{scheme}://{host}/")).map_err(|_| ReferenceError::Host)
}

impl FromStr for OciReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let rest = text.strip_prefix(PREFIX).ok_or(ReferenceError::Prefix)?;
        let (host, path) = rest.split_once('/').ok_or(ReferenceError::Repository)?;
        if host.contains(['?', '#', '@']) {
            return Err(ReferenceError::Host);
        }
        server(Scheme::Https, host)?;
        let (repository, version) = match (path.split_once('@'), path.split_once(':')) {
            (Some((repository, digest)), _) => {
                let digest = ContentDigest::parse(digest).ok_or(ReferenceError::Digest)?;
                (repository, Some(OciVersion::Digest(digest)))
            }
            (None, Some((repository, tag))) if is_tag(tag) => (repository, Some(OciVersion::Tag(tag.to_owned()))),
            (None, Some(_)) => return Err(ReferenceError::Tag),
            (None, None) => (path, None),
        };
        if !is_repository(repository) {
            return Err(ReferenceError::Repository);
        }
        let names_version = version.is_some();
        let version = version.unwrap_or_else(|| OciVersion::Tag(DEFAULT_TAG.to_owned()));
        Ok(Self { host: host.to_ascii_lowercase(), repository: repository.to_owned(), version, names_version })
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if matches!(self.version, OciVersion::Tag(_)) { ':' } else { '@' };
        write!(f, "{PREFIX}{}/{}{separator}{}", self.host, self.repository, self.version)
    }
}

fn is_repository(name: &str) -> bool {
    name.len() <= REPOSITORY_BYTES_MAX && name.split('/').all(is_repository_part)
}

/// Whether `part` begins and ends with a letter or digit, with separators between them: dashes, one dot, or one or two
/// underscores. So it is never `.` or `..`.
fn is_repository_part(part: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = |byte: Option<&u8>| byte.is_some_and(is_alphanumeric);
    let bytes = part.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| is_alphanumeric(byte) || matches!(byte, b'.' | b'_' | b'-'))
        && ["..", "___", "._", "_.", ".-", "-.", "_-", "-_"].iter().all(|wrong| !part.contains(wrong))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_BYTES_MAX
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, ReferenceError> {
        text.parse::<OciReference>().map(|it| it.to_string())
    }

    #[test]
    fn a_reference_reads_as_it_is_written() {
        let digest = ContentDigest::of(b"a");
        for text in [
            "oci://registry.example.com/team/shop:1.2.0",
            "oci://127.0.0.1:5000/shop:v1",
            "oci://[::1]:5000/a-b/c__d.e:_x",
            &format!("oci://ghcr.io/team/shop@{digest}"),
        ] {
            assert_eq!(read(text), Ok(text.to_owned()));
        }
        assert_eq!(read("oci://Ghcr.io/team/shop"), Ok("oci://ghcr.io/team/shop:latest".to_owned()));
    }

    #[test]
    fn a_reference_that_could_mean_something_else_is_refused() {
        let digest = ContentDigest::of(b"a");
        for (text, error) in [
            ("registry.example.com/shop:1", ReferenceError::Prefix),
            ("oci://shop", ReferenceError::Repository),
            ("oci://user:word@host/shop:1", ReferenceError::Host),
            ("oci://a b/shop:1", ReferenceError::Host),
            ("oci://host:0/shop:1", ReferenceError::Host),
            ("oci:///shop:1", ReferenceError::Host),
            ("oci://host/", ReferenceError::Repository),
            ("oci://host/Shop:1", ReferenceError::Repository),
            ("oci://host/a/../b:1", ReferenceError::Repository),
            ("oci://host/a//b:1", ReferenceError::Repository),
            ("oci://host/a?b:1", ReferenceError::Repository),
            ("oci://host/shop:", ReferenceError::Tag),
            ("oci://host/shop:-1", ReferenceError::Tag),
            ("oci://host/shop:1/2", ReferenceError::Tag),
            ("oci://host/shop@sha512:00", ReferenceError::Digest),
            (&format!("oci://host/shop:1@{digest}"), ReferenceError::Repository),
        ] {
            assert_eq!(read(text), Err(error), "{text}");
        }
    }

    #[test]
    fn docker_hub_has_a_server_of_another_name() {
        let reference: OciReference = "oci://docker.io/team/shop:1".parse().expect("valid");
        let server = reference.server(Scheme::Https).expect("valid");
        assert_eq!((server.authority().as_str(), reference.host()), ("registry-1.docker.io", "docker.io"));
    }
}
