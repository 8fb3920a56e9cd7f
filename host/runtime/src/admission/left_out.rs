//! Watches that a controller works without for now. A kind that the configuration names for one of its `watches` may
//! not be served yet, or may not be granted. That does not keep the controller from watching the others.

use windlass_core::object::ObjectKind;
use windlass_core::rights::grants::Grants;
use windlass_core::rights::principal::ServiceAccount;

use super::resolve::{Resolved, Watched};
use super::reviews::{Reviewer, refused};
use super::{Needed, denied};

/// The configured kinds that a controller does not watch for now.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    /// The kinds that the API server does not serve.
    pub(crate) unserved: Vec<ObjectKind>,
    /// The watches that the account that the plugin acts as may not have.
    pub(crate) refused: Vec<Needed>,
    /// Why each of them is left out.
    why: Vec<String>,
}

impl LeftOut {
    /// Leaves out a kind that is not served, as `error` says.
    pub(crate) fn add_unserved(&mut self, kind: ObjectKind, error: &impl ToString) {
        self.unserved.push(kind);
        self.why.push(error.to_string());
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

/// Leaves out the watches of configured kinds that `account` may not have. A watch that cannot be reviewed stays.
pub(crate) async fn without_refused<R: Reviewer>(
    reviewer: &R,
    account: &ServiceAccount,
    mut resolved: Resolved,
) -> Resolved {
    let (mut refusals, mut why) = (Vec::new(), Vec::new());
    for watched in resolved.watches.iter().filter(|watched| watched.is_optional) {
        for needed in watched.needed() {
            if let Ok(Some(refusal)) = refused(reviewer, account, std::slice::from_ref(&needed)).await {
                why.push(refusal.to_string());
                refusals.push(needed);
            }
        }
    }
    resolved.left_out.refused = take(&mut resolved, |needed| refusals.iter().any(|it| it.is_same(needed)));
    resolved.left_out.why.extend(why);
    resolved
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
    resolved.watches.retain(|watched| !watched.specs.is_empty());
    taken
}
