//! Decides which children are deleted: exactly the children that ADR 9 names.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Applied, CompositeParent, ObservedChildren, Wanted};
use crate::defect::Defect;
use crate::object::{ObjectKey, ObjectKind, ObjectRef};

/// The fate of children that were not composed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruning {
    pub doomed: Vec<Doomed>,
    /// Why nothing is deleted now although some children should be.
    pub withheld: Option<Withheld>,
    /// Children that stay because the host did not create them for the plugin.
    pub adopted: Vec<ObjectRef>,
}

/// A child to delete, in exactly this state. If the child has changed since, it must be judged again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    pub target: ObjectRef,
    pub version: Arc<str>,
}

/// Why nothing is pruned now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// The answer was empty without `allow_empty`. This many children would have been deleted.
    Empty(usize),
    /// This many children are not yet as composed.
    Unfinished(usize),
}

/// Decides which of `observed` to delete, now that the children of `wanted` were applied with these results.
#[must_use]
pub fn prune(parent: &CompositeParent, wanted: &Wanted, applied: &[Applied], observed: &[ObservedChildren]) -> Pruning {
    let names: HashSet<(&ObjectKind, &ObjectKey)> =
        wanted.children.iter().map(|child| (&child.kind, &child.key)).collect();
    let left_out = observed
        .iter()
        .filter(|child| parent.controls(child) && !child.deleting && !names.contains(&(&child.kind, &child.key)));
    let (created, adopted): (Vec<&ObservedChildren>, Vec<&ObservedChildren>) =
        left_out.partition(|child| parent.created(child) || Defect::AdoptedIsPruned.is_seeded());
    let adopted = adopted.into_iter().map(ObservedChildren::reference).collect();
    let is_applied = applied.len() == wanted.children.len() && applied.iter().all(|it| *it == Applied::Done);
    let withheld = if created.is_empty() {
        None
    } else if wanted.children.is_empty() && !wanted.allow_empty {
        Some(Withheld::Empty(created.len()))
    } else if is_applied {
        None
    } else {
        Some(Withheld::Unfinished(created.len()))
    };
    let doomed = if withheld.is_some() || Defect::NothingIsPruned.is_seeded() { vec![] } else { created };
    let doomed = doomed.into_iter().map(|child| Doomed { target: child.reference(), version: child.version.clone() });
    Pruning { doomed: doomed.collect(), withheld, adopted }
}
