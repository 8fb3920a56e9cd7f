//! A request for which a grant is needed, and the rules that may allow it.

use std::collections::BTreeSet;
use std::fmt;

use crate::object::ObjectKey;

/// The API group of the host's own objects. Its policies grant rights, so a plugin that may write everything may not
/// write these: it could grant itself what no rule gives, such as HTTP requests, or the rights of other plugins.
pub const HOST_GROUP: &str = "windlass.dev";

/// One rule. A request must match every listed dimension. `*` in a list of groups, resources or verbs matches
/// everything.
///
/// As in RBAC, `*` in `resources` covers every subresource too, and `*/scale` covers the scale of every resource. A
/// resource name alone does not cover its subresources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// API groups; the core group is the empty string.
    pub groups: Vec<String>,
    /// Resources and subresources as in RBAC: `deployments`, `deployments/scale`.
    pub resources: Vec<String>,
    /// API verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verbs: Vec<String>,
    /// Namespaces. Empty for all.
    pub namespaces: Vec<String>,
    /// Object names. Empty for all.
    pub names: Vec<String>,
    /// Whether cluster-scoped objects are covered as well. A rule with namespaces never covers them. True by default,
    /// which is what a manifest means; an operator's rule must set it explicitly.
    pub cluster: bool,
}

impl Default for Rule {
    fn default() -> Self {
        Self { groups: vec![], resources: vec![], verbs: vec![], namespaces: vec![], names: vec![], cluster: true }
    }
}

/// A request for which a grant is needed.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// The plural resource name.
    pub resource: &'a str,
    /// The subresource. Empty for the object itself.
    pub subresource: &'a str,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// The object as far as it is known. An empty name means all objects of a namespace. `None` for a whole collection.
    pub key: Option<&'a ObjectKey>,
}

impl Access<'_> {
    /// The namespace of the request. `None` for all namespaces and for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.key.and_then(|key| key.namespace.as_deref())
    }

    /// Whether the request writes an object of the host. Then `*` does not cover its resource.
    pub(super) fn writes_host_object(&self) -> bool {
        self.group == HOST_GROUP && !matches!(self.verb, "get" | "list" | "watch")
    }

    /// The resource as rules write it: `deployments/scale`.
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
    let before = |part: &str, separator: &'static str| if part.is_empty() { "" } else { separator };
    [resource, before(group, "."), group, before(subresource, "/"), subresource].concat()
}

impl Rule {
    /// Whether the rule allows `access`.
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

    /// Whether the rule names the resource of `access`, or its subresource, other than by `*`.
    pub(super) fn names_resource(&self, access: &Access<'_>) -> bool {
        self.resources.contains(&access.path())
    }

    fn reaches(&self, access: &Access<'_>) -> bool {
        if self.namespaces.is_empty() {
            return access.namespaced || self.cluster;
        }
        access.namespace().is_some_and(|namespace| holds(&self.namespaces, namespace))
    }

    /// The rule that allows what both rules allow. `None` if there is nothing that both allow.
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

    /// Whether the rule covers anything in this namespace.
    pub(super) fn is_about(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() && !self.cluster || holds(&self.namespaces, namespace)
    }

    /// Whether the rule covers anything in this API group.
    pub(super) fn concerns_group(&self, group: &str) -> bool {
        holds(&self.groups, group)
    }
}

pub(super) fn holds(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == "*" || item == value)
}

/// The items that both lists contain. `narrower` returns what two items that are not `*` have in common.
fn common(a: &[String], b: &[String], narrower: fn(&str, &str) -> Option<String>) -> Vec<String> {
    // In most pairs of rules one of the two lists is short, because a rule with a long list usually has `*` in the
    // other dimensions.
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    let both: BTreeSet<String> = pairs
        .filter_map(|(a, b)| match (&**a, &**b) {
            ("*", other) | (other, "*") => Some(other.to_owned()),
            (a, b) => narrower(a, b),
        })
        .collect();
    both.into_iter().collect()
}

/// As [`common`], for lists in which no items stand for all items. `None` if the lists have nothing in common.
fn common_or_all(a: &[String], b: &[String]) -> Option<Vec<String>> {
    match (a, b) {
        ([], other) | (other, []) => Some(other.to_vec()),
        (a, b) => Some(common(a, b, same)).filter(|both| !both.is_empty()),
    }
}

fn same(a: &str, b: &str) -> Option<String> {
    (a == b).then(|| a.to_owned())
}

/// `*/scale` and `deployments/scale` have `deployments/scale` in common.
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
