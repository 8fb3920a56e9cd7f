//! Watches that a controller works without for now. A kind that the configuration names for one of its `watches` may
//! not be served yet, may not be a kind that can be watched, or may not be granted, and the host's own account may lack
//! the right to watch it. The controller then watches its other kinds. But it does not run without a kind whose lists
//! fail for another reason.

use std::sync::Arc;

use windlass_core::object::ObjectKind;
use windlass_core::rights::grants::Grants;
use windlass_core::rights::principal::ServiceAccount;
use windlass_kube::{DiscoveryError, InformerError, Resource};

use super::resolve::{Resolved, Watched};
use super::reviews::{Reviewer, WatchRefusal, refused};
use super::{Needed, denied};

/// The configured kinds that a controller does not watch for now.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    /// The kinds that the API server does not serve, that cannot be watched, or about which the server gave no answer.
    pub(crate) unserved: Vec<ObjectKind>,
    /// The watches that the host, or the impersonated service account, may not make.
    pub(crate) refused: Vec<Needed>,
    /// The reason for each kind and watch that is left out.
    why: Vec<String>,
}

impl LeftOut {
    /// Leaves out `kind` if discovery's answer `found` shows that it cannot be watched. Returns whether it is left out.
    pub(super) fn takes(&mut self, kind: &ObjectKind, found: &Result<Arc<Resource>, DiscoveryError>) -> bool {
        let why = match found {
            Ok(resource) if resource.is_watchable() => return false,
            Ok(resource) => InformerError::NotWatchable { resource: resource.clone() }.to_string(),
            Err(error) => error.to_string(),
        };
        self.unserved.push(kind.clone());
        self.why.push(why);
        true
    }

    /// For the status of the controller. `None` if it watches all its kinds.
    pub(crate) fn reason(&self) -> Option<String> {
        (!self.why.is_empty()).then(|| format!("it does not watch all kinds yet: {}", self.why.join("; ")))
    }
}

/// Leaves out the watches of configured kinds that are not granted.
pub(crate) fn without_denied(grants: &Grants, mut resolved: Resolved) -> Resolved {
    let taken = take(&mut resolved, |needed| !needed.is_granted(grants));
    resolved.left_out.why.extend(denied(grants, &taken).map(|denied| denied.to_string()));
    resolved
}

/// Leaves out the watches of configured kinds that the host, or the impersonated `account`, may not make. If a review
/// fails, its watch stays.
pub(crate) async fn without_refused<R: Reviewer>(
    reviewer: &R,
    account: Option<&ServiceAccount>,
    mut resolved: Resolved,
) -> Resolved {
    let (mut refusals, mut why) = (Vec::new(), Vec::new());
    for watched in resolved.watches.iter().filter(|watched| watched.is_optional) {
        for needed in watched.needed() {
            if let Some(refusal) = refused_to_any(reviewer, account, &needed).await {
                why.push(refusal.to_string());
                refusals.push(needed);
            }
        }
    }
    resolved.left_out.refused = take(&mut resolved, |needed| refusals.iter().any(|it| it.is_same(needed)));
    resolved.left_out.why.extend(why);
    resolved
}

/// Why the host, or `account`, may not have the watch. `None` if both may, or if they cannot be reviewed.
async fn refused_to_any<R: Reviewer>(
    reviewer: &R,
    account: Option<&ServiceAccount>,
    needed: &Needed,
) -> Option<WatchRefusal> {
    for subject in std::iter::once(None).chain(account.map(Some)) {
        if let Ok(Some(refusal)) = refused(reviewer, subject, std::slice::from_ref(needed)).await {
            return Some(refusal);
        }
    }
    None
}

/// Takes the watches of configured kinds that are `left_out` out of `resolved`, and returns them.
fn take(resolved: &mut Resolved, left_out: impl Fn(&Needed) -> bool) -> Vec<Needed> {
    let mut taken = Vec::new();
    for Watched { specs, resource, .. } in resolved.watches.iter_mut().filter(|watched| watched.is_optional) {
        specs.retain(|spec| {
            let needed = Needed::of(resource, spec);
            let is_left_out = left_out(&needed);
            taken.extend(is_left_out.then_some(needed));
            !is_left_out
        });
    }
    resolved.watches.retain(|watched| watched.is_primary || !watched.specs.is_empty());
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_cannot_be_watched_is_left_out_and_the_status_says_why() {
        let kind = ObjectKind::new("metrics.k8s.io/v1beta1", "PodMetrics");
        let resource = |verbs: &[&str]| Resource {
            kind: kind.clone(),
            plural: "pods".into(),
            namespaced: true,
            subresources: vec![],
            verbs: verbs.iter().map(|&verb| verb.into()).collect(),
            comparable: true,
        };
        let malformed = || DiscoveryError::Malformed {
            kind: kind.clone(),
            source: serde_json::from_str::<()>("no JSON").expect_err("it is none"),
        };
        let takes = |found| {
            let mut left_out = LeftOut::default();
            let is_taken = left_out.takes(&kind, &found);
            assert_eq!((is_taken, left_out.unserved.len()), (left_out.reason().is_some(), usize::from(is_taken)));
            is_taken
        };
        assert!(!takes(Ok(Arc::new(resource(&["get", "list", "watch"])))));
        assert!(takes(Ok(Arc::new(resource(&["get", "list"])))), "metrics are computed for each request");
        assert!(takes(Err(DiscoveryError::NotServed { kind: kind.clone() })));
        assert!(takes(Err(malformed())), "the aggregated API is down");
    }
}
