//! The RBAC rights that a cluster must give to a host and to the accounts that its plugins impersonate.
//!
//! [`derive()`] computes them from the grants that the host enforces. [`role`] writes them as roles and bindings.
//! These modules do not talk to a cluster or read files. The rights are no wider than the grants, as far as RBAC can
//! express them.

mod derive;
pub mod held;
pub mod role;
mod scoped;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use derive::{HostRights, NamedByObjects, RightsError, RightsOptions, RightsSource, asked, derive};

/// The maximum number of rules that are compared with each other. No policy written by hand has that many. If an
/// untrusted manifest multiplies out to more, its rights are not simplified.
const COMPARED_RULES_MAX: usize = 4_096;

/// The scope in which a right holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RightsScope {
    /// In all namespaces, and for cluster-scoped objects.
    Cluster,
    Namespace(String),
}

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleRule {
    /// API groups; `*` for all.
    pub groups: BTreeSet<String>,
    /// Resources and subresources; `*` for all, `*/scale` for the scale of all.
    pub resources: BTreeSet<String>,
    /// Object names. Empty for all.
    pub names: BTreeSet<String>,
    /// Verbs; `*` for all.
    pub verbs: BTreeSet<String>,
}

/// The rights of one account, by scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights(BTreeMap<RightsScope, BTreeSet<RoleRule>>);

impl RoleRule {
    /// The rights to use `verbs` on one resource of one group.
    #[must_use]
    pub fn new(group: &str, resource: &str, verbs: &[&str]) -> Self {
        let set = |items: &[&str]| items.iter().map(|&item| item.to_owned()).collect();
        Self { groups: set(&[group]), resources: set(&[resource]), names: BTreeSet::new(), verbs: set(verbs) }
    }

    /// Limits the rule to objects with these names.
    #[must_use]
    pub fn named<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// Whether the rule allows `verb` on everything that `other` covers.
    fn covers(&self, other: &Self, verb: &str) -> bool {
        let any_or = |list: &BTreeSet<String>, item: &str| list.contains("*") || list.contains(item);
        let has_resource = |item: &String| {
            let of_all = item.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
            any_or(&self.resources, item) || of_all.is_some_and(|of_all| self.resources.contains(&of_all))
        };
        any_or(&self.verbs, verb)
            && other.groups.iter().all(|group| any_or(&self.groups, group))
            && other.resources.iter().all(has_resource)
            && (self.names.is_empty() || (!other.names.is_empty() && other.names.is_subset(&self.names)))
    }

    /// The number of combinations of group and resource.
    fn pairs(&self) -> usize {
        self.groups.len().saturating_mul(self.resources.len())
    }

    /// Splits the rule into one for each group and resource.
    pub(crate) fn split(&self) -> impl Iterator<Item = Self> {
        let one = |item: &String| BTreeSet::from([item.clone()]);
        self.groups.iter().flat_map(move |group| {
            let rule = move |resource| Self { groups: one(group), resources: one(resource), ..self.clone() };
            self.resources.iter().map(rule)
        })
    }
}

impl Rights {
    /// Adds `rule` to a scope. For `create` and `deletecollection`, a rule with names is widened to all names, because
    /// RBAC cannot check names in such requests.
    pub fn add(&mut self, scope: RightsScope, mut rule: RoleRule) {
        const NAMELESS: [&str; 2] = ["create", "deletecollection"];
        let rules = self.0.entry(scope).or_default();
        if !rule.names.is_empty() {
            let nameless: BTreeSet<String> = rule.verbs.extract_if(.., |verb| NAMELESS.contains(&&**verb)).collect();
            if !nameless.is_empty() {
                rules.insert(RoleRule { verbs: nameless, names: BTreeSet::new(), ..rule.clone() });
            }
        }
        if !rule.verbs.is_empty() {
            rules.insert(rule);
        }
    }

    /// Adds `rule` unchanged.
    fn add_exactly(&mut self, scope: RightsScope, rule: RoleRule) {
        self.0.entry(scope).or_default().insert(rule);
    }

    fn extend(&mut self, other: Self) {
        for (scope, rules) in other.0 {
            self.0.entry(scope).or_default().extend(rules);
        }
    }

    /// The rules by scope, the cluster first.
    pub fn scopes(&self) -> impl Iterator<Item = (&RightsScope, &BTreeSet<RoleRule>)> {
        self.0.iter()
    }

    /// Whether a single rule allows `verb` on everything that `rule` covers in `scope`.
    #[must_use]
    pub fn allow(&self, scope: &RightsScope, rule: &RoleRule, verb: &str) -> bool {
        let in_scope = |scope: &RightsScope| self.0.get(scope).into_iter().flatten().any(|its| its.covers(rule, verb));
        in_scope(&RightsScope::Cluster) || (*scope != RightsScope::Cluster && in_scope(scope))
    }

    /// The same rights in as few readable rules as possible: one for each combination of group, names and verbs. Rights
    /// that another rule includes are left out.
    #[must_use]
    pub fn simplified(&self) -> Self {
        let pairs = self.0.values().flatten().map(RoleRule::pairs).fold(0, usize::saturating_add);
        if pairs > COMPARED_RULES_MAX {
            return self.clone();
        }
        let mut single = Self::default();
        for (scope, rules) in &self.0 {
            let mut verbs: BTreeMap<RoleRule, BTreeSet<String>> = BTreeMap::new();
            for rule in rules.iter().flat_map(RoleRule::split) {
                let about = RoleRule { verbs: BTreeSet::new(), ..rule };
                verbs.entry(about).or_default().extend(rule.verbs);
            }
            let joined = verbs.into_iter().map(|(about, verbs)| RoleRule { verbs, ..about }).collect();
            single.0.insert(scope.clone(), joined);
        }
        let needed = single.0.iter().map(|(scope, rules)| (scope.clone(), merged(single.needed(scope, rules))));
        Self(needed.filter(|(_, rules)| !rules.is_empty()).collect())
    }

    /// The rules, without the verbs that other rules already allow. No two rules in `rules` cover exactly the same
    /// objects, so a verb is never dropped from both.
    fn needed(&self, scope: &RightsScope, rules: &BTreeSet<RoleRule>) -> Vec<RoleRule> {
        let wider = self.0.get(&RightsScope::Cluster).filter(|_| *scope != RightsScope::Cluster);
        let needed = rules.iter().map(|rule| {
            let others = || rules.iter().filter(|other| *other != rule).chain(wider.into_iter().flatten());
            let verbs = rule.verbs.iter().filter(|verb| !others().any(|other| other.covers(rule, verb)));
            RoleRule { verbs: verbs.cloned().collect(), ..rule.clone() }
        });
        needed.filter(|rule| !rule.verbs.is_empty()).collect()
    }
}

/// Merges rules that differ only in their resources.
fn merged(rules: Vec<RoleRule>) -> BTreeSet<RoleRule> {
    let mut resources: BTreeMap<RoleRule, BTreeSet<String>> = BTreeMap::new();
    for rule in rules {
        let same = RoleRule { resources: BTreeSet::new(), ..rule };
        resources.entry(same).or_default().extend(rule.resources);
    }
    resources.into_iter().map(|(same, resources)| RoleRule { resources, ..same }).collect()
}
