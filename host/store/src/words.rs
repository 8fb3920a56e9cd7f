//! The words for a registry's failures in conditions. They quote nothing that a server has sent but numbers, because a
//! server could put anything there, and a name to which it redirects is its own choice, too.

use windlass_core::call::http::HttpReason;
use windlass_oci::OciError;

/// The words for `error`.
pub(crate) fn of(error: &OciError) -> String {
    match error {
        OciError::Reference(error) => error.to_string(),
        OciError::Unreachable { source, .. } => unreachable(source.reason).to_owned(),
        OciError::Busy { status, .. } => format!("it is busy (status {status}): the host tries again later"),
        OciError::Status { status, .. } => format!("it answers with status {status}: its own log may say why"),
        OciError::Layers { count } => {
            format!("the artefact has {count} layers: a plugin has exactly one, which is its component")
        }
        OciError::TooLarge { what, most, .. } => format!("{what} is larger than {most} bytes, so it was not read"),
        OciError::Length { what, stated } => {
            format!("{what} does not have the {stated} bytes that were stated: push it again")
        }
        OciError::MediaType { what, .. }
        | OciError::Algorithm { what }
        | OciError::DigestMismatch { what }
        | OciError::Malformed { what }
        | OciError::Encoded { what } => format!("{what} {}", fault(error)),
        other => fault(other).to_owned(),
    }
}

fn unreachable(reason: HttpReason) -> &'static str {
    match reason {
        HttpReason::Dns => "its name cannot be resolved: check the name, and the DNS that the host uses",
        HttpReason::Connect => "it does not accept connections: check the address, and network policies",
        HttpReason::Tls => "TLS fails: check its certificate, and whether the host trusts the authority",
        _ => "it cannot be reached: check the address, and network policies",
    }
}

/// The fixed part of the words.
fn fault(error: &OciError) -> &'static str {
    match error {
        OciError::Credentials(_) => "the credentials cannot be read: they must have a user and a password for it",
        OciError::Address { .. } => "its address, or one to which it leads, is not public: such requests are refused",
        OciError::TimedOut { .. } => "it is too slow: the request had not ended in time",
        OciError::Broken { .. } => "its answer is not valid HTTP, or breaks off",
        OciError::Overhead { .. } => "it sends too many headers, interim answers or tiny parts",
        OciError::LoginNeeded { .. } => "it wants a login: name credentials for it, and for its token server",
        OciError::LoginRefused { .. } => "it refuses the credentials: check them, and their right to the repository",
        OciError::Unencrypted { .. } => "it asks for a password without TLS: others could read it, so none was sent",
        OciError::Challenge { .. } => "it asks for a login in a way that is not supported: it must be Basic or Bearer",
        OciError::Token { .. } => "its token server answers without a token",
        OciError::NotFound { .. } => {
            "it has no such repository, tag or digest: check the name, and the right to read it"
        }
        OciError::Redirect { .. } | OciError::UploadElsewhere { .. } => "it redirects in a way that is not followed",
        OciError::Index => "it is an index of several artefacts: name the digest of the plugin's own manifest",
        OciError::Archive => "the layer is an archive: a plugin's layer is the component itself",
        OciError::ForeignUrls => "the manifest names other places for its contents, which are never read",
        OciError::NotWasm => "the layer is not WebAssembly, whatever its media type says",
        OciError::Write { .. } => "the host cannot write it",
        OciError::MediaType { .. } => "has another media type than a plugin's",
        OciError::Algorithm { .. } => "has a digest that is not a SHA-256",
        OciError::DigestMismatch { .. } => {
            "does not match its digest: the registry, or a server on the way, changed it"
        }
        OciError::Malformed { .. } => "is malformed: it must be JSON as `windlass push` writes it",
        OciError::Encoded { .. } => "is compressed on the way: the registry must send it as it is",
        OciError::Reference(_)
        | OciError::Unreachable { .. }
        | OciError::Busy { .. }
        | OciError::Status { .. }
        | OciError::Layers { .. }
        | OciError::TooLarge { .. }
        | OciError::Length { .. } => "it failed",
    }
}
