//! In whose name a request to the API is made (invariant 6).

use std::fmt;
use std::sync::Arc;

use crate::rights::fence::Fenced;
use crate::rights::grants::{Access, Denial, Grants, LiveGrants, Rule};

/// On whose account a mutation is made: a plugin's own, or one that the host makes for it.
///
/// The host's own work has rights of its own, exactly those that the work needs, so that a plugin need not be granted what
/// only its host does, and an audit log tells the two apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// The plugin itself asks for it.
    #[default]
    Plugin,
    /// The host keeps the plugin's finalizer.
    Finalizer,
    /// An operator has children deleted that the plugin has left behind.
    Children,
    /// The host installs the plugin's definitions.
    Definitions,
    /// The host tells of the plugin in Kubernetes Events.
    Events,
    /// The host elects who runs the plugin.
    Lease,
    /// The host has the rights of a service account reviewed.
    Reviews,
    /// The plugin's next version is called as a shadow of the current one (ADR 28).
    Shadow,
}

impl Role {
    /// Its name in User-Agents, field managers and logs. None: a plugin goes by its own.
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
            Self::Shadow => Some("shadow"),
        }
    }

    /// The grants that the role needs to work on `resource` of `group`, in `namespaces` (empty: all) and on `names`
    /// (empty: any).
    #[must_use]
    pub fn grants(self, group: &str, resource: &str, namespaces: Vec<String>, names: Vec<String>) -> Grants {
        let verbs: &[&str] = match self {
            // A plugin's own come from its policy, and so do its shadow's.
            Self::Plugin | Self::Shadow => return Grants::default(),
            Self::Finalizer => &["patch"],
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

/// A plugin generation or a system role, with what it may do. Every mutation carries one.
#[derive(Debug)]
pub struct Principal {
    pub role: Role,
    /// The plugin's identity: the stem of its file.
    pub plugin: Arc<str>,
    /// The first twelve hexadecimal digits of the component's SHA-256.
    pub digest: Arc<str>,
    /// Which host process acts, such as a Pod's name.
    pub replica: Arc<str>,
    pub grants: LiveGrants,
    /// The service account as which it acts, where the operator's policy names one. None: as the host.
    pub impersonate: Option<ServiceAccount>,
    /// Whether this process may still act for the plugin, asked last before a mutation is sent.
    pub fence: Fenced,
}

/// A service account of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceAccount {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ServiceAccount {
    /// The user that the API server takes it for.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// The groups that the API server counts it among.
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
    /// Whether it may do `access` now; if not, what is missing. A denial is counted.
    pub fn check(&self, access: &Access<'_>) -> Result<(), Denial> {
        self.grants.check(access)
    }

    /// Whether it may add and remove the finalizer `name` now. A denial is counted.
    pub fn check_finalizer(&self, name: &str) -> Result<(), Denial> {
        self.grants.check_finalizer(name)
    }

    /// Its grants as they are now.
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

    /// The host itself in a system `role`, for no plugin. It has no grants: what it asks of the server is in the code
    /// of its role alone, never in a plugin's hands.
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

    /// The host at work for this principal in a system `role`, with these `grants`. It acts as the host, whoever the plugin
    /// acts as.
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

    /// The shadow of this principal, which is the version of the plugin with this `digest`: it has the rights that this one has
    /// now, and what it is denied is not counted as this one's.
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

    /// The field manager: `windlass/<plugin>`, or `windlass-<role>` for what the host does itself, so that it is never
    /// taken for fields that the plugin applied. Definitions are the plugin's: the server refuses another plugin that
    /// brings one.
    #[must_use]
    pub fn field_manager(&self) -> String {
        match (self.role, self.role.name()) {
            (Role::Definitions, _) | (_, None) => format!("windlass/{}", self.plugin),
            (_, Some(role)) => format!("windlass-{role}"),
        }
    }

    /// The field manager of a write that has one of its own: [`Self::field_manager`], and `/` and `suffix` behind it.
    /// Without a suffix, that itself. No plugin's name has a slash, so no two plugins share one.
    #[must_use]
    pub fn field_manager_with(&self, suffix: Option<&str>) -> String {
        let mut manager = self.field_manager();
        if let Some(suffix) = suffix {
            manager.push('/');
            manager.push_str(suffix);
        }
        manager
    }

    /// The User-Agent, which an audit log shows: `windlass/<version> (<plugin>@<digest>; <replica>)`, and for what the
    /// host does itself `windlass/<version> (<plugin>@<digest>; <replica>; <role>)`.
    #[must_use]
    pub fn user_agent(&self) -> String {
        let role = self.role.name().map(|role| format!("; {role}")).unwrap_or_default();
        format!("windlass/{} ({}@{}; {}{role})", env!("CARGO_PKG_VERSION"), self.plugin, self.digest, self.replica)
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
    fn an_audit_log_tells_a_plugin_from_the_host_at_work_for_it() {
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
