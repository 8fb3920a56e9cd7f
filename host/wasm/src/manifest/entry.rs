//! Checks the fields that make sense for a composer and not for a reconciler, and the other way round.

use std::collections::HashSet;

use windlass_core::compose;
use windlass_core::object::ObjectKind;

use super::{Controller, Manifest, ManifestError, Projection, UpdateStrategy, Watch};
use crate::entry::EntryPoint;

impl Manifest {
    /// Refuses what a plugin with this entry cannot mean.
    pub(crate) fn check_entry(&self, entry: EntryPoint) -> Result<(), ManifestError> {
        let mut problems = Vec::new();
        for (index, controller) in self.controllers.iter().enumerate() {
            let path = format!("controllers[{index}]");
            match entry {
                EntryPoint::Reconciler => check_reconciler(controller, &path, &mut problems),
                EntryPoint::Composer => check_composer(controller, &path, &mut problems),
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
    let mut seen = HashSet::<ObjectKind>::new();
    for (index, watch) in controller.owns.iter().enumerate() {
        let path = format!("{path}.owns[{index}]");
        if !seen.insert(watch.object_kind()) {
            problems.push(format!("{path}: {} is owned twice", watch.object_kind()));
        }
        if !watch.deleted {
            problems.push(format!(
                "{path}.deleted: the host makes a composer's child again when it has gone, so its deletion always counts"
            ));
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(entry: EntryPoint, controller: &Value) -> String {
        let mut whole = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{"name": "a", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}}],
        });
        for (field, value) in controller.as_object().expect("fields") {
            whole["controllers"][0][field] = value.clone();
        }
        let manifest = Manifest::from_json(&whole.to_string()).expect("valid but for its entry");
        manifest.check_entry(entry).map_or_else(|error| error.to_string(), |()| String::new())
    }

    fn owning(strategy: &str, projection: &str) -> Value {
        json!({"owns": [{
            "apiVersion": "v1", "kind": "Secret", "updateStrategy": strategy, "projection": {"type": projection},
        }]})
    }

    #[test]
    fn only_a_composer_has_update_strategies() {
        assert!(problems(EntryPoint::Reconciler, &owning("inPlace", "full")).contains("owns[0].updateStrategy"));
        for strategy in ["inPlace", "recreate", "onDelete"] {
            assert_eq!(problems(EntryPoint::Composer, &owning(strategy, "full")), "");
        }
    }

    #[test]
    fn children_that_are_compared_are_kept_whole() {
        assert_eq!(problems(EntryPoint::Composer, &owning("inPlace", "metadata")), "");
        assert!(problems(EntryPoint::Composer, &owning("recreate", "metadata")).contains("owns[0].projection"));
    }

    #[test]
    fn the_deletion_of_a_composers_child_always_counts() {
        let owns = json!({"owns": [{"apiVersion": "v1", "kind": "Secret", "deleted": false}]});
        assert!(problems(EntryPoint::Composer, &owns).contains("owns[0].deleted"));
        assert_eq!(problems(EntryPoint::Reconciler, &owns), "");
    }

    #[test]
    fn a_composer_owns_a_kind_once() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret"});
        assert!(problems(EntryPoint::Composer, &json!({"owns": [secret, secret]})).contains("owned twice"));
        assert_eq!(problems(EntryPoint::Reconciler, &json!({"owns": [secret, secret]})), "");
        assert_eq!(problems(EntryPoint::Composer, &json!({"options": {"finalizer": true}})), "");
    }
}
