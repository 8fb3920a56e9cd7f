//! Watches whose kinds the plugin's configuration names (`kindsFrom`), instead of the manifest.
//!
//! A controller whose primaries are of such kinds becomes one controller for each kind, and another watch becomes one
//! watch for each kind. After that, nothing differs from a manifest that names these kinds itself.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Deserialize;
use serde_json::Value;
use windlass_core::object::ObjectKind;

use super::validate::WATCHES_MAX;
use super::{Controller, Manifest, Watch};

/// The most kinds that a configuration may name for one watch. Each is listed and watched.
const CONFIGURED_KINDS_MAX: usize = 64;
/// The most workers that the controllers of configured kinds may have together: 64 kinds with 16 workers each, which is
/// the default number of workers.
const CONFIGURED_WORKERS_MAX: usize = 1024;

/// A verb with which a plugin changes objects of kinds that its configuration names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteVerb {
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl WriteVerb {
    /// As in RBAC.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// The kinds that a configuration names. The default names none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredKinds(BTreeMap<String, Vec<ObjectKind>>);

impl ConfiguredKinds {
    /// Reads the lists of kinds that the document `config` has for `controllers`. A list that is missing is empty. An
    /// error lists all problems: lists that are wrong, or more watches or workers than a plugin may have. The error
    /// quotes no values, because they may be secret.
    pub fn read(controllers: &[Controller], config: &Value) -> Result<Self, Vec<String>> {
        let (mut kinds, mut problems) = (BTreeMap::new(), Vec::new());
        for pointer in pointers(controllers) {
            match kinds_at(config.pointer(pointer)) {
                Ok(found) => drop(kinds.insert(pointer.to_owned(), found)),
                Err((below, problem)) => problems.push(format!("config{pointer}{below}: {problem}")),
            }
        }
        let kinds = Self(kinds);
        if problems.is_empty() {
            problems = kinds.excesses(controllers);
        }
        if problems.is_empty() { Ok(kinds) } else { Err(problems) }
    }

    /// The limits that `controllers` would exceed with these kinds.
    fn excesses(&self, controllers: &[Controller]) -> Vec<String> {
        let lists = pointers(controllers).into_iter().collect::<Vec<_>>().join(", ");
        let watches: usize = controllers.iter().map(|controller| controller.watch_count(self)).sum();
        let workers: usize = controllers.iter().filter_map(|controller| controller.worker_count(self)).sum();
        let excess = |count: usize, most: usize, what: &str| {
            (count > most).then(|| {
                format!(
                    "config: the kinds at {lists} make {count} {what}, but at most {most} are allowed: name fewer kinds"
                )
            })
        };
        let per = "watches, counted for each controller and namespace";
        let watches = excess(watches, WATCHES_MAX, per).filter(|_| !lists.is_empty());
        watches.into_iter().chain(excess(workers, CONFIGURED_WORKERS_MAX, "workers")).collect()
    }

    /// The kinds at a pointer, in the configuration's order.
    #[must_use]
    pub fn at(&self, pointer: &str) -> &[ObjectKind] {
        self.0.get(pointer).map_or(&[], Vec::as_slice)
    }
}

/// The JSON pointers to where the configuration names kinds for `controllers`.
fn pointers(controllers: &[Controller]) -> BTreeSet<&str> {
    let watches = controllers.iter().flat_map(Controller::all_watches);
    watches.filter_map(|watch| watch.kinds_from.as_deref()).collect()
}

/// The kinds in `list`. An error has the place of the problem within the list, and the problem.
fn kinds_at(list: Option<&Value>) -> Result<Vec<ObjectKind>, (String, String)> {
    let Some(list) = list.filter(|list| !list.is_null()) else { return Ok(vec![]) };
    let of_list = |problem: String| (String::new(), problem);
    let entries = list.as_array().ok_or_else(|| {
        of_list("is not a list of kinds, such as `[{apiVersion: apps/v1, kind: Deployment}]`".to_owned())
    })?;
    if entries.len() > CONFIGURED_KINDS_MAX {
        return Err(of_list(format!("names {} kinds, but at most {CONFIGURED_KINDS_MAX} are allowed", entries.len())));
    }
    let (mut kinds, mut seen) = (Vec::new(), HashSet::new());
    for (at, entry) in entries.iter().enumerate() {
        let of_entry = |problem: &str| (format!("/{at}"), problem.to_owned());
        let kind = kind_of(entry)
            .ok_or_else(|| of_entry("is not a kind, which has an `apiVersion`, a `kind`, and nothing else"))?;
        // Versions of a kind show the same objects.
        if !seen.insert(suffix(&kind)) {
            return Err(of_entry("is the kind of an earlier entry"));
        }
        kinds.push(kind);
    }
    Ok(kinds)
}

fn kind_of(entry: &Value) -> Option<ObjectKind> {
    let members = entry.as_object().filter(|members| members.len() == 2)?;
    let text = |name: &str| members.get(name)?.as_str().map(str::to_owned);
    ObjectKind::checked(text("apiVersion")?, text("kind")?).ok()
}

/// The kind as a part of a controller's name, such as `deployment.apps`.
fn suffix(kind: &ObjectKind) -> String {
    let group = kind.group();
    let name = kind.kind.to_lowercase();
    if group.is_empty() { name } else { format!("{name}.{group}") }
}

impl Manifest {
    /// The JSON pointers to where the configuration names kinds. Empty if the manifest itself names all of them.
    #[must_use]
    pub fn kind_pointers(&self) -> BTreeSet<&str> {
        pointers(&self.controllers)
    }

    /// The same manifest with the kinds that the configuration names filled in. A controller that is left without
    /// primaries is left out.
    #[must_use]
    pub fn with_kinds(&self, kinds: &ConfiguredKinds) -> Self {
        let controllers = self.controllers.iter().flat_map(|controller| controller.with_kinds(kinds)).collect();
        Self { controllers, ..self.clone() }
    }
}

impl Controller {
    /// The kinds of the primaries that the configuration names. `None` if the manifest names the kind.
    #[must_use]
    pub fn configured_primaries<'a>(&self, kinds: &'a ConfiguredKinds) -> Option<&'a [ObjectKind]> {
        self.primary.lacks_kind().map(|pointer| kinds.at(pointer))
    }

    /// The name of the controller for primaries of `kind`, such as `janitor.deployment.apps`. No manifest can name a
    /// controller so.
    #[must_use]
    pub fn name_for(&self, kind: &ObjectKind) -> String {
        format!("{}.{}", self.name, suffix(kind))
    }

    /// The controller with the kinds of its watches filled in, and with primaries of the kind `primary` if the
    /// configuration names that kind. The controller keeps its name.
    #[must_use]
    pub fn of_kinds(&self, primary: Option<&ObjectKind>, kinds: &ConfiguredKinds) -> Self {
        let primary = primary.map_or_else(|| self.primary.clone(), |kind| self.primary.of_kind(kind));
        let watches = self.watches.iter().flat_map(|watch| watch.with_kinds(kinds)).collect();
        Self { primary, watches, ..self.clone() }
    }

    /// The number of watches that this controller needs with these `kinds`, for each controller that it becomes and
    /// each namespace.
    fn watch_count(&self, kinds: &ConfiguredKinds) -> usize {
        let kinds_of = |watch: &Watch| watch.lacks_kind().map_or(1, |pointer| kinds.at(pointer).len());
        let of = |watch: &Watch| kinds_of(watch) * watch.namespaces.len().max(1);
        let primary = self.primary.namespaces.len().max(1);
        let others: usize = self.owns.iter().chain(&self.watches).map(of).sum();
        kinds_of(&self.primary) * (primary + others)
    }

    /// The number of workers of the controllers that this controller becomes with these `kinds`. `None` if the
    /// manifest names the kind of its primaries.
    fn worker_count(&self, kinds: &ConfiguredKinds) -> Option<usize> {
        let workers = usize::try_from(self.options.workers).unwrap_or(usize::MAX);
        Some(self.configured_primaries(kinds)?.len().saturating_mul(workers))
    }

    /// The controllers that this controller becomes, with names of their own.
    fn with_kinds(&self, kinds: &ConfiguredKinds) -> Vec<Self> {
        match self.configured_primaries(kinds) {
            None => vec![self.of_kinds(None, kinds)],
            Some(primaries) => {
                let of_kind = |kind| Self { name: self.name_for(kind), ..self.of_kinds(Some(kind), kinds) };
                primaries.iter().map(of_kind).collect()
            }
        }
    }
}

impl Watch {
    /// Where the configuration names its kinds, if they are not filled in.
    #[must_use]
    pub fn lacks_kind(&self) -> Option<&str> {
        self.kinds_from.as_deref().filter(|_| self.kind.is_empty())
    }

    fn of_kind(&self, kind: &ObjectKind) -> Self {
        Self { api_version: kind.api_version.to_string(), kind: kind.kind.to_string(), ..self.clone() }
    }

    fn with_kinds(&self, kinds: &ConfiguredKinds) -> Vec<Self> {
        match self.lacks_kind() {
            None => vec![self.clone()],
            Some(pointer) => kinds.at(pointer).iter().map(|kind| self.of_kind(kind)).collect(),
        }
    }
}
