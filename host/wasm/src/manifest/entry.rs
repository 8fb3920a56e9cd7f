//! What makes sense for a composer and not for a reconciler, and the other way round.

use std::collections::HashSet;

use windlass_core::compose;
use windlass_core::object::ObjectKind;

use super::{Controller, Manifest, ManifestError, Projection, UpdateStrategy, Watch};
use crate::component::Entry;

impl Manifest {
    /// Refuses what a plugin with this entry cannot mean.
    pub(crate) fn check_entry(&self, entry: Entry) -> Result<(), ManifestError> {
        let mut problems = Vec::new();
        for (index, controller) in self.controllers.iter().enumerate() {
            let path = format!("controllers[{index}]");
            match entry {
                Entry::Reconciler => check_reconciler(controller, &path, &mut problems),
                Entry::Composer => check_composer(controller, &path, &mut problems),
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ManifestError::Invalid(problems)) }
    }
}

fn check_reconciler(controller: &Controller, path: &str, problems: &mut Vec<String>) {
    for (index, watch) in controller.owns.iter().enumerate() {
        if watch.update_strategy.is_some() {
            problems.push(format!(
                "{path}.owns[{index}].updateStrategy: a reconciler writes its children itself; only composers have it"
            ));
        }
    }
}

fn check_composer(controller: &Controller, path: &str, problems: &mut Vec<String>) {
    if controller.options.finalizer {
        problems.push(format!(
            "{path}.options.finalizer: a composer has nothing to clean up; its children go with their parent"
        ));
    }
    let mut seen = HashSet::<ObjectKind>::new();
    for (index, watch) in controller.owns.iter().enumerate() {
        let path = format!("{path}.owns[{index}]");
        if !seen.insert(watch.object_kind()) {
            problems.push(format!("{path}: {} is owned twice", watch.object_kind()));
        }
        if watch.update_strategy == Some(UpdateStrategy::Recreate) && watch.projection != (Projection::Full {}) {
            problems.push(format!(
                "{path}.projection: `recreate` compares whole children, so it needs the projection `full`"
            ));
        }
    }
}

impl Watch {
    /// How children of this kind change.
    #[must_use]
    pub fn core_strategy(&self) -> compose::UpdateStrategy {
        match self.update_strategy {
            None | Some(UpdateStrategy::InPlace) => compose::UpdateStrategy::InPlace,
            Some(UpdateStrategy::Recreate) => compose::UpdateStrategy::Recreate,
            Some(UpdateStrategy::OnDelete) => compose::UpdateStrategy::OnDelete,
        }
    }
}
