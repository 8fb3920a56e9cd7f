//! A plugin to fetch: its name in a registry, and the servers that may be asked for it.

use windlass_core::rights::egress::AddressReach;
use windlass_oci::{Credentials, OciReference, OciVersion, PlainHttp, ReferenceError, RegistryLimits, RegistryOptions};

use crate::error::FetchError;

/// The tenant for whom a plugin is fetched, or the cluster's operators. A plugin that was fetched for one is never
/// given to another, who may not have the right to read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FetchScope {
    /// The cluster's operators.
    Cluster,
    /// The tenant with this namespace.
    Namespace(String),
}

/// A server that has the contents of a registry.
///
/// The digest decides whether contents are right, so a mirror cannot change them. But it vouches that a digest belongs
/// to a repository. So name only mirrors that get their contents from the registry itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Host, port, and the path before the repository's name.
    location: String,
    /// Whether the mirror is asked which digest a tag has. Then it chooses the version that runs.
    pub resolves_tags: bool,
    pub credentials: Credentials,
    pub plain_http: PlainHttp,
}

impl Mirror {
    /// A mirror at `HOST[:PORT][/PATH]`. Its repositories have the registry's names below that path. It resolves no
    /// tags.
    pub fn new(location: &str) -> Result<Self, ReferenceError> {
        let location = location.trim_end_matches('/');
        format!("oci://{location}/repository").parse::<OciReference>()?;
        Ok(Self {
            location: location.to_owned(),
            resolves_tags: false,
            credentials: Credentials::default(),
            plain_http: PlainHttp::Never,
        })
    }

    fn server(&self, image: &OciReference) -> Result<Server, ReferenceError> {
        let reference: OciReference = format!("oci://{}/{}", self.location, image.repository()).parse()?;
        let Self { resolves_tags, credentials, plain_http, .. } = self.clone();
        Ok(Server { reference, credentials, plain_http, resolves_tags, addresses: AddressPolicy::any() })
    }
}

/// The servers that requests for a plugin may go to. Mirrors are exempt, because an operator names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// The registries that may be named, as `HOST[:PORT]`. `None` for all.
    pub registries: Option<Vec<String>>,
    /// The non-public addresses that the registry may have. `None` for all.
    pub reach: Option<AddressReach>,
    /// The non-public addresses to which the registry may redirect.
    pub elsewhere: AddressReach,
}

impl AddressPolicy {
    /// Any registry at any address. Redirects lead only to public addresses.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Any registry at a public address.
    #[must_use]
    pub fn public() -> Self {
        Self { reach: Some(AddressReach::default()), ..Self::default() }
    }

    /// The listed registries, at public addresses. An empty list allows none.
    #[must_use]
    pub fn listed(registries: Vec<String>) -> Self {
        Self { registries: Some(registries), ..Self::public() }
    }

    fn allows(&self, image: &OciReference) -> bool {
        self.registries.as_ref().is_none_or(|listed| listed.iter().any(|it| it.eq_ignore_ascii_case(image.host())))
    }
}

/// A plugin to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPlugin {
    pub scope: FetchScope,
    pub image: OciReference,
    /// Are asked before the registry, in this order.
    pub mirrors: Vec<Mirror>,
    /// Are used only for the registry that `image` names, never for a mirror.
    pub credentials: Credentials,
    pub addresses: AddressPolicy,
    pub plain_http: PlainHttp,
}

impl WantedPlugin {
    /// The plugin `image` for the cluster, from any registry, without mirrors and credentials.
    #[must_use]
    pub fn of_cluster(image: OciReference) -> Self {
        Self {
            scope: FetchScope::Cluster,
            image,
            mirrors: Vec::new(),
            credentials: Credentials::default(),
            addresses: AddressPolicy::any(),
            plain_http: PlainHttp::Never,
        }
    }

    /// The servers to ask, in order. The registry itself is the last one. An error if it may not be asked.
    pub(crate) fn servers(&self) -> Result<Vec<Server>, FetchError> {
        let Self { image, credentials, addresses, .. } = self;
        if !addresses.allows(image) {
            return Err(FetchError::RegistryNotAllowed { registry: image.host().to_owned() });
        }
        let invalid = |error| FetchError::registry(image.host(), windlass_oci::OciError::Reference(error));
        let mirrors = self.mirrors.iter().map(|mirror| mirror.server(image).map_err(invalid));
        let mut servers = mirrors.collect::<Result<Vec<_>, _>>()?;
        // This machine is no public address. A registry that is named without TLS is checked like any other.
        let plain_http = match &self.plain_http {
            PlainHttp::OnThisMachine if addresses.reach.is_some() => PlainHttp::Never,
            other => other.clone(),
        };
        servers.push(Server {
            reference: image.clone(),
            credentials: credentials.clone(),
            plain_http,
            resolves_tags: true,
            addresses: addresses.clone(),
        });
        Ok(servers)
    }
}

/// A server that may have the plugin: a mirror, or the registry itself.
pub(crate) struct Server {
    pub(crate) reference: OciReference,
    pub(crate) resolves_tags: bool,
    credentials: Credentials,
    plain_http: PlainHttp,
    addresses: AddressPolicy,
}

impl Server {
    /// The plugin's name on this server, by this `version`.
    pub(crate) fn at(&self, version: &OciVersion) -> OciReference {
        self.reference.at(version.clone())
    }

    pub(crate) fn options(&self, limits: &RegistryLimits) -> RegistryOptions {
        RegistryOptions {
            credentials: self.credentials.clone(),
            plain_http: self.plain_http.clone(),
            reach: self.addresses.reach.clone(),
            elsewhere: self.addresses.elsewhere.clone(),
            limits: limits.clone(),
        }
    }
}
