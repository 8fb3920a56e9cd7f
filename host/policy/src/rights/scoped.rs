//! Finds the RBAC scopes in which a watch or a granted rule holds. Uses the same checks as the host.

use windlass_core::object::ObjectKey;
use windlass_core::rights::grants::{Access, Grants, Rule};
use windlass_core::rights::verbs::REQUEST_VERBS;
use windlass_manifest::{Manifest, Watch, is_dns_label};

use super::{COMPARED_RULES_MAX, RightsScope, RoleRule};
use crate::asks::{ClusterNames, ResourceName};

/// The verbs that a watch needs.
pub(super) const WATCH: [&str; 2] = ["list", "watch"];
/// The wildcard for groups and resources. It covers both namespaced and cluster-scoped resources.
const ANY: &str = "*";

/// A plugin's grants, and what is known about the resources that they name.
#[derive(Clone, Copy)]
pub(super) struct Granted<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) names: &'a ClusterNames,
    pub(super) grants: &'a Grants,
    /// The host's `--namespace`.
    pub(super) only: Option<&'a str>,
}

/// The part of a granted rule that holds in one scope.
pub(super) struct ScopedRule {
    pub(super) scope: RightsScope,
    pub(super) rule: RoleRule,
}

/// The parts of a rule, and the parts whose scope is not known.
#[derive(Default)]
pub(super) struct ScopedRules {
    pub(super) rules: Vec<ScopedRule>,
    /// Resources that need a scope, although it is not known whether they are namespaced.
    pub(super) unknown: Vec<String>,
    /// Whether a `*` in the rule covers cluster-scoped objects, although the host is limited to one namespace.
    pub(super) left_out: bool,
}

impl Granted<'_> {
    /// The scopes in which `watch` is granted, limited to the host's namespace if it has one. Each comes with the
    /// object name that the watch selects, if it selects one. Empty if the watch is not granted anywhere.
    pub(super) fn scopes_of(&self, watch: &Watch, resource: &ResourceName) -> Vec<(RightsScope, Option<String>)> {
        let kind = watch.object_kind();
        let may = |key: Option<&ObjectKey>| {
            let access = Access {
                verb: "",
                group: kind.group(),
                resource: &resource.plural,
                subresource: "",
                namespaced: resource.namespaced,
                key,
            };
            WATCH.into_iter().all(|verb| self.grants.allows(&Access { verb, ..access }))
        };
        let mut scopes = Vec::new();
        for spec in watch.specs() {
            let name = spec.only_name().unwrap_or_default().into_owned();
            let in_namespace = |namespace: &str| may(Some(&ObjectKey::namespaced(namespace, name.as_str())));
            let declared = spec.namespace.as_deref();
            let places: Vec<RightsScope> = match (resource.namespaced, declared, self.only) {
                (false, ..) => {
                    let key = (!name.is_empty()).then(|| ObjectKey::cluster(name.as_str()));
                    may(key.as_ref()).then_some(RightsScope::Cluster).into_iter().collect()
                }
                (true, Some(declared), Some(only)) if declared != only => vec![],
                (true, Some(place), _) | (true, None, Some(place)) => {
                    in_namespace(place).then(|| RightsScope::Namespace(place.to_owned())).into_iter().collect()
                }
                (true, None, None) if may(None) => vec![RightsScope::Cluster],
                (true, None, None) => {
                    let named = self.grants.named_namespaces().into_iter().filter(|namespace| in_namespace(namespace));
                    named.map(|namespace| RightsScope::Namespace(namespace.to_owned())).collect()
                }
            };
            let name = Some(name).filter(|name| !name.is_empty());
            scopes.extend(places.into_iter().map(|place| (place, name.clone())));
        }
        scopes
    }

    /// Splits a rule that all layers allow into the scopes in which it holds, without requests that are denied to every
    /// plugin.
    pub(super) fn scoped(&self, rule: &Rule) -> ScopedRules {
        let verbs = rule.verbs.iter().flat_map(|verb| match &**verb {
            // As long as the manifest does not name them, the plugin needs no other verbs.
            ANY => REQUEST_VERBS.to_vec(),
            verb => vec![verb],
        });
        let whole = RoleRule {
            groups: rule.groups.iter().cloned().collect(),
            resources: rule.resources.iter().cloned().collect(),
            names: rule.names.iter().filter(|_| !rule.names.iter().any(|name| name == ANY)).cloned().collect(),
            verbs: verbs.map(str::to_owned).collect(),
        };
        let mut scoped = ScopedRules::default();
        if whole.pairs() > COMPARED_RULES_MAX {
            self.place(rule, &whole, None, &mut scoped);
            return scoped;
        }
        for part in whole.split() {
            let (Some(group), Some(resource)) = (part.groups.first(), part.resources.first()) else { continue };
            let plural = resource.split('/').next().unwrap_or_default();
            let namespaced = self.names.is_namespaced(self.manifest, group, plural);
            let is_wild = group == ANY || plural == ANY;
            if namespaced.is_none() && !is_wild && self.only.is_some() && rule.cluster && rule.namespaces.is_empty() {
                scoped.unknown.push(windlass_core::rights::grants::resource_name(group, resource, ""));
                continue;
            }
            self.place(rule, &part, namespaced, &mut scoped);
        }
        scoped
    }

    /// Adds `part` of `rule` to `scoped` in each scope in which it holds. `namespaced` is `None` if it is not known
    /// whether the resource is namespaced.
    fn place(&self, rule: &Rule, part: &RoleRule, namespaced: Option<bool>, scoped: &mut ScopedRules) {
        let places: Vec<RightsScope> = match (namespaced, self.only) {
            (Some(false), _) => {
                let reaches = rule.cluster && rule.namespaces.is_empty();
                reaches.then_some(RightsScope::Cluster).into_iter().collect()
            }
            (_, None) if rule.namespaces.is_empty() => vec![RightsScope::Cluster],
            (_, Some(only)) if rule.namespaces.is_empty() => {
                scoped.left_out |= namespaced.is_none() && rule.cluster;
                vec![RightsScope::Namespace(only.to_owned())]
            }
            (_, only) => {
                let within = rule.namespaces.iter().filter(|namespace| only.is_none_or(|only| only == *namespace));
                // A manifest may have a name that is not a valid namespace.
                within
                    .filter(|namespace| is_dns_label(namespace))
                    .map(|namespace| RightsScope::Namespace(namespace.clone()))
                    .collect()
            }
        };
        for scope in places {
            let allowed = |verb: &&String| self.allows(&scope, part, namespaced, verb);
            let verbs = part.verbs.iter().filter(allowed).cloned().collect();
            let rule = RoleRule { verbs, ..part.clone() };
            if !rule.verbs.is_empty() {
                scoped.rules.push(ScopedRule { scope, rule });
            }
        }
    }

    /// Checks one sample request of `part` in `scope` with the grants. The grants deny what no plugin may do; the
    /// layers alone would not. If `part` has several resources, checking the first is enough, because `part` is kept as
    /// a whole.
    fn allows(&self, scope: &RightsScope, part: &RoleRule, namespaced: Option<bool>, verb: &str) -> bool {
        let (Some(group), Some(path)) = (part.groups.first(), part.resources.first()) else { return false };
        let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
        let name = part.names.first().map(String::as_str);
        let key = match (scope, namespaced, name) {
            (RightsScope::Namespace(namespace), _, name) => {
                Some(ObjectKey::namespaced(namespace.as_str(), name.unwrap_or_default()))
            }
            (RightsScope::Cluster, _, None) => None,
            (RightsScope::Cluster, Some(false), Some(name)) => Some(ObjectKey::cluster(name)),
            (RightsScope::Cluster, _, Some(name)) => Some(ObjectKey::namespaced(ANY, name)),
        };
        let namespaced = namespaced.unwrap_or(true);
        let access = Access { verb, group, resource, subresource, namespaced, key: key.as_ref() };
        self.grants.allows(&access)
    }
}
