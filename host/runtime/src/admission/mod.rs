//! Checks that the policies admit what a controller watches, before it starts and while it runs.
//!
//! A watch brings every object of a kind into the host before a plugin asks for one, so it is checked before it begins:
//! a controller with a watch that is not granted does not start, and a controller whose watch is revoked stops.

pub(crate) mod kinds;
pub(crate) mod left_out;
pub(crate) mod resolve;
pub(crate) mod reviews;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use tokio::sync::{Notify, oneshot};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::ObjectKey;
use windlass_core::rights::grants::{Access, Allowance, Denial, Grants, Layer, LiveGrants, resource_name};
use windlass_core::rights::principal::ServiceAccount;
use windlass_kube::Resource;

use crate::admission::resolve::{Resolved, Watched};
use crate::admission::reviews::{Reviewer, WatchRefusal, until_refused};
use crate::policies::{Bounds, Changes, Policies, Standing};

/// The maximum number of namespaces into which one declared watch is split. A manifest may also name at most this many.
const WATCHED_NAMESPACES_MAX: usize = 256;
/// The verbs that a watch needs.
const VERBS: [&str; 2] = ["list", "watch"];
/// The most denied watches that a message names with their missing rules.
const DENIED_WATCHES_SHOWN_MAX: usize = 20;

/// One list and watch that a controller needs.
#[derive(Clone, Debug)]
pub(crate) struct Needed {
    pub(crate) resource: Arc<Resource>,
    /// The watched objects: `None` for all, else a namespace's, or one object by its name.
    pub(crate) key: Option<ObjectKey>,
}

impl Needed {
    pub(crate) fn of(resource: &Arc<Resource>, spec: &WatchSpec) -> Self {
        // As in RBAC, a watch of one name needs only the right to that name.
        let name = spec.only_name().unwrap_or_default();
        let key = match &spec.namespace {
            Some(namespace) => Some(ObjectKey::namespaced(namespace.clone(), name)),
            None if name.is_empty() || resource.namespaced => None,
            None => Some(ObjectKey::cluster(name)),
        };
        Self { resource: resource.clone(), key }
    }

    /// The watched namespace. `None` for all namespaces, and for a cluster-scoped resource.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.key.as_ref()?.namespace.as_deref()
    }

    /// Whether both are the same list and watch.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.resource.kind, &self.key) == (&other.resource.kind, &other.key)
    }

    pub(crate) fn resource_name(&self) -> String {
        resource_name(self.resource.group(), &self.resource.plural, "")
    }

    fn is_granted(&self, grants: &Grants) -> bool {
        VERBS.into_iter().all(|verb| grants.allows(&self.access(verb)))
    }

    fn access<'a>(&'a self, verb: &'a str) -> Access<'a> {
        Access {
            verb,
            group: self.resource.group(),
            resource: &self.resource.plural,
            subresource: "",
            namespaced: self.resource.namespaced,
            key: self.key.as_ref(),
        }
    }
}

/// The watches that `resolved` needs.
pub(crate) fn needed(resolved: &Resolved) -> Vec<Needed> {
    resolved.watches.iter().flat_map(Watched::needed).collect()
}

/// A watch as the manifest declares it.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredWatch {
    pub(crate) resource: Arc<Resource>,
    pub(crate) spec: WatchSpec,
    /// True if the controller can run without this watch.
    is_optional: bool,
}

/// The watches that the manifest declares.
pub(crate) fn wanted(resolved: &Resolved) -> Vec<DeclaredWatch> {
    let of = |watched: &Watched| {
        let Watched { specs, resource, is_optional, .. } = watched;
        let of = |spec: &WatchSpec| DeclaredWatch {
            resource: resource.clone(),
            spec: spec.clone(),
            is_optional: *is_optional,
        };
        specs.iter().map(of).collect::<Vec<_>>()
    };
    resolved.watches.iter().flat_map(of).collect()
}

/// The same controller, with each watch narrowed to what is granted.
pub(crate) fn narrowed(grants: &Grants, mut resolved: Resolved) -> Resolved {
    for Watched { specs, resource, .. } in &mut resolved.watches {
        *specs = specs.iter().flat_map(|spec| narrow(grants, resource, spec)).collect();
    }
    resolved
}

/// If a watch covers all namespaces and only some are granted, returns one watch for each of these. Returns every other
/// watch unchanged, even if it is not granted at all.
fn narrow(grants: &Grants, resource: &Arc<Resource>, spec: &WatchSpec) -> Vec<WatchSpec> {
    let is_granted = |spec: &WatchSpec| Needed::of(resource, spec).is_granted(grants);
    if !resource.namespaced || spec.namespace.is_some() || is_granted(spec) {
        return vec![spec.clone()];
    }
    let places = grants.named_namespaces().into_iter();
    let places = places.map(|namespace| WatchSpec { namespace: Some(namespace.into()), ..spec.clone() });
    let granted: Vec<_> = places.filter(is_granted).take(WATCHED_NAMESPACES_MAX).collect();
    if granted.is_empty() { vec![spec.clone()] } else { granted }
}

/// All watches that are not granted, so that an operator can fix them in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeniedWatches {
    denials: Vec<Denial>,
    /// The number of denied watches that are not in `denials`, because there are too many.
    further: usize,
}

impl fmt::Display for DeniedWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.denials.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("; "))?;
        if self.further > 0 { write!(f, "; and {} further watches are not granted", self.further) } else { Ok(()) }
    }
}

/// The watches in `needed` that are not granted. `None` if all are.
pub(crate) fn denied(grants: &Grants, needed: &[Needed]) -> Option<DeniedWatches> {
    let denied: Vec<_> = needed.iter().filter(|needed| !needed.is_granted(grants)).collect();
    let listed = denied.iter().take(DENIED_WATCHES_SHOWN_MAX);
    let denials = Denial::merged(listed.flat_map(|needed| grants.denied_verbs(&VERBS, &needed.access(""))));
    (!denied.is_empty())
        .then(|| DeniedWatches { denials, further: denied.len().saturating_sub(DENIED_WATCHES_SHOWN_MAX) })
}

/// A controller that may run, and its terms.
pub(crate) struct Admitted {
    pub(crate) resolved: Resolved,
    pub(crate) live: LiveGrants,
    pub(crate) terms: Terms,
}

/// The conditions that must hold for as long as the controller runs.
pub(crate) struct Terms {
    /// The changes of the policies since before the controller was admitted.
    pub(crate) changes: Changes,
    pub(crate) asked: Allowance,
    pub(crate) wanted: Vec<DeclaredWatch>,
    /// The watches that `wanted` expands to, without those that are left out.
    pub(crate) needed: Vec<Needed>,
    /// The watches that the account, or the host, may not make, and without which the controller runs.
    pub(crate) refused: Vec<Needed>,
    pub(crate) impersonate: Option<ServiceAccount>,
    pub(crate) only: Option<String>,
    /// Notified each time the grants change.
    pub(crate) regranted: Arc<Notify>,
}

/// Why a controller must stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// No policy is left for the plugin.
    All,
    /// A watch is no longer granted.
    Watch(DeniedWatches),
    /// Other watches are granted now: in other namespaces, or more or fewer of the configured kinds.
    Scope,
    /// The policy names another account.
    Account,
    /// The account may no longer make one of the controller's watches.
    Refused(WatchRefusal),
}

impl Terms {
    /// Updates `live` at each change of the policies, and has the watches reviewed periodically. Sends to `broken` when
    /// the controller must stop, and then continues: calls that outlive their controller must obey later revocations
    /// too.
    pub(crate) async fn keep<R: Reviewer>(
        mut self,
        policies: &Policies,
        reviewer: &R,
        plugin: &str,
        live: &LiveGrants,
        broken: oneshot::Sender<Revoked>,
    ) -> Infallible {
        let mut broken = Some(broken);
        let (account, needed) = (self.impersonate.clone(), self.needed.clone());
        let refused = async {
            match &account {
                Some(account) => until_refused(reviewer, account, &needed).await,
                None => std::future::pending().await,
            }
        };
        let mut refused = std::pin::pin!(refused);
        loop {
            tokio::select! {
                biased;
                () = self.changes.next() => {}
                refusal = &mut refused => {
                    live.replace(self.nothing());
                    // This cannot fail: the controller holds the receiver until the message comes.
                    let _ = broken.take().map(|broken| broken.send(Revoked::Refused(refusal)));
                    // A later policy cannot change what the account may do.
                    return std::future::pending().await;
                }
            }
            let standing = policies.standing(plugin);
            let (grants, revoked) = self.judge(&standing);
            let differs = *live.current() != grants;
            live.replace(grants);
            if differs {
                self.regranted.notify_one();
            }
            if let Some(revoked) = revoked {
                let _ = broken.take().map(|broken| broken.send(revoked));
            }
        }
    }

    fn nothing(&self) -> Grants {
        Grants::asked(self.asked.clone()).bounded(Layer::Policy, Arc::default())
    }

    /// Returns the rights of running calls from now on, and the reason if the controller must stop.
    fn judge(&self, standing: &Standing) -> (Grants, Option<Revoked>) {
        let bounds: &Bounds = match standing {
            Standing::Waiting(_) => return (self.nothing(), Some(Revoked::All)),
            Standing::Granted(bounds) => bounds,
        };
        if bounds.impersonate != self.impersonate {
            return (self.nothing(), Some(Revoked::Account));
        }
        let grants = bounds.grants(self.asked.clone(), self.only.as_deref());
        let is_left_out =
            |needed: &Needed| !needed.is_granted(&grants) || self.refused.iter().any(|it| it.is_same(needed));
        let of = |DeclaredWatch { resource, spec, is_optional }: &DeclaredWatch| {
            let needed = narrow(&grants, resource, spec).into_iter().map(|spec| Needed::of(resource, &spec));
            needed.filter(|needed| !is_optional || !is_left_out(needed)).collect::<Vec<_>>()
        };
        let needed: Vec<_> = self.wanted.iter().flat_map(of).collect();
        let is_same = needed.len() == self.needed.len() && needed.iter().zip(&self.needed).all(|(a, b)| a.is_same(b));
        let revoked = denied(&grants, &needed).map(Revoked::Watch).or((!is_same).then_some(Revoked::Scope));
        (grants, revoked)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt;
    use windlass_core::object::ObjectKind;
    use windlass_core::rights::grants::Rule;
    use windlass_kube::{ReviewError, ReviewVerdict};

    use super::*;
    use crate::files::{Change, Content};
    use crate::policies::{GrantMode, PolicySettings};

    struct Nobody;

    impl Reviewer for Nobody {
        async fn review(&self, _: Option<&ServiceAccount>, _: &Needed) -> Result<ReviewVerdict, ReviewError> {
            pending().await
        }
    }

    fn resource(kind: &str, plural: &str) -> Arc<Resource> {
        Arc::new(Resource {
            kind: ObjectKind::new("v1", kind),
            plural: plural.to_owned(),
            namespaced: true,
            subresources: vec![],
            verbs: vec![],
            comparable: false,
        })
    }

    fn needing(resource: &Arc<Resource>, namespace: Option<&str>) -> Needed {
        let spec = WatchSpec { namespace: namespace.map(Arc::from), ..WatchSpec::all(resource.kind.clone()) };
        Needed::of(resource, &spec)
    }

    #[test]
    fn all_missing_grants_of_all_watches_are_reported_together() {
        let may_list = Rule {
            groups: vec![String::new()],
            resources: vec!["configmaps".to_owned()],
            verbs: vec!["list".to_owned()],
            ..Rule::default()
        };
        let grants = Grants::new(vec![may_list]);
        let (maps, secrets) = (resource("ConfigMap", "configmaps"), resource("Secret", "secrets"));
        let needed = [needing(&maps, None), needing(&secrets, Some("prod"))];
        let message = denied(&grants, &needed).expect("not granted").to_string();
        assert_eq!(
            message,
            "nothing in its manifest allows it to watch configmaps and list, watch secrets in prod; missing: rules: \
             - {apiGroups: [\"\"], resources: [\"configmaps\"], verbs: [\"watch\"]} \
             - {apiGroups: [\"\"], resources: [\"secrets\"], verbs: [\"list\", \"watch\"], namespaces: [\"prod\"]}"
        );
        let many: Vec<_> = (0..30).map(|at| needing(&secrets, Some(&format!("n{at}")))).collect();
        let message = denied(&grants, &many).expect("not granted").to_string();
        assert!(
            message.contains("\"n19\"") && message.ends_with("; and 10 further watches are not granted"),
            "{message}"
        );
        assert!(!message.contains("\"n20\""), "{message}");
    }

    fn terms(policies: &Policies) -> Terms {
        let resource = resource("ConfigMap", "configmaps");
        let spec = WatchSpec::all(resource.kind.clone());
        let needed = vec![Needed::of(&resource, &spec)];
        let all = || vec!["*".to_owned()];
        let asked = Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() };
        Terms {
            changes: policies.changes(),
            asked: Allowance { rules: vec![asked], ..Allowance::default() },
            wanted: vec![DeclaredWatch { resource, spec, is_optional: false }],
            needed,
            refused: vec![],
            impersonate: None,
            only: None,
            regranted: Arc::default(),
        }
    }

    #[tokio::test]
    async fn calls_that_outlive_their_controller_obey_later_revocations() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.policy.yaml");
        let policy = |verbs: &str| {
            let head = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: a\n";
            let rule = format!("rules: [{{apiGroups: [\"\"], resources: [configmaps], verbs: [{verbs}]}}]\n");
            std::fs::write(&path, format!("{head}{rule}")).expect("written");
        };
        policy("get, list, watch, patch");
        let settings = PolicySettings {
            mode: GrantMode::Policy,
            directory: directory.path().to_owned(),
            ceiling: None,
            host_namespace: None,
        };
        let (policies, _files) = Policies::read(settings).await.expect("it can be read");
        let take = |content| policies.take(&[Change { path: path.clone(), content }]);
        let (live, key) = (LiveGrants::default(), ObjectKey::namespaced("prod", "a"));
        let patches = || {
            let access = Access {
                verb: "patch",
                group: "",
                resource: "configmaps",
                subresource: "",
                namespaced: true,
                key: Some(&key),
            };
            live.current().allows(&access)
        };
        let (broken, mut revoked) = oneshot::channel();
        let mut keeping = Box::pin(terms(&policies).keep(&policies, &Nobody, "a", &live, broken));
        policy("get, patch");
        take(Content::Is([1; 32]));
        assert!((&mut keeping).now_or_never().is_none());
        assert!(matches!(revoked.try_recv(), Ok(Revoked::Watch(_))), "the controller stops");
        assert!(patches(), "the running call may still do this");
        take(Content::Gone);
        assert!((&mut keeping).now_or_never().is_none());
        assert!(!patches(), "and now it may not");
    }
}
