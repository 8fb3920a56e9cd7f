//! A registry client's settings: where its requests may go, what they carry, and its limits.
//!
//! A person names a registry, so the registry may be at any address, unless `reach` says otherwise. Everything to which
//! the registry itself sends the client, such as a redirect or a token server, must use HTTPS and have a public
//! address.

use windlass_core::rights::egress::{AddressReach, HttpTarget};
use windlass_core::rights::grants::Scheme;

use crate::credentials::Credentials;
use crate::error::OciError;
use crate::limits::RegistryLimits;
use crate::reference::OciReference;
use crate::transport::{Network, Reach};

/// Whether a registry is used without TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// It is not.
    #[default]
    Never,
    /// It is, and must be on this machine.
    OnThisMachine,
    /// It is, if its host and port are these.
    Named(String),
}

/// The settings of a client.
#[derive(Debug, Default)]
pub struct RegistryOptions {
    pub credentials: Credentials,
    pub plain_http: PlainHttp,
    /// The non-public addresses that the registry may have. `None` for all.
    pub reach: Option<AddressReach>,
    /// The non-public addresses that redirects and token servers may have.
    pub elsewhere: AddressReach,
    pub limits: RegistryLimits,
}

/// A client for registries. It keeps nothing between two pushes or pulls.
pub struct Registry {
    pub(crate) network: Network,
    pub(crate) options: RegistryOptions,
}

impl Registry {
    /// A client with these settings.
    #[must_use]
    pub fn new(network: Network, options: RegistryOptions) -> Self {
        Self { network, options }
    }

    /// The server of `reference`.
    pub(crate) fn server(&self, reference: &OciReference) -> Result<HttpTarget, OciError> {
        let is_plain = match &self.options.plain_http {
            PlainHttp::Never => false,
            PlainHttp::OnThisMachine => true,
            PlainHttp::Named(host) => host.eq_ignore_ascii_case(reference.host()),
        };
        Ok(reference.server(if is_plain { Scheme::Http } else { Scheme::Https })?)
    }

    /// The addresses that the registry at `server` may have.
    pub(crate) fn reach(&self, server: &HttpTarget) -> Reach<'_> {
        match (&self.options.plain_http, &self.options.reach) {
            (PlainHttp::OnThisMachine, _) if server.scheme == Scheme::Http => Reach::Loopback,
            (_, Some(listed)) => Reach::Listed(listed),
            (_, None) => Reach::Any,
        }
    }
}
