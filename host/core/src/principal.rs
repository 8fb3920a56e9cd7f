//! In whose name a request to the API is made (invariant 6).

use std::sync::Arc;

use crate::grants::{Access, Denial, Grants, LiveGrants};

/// A plugin generation or a system role, with what it may do. Every mutation carries one.
#[derive(Debug)]
pub struct Principal {
    /// The plugin's identity: the stem of its file.
    pub plugin: Arc<str>,
    /// The first twelve hexadecimal digits of the component's SHA-256.
    pub digest: Arc<str>,
    /// Which host process acts, such as a Pod's name.
    pub replica: Arc<str>,
    /// What it may do.
    pub grants: LiveGrants,
    /// The service account as which it acts, where the operator's policy names one. None: as the host.
    pub impersonate: Option<ServiceAccount>,
}

/// A service account of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Principal {
    /// Whether it may do `access` now; if not, what is missing. A denial is counted.
    pub fn check(&self, access: &Access<'_>) -> Result<(), Denial> {
        self.grants.check(access)
    }

    /// What it may do now.
    #[must_use]
    pub fn grants(&self) -> Arc<Grants> {
        self.grants.current()
    }

    /// The server-side apply manager: `windlass/<plugin>`.
    #[must_use]
    pub fn field_manager(&self) -> String {
        format!("windlass/{}", self.plugin)
    }

    /// `windlass/<version> (<plugin>@<digest>; <replica>)`, which an audit log shows.
    #[must_use]
    pub fn user_agent(&self) -> String {
        format!("windlass/{} ({}@{}; {})", env!("CARGO_PKG_VERSION"), self.plugin, self.digest, self.replica)
    }
}
