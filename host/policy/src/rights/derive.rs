//! Derives the rights of the host, and of the accounts that plugins impersonate, from the grants of plugins.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::rights::grants::{Allowance, Grants, Rule, resource_name};
use windlass_core::rights::principal::{Role, ServiceAccount};
use windlass_manifest::{Controller, Manifest, Watch};

use super::scoped::{Granted, ScopedRule, WATCH};
use super::{Rights, RightsScope, RoleRule};
use crate::asks::{ClusterNames, ResourceName};

const AUTHORIZATION: &str = "authorization.k8s.io";
const ACCESS_REVIEWS: &str = "subjectaccessreviews";
const CRD_GROUP: &str = "apiextensions.k8s.io";
const CRDS: &str = "customresourcedefinitions";
/// The group of plugin objects.
const OBJECTS_GROUP: &str = "windlass.dev";
/// The namespace of Events about cluster-scoped objects.
const EVENTS_OF_CLUSTER: &str = "default";
/// Verbs of writes for which the host also reads the object: before the write, to compare finalizers and owners; after
/// it, to find out whether a write with an unknown outcome was committed.
const LOOKED_AT: [&str; 4] = ["create", "update", "patch", "delete"];

/// Options of the host whose rights are derived.
#[derive(Clone, Debug, Default)]
pub struct RightsOptions {
    /// The host's `--namespace`.
    pub only: Option<String>,
    /// The namespace of the host's leases. `None` if it uses no leases.
    pub leases: Option<String>,
    /// Whether the host's admin address accepts tokens. The host checks them by token reviews.
    pub reviews_tokens: bool,
    /// The objects that plugin objects name. `None` if the host does not follow objects.
    pub objects: Option<NamedByObjects>,
}

/// The objects in the host's namespace that plugin objects name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedByObjects {
    /// The host's namespace.
    pub namespace: String,
    /// `ConfigMaps` with files of plugins.
    pub config_maps: BTreeSet<String>,
    /// Secrets with credentials for registries.
    pub pull_secrets: BTreeSet<String>,
}

/// One plugin of the host.
#[derive(Debug)]
pub struct RightsSource<'a> {
    pub manifest: &'a Manifest,
    /// The resources of the kinds that the manifest names.
    pub names: &'a ClusterNames,
    /// The plugin's grants: [`asked`], limited by all layers.
    pub grants: Grants,
    /// The service account that the plugin impersonates. `None` if it acts as the host.
    pub impersonate: Option<ServiceAccount>,
    /// The namespaces and names of the Secrets that its configuration and the hooks of its policy refer to.
    pub secrets: BTreeSet<(String, String)>,
}

/// The rights of the host, and of the accounts that its plugins impersonate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRights {
    pub host: Rights,
    /// The rights of the impersonated accounts.
    pub accounts: BTreeMap<ServiceAccount, Rights>,
    pub remarks: Vec<String>,
}

/// The reason why rights cannot be derived.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    /// The manifest has kinds whose resource is not known, but roles need resources.
    #[error(
        "the plugin {plugin} names kinds whose resource is not known: {}. Name a cluster that serves them (--kubeconfig), or put \
         their definitions into a crd.yaml beside the plugin", kinds.join(", ")
    )]
    Kinds { plugin: String, kinds: Vec<String> },
    /// It is not known whether some resources are cluster-scoped. A role in a namespace cannot cover cluster-scoped
    /// resources.
    #[error(
        "the plugin {plugin} names resources that may be cluster-scoped: {}. Name a cluster that serves them (--kubeconfig), or put \
         their definitions into a crd.yaml beside the plugin", resources.join(", ")
    )]
    Scope { plugin: String, resources: Vec<String> },
}

/// The requests of all controllers in `manifest`. An error lists the kinds whose resource is not known.
pub fn asked(manifest: &Manifest, names: &ClusterNames) -> Result<Allowance, RightsError> {
    let implied: Vec<_> = manifest.controllers.iter().flat_map(Controller::implied_access).collect();
    let unknown = implied.iter().filter(|access| names.name(manifest, &access.kind).guessed);
    let kinds: BTreeSet<String> = unknown.map(|access| access.kind.to_string()).collect();
    if !kinds.is_empty() {
        return Err(RightsError::Kinds { plugin: manifest.name.clone(), kinds: kinds.into_iter().collect() });
    }
    let mut rules: Vec<Rule> = implied
        .into_iter()
        .map(|access| {
            let ResourceName { plural, namespaced, .. } = names.name(manifest, &access.kind);
            Rule {
                groups: vec![access.kind.group().to_owned()],
                resources: vec![resource_name("", &plural, access.subresource.unwrap_or_default())],
                verbs: access.verbs.iter().map(|verb| (*verb).to_owned()).collect(),
                namespaces: if namespaced { access.namespaces } else { vec![] },
                names: vec![],
                cluster: !namespaced,
            }
        })
        .collect();
    rules.extend(manifest.permission_rules());
    Ok(manifest.asked(rules))
}

/// The least rights with which a host can do everything that `plugins` are granted.
pub fn derive(options: &RightsOptions, plugins: &[RightsSource<'_>]) -> Result<HostRights, RightsError> {
    let mut rights = HostRights { host: of_host(options), ..HostRights::default() };
    for plugin in plugins {
        let RightsSource { manifest, names, grants, .. } = plugin;
        let granted = Granted { manifest, names, grants, only: options.only.as_deref() };
        let mut work = PluginWork { plugin, granted, host: Rights::default(), own: Rights::default(), remarks: vec![] };
        work.all()?;
        // Two versions of a plugin often lead to the same remarks.
        work.remarks.retain(|remark| !rights.remarks.contains(remark));
        rights.remarks.append(&mut work.remarks);
        rights.host.extend(work.host);
        let whose = match &plugin.impersonate {
            Some(account) => rights.accounts.entry(account.clone()).or_default(),
            None => &mut rights.host,
        };
        whose.extend(work.own);
    }
    let simplified = |rights: &mut Rights| *rights = rights.simplified();
    simplified(&mut rights.host);
    rights.accounts.values_mut().for_each(simplified);
    Ok(rights)
}

/// Adds the rights of a host that follows plugin objects, and writes their status and Events about them.
fn follow_objects(rights: &mut Rights, named: &NamedByObjects) {
    for kind in ["clusterplugins", "clusterpluginpolicies"] {
        rights.add(RightsScope::Cluster, RoleRule::new(OBJECTS_GROUP, kind, &WATCH));
    }
    rights.add(RightsScope::Cluster, of_role(Role::Status, OBJECTS_GROUP, "clusterplugins/status"));
    let events = of_role(Role::Events, "events.k8s.io", "events");
    rights.add(RightsScope::Namespace(EVENTS_OF_CLUSTER.to_owned()), events);
    for (resource, names) in [("configmaps", &named.config_maps), ("secrets", &named.pull_secrets)] {
        if !names.is_empty() {
            let rule = RoleRule::new("", resource, &["get"]).named(names.iter().cloned());
            rights.add(RightsScope::Namespace(named.namespace.clone()), rule);
        }
    }
}

/// The rights of a host without plugins. It watches CRDs, and reads `APIService` objects to learn which server serves a
/// group; it also works without these rights. If its admin address accepts tokens, it may create token reviews.
fn of_host(options: &RightsOptions) -> Rights {
    let mut rights = Rights::default();
    rights.add(RightsScope::Cluster, RoleRule::new(CRD_GROUP, CRDS, &WATCH));
    rights.add(RightsScope::Cluster, RoleRule::new("apiregistration.k8s.io", "apiservices", &["get"]));
    if options.reviews_tokens {
        rights.add(RightsScope::Cluster, of_role(Role::Reviews, "authentication.k8s.io", "tokenreviews"));
        rights.add(RightsScope::Cluster, of_role(Role::Reviews, AUTHORIZATION, ACCESS_REVIEWS));
    }
    if let Some(named) = &options.objects {
        follow_objects(&mut rights, named);
    }
    if let Some(namespace) = &options.leases {
        let scope = RightsScope::Namespace(namespace.clone());
        rights.add(scope.clone(), of_role(Role::Lease, "coordination.k8s.io", "leases"));
        // The host publishes Events about versions that it rolled back.
        rights.add(scope, of_role(Role::Events, "events.k8s.io", "events"));
    }
    rights
}

/// The rule for the requests that the host makes in `role`, such as creating Events.
fn of_role(role: Role, group: &str, resource: &str) -> RoleRule {
    let rules = role.grants(group, resource, vec![], vec![]).common_rules();
    let verbs: Vec<&str> = rules.iter().flat_map(|rule| &rule.verbs).map(String::as_str).collect();
    RoleRule::new(group, resource, &verbs)
}

/// Collects the rights that one plugin adds.
struct PluginWork<'a> {
    plugin: &'a RightsSource<'a>,
    granted: Granted<'a>,
    /// Rights for the host's own work.
    host: Rights,
    /// Rights for the plugin's work. If the plugin impersonates an account, they are for that account.
    own: Rights,
    remarks: Vec<String>,
}

impl PluginWork<'_> {
    fn all(&mut self) -> Result<(), RightsError> {
        let manifest = self.plugin.manifest;
        let owns = self.granted_rules()?;
        for controller in &manifest.controllers {
            self.controller(controller, owns);
        }
        for name in manifest.crd_names().filter(|name| self.plugin.grants.check_crd(name).is_ok()) {
            // An apply names the object even when it creates the object, so the rule can be limited to the name.
            let mut rule = of_role(Role::Definitions, CRD_GROUP, CRDS).named([name]);
            rule.verbs.insert("create".to_owned());
            self.host.add_exactly(RightsScope::Cluster, rule);
        }
        for (namespace, name) in &self.plugin.secrets {
            let rule = RoleRule::new("", "secrets", &["get"]).named([name]);
            self.host.add(RightsScope::Namespace(namespace.clone()), rule);
        }
        if let Some(account) = &self.plugin.impersonate {
            self.impersonation(account);
        }
        Ok(())
    }

    /// The host impersonates the account with all its groups, and checks whether the account may watch.
    fn impersonation(&mut self, account: &ServiceAccount) {
        let user = RoleRule::new("", "serviceaccounts", &["impersonate"]).named([&*account.name]);
        self.host.add(RightsScope::Namespace(account.namespace.to_string()), user);
        let groups = RoleRule::new("", "groups", &["impersonate"]).named(account.groups());
        self.host.add(RightsScope::Cluster, groups);
        let reviews = of_role(Role::Reviews, AUTHORIZATION, ACCESS_REVIEWS);
        self.host.add(RightsScope::Cluster, reviews);
    }

    /// Adds the rights that the rules grant. Returns true if the plugin may write objects other than its primaries,
    /// because the primaries may then become owners.
    fn granted_rules(&mut self) -> Result<bool, RightsError> {
        let manifest = self.plugin.manifest;
        let primary = |controller: &Controller| {
            let kind = controller.primary.object_kind();
            (kind.group().to_owned(), self.plugin.names.name(manifest, &kind).plural)
        };
        let primaries: BTreeSet<_> = manifest.controllers.iter().map(primary).collect();
        let (mut unknown, mut left_out, mut owns) = (BTreeSet::new(), false, false);
        for rule in self.plugin.grants.common_rules() {
            let scoped = self.granted.scoped(&rule);
            unknown.extend(scoped.unknown);
            left_out |= scoped.left_out;
            for ScopedRule { scope, rule } in scoped.rules {
                let writes = ["create", "update", "patch"].iter().any(|verb| rule.verbs.contains(*verb));
                let is_primary = |part: RoleRule| match (part.groups.first(), part.resources.first()) {
                    (Some(group), Some(resource)) => {
                        resource.contains('/') || primaries.contains(&(group.clone(), resource.clone()))
                    }
                    _ => true,
                };
                owns |= writes && !rule.split().all(is_primary);
                if let Some(look) = looked_at(&rule) {
                    self.own.add(scope.clone(), look);
                }
                self.own.add(scope, rule);
            }
        }
        if !unknown.is_empty() {
            let (plugin, resources) = (manifest.name.clone(), unknown.into_iter().collect());
            return Err(RightsError::Scope { plugin, resources });
        }
        if left_out {
            self.remarks.push(format!(
                "a rule with `*` lets the plugin {} use cluster-scoped objects, but --namespace limits the host to one namespace: no \
                 role is printed for them. Name the resources in the plugin's policy",
                manifest.name
            ));
        }
        Ok(owns)
    }

    fn controller(&mut self, controller: &Controller, owns: bool) {
        let RightsSource { manifest, names, grants, impersonate, .. } = self.plugin;
        let of_watch = |watch| {
            let kind = Watch::object_kind(watch);
            let resource = names.name(manifest, &kind);
            (self.granted.scopes_of(watch, &resource), kind, resource)
        };
        let watched: Vec<_> = controller.all_watches().map(of_watch).collect();
        let ungranted: BTreeSet<_> =
            watched.iter().filter(|(scopes, ..)| scopes.is_empty()).map(|(_, kind, _)| kind.to_string()).collect();
        if !ungranted.is_empty() {
            self.remarks.push(format!(
                "controller {1} of the plugin {0} is left out because its watch of {2} is not granted. See `windlass inspect`",
                manifest.name,
                controller.name,
                ungranted.into_iter().collect::<Vec<_>>().join(", ")
            ));
            return;
        }
        for (scopes, kind, resource) in watched {
            for (scope, name) in scopes {
                let rule = RoleRule::new(kind.group(), &resource.plural, &WATCH).named(name);
                // The host fills the caches with its own rights, so it checks that the account may read the objects.
                if impersonate.is_some() {
                    self.own.add(scope.clone(), rule.clone());
                }
                self.host.add(scope, rule);
            }
        }
        if controller.primary.timer.is_some() {
            // Nothing in the cluster is its primary, but Events may be about it.
            for scope in self.events_of(RightsScope::Cluster, false) {
                self.own.add(scope, of_role(Role::Events, "events.k8s.io", "events"));
            }
            return;
        }
        let (kind, resource) =
            (controller.primary.object_kind(), names.name(manifest, &controller.primary.object_kind()));
        let keeps_finalizer = controller.options.finalizer && grants.check_finalizer(&manifest.finalizer()).is_ok();
        for (scope, name) in self.granted.scopes_of(&controller.primary, &resource) {
            if keeps_finalizer {
                let rule = of_role(Role::Finalizer, kind.group(), &resource.plural).named(name.clone());
                self.host.add(scope.clone(), rule);
            }
            if owns {
                // On servers with OwnerReferencesPermissionEnforcement, an owner reference that blocks the owner's
                // deletion needs this right.
                let rule = RoleRule::new(kind.group(), &format!("{}/finalizers", resource.plural), &["update"]);
                self.own.add(scope.clone(), rule.named(name));
            }
            for scope in self.events_of(scope, resource.namespaced) {
                self.own.add(scope, of_role(Role::Events, "events.k8s.io", "events"));
            }
        }
    }

    /// The scopes in which Events about primaries in `scope` are created.
    fn events_of(&self, scope: RightsScope, namespaced: bool) -> Vec<RightsScope> {
        match (namespaced, self.granted.only) {
            (false, Some(only)) => {
                [EVENTS_OF_CLUSTER, only].map(|namespace| RightsScope::Namespace(namespace.to_owned())).into()
            }
            _ => vec![scope],
        }
    }
}

/// The right to read objects that `rule` writes. For a subresource, that is the whole object.
fn looked_at(rule: &RoleRule) -> Option<RoleRule> {
    if !LOOKED_AT.iter().any(|verb| rule.verbs.contains(*verb)) {
        return None;
    }
    let whole = |resource: &&String| !resource.contains('/');
    let resources: BTreeSet<String> = rule.resources.iter().filter(whole).cloned().collect();
    (!resources.is_empty()).then(|| RoleRule { resources, verbs: BTreeSet::from(["get".to_owned()]), ..rule.clone() })
}
