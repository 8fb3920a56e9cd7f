//! The principal that makes a request to the API (invariant 6).

use std::fmt;
use std::sync::Arc;

use crate::rights::fence::Fenced;
use crate::rights::grants::{Access, Denial, Grants, LiveGrants, Rule};

/// The role in which a mutation is made: the plugin's own, or one in which the host works for the plugin.
///
/// Each role of the host has exactly the rights that its work needs. So a plugin needs no grants for the host's work,
/// and an audit log distinguishes the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// The plugin itself.
    #[default]
    Plugin,
    /// The host maintains the plugin's finalizer.
    Finalizer,
    /// An operator deletes children that the plugin left behind.
    Children,
    /// The host installs the plugin's CRDs.
    Definitions,
    /// The host publishes Kubernetes Events about the plugin.
    Events,
    /// The host elects the replica that runs the plugin.
    Lease,
    /// The host checks the rights of a service account with access reviews.
    Reviews,
    /// The host reports the state of a plugin in its object (ADR 48).
    Status,
    /// The plugin's next version is called as a shadow of the current one (ADR 28).
    Shadow,
}

impl Role {
    /// The role's name in User-Agents, field managers and logs. `None` for the plugin itself.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Plugin => None,
            Self::Finalizer => Some("finalizer"),
            Self::Children => Some("children"),
            Self::Definitions => Some("crd"),
            Self::Events => Some("events"),
            Self::Lease => Some("lease"),
            Self::Reviews => Some("reviews"),
            Self::Status => Some("status"),
            Self::Shadow => Some("shadow"),
        }
    }

    /// The grants that the role needs to work on `resource` of `group`, in `namespaces` (empty for all) and on `names`
    /// (empty for all).
    #[must_use]
    pub fn grants(self, group: &str, resource: &str, namespaces: Vec<String>, names: Vec<String>) -> Grants {
        let verbs: &[&str] = match self {
            // A plugin's grants come from its policy, and so do its shadow's.
            Self::Plugin | Self::Shadow => return Grants::default(),
            Self::Finalizer | Self::Status => &["patch"],
            Self::Children => &["delete"],
            Self::Definitions => &["get", "patch"],
            Self::Events => &["create", "patch"],
            Self::Lease => &["get", "list", "watch", "create", "update", "delete"],
            Self::Reviews => &["create"],
        };
        Grants::new(vec![Rule {
            groups: vec![group.to_owned()],
            resources: vec![resource.to_owned()],
            verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
            cluster: namespaces.is_empty(),
            namespaces,
            names,
        }])
    }
}

/// A plugin generation or a role of the host, with its rights. Every mutation carries one.
#[derive(Debug)]
pub struct Principal {
    pub role: Role,
    /// The plugin's name: the stem of its file name.
    pub plugin: Arc<str>,
    /// The first twelve hexadecimal digits of the component's SHA-256.
    pub digest: Arc<str>,
    /// The host process that acts, such as a Pod's name.
    pub replica: Arc<str>,
    pub grants: LiveGrants,
    /// The service account that the plugin impersonates, from the operator's policy. `None` if it acts as the host.
    pub impersonate: Option<ServiceAccount>,
    /// Whether this process may still act for the plugin. Checked last, right before a mutation is sent.
    pub fence: Fenced,
}

/// A service account of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceAccount {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ServiceAccount {
    /// The user name that the API server gives the account.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// The groups that the API server puts the account in.
    #[must_use]
    pub fn groups(&self) -> [String; 3] {
        let of_namespace = format!("system:serviceaccounts:{}", self.namespace);
        ["system:serviceaccounts".to_owned(), of_namespace, "system:authenticated".to_owned()]
    }
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Principal {
    /// Whether `access` is allowed now. If not, the error says what is missing, and the denial is counted.
    pub fn check(&self, access: &Access<'_>) -> Result<(), Denial> {
        self.grants.check(access)
    }

    /// Whether the finalizer `name` may be added and removed now. Counts a denial.
    pub fn check_finalizer(&self, name: &str) -> Result<(), Denial> {
        self.grants.check_finalizer(name)
    }

    /// The grants at this moment.
    #[must_use]
    pub fn grants(&self) -> Arc<Grants> {
        self.grants.current()
    }

    /// A plugin that acts as the host, without grants and without a fence.
    #[must_use]
    pub fn of_plugin(plugin: impl Into<Arc<str>>, digest: impl Into<Arc<str>>, replica: impl Into<Arc<str>>) -> Self {
        Self {
            role: Role::Plugin,
            plugin: plugin.into(),
            digest: digest.into(),
            replica: replica.into(),
            grants: LiveGrants::default(),
            impersonate: None,
            fence: Fenced::default(),
        }
    }

    /// The host itself in a `role`, for no plugin. It has no grants, because no plugin influences its requests: they
    /// are fixed in the role's code.
    #[must_use]
    pub fn of_host(role: Role, replica: Arc<str>) -> Self {
        Self {
            role,
            plugin: "windlass".into(),
            digest: "host".into(),
            replica,
            grants: LiveGrants::default(),
            impersonate: None,
            fence: Fenced::default(),
        }
    }

    /// The host that works for this principal in a `role`, with these `grants`. It acts as the host, even if the plugin
    /// impersonates an account.
    #[must_use]
    pub fn in_role(&self, role: Role, grants: Grants) -> Self {
        let Self { plugin, digest, replica, fence, .. } = self;
        Self {
            role,
            plugin: plugin.clone(),
            digest: digest.clone(),
            replica: replica.clone(),
            grants: LiveGrants::new(grants),
            impersonate: None,
            fence: fence.clone(),
        }
    }

    /// The shadow of this principal: the plugin version with this `digest`. It has the rights that this principal has
    /// now, and its denials are counted separately.
    #[must_use]
    pub fn shadow(&self, digest: Arc<str>) -> Self {
        let Self { plugin, replica, impersonate, fence, .. } = self;
        Self {
            role: Role::Shadow,
            plugin: plugin.clone(),
            digest,
            replica: replica.clone(),
            grants: LiveGrants::new((*self.grants()).clone()),
            impersonate: impersonate.clone(),
            fence: fence.clone(),
        }
    }

    /// The field manager: `windlass/<plugin>`, or `windlass-<role>` for the host's own work, whose fields must not look
    /// like the plugin's. CRDs use the plugin's manager: the server then refuses another plugin that installs the same
    /// CRD.
    #[must_use]
    pub fn field_manager(&self) -> String {
        match (self.role, self.role.name()) {
            (Role::Definitions, _) | (_, None) => ["windlass/", &self.plugin].concat(),
            (_, Some(role)) => ["windlass-", role].concat(),
        }
    }

    /// The field manager with `/` and `suffix` appended, or just [`Self::field_manager`] without a suffix. A plugin's
    /// name has no slash, so no two plugins share a field manager.
    #[must_use]
    pub fn field_manager_with(&self, suffix: Option<&str>) -> String {
        let mut manager = self.field_manager();
        if let Some(suffix) = suffix {
            manager.push('/');
            manager.push_str(suffix);
        }
        manager
    }

    /// The User-Agent, which an audit log shows: `windlass/<version> (<plugin>@<digest>; <replica>)`, or
    /// `windlass/<version> (<plugin>@<digest>; <replica>; <role>)` for the host's own work.
    #[must_use]
    pub fn user_agent(&self) -> String {
        let Self { plugin, digest, replica, .. } = self;
        let (before_role, role) = self.role.name().map_or(("", ""), |role| ("; ", role));
        // Every request has one, and formatting would cost several times as much as joining.
        ["windlass/", env!("CARGO_PKG_VERSION"), " (", plugin, "@", digest, "; ", replica, before_role, role, ")"]
            .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectKey;

    fn plugin() -> Principal {
        Principal {
            impersonate: Some(ServiceAccount { namespace: "prod".into(), name: "webapp".into() }),
            ..Principal::of_plugin("webapp", "0123456789ab", "windlass-0")
        }
    }

    #[test]
    fn an_audit_log_distinguishes_the_plugin_from_the_host() {
        let (plugin, version) = (plugin(), env!("CARGO_PKG_VERSION"));
        assert_eq!(plugin.user_agent(), format!("windlass/{version} (webapp@0123456789ab; windlass-0)"));
        assert_eq!(plugin.field_manager(), "windlass/webapp");
        assert_eq!(plugin.field_manager_with(None), "windlass/webapp");
        assert_eq!(plugin.field_manager_with(Some("tls")), "windlass/webapp/tls");
        let host = plugin.in_role(Role::Finalizer, Grants::default());
        assert_eq!(host.user_agent(), format!("windlass/{version} (webapp@0123456789ab; windlass-0; finalizer)"));
        assert_eq!(host.field_manager(), "windlass-finalizer");
        assert_eq!(host.impersonate, None);
    }

    #[test]
    fn the_finalizer_role_may_patch_primaries_and_nothing_else() {
        let key = ObjectKey::namespaced("prod", "shop");
        let host = plugin().in_role(Role::Finalizer, Role::Finalizer.grants("apps", "webapps", vec![], vec![]));
        let access = |verb, resource| {
            let access = Access { verb, group: "apps", resource, subresource: "", namespaced: true, key: Some(&key) };
            host.check(&access).is_ok()
        };
        assert!(access("patch", "webapps"));
        assert!(!access("delete", "webapps") && !access("patch", "deployments"));
    }
}
