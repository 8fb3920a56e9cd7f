//! The two kinds of plugins, and the fields that make sense for only one of them.

use std::collections::HashSet;

use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::watch::Projection;
use windlass_core::call::compose::UpdateStrategy;
use windlass_core::object::ObjectKind;

use super::{Controller, Manifest, ManifestError};

/// The function that the host calls in a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryPoint {
    /// `reconcile`: the plugin makes the cluster match the desired state itself.
    Reconciler,
    /// `compose`: the plugin returns the desired state, and the host applies it.
    Composer,
}

impl Manifest {
    /// Refuses fields that make no sense for a plugin with this entry point. `has_optional` says whether the plugin
    /// also exports the optional interface to which a watch can leave its mapping: `mapper` or `customize`.
    pub fn check_entry(&self, entry: EntryPoint, has_optional: bool) -> Result<(), ManifestError> {
        let mut problems = Vec::new();
        for (index, controller) in self.controllers.iter().enumerate() {
            let path = format!("controllers[{index}]");
            match entry {
                EntryPoint::Reconciler => check_reconciler(controller, &path, &mut problems),
                EntryPoint::Composer => check_composer(controller, &path, &mut problems),
            }
            check_code(controller, entry, has_optional, &path, &mut problems);
        }
        if problems.is_empty() { Ok(()) } else { Err(ManifestError::Invalid(problems)) }
    }
}

fn check_reconciler(controller: &Controller, path: &str, problems: &mut Vec<String>) {
    for (index, watch) in controller.owns.iter().enumerate() {
        if watch.update_strategy.is_some() {
            problems.push(format!(
                "{path}.owns[{index}].updateStrategy: only composers have it: a reconciler writes its children itself"
            ));
        }
    }
}

fn check_composer(controller: &Controller, path: &str, problems: &mut Vec<String>) {
    if let Some(pointer) = controller.all_watches().find_map(|watch| watch.kinds_from.as_deref()) {
        problems.push(format!("{path}: only reconcilers may take kinds from the configuration, here at `{pointer}`"));
    }
    let mut seen = HashSet::<ObjectKind>::new();
    for (index, watch) in controller.owns.iter().enumerate() {
        let path = format!("{path}.owns[{index}]");
        if !seen.insert(watch.object_kind()) {
            problems.push(format!("{path}: {} is owned twice", watch.object_kind()));
        }
        if !watch.conditions.is_empty() {
            problems.push(format!("{path}.where: the host must see all children of a composer, to change them"));
        }
        if !watch.deleted {
            problems.push(format!(
                "{path}.deleted: must be true, because the host creates a deleted child of a composer again"
            ));
        }
        if watch.update_strategy == Some(UpdateStrategy::Recreate) && watch.projection != Projection::Full {
            problems.push(format!(
                "{path}.projection: `recreate` compares whole children, so it needs the projection `full`"
            ));
        }
    }
}

/// Checks the watches that the plugin's own code maps.
fn check_code(controller: &Controller, entry: EntryPoint, has_optional: bool, path: &str, problems: &mut Vec<String>) {
    for (index, watch) in controller.watches.iter().enumerate() {
        let problem = match (&watch.mapping, entry) {
            (Some(Mapping::Mapper), EntryPoint::Composer) => {
                "`mapper` is only for reconcilers: a composer receives the objects that concern its parent in the \
                 request, and chooses them by `customize`"
            }
            (Some(Mapping::Customize), EntryPoint::Reconciler) => {
                "`customize` is only for composers: a reconciler maps changes to primaries by `mapper`"
            }
            (Some(Mapping::Mapper), EntryPoint::Reconciler) if !has_optional => {
                "the plugin exports no `windlass:plugin/mapper@0.2.0`: add a mapper, as the SDK's README shows, or \
                 declare another mapping"
            }
            (Some(Mapping::Customize), EntryPoint::Composer) if !has_optional => {
                "the plugin exports no `windlass:plugin/customize@0.2.0`: add it, as the SDK's README shows, or \
                 declare another mapping"
            }
            _ => continue,
        };
        problems.push(format!("{path}.watches[{index}].mapping: {problem}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(entry: EntryPoint, controller: &Value) -> String {
        problems_with(entry, controller, false)
    }

    fn problems_with(entry: EntryPoint, controller: &Value, has_optional: bool) -> String {
        let mut whole = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{"name": "a", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}}],
        });
        for (field, value) in controller.as_object().expect("fields") {
            whole["controllers"][0][field] = value.clone();
        }
        let manifest = Manifest::from_json(&whole.to_string()).expect("valid for another entry point");
        manifest.check_entry(entry, has_optional).map_or_else(|error| error.to_string(), |()| String::new())
    }

    fn owning(strategy: &str, projection: &str) -> Value {
        json!({"owns": [{
            "apiVersion": "v1", "kind": "Secret", "updateStrategy": strategy, "projection": {"type": projection},
        }]})
    }

    #[test]
    fn only_composers_have_update_strategies() {
        assert!(problems(EntryPoint::Reconciler, &owning("inPlace", "full")).contains("owns[0].updateStrategy"));
        for strategy in ["inPlace", "recreate", "onDelete"] {
            assert_eq!(problems(EntryPoint::Composer, &owning(strategy, "full")), "");
        }
    }

    #[test]
    fn recreate_needs_the_full_projection() {
        assert_eq!(problems(EntryPoint::Composer, &owning("inPlace", "metadata")), "");
        assert!(problems(EntryPoint::Composer, &owning("recreate", "metadata")).contains("owns[0].projection"));
    }

    #[test]
    fn a_composer_always_reacts_to_deleted_children() {
        let owns = json!({"owns": [{"apiVersion": "v1", "kind": "Secret", "deleted": false}]});
        assert!(problems(EntryPoint::Composer, &owns).contains("owns[0].deleted"));
        assert_eq!(problems(EntryPoint::Reconciler, &owns), "");
    }

    #[test]
    fn a_composers_children_cannot_be_hidden_by_conditions() {
        let conditions = json!([{"annotation": "a", "exists": true}]);
        let owns = json!({"owns": [{"apiVersion": "v1", "kind": "Secret", "where": conditions}]});
        assert!(problems(EntryPoint::Composer, &owns).contains("owns[0].where"));
        assert_eq!(problems(EntryPoint::Reconciler, &owns), "");
    }

    #[test]
    fn a_composer_cannot_own_a_kind_twice() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret"});
        assert!(problems(EntryPoint::Composer, &json!({"owns": [secret, secret]})).contains("owned twice"));
        assert_eq!(problems(EntryPoint::Reconciler, &json!({"owns": [secret, secret]})), "");
        assert_eq!(problems(EntryPoint::Composer, &json!({"options": {"finalizer": true}})), "");
    }

    #[test]
    fn mappings_by_code_need_the_export_that_fits_the_entry_point() {
        let watching = |mapping: &str| {
            let watch = json!({"name": "pods", "apiVersion": "v1", "kind": "Pod", "mapping": {"type": mapping}});
            json!({"watches": [watch]})
        };
        for (mapping, its, other) in [
            ("mapper", EntryPoint::Reconciler, EntryPoint::Composer),
            ("customize", EntryPoint::Composer, EntryPoint::Reconciler),
        ] {
            assert_eq!(problems_with(its, &watching(mapping), true), "");
            let missing = problems_with(its, &watching(mapping), false);
            assert!(missing.contains(&format!("exports no `windlass:plugin/{mapping}@0.2.0`")), "{missing}");
            let wrong = problems_with(other, &watching(mapping), true);
            assert!(wrong.contains(&format!("watches[0].mapping: `{mapping}` is only for ")), "{wrong}");
        }
    }
}
