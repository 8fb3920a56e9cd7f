//! Every way in which a push or a pull fails.

use std::time::Duration;

use windlass_core::call::http::HttpError;

use crate::credentials::CredentialsError;
use crate::reference::ReferenceError;

/// Why a plugin was not pushed or pulled. The messages quote no text of a registry, except what TLS says about its
/// certificate (`source` of `Unreachable`).
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// The reference is invalid.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The credentials cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// No connection to the server.
    #[error(
        "cannot reach {server}: {source}; check the host, and whether it needs --ca-file (an authority of its own) or \
         --plain-http (no TLS)"
    )]
    Unreachable { server: String, source: HttpError },
    /// The server's address is not one that may be reached.
    #[error(
        "{server} is at {address}: requests of this kind may not go there, because the registry could aim them at others"
    )]
    Address { server: String, address: String },
    /// The server took too long.
    #[error("{server} is too slow: the request had not ended in time, so it was given up; try again later")]
    TimedOut { server: String },
    /// The answer is not HTTP, or breaks off.
    #[error("the answer of {server} is not valid HTTP, or breaks off: {source}")]
    Broken { server: String, source: HttpError },
    /// The server sent more besides the contents than is read.
    #[error("{server} sends too many headers, interim answers or tiny parts: the answer was not read further")]
    Overhead { server: String },
    /// The registry wants a login, and there are no credentials for it.
    #[error(
        "{server} refuses the request without a login: give --username and --password-stdin, or add credentials for \
         {asking} to the config.json of docker"
    )]
    LoginNeeded { server: String, asking: String },
    /// The registry refuses the login.
    #[error(
        "{server} refuses the request with these credentials: check user, password, and the right to the repository"
    )]
    LoginRefused { server: String },
    /// A password would cross the network unencrypted.
    #[error("{server} asks for a password without TLS: remove --plain-http, because others could read the password")]
    Unencrypted { server: String },
    /// The registry names no way to log in, or none that is accepted.
    #[error(
        "{server} asks for a login in a way that is not supported: it must be Basic, or Bearer with a token server"
    )]
    Challenge { server: String },
    /// The token server's answer has no token.
    #[error("the token server {server} answers without a token: is it a token server for registries?")]
    Token { server: String },
    /// There is no such artefact.
    #[error("{server} has no such repository, tag or digest: check the reference, and whether you may read it")]
    NotFound { server: String },
    /// The server is busy for longer than was waited.
    #[error("{server} is busy (status {status}): it was still so after {waits} waits; try again later")]
    Busy {
        server: String,
        status: u16,
        waits: u32,
        /// The wait for which the server asks, if it does.
        retry_after: Option<Duration>,
    },
    /// The server answers with a status that ends the transfer.
    #[error("{server} answers with status {status}: this ends the transfer; its own log may say why")]
    Status { server: String, status: u16 },
    /// A redirect is not followed.
    #[error("{server} redirects in a way that is not followed: {why}")]
    Redirect { server: String, why: &'static str },
    /// An upload would go to another server.
    #[error("{server} wants the upload to go elsewhere: uploads go only to the registry itself")]
    UploadElsewhere { server: String },
    /// The answer or the manifest has another media type.
    #[error("{what} has another media type: it must be {expected}, as `windlass push` writes it")]
    MediaType { what: &'static str, expected: &'static str },
    /// The reference leads to an index.
    #[error("the reference leads to an index of several artefacts: name the digest of the plugin's own manifest")]
    Index,
    /// The layer is an archive.
    #[error("the layer is an archive, as of a container image: a plugin's layer is the component itself, not packed")]
    Archive,
    /// The artefact has no layer, or several.
    #[error("the artefact has {count} layers: a plugin has exactly one, which is its component")]
    Layers { count: usize },
    /// The layer is to be read from another place.
    #[error("the manifest names other places for its contents: they are read only from the repository itself")]
    ForeignUrls,
    /// A digest of another algorithm.
    #[error("{what} has a digest that is not a SHA-256: only sha256 is accepted")]
    Algorithm { what: &'static str },
    /// The contents are larger than may be read.
    #[error("{what} is larger than {most} bytes: {advice}")]
    TooLarge { what: &'static str, most: u64, advice: &'static str },
    /// The length differs from the stated one.
    #[error(
        "{what} does not have the length that was stated: {stated} bytes were stated; pull it again, or push it anew"
    )]
    Length { what: &'static str, stated: u64 },
    /// The contents differ from the digest.
    #[error("{what} does not match its digest: the registry, or a server on the way, has changed it")]
    DigestMismatch { what: &'static str },
    /// The manifest or the configuration cannot be read.
    #[error("{what} is malformed: it must be JSON as `windlass push` writes it")]
    Malformed { what: &'static str },
    /// The answer is compressed.
    #[error("{what} is compressed on the way: nothing is unpacked, so the registry must send it as it is")]
    Encoded { what: &'static str },
    /// The layer does not begin as WebAssembly does.
    #[error("the layer is not WebAssembly: its first bytes are others, whatever its media type says")]
    NotWasm,
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write { path: std::path::PathBuf, source: std::io::Error },
}

impl OciError {
    /// A word for conditions and metrics. It is one of a fixed list.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Reference(_) => "InvalidReference",
            Self::Credentials(_) => "InvalidCredentials",
            Self::Unreachable { .. } => "Unreachable",
            Self::Address { .. } => "AddressRefused",
            Self::TimedOut { .. } => "TimedOut",
            Self::Broken { .. } => "BrokenAnswer",
            Self::Overhead { .. } => "TooMuchOverhead",
            Self::LoginNeeded { .. } => "LoginNeeded",
            Self::LoginRefused { .. } => "LoginRefused",
            Self::Unencrypted { .. } => "PasswordUnencrypted",
            Self::Challenge { .. } => "UnknownChallenge",
            Self::Token { .. } => "NoToken",
            Self::NotFound { .. } => "NotFound",
            Self::Busy { .. } => "Busy",
            Self::Status { .. } => "UnexpectedStatus",
            Self::Redirect { .. } => "RedirectRefused",
            Self::UploadElsewhere { .. } => "UploadElsewhere",
            Self::MediaType { .. } => "OtherMediaType",
            Self::Index => "Index",
            Self::Archive => "Archive",
            Self::Layers { .. } => "NotOneLayer",
            Self::ForeignUrls => "ForeignUrls",
            Self::Algorithm { .. } => "OtherDigest",
            Self::TooLarge { .. } => "TooLarge",
            Self::Length { .. } => "LengthMismatch",
            Self::DigestMismatch { .. } => "DigestMismatch",
            Self::Malformed { .. } => "Malformed",
            Self::Encoded { .. } => "Compressed",
            Self::NotWasm => "NotWasm",
            Self::Write { .. } => "CannotWrite",
        }
    }

    /// Whether the artefact in the registry is at fault, so that trying again does not help.
    #[must_use]
    pub fn is_of_the_artefact(&self) -> bool {
        matches!(
            self,
            Self::MediaType { .. }
                | Self::Index
                | Self::Archive
                | Self::Layers { .. }
                | Self::ForeignUrls
                | Self::Algorithm { .. }
                | Self::TooLarge { .. }
                | Self::Length { .. }
                | Self::DigestMismatch { .. }
                | Self::Malformed { .. }
                | Self::Encoded { .. }
                | Self::NotWasm
        )
    }
}
