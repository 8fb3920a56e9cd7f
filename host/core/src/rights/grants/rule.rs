//! A request as grants see it, and the rules that may allow it.

use std::collections::BTreeSet;
use std::fmt;

use crate::object::ObjectKey;

/// One rule: every listed dimension must match. `*` in a list of groups, resources or verbs matches everything.
///
/// As in RBAC, `*` in `resources` covers every subresource too, and `*/scale` the scale of every resource; a resource by its
/// name does not cover its subresources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// API groups; the core group is the empty string.
    pub groups: Vec<String>,
    /// Resources and subresources as RBAC writes them: `deployments`, `deployments/scale`.
    pub resources: Vec<String>,
    /// API verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verbs: Vec<String>,
    /// Namespaces. Empty: all.
    pub namespaces: Vec<String>,
    /// Object names. Empty: all.
    pub names: Vec<String>,
    /// Whether cluster-scoped objects are covered too, which no rule with namespaces does. What a manifest asks for is meant
    /// so, hence the default; an operator's rule must say it.
    pub cluster: bool,
}

impl Default for Rule {
    fn default() -> Self {
        Self { groups: vec![], resources: vec![], verbs: vec![], namespaces: vec![], names: vec![], cluster: true }
    }
}

/// A request as grants see it.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// The resource in plural.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Whether objects of the resource live in namespaces.
    pub namespaced: bool,
    /// The object, as far as it is known; an empty name stands for all of a namespace. None: a whole collection.
    pub key: Option<&'a ObjectKey>,
}

impl Access<'_> {
    /// The namespace that it is about. None: all of them, or none.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.key.and_then(|key| key.namespace.as_deref())
    }

    /// The resource as rules name it: `deployments/scale`.
    #[must_use]
    pub fn path(&self) -> String {
        resource_name("", self.resource, self.subresource)
    }
}

impl fmt::Display for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, resource_name(self.group, self.resource, self.subresource))?;
        match self.key {
            Some(key) if key.name.is_empty() => match &key.namespace {
                Some(namespace) => write!(f, " in {namespace}"),
                None => Ok(()),
            },
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

impl Rule {
    /// Whether it allows `access`.
    #[must_use]
    pub fn allows(&self, access: &Access<'_>) -> bool {
        let name = access.key.map(|key| &*key.name);
        holds(&self.groups, access.group)
            && self.covers(access)
            && holds(&self.verbs, access.verb)
            && self.reaches(access)
            && (self.names.is_empty() || name.is_some_and(|name| holds(&self.names, name)))
    }

    fn covers(&self, access: &Access<'_>) -> bool {
        self.resources.iter().any(|item| match item.split_once('/') {
            None => item == "*" || (access.subresource.is_empty() && item == access.resource),
            Some((resource, subresource)) => {
                subresource == access.subresource && (resource == "*" || resource == access.resource)
            }
        })
    }

    fn reaches(&self, access: &Access<'_>) -> bool {
        if self.namespaces.is_empty() {
            return access.namespaced || self.cluster;
        }
        access.namespace().is_some_and(|namespace| holds(&self.namespaces, namespace))
    }

    /// The rule that allows what both do. None: there is no such thing.
    #[must_use]
    pub fn and(&self, other: &Self) -> Option<Self> {
        let groups = common(&self.groups, &other.groups, same);
        let resources = common(&self.resources, &other.resources, narrower_resource);
        let verbs = common(&self.verbs, &other.verbs, same);
        if groups.is_empty() || resources.is_empty() || verbs.is_empty() {
            return None;
        }
        let namespaces = common_or_all(&self.namespaces, &other.namespaces)?;
        let names = common_or_all(&self.names, &other.names)?;
        let cluster = namespaces.is_empty() && self.cluster && other.cluster;
        Some(Self { groups, resources, verbs, namespaces, names, cluster })
    }

    /// Whether it is about anything in this namespace.
    pub(super) fn is_about(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() && !self.cluster || holds(&self.namespaces, namespace)
    }

    /// Whether it is about anything in this API group.
    pub(super) fn concerns_group(&self, group: &str) -> bool {
        holds(&self.groups, group)
    }
}

pub(super) fn holds(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == "*" || item == value)
}

/// The items that both lists hold. `narrower` tells what two items have in common, if neither is `*`.
fn common(a: &[String], b: &[String], narrower: fn(&str, &str) -> Option<String>) -> Vec<String> {
    // Lists are long where one rule has them, and `*` is one item: of most pairs of rules one list is short.
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    let both: BTreeSet<String> = pairs
        .filter_map(|(a, b)| match (&**a, &**b) {
            ("*", other) | (other, "*") => Some(other.to_owned()),
            (a, b) => narrower(a, b),
        })
        .collect();
    both.into_iter().collect()
}

/// The same of two lists of which an empty one stands for everything. None: they have nothing in common.
fn common_or_all(a: &[String], b: &[String]) -> Option<Vec<String>> {
    match (a, b) {
        ([], other) | (other, []) => Some(other.to_vec()),
        (a, b) => Some(common(a, b, same)).filter(|both| !both.is_empty()),
    }
}

fn same(a: &str, b: &str) -> Option<String> {
    (a == b).then(|| a.to_owned())
}

/// `*/scale` and `deployments/scale` have the latter in common.
fn narrower_resource(a: &str, b: &str) -> Option<String> {
    let is_within = |outer: &str, inner: &str| {
        let subresource = outer.strip_prefix("*/");
        subresource.is_some() && inner.split_once('/').map(|(_, its)| its) == subresource
    };
    match (a == b || is_within(a, b), is_within(b, a)) {
        (true, _) => Some(b.to_owned()),
        (false, true) => Some(a.to_owned()),
        (false, false) => None,
    }
}
