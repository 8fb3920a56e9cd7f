//! In whose name a request to the API is made (invariant 6).

use std::sync::Arc;

use crate::grants::Grants;

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
    pub grants: Grants,
}

impl Principal {
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
