//! Decides whether a plugin's request is granted, without I/O. `reader` and `writer` ask before they serve an import.
//!
//! All layers must allow a request: the manifest, the operator's policy, and the host's ceiling. Some requests are
//! denied even if all layers allow them: requests in the host's own namespace, and requests for kinds that another
//! plugin installs. Writes of the host's own objects need rules without `*`. The caller supplies the layers; this
//! module only decides.

mod denial;
mod denials;
mod http;
mod rule;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use crate::object::ObjectKey;

pub use denial::{Cause, Denial, Layer};
pub use denials::{DenialCount, Denials};
pub use http::{Cidr, CidrError, HttpRule, Scheme};
pub use rule::{Access, HOST_GROUP, Rule, resource_name};

use denial::missing_rule;
pub(crate) use http::address;
use rule::holds;

/// The rules of one layer. Anything that no rule covers is denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    pub rules: Vec<Rule>,
    pub http: Vec<HttpRule>,
    /// Names of CRDs that may be installed, such as `webapps.apps.kubedojo.io`; `*` for all.
    pub crds: Vec<String>,
    /// Names of finalizers that may be set, such as `windlass.dev/webapp`; `*` for all.
    pub finalizers: Vec<String>,
}

impl Allowance {
    fn allows(&self, access: &Access<'_>) -> bool {
        let is_of_host = access.writes_host_object();
        self.rules.iter().any(|rule| rule.allows(access) && (!is_of_host || rule.names_resource(access)))
    }

    /// Whether the CRD `name` may be installed. `*` covers no CRD of the host.
    fn allows_crd(&self, name: &str) -> bool {
        let is_of_host = name.split_once('.').is_some_and(|(_, group)| group == HOST_GROUP);
        if is_of_host { self.crds.iter().any(|crd| crd == name) } else { holds(&self.crds, name) }
    }
}

/// A kind that another plugin installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKind {
    pub group: String,
    /// The plural resource name.
    pub resource: String,
    pub plugin: String,
}

/// Requests that no plugin may make, whatever the layers say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forbidden {
    /// The namespace in which the host runs.
    pub host_namespace: Option<String>,
    /// Kinds that other plugins install.
    pub foreign: Vec<ForeignKind>,
}

/// The rights of a principal. Anything that no rule allows is denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    asked: Allowance,
    /// The layers that limit what the manifest asks for.
    bounds: Vec<(Layer, Arc<Allowance>)>,
    /// The only namespace that may be accessed. `None` if there is no such limit.
    only: Option<String>,
    forbidden: Forbidden,
}

impl Grants {
    /// The grants that a manifest asks for with `rules`, without limits.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        Self::asked(Allowance { rules, ..Allowance::default() })
    }

    /// The grants that a manifest asks for, without limits.
    #[must_use]
    pub fn asked(asked: Allowance) -> Self {
        Self { asked, ..Self::default() }
    }

    /// Limits the grants to requests that `allowance` allows as well.
    #[must_use]
    pub fn bounded(mut self, layer: Layer, allowance: Arc<Allowance>) -> Self {
        self.bounds.push((layer, allowance));
        self
    }

    /// Limits the grants to the namespace `only`. Cluster-scoped objects have no namespace and are not affected.
    #[must_use]
    pub fn within(self, only: Option<&str>) -> Self {
        Self { only: only.map(str::to_owned), ..self }
    }

    /// Removes requests that are denied to every plugin.
    #[must_use]
    pub fn without(self, forbidden: Forbidden) -> Self {
        Self { forbidden, ..self }
    }

    /// Whether all layers allow `access`.
    #[must_use]
    pub fn allows(&self, access: &Access<'_>) -> bool {
        self.always_denied(access).is_none()
            && self.asked.allows(access)
            && self.bounds.iter().all(|(_, bound)| bound.allows(access))
    }

    /// As [`Self::allows`], but an error says what is missing.
    pub fn check(&self, access: &Access<'_>) -> Result<(), Denial> {
        if self.allows(access) {
            return Ok(());
        }
        let lacking = self.lacking(|allowance| allowance.allows(access));
        let cause = self.always_denied(access).unwrap_or(Cause::NoRule(lacking));
        Err(Denial { access: access.to_string(), cause, missing: missing_rule(access, &[access.verb]) })
    }

    /// The denials of `verbs` on the target of `access`. The verb of `access` itself does not matter. Verbs with the
    /// same cause share one denial.
    #[must_use]
    pub fn denied_verbs(&self, verbs: &[&str], access: &Access<'_>) -> Vec<Denial> {
        let mut denied: Vec<(Cause, Vec<&str>)> = Vec::new();
        for verb in verbs {
            let Err(Denial { cause, .. }) = self.check(&Access { verb, ..*access }) else { continue };
            match denied.iter_mut().find(|(its, _)| *its == cause) {
                Some((_, verbs)) => verbs.push(verb),
                None => denied.push((cause, vec![verb])),
            }
        }
        let denial = |(cause, verbs): (Cause, Vec<&str>)| Denial {
            access: Access { verb: &verbs.join(", "), ..*access }.to_string(),
            cause,
            missing: missing_rule(access, &verbs),
        };
        denied.into_iter().map(denial).collect()
    }

    /// Whether the CRD `name` may be installed or updated.
    pub fn check_crd(&self, name: &str) -> Result<(), Denial> {
        let allows = |allowance: &Allowance| allowance.allows_crd(name);
        self.check_name(allows, name, "crds", "install the CustomResourceDefinition")
    }

    /// Whether the finalizer `name` may be added and removed. Pass `*` to ask for all finalizers.
    pub fn check_finalizer(&self, name: &str) -> Result<(), Denial> {
        let allows = |allowance: &Allowance| holds(&allowance.finalizers, name);
        self.check_name(allows, name, "finalizers", "add or remove the finalizer")
    }

    /// The ranges of non-public addresses that each of the operator's layers lists in rules for which `covers` holds.
    /// `None` if the manifest or a layer has no such rule.
    pub(crate) fn ranges(&self, covers: impl Fn(&HttpRule) -> bool) -> Option<Vec<Vec<Cidr>>> {
        let ranges = |allowance: &Allowance| {
            let mut covering = allowance.http.iter().filter(|rule| covers(rule)).peekable();
            covering.peek().is_some().then(|| covering.flat_map(HttpRule::ranges).collect())
        };
        let of_manifest: Option<Vec<Cidr>> = ranges(&self.asked);
        // The addresses of the manifest do not count: only the operator allows non-public ones.
        of_manifest?;
        self.bounds.iter().map(|(_, bound)| ranges(bound)).collect()
    }

    /// The layers without an HTTP rule for which `covers` holds.
    pub(crate) fn lacking_http(&self, covers: impl Fn(&HttpRule) -> bool) -> Vec<Layer> {
        self.lacking(|allowance| allowance.http.iter().any(&covers))
    }

    /// The rules that all layers have in common. They may cover requests that are denied to every plugin or lie outside
    /// the only namespace; [`Self::allows`] denies such requests.
    #[must_use]
    pub fn common_rules(&self) -> Vec<Rule> {
        self.bounds.iter().fold(self.asked.rules.clone(), |rules, (_, bound)| {
            rules.iter().flat_map(|mine| bound.rules.iter().filter_map(move |its| mine.and(its))).collect()
        })
    }

    /// Whether each layer has a rule for this API group. If not, its kinds need no further check.
    #[must_use]
    pub fn concern_group(&self, group: &str) -> bool {
        let concerns = |allowance: &Allowance| allowance.rules.iter().any(|rule| rule.concerns_group(group));
        concerns(&self.asked) && self.bounds.iter().all(|(_, bound)| concerns(bound))
    }

    /// The namespace whose objects must be left out of a granted list of all namespaces.
    #[must_use]
    pub fn hidden_namespace(&self) -> Option<&str> {
        self.forbidden.host_namespace.as_deref()
    }

    /// Whether the object is in [`Self::hidden_namespace`].
    #[must_use]
    pub fn hides(&self, key: &ObjectKey) -> bool {
        let hidden = self.hidden_namespace();
        hidden.is_some() && key.namespace.as_deref() == hidden
    }

    /// Whether a call about `primary` may send a Kubernetes Event about `regarding`. The Event is written to the
    /// namespace of `regarding`. A plugin with a namespaced primary may write only to that namespace. A plugin with a
    /// cluster-scoped primary may write only where the operator's rules let it do anything at all.
    #[must_use]
    pub fn may_regard(&self, primary: &ObjectKey, regarding: &ObjectKey) -> bool {
        let is_near = match (&primary.namespace, regarding.namespace.as_deref()) {
            (None, Some(there)) => self.bounds.iter().all(|(_, bound)| bound.rules.iter().any(|it| it.is_about(there))),
            (None, None) => true,
            (here, there) => here.as_deref() == there,
        };
        is_near && !self.is_outside(regarding.namespace.as_deref()) && !self.hides(regarding)
    }

    /// The namespaces that rules of the limiting layers name, sorted and unique. Used to split a request for all
    /// namespaces into requests for the granted namespaces.
    #[must_use]
    pub fn named_namespaces(&self) -> BTreeSet<&str> {
        let rules = self.bounds.iter().flat_map(|(_, bound)| &bound.rules);
        rules.flat_map(|rule| &rule.namespaces).map(String::as_str).collect()
    }

    fn is_outside(&self, namespace: Option<&str>) -> bool {
        self.only.as_deref().is_some_and(|only| namespace.is_some_and(|namespace| namespace != only))
    }

    fn always_denied(&self, access: &Access<'_>) -> Option<Cause> {
        // A list over all namespaces reaches beyond the only permitted namespace. Callers must narrow the list before
        // they ask.
        let is_everywhere = self.only.is_some() && access.namespaced && access.key.is_none();
        if is_everywhere || self.is_outside(access.namespace()) {
            return Some(Cause::Confined);
        }
        if self.is_the_hosts(access) {
            return Some(Cause::HostNamespace);
        }
        let is_it = |kind: &&ForeignKind| kind.group == access.group && kind.resource == access.resource;
        self.forbidden.foreign.iter().find(is_it).map(|kind| Cause::OtherPlugin(kind.plugin.clone()))
    }

    /// Whether the request is about something in the host's namespace, or changes the namespace itself. Deleting the
    /// namespace would delete the host.
    fn is_the_hosts(&self, access: &Access<'_>) -> bool {
        let Some(hosts) = self.forbidden.host_namespace.as_deref() else { return false };
        let is_read = matches!(access.verb, "get" | "list" | "watch");
        let is_itself = || access.group.is_empty() && access.resource == "namespaces" && !is_read;
        match access.key {
            Some(key) => key.namespace.as_deref() == Some(hosts) || (*key.name == *hosts && is_itself()),
            None => is_itself(),
        }
    }

    fn lacking(&self, allows: impl Fn(&Allowance) -> bool) -> Vec<Layer> {
        let bounds = self.bounds.iter().map(|(layer, bound)| (*layer, &**bound));
        let layers = std::iter::once((Layer::Manifest, &self.asked)).chain(bounds);
        layers.filter(|(_, allowance)| !allows(allowance)).map(|(layer, _)| layer).collect()
    }

    fn check_name(
        &self,
        allows: impl Fn(&Allowance) -> bool,
        name: &str,
        field: &str,
        deed: &str,
    ) -> Result<(), Denial> {
        let lacking = self.lacking(allows);
        if lacking.is_empty() {
            return Ok(());
        }
        let missing = format!("{field}: [{name:?}]");
        Err(Denial { access: format!("{deed} {name}"), cause: Cause::NoRule(lacking), missing })
    }
}

/// The grants of a principal. The operator may change them at any time. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct LiveGrants {
    current: Arc<RwLock<Arc<Grants>>>,
    denials: Denials,
}

impl LiveGrants {
    /// Creates live grants that begin as `grants`.
    #[must_use]
    pub fn new(grants: Grants) -> Self {
        Self::counting(grants, Denials::default())
    }

    /// Creates live grants that begin as `grants` and count denials in `denials`.
    #[must_use]
    pub fn counting(grants: Grants, denials: Denials) -> Self {
        Self { current: Arc::new(RwLock::new(Arc::new(grants))), denials }
    }

    /// The grants at this moment.
    #[must_use]
    pub fn current(&self) -> Arc<Grants> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the grants, also for running calls.
    pub fn replace(&self, grants: Grants) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(grants);
    }

    /// Whether `access` is allowed now. Counts a denial.
    pub fn check(&self, access: &Access<'_>) -> Result<(), Denial> {
        let checked = self.current().check(access);
        if let Err(denial) = &checked {
            self.denials.note(access.verb, &resource_name(access.group, access.resource, access.subresource), denial);
        }
        checked
    }

    /// Whether the finalizer `name` may be added and removed now. Counts a denial, but not by name, because a plugin
    /// could invent any number of names.
    pub fn check_finalizer(&self, name: &str) -> Result<(), Denial> {
        self.current().check_finalizer(name).inspect_err(|denial| self.denials.note("update", "finalizers", denial))
    }

    /// Counts a denial that another module decided.
    pub(crate) fn note(&self, verb: &str, resource: &str, denial: &Denial) {
        self.denials.note(verb, resource, denial);
    }

    /// The denials so far.
    #[must_use]
    pub fn denials(&self) -> &Denials {
        &self.denials
    }
}

#[cfg(test)]
mod tests;
