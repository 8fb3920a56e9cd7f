//! The effects of a restore of etcd: primaries vanish, and replicas whose caches still show them may keep writing their
//! children.

use std::collections::BTreeSet;
use std::fmt;

use windlass_proxy::{Match, Proxy};

use super::users::{Known, Primary};

/// A restore, and the number of earlier writes to children of the vanished primaries.
#[derive(Debug)]
pub(crate) struct GoneBack {
    vanished: BTreeSet<Primary>,
    written: u64,
}

/// The effects of a restore so far.
#[derive(Debug)]
pub(crate) struct Aftermath {
    vanished: usize,
    written: u64,
}

impl GoneBack {
    /// The restore that turned the primaries `before` into those of `after`.
    pub(crate) fn new(before: &Known, after: &Known, way: &Proxy) -> Self {
        let vanished = before.there.difference(&after.there).cloned().collect();
        let written = written(&vanished, way);
        Self { vanished, written }
    }

    pub(crate) fn aftermath(&self, way: &Proxy) -> Aftermath {
        Aftermath { vanished: self.vanished.len(), written: written(&self.vanished, way) - self.written }
    }
}

/// The number of writes to children of the WebApps among `primaries`. Children have their owners' names, except Pods.
fn written(primaries: &BTreeSet<Primary>, way: &Proxy) -> u64 {
    let of = |name: &str, resource: &str| way.count(&Match::writes().resource(resource).name(name));
    primaries
        .iter()
        .filter(|(kind, _)| *kind == "WebApp")
        .map(|(_, name)| of(name, "deployments.apps") + of(name, "services."))
        .sum()
}

impl fmt::Display for Aftermath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} primaries vanished, whose children were written {} times after that", self.vanished, self.written)
    }
}
