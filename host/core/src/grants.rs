//! What a plugin may ask of the API, decided without I/O. `reader` and `writer` ask before each import call is served.
//!
//! For now the rules come from the manifest alone (`run` says so). Policies of the operator's, a host-wide ceiling and
//! denied namespaces intersect with them later; the decision stays this one function.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::object::ObjectKey;

/// One rule: every listed dimension must match. `*` in a list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// API groups; the core group is the empty string.
    pub groups: Vec<String>,
    /// Resources and subresources as RBAC writes them: `deployments`, `deployments/scale`.
    pub resources: Vec<String>,
    /// API verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verbs: Vec<String>,
    /// Namespaces. Empty: all, and cluster-scoped objects.
    pub namespaces: Vec<String>,
    /// Object names. Empty: all.
    pub names: Vec<String>,
}

/// A request as grants see it.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The API verb.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The resource in plural.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Whether objects of the resource live in namespaces.
    pub namespaced: bool,
    /// The object, as far as it is known. None: a whole collection.
    pub key: Option<&'a ObjectKey>,
}

impl fmt::Display for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, resource_name(self.group, self.resource, self.subresource))?;
        match self.key {
            Some(key) => write!(f, " {key}"),
            None => Ok(()),
        }
    }
}

/// Resource, group and subresource in kubectl's form: `deployments.apps/scale`.
#[must_use]
pub fn resource_name(group: &str, resource: &str, subresource: &str) -> String {
    let mut name = resource.to_owned();
    for (separator, part) in [('.', group), ('/', subresource)] {
        if !part.is_empty() {
            name.push(separator);
            name.push_str(part);
        }
    }
    name
}

/// All rules of a principal. What no rule allows is denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    rules: Vec<Rule>,
    /// No rule reaches into another namespace than this. None: no such bound.
    only: Option<String>,
}

impl Grants {
    /// Grants made of `rules`.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules, only: None }
    }

    /// The same, without what lies in another namespace than `only`. Cluster-scoped objects are in none, and stay.
    #[must_use]
    pub fn within(self, only: Option<&str>) -> Self {
        Self { only: only.map(str::to_owned), ..self }
    }

    /// Whether some rule allows `access`.
    #[must_use]
    pub fn allows(&self, access: &Access<'_>) -> bool {
        let namespace = access.key.and_then(|key| key.namespace.as_deref());
        let is_outside = self.only.as_deref().is_some_and(|only| namespace.is_some_and(|namespace| namespace != only));
        !is_outside && self.rules.iter().any(|rule| rule.allows(access))
    }

    /// As [`Self::allows`], and what is missing if not.
    pub fn check(&self, access: &Access<'_>) -> Result<(), Denial> {
        if self.allows(access) { Ok(()) } else { Err(Denial { access: access.to_string() }) }
    }

    /// Whether some rule is about anything in this API group: if not, nothing need be asked about a kind of it.
    #[must_use]
    pub fn concern_group(&self, group: &str) -> bool {
        self.rules.iter().any(|rule| holds(&rule.groups, group))
    }

    /// Whether a call about `primary` may send a Kubernetes Event about `regarding`. The Event is written where that object
    /// is, so a plugin with a primary in one namespace has no business in another.
    #[must_use]
    pub fn may_regard(&self, primary: &ObjectKey, regarding: &ObjectKey) -> bool {
        let is_outside = |only: &str| regarding.namespace.as_deref().is_some_and(|namespace| namespace != only);
        let is_near = primary.namespace.is_none() || primary.namespace == regarding.namespace;
        is_near && !self.only.as_deref().is_some_and(is_outside)
    }
}

/// Why an access is denied: what is missing, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rule allows it to {access}")]
pub struct Denial {
    /// What was asked for.
    pub access: String,
}

/// The grants of a principal, which the operator may change at any time. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct LiveGrants(Arc<RwLock<Arc<Grants>>>);

impl LiveGrants {
    /// Grants that begin as `grants`.
    #[must_use]
    pub fn new(grants: Grants) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(grants))))
    }

    /// What holds now.
    #[must_use]
    pub fn current(&self) -> Arc<Grants> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on, also for calls that run, `grants` hold.
    pub fn replace(&self, grants: Grants) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(grants);
    }
}

impl Rule {
    fn allows(&self, access: &Access<'_>) -> bool {
        let resource = if access.subresource.is_empty() {
            access.resource.to_owned()
        } else {
            format!("{}/{}", access.resource, access.subresource)
        };
        let namespace = access.key.and_then(|key| key.namespace.as_deref());
        let name = access.key.map(|key| &*key.name);
        holds(&self.groups, access.group)
            && holds(&self.resources, &resource)
            && holds(&self.verbs, access.verb)
            && (self.namespaces.is_empty() || namespace.is_some_and(|namespace| holds(&self.namespaces, namespace)))
            && (self.names.is_empty() || name.is_some_and(|name| holds(&self.names, name)))
    }
}

fn holds(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == "*" || item == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Rule {
        Rule {
            groups: vec!["apps".into()],
            resources: vec!["deployments".into()],
            verbs: vec!["patch".into()],
            ..Rule::default()
        }
    }

    fn patch<'a>(key: &'a ObjectKey, subresource: &'a str) -> Access<'a> {
        Access { verb: "patch", group: "apps", resource: "deployments", subresource, namespaced: true, key: Some(key) }
    }

    #[test]
    fn what_no_rule_names_is_denied() {
        let key = ObjectKey::namespaced("prod", "shop");
        assert!(!Grants::default().allows(&patch(&key, "")));
        let grants = Grants::new(vec![rule()]);
        assert!(grants.allows(&patch(&key, "")));
        assert!(!grants.allows(&Access { verb: "delete", ..patch(&key, "") }));
        assert!(!grants.allows(&Access { group: "", ..patch(&key, "") }));
    }

    #[test]
    fn only_named_groups_are_of_any_concern() {
        let grants = Grants::new(vec![rule()]);
        assert!(grants.concern_group("apps") && !grants.concern_group("") && !grants.concern_group("invented"));
        assert!(Grants::new(vec![Rule { groups: vec!["*".into()], ..rule() }]).concern_group("invented"));
    }

    #[test]
    fn a_resource_does_not_include_its_subresources() {
        let key = ObjectKey::namespaced("prod", "shop");
        assert!(!Grants::new(vec![rule()]).allows(&patch(&key, "scale")));
        let scale = Rule { resources: vec!["deployments/scale".into()], ..rule() };
        assert!(Grants::new(vec![scale]).allows(&patch(&key, "scale")));
    }

    #[test]
    fn a_rule_for_namespaces_covers_neither_others_nor_the_cluster() {
        let grants = Grants::new(vec![Rule { namespaces: vec!["prod".into()], ..rule() }]);
        assert!(grants.allows(&patch(&ObjectKey::namespaced("prod", "a"), "")));
        assert!(!grants.allows(&patch(&ObjectKey::namespaced("test", "a"), "")));
        assert!(!grants.allows(&patch(&ObjectKey::cluster("a"), "")));
    }

    #[test]
    fn a_rule_for_names_does_not_cover_a_collection() {
        let grants = Grants::new(vec![Rule { names: vec!["a".into()], ..rule() }]);
        let key = ObjectKey::namespaced("prod", "a");
        assert!(grants.allows(&patch(&key, "")));
        assert!(!grants.allows(&Access { key: None, ..patch(&key, "") }));
    }

    #[test]
    fn what_is_confined_to_a_namespace_does_not_leave_it() {
        let grants = Grants::new(vec![rule()]).within(Some("prod"));
        assert!(grants.allows(&patch(&ObjectKey::namespaced("prod", "a"), "")));
        assert!(grants.allows(&patch(&ObjectKey::cluster("a"), "")));
        assert!(!grants.allows(&patch(&ObjectKey::namespaced("kube-system", "a"), "")));
    }

    #[test]
    fn events_stay_in_the_namespace_of_their_primary() {
        let [here, there] = ["prod", "kube-system"].map(|namespace| ObjectKey::namespaced(namespace, "a"));
        let cluster = ObjectKey::cluster("a");
        let grants = Grants::default();
        assert!(grants.may_regard(&here, &here));
        assert!(!grants.may_regard(&here, &there));
        assert!(!grants.may_regard(&here, &cluster));
        assert!(grants.may_regard(&cluster, &there));
        assert!(!grants.within(Some("prod")).may_regard(&cluster, &there));
    }

    #[test]
    fn a_star_matches_everything() {
        let star = || vec!["*".to_owned()];
        let grants = Grants::new(vec![Rule { groups: star(), resources: star(), verbs: star(), ..Rule::default() }]);
        assert!(grants.allows(&patch(&ObjectKey::cluster("a"), "scale")));
    }

    #[test]
    fn an_access_reads_as_an_operator_would_write_it() {
        let key = ObjectKey::namespaced("prod", "shop");
        assert_eq!(patch(&key, "scale").to_string(), "patch deployments.apps/scale prod/shop");
    }
}
