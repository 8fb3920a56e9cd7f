//! The rights that a cluster must give a host and the accounts that its plugins act as, in the words of RBAC.
//!
//! [`derive()`] finds them from the grants that the host enforces, [`role`] writes them as roles and bindings. Nothing here asks
//! a cluster or reads a file. Rights are no wider than the grants, wherever RBAC can say it.

mod derive;
pub mod held;
pub mod role;
mod scoped;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use derive::{HostRights, RightsError, RightsOptions, RightsSource, asked, derive};

/// Rules that are compared with each other. More than anyone writes, and what a stranger's manifest may multiply out to stays
/// as it is.
const COMPARED_RULES_MAX: usize = 4_096;

/// Where a right holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RightsScope {
    /// In all namespaces, and for objects without one.
    Cluster,
    Namespace(String),
}

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleRule {
    /// API groups; `*` for all.
    pub groups: BTreeSet<String>,
    /// Resources and subresources; `*` for all, `*/scale` for one of all.
    pub resources: BTreeSet<String>,
    /// The names of objects. Empty: all.
    pub names: BTreeSet<String>,
    /// Verbs; `*` for all.
    pub verbs: BTreeSet<String>,
}

/// The rights of one account, by where they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights(BTreeMap<RightsScope, BTreeSet<RoleRule>>);

impl RoleRule {
    /// The verbs about one resource of one group.
    #[must_use]
    pub fn new(group: &str, resource: &str, verbs: &[&str]) -> Self {
        let set = |items: &[&str]| items.iter().map(|&item| item.to_owned()).collect();
        Self { groups: set(&[group]), resources: set(&[resource]), names: BTreeSet::new(), verbs: set(verbs) }
    }

    /// The same about these objects only.
    #[must_use]
    pub fn named<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// Whether it allows `verb` wherever `other` is about.
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

    /// How many combinations of a group and a resource it has.
    fn pairs(&self) -> usize {
        self.groups.len().saturating_mul(self.resources.len())
    }

    /// The same, a rule for each group and resource.
    pub(crate) fn split(&self) -> impl Iterator<Item = Self> {
        let one = |item: &String| BTreeSet::from([item.clone()]);
        self.groups.iter().flat_map(move |group| {
            let rule = move |resource| Self { groups: one(group), resources: one(resource), ..self.clone() };
            self.resources.iter().map(rule)
        })
    }
}

impl Rights {
    /// Adds `rule` where it holds. RBAC cannot tell the name of an object that is created, nor those of a collection that is
    /// deleted, so of a rule with names these verbs are about all names.
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

    /// Adds `rule` as it is.
    fn add_exactly(&mut self, scope: RightsScope, rule: RoleRule) {
        self.0.entry(scope).or_default().insert(rule);
    }

    /// Adds all that `other` has.
    fn extend(&mut self, other: Self) {
        for (scope, rules) in other.0 {
            self.0.entry(scope).or_default().extend(rules);
        }
    }

    /// Its rules by scope, the cluster first.
    pub fn scopes(&self) -> impl Iterator<Item = (&RightsScope, &BTreeSet<RoleRule>)> {
        self.0.iter()
    }

    /// Whether they allow `verb` of all that `rule` is about in `scope`, by one rule.
    #[must_use]
    pub fn allow(&self, scope: &RightsScope, rule: &RoleRule, verb: &str) -> bool {
        let in_scope = |scope: &RightsScope| self.0.get(scope).into_iter().flatten().any(|its| its.covers(rule, verb));
        in_scope(&RightsScope::Cluster) || (*scope != RightsScope::Cluster && in_scope(scope))
    }

    /// The same in the fewest rules that are easy to read: one for each group, names and verbs. What another rule allows is left
    /// out.
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

    /// The rules without the verbs that others allow. No two of them are about the same, so no two leave a verb to each other.
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

/// Rules that differ in their resources only, as one.
fn merged(rules: Vec<RoleRule>) -> BTreeSet<RoleRule> {
    let mut resources: BTreeMap<RoleRule, BTreeSet<String>> = BTreeMap::new();
    for rule in rules {
        let same = RoleRule { resources: BTreeSet::new(), ..rule };
        resources.entry(same).or_default().extend(rule.resources);
    }
    resources.into_iter().map(|(same, resources)| RoleRule { resources, ..same }).collect()
}
