//! The two kinds of plugins, reconcilers and composers, and the fields that only one of them may use.

use std::collections::HashSet;

use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::watch::Projection;
use windlass_core::call::compose::UpdateStrategy;
use windlass_core::object::ObjectKind;

use super::{Controller, Manifest, ManifestError, Watch};

/// The function that the host calls in a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryPoint {
    /// `reconcile`: the plugin makes the cluster match the desired state itself.
    Reconciler,
    /// `compose`: the plugin returns the desired state, and the host applies it.
    Composer,
}

/// The exports of a plugin beside its entry point.
#[derive(Clone, Copy, Debug)]
pub struct OptionalExports<'a> {
    /// The version of the interface that the plugin was built for, such as `0.3.0`.
    pub version: &'a str,
    /// Whether the plugin exports the interface that a watch can use as its mapping: a reconciler's `mapper`,
    /// or a composer's `customize`.
    pub relations: bool,
    /// Whether its mapper has the function `matches`.
    pub matches: bool,
}

impl Manifest {
    /// Refuses fields that make no sense for a plugin with this entry point and these other `exports`.
    pub fn check_entry(&self, entry: EntryPoint, exports: OptionalExports<'_>) -> Result<(), ManifestError> {
        let mut problems = Vec::new();
        for (index, controller) in self.controllers.iter().enumerate() {
            let path = format!("controllers[{index}]");
            match entry {
                EntryPoint::Reconciler => check_reconciler(controller, &path, &mut problems),
                EntryPoint::Composer => check_composer(controller, &path, &mut problems),
            }
            check_code(controller, entry, exports, &path, &mut problems);
        }
        if problems.is_empty() { Ok(()) } else { Err(ManifestError::Invalid(problems)) }
    }
}

/// The watches except the primary's, with their places.
fn others<'a>(controller: &'a Controller, path: &str) -> impl Iterator<Item = (String, &'a Watch)> {
    let owns = controller.owns.iter().enumerate().map(move |(index, watch)| (format!("owns[{index}]"), watch));
    let watches = controller.watches.iter().enumerate().map(|(index, watch)| (format!("watches[{index}]"), watch));
    owns.chain(watches).map(move |(place, watch)| (format!("{path}.{place}"), watch))
}

fn check_reconciler(controller: &Controller, path: &str, problems: &mut Vec<String>) {
    for (place, watch) in others(controller, path) {
        if watch.update_strategy.is_some() {
            problems.push(format!(
                "{place}.updateStrategy: only composers have it: a reconciler writes its children itself"
            ));
        }
        if watch.call_fields.is_some() {
            problems.push(format!(
                "{place}.callFields: a reconciler has this for its primary only: in each read, it names the fields that it \
                 wants"
            ));
        }
    }
}

fn check_composer(controller: &Controller, path: &str, problems: &mut Vec<String>) {
    if let Some(pointer) = controller.all_watches().find_map(|watch| watch.kinds_from.as_deref()) {
        problems.push(format!("{path}: only reconcilers may take kinds from the configuration, here at `{pointer}`"));
    }
    if controller.primary.timer.is_some() {
        problems.push(format!(
            "{path}.primary.timer: only reconcilers may have a timer: it is no object in the cluster, so it cannot own \
             a composer's children"
        ));
    }
    for (index, _) in controller.watches.iter().enumerate().filter(|(_, it)| it.mapping == Some(Mapping::None)) {
        problems.push(format!(
            "{path}.watches[{index}].mapping: `none` is only for reconcilers: a composer receives what concerns its \
             parent, and reads nothing else"
        ));
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

/// Checks the watches about which the plugin's own code decides.
fn check_code(
    controller: &Controller,
    entry: EntryPoint,
    exports: OptionalExports<'_>,
    path: &str,
    problems: &mut Vec<String>,
) {
    let OptionalExports { version, relations: has_optional, .. } = exports;
    let primary = std::iter::once((format!("{path}.primary"), &controller.primary));
    for (place, _) in primary.chain(others(controller, path)).filter(|(_, watch)| watch.code_predicate) {
        if let Some(problem) = predicate_problem(entry, exports) {
            problems.push(format!("{place}.codePredicate: {problem}"));
        }
    }
    for (index, watch) in controller.watches.iter().enumerate() {
        let problem = match (&watch.mapping, entry) {
            (Some(Mapping::Mapper), EntryPoint::Composer) => {
                "`mapper` is only for reconcilers: a composer receives the objects that concern its parent in the \
                 request, and chooses them by `customize`"
                    .to_owned()
            }
            (Some(Mapping::Customize), EntryPoint::Reconciler) => {
                "`customize` is only for composers: a reconciler maps changes to primaries by `mapper`".to_owned()
            }
            (Some(Mapping::Mapper), EntryPoint::Reconciler) if !has_optional => {
                format!("{}, or declare another mapping", no_mapper(version))
            }
            (Some(Mapping::Customize), EntryPoint::Composer) if !has_optional => {
                format!(
                    "the plugin exports no `windlass:plugin/customize@{version}`: add it, as the SDK's README shows, or \
                     declare another mapping"
                )
            }
            _ => continue,
        };
        problems.push(format!("{path}.watches[{index}].mapping: {problem}"));
    }
    for (index, _) in controller.hooks.iter().enumerate().filter(|(_, hook)| hook.mapping == Mapping::Mapper) {
        let problem = match entry {
            EntryPoint::Composer => "`mapper` is only for reconcilers: declare another mapping".to_owned(),
            EntryPoint::Reconciler if !has_optional => format!("{}, or declare another mapping", no_mapper(version)),
            EntryPoint::Reconciler => continue,
        };
        problems.push(format!("{path}.hooks[{index}].mapping: {problem}"));
    }
}

fn no_mapper(version: &str) -> String {
    format!("the plugin exports no `windlass:plugin/mapper@{version}`: add a mapper, as the SDK's README shows")
}

/// Why a watch cannot have a predicate in the plugin's code. `None` if it can.
fn predicate_problem(entry: EntryPoint, exports: OptionalExports<'_>) -> Option<String> {
    let OptionalExports { version, relations: has_mapper, matches } = exports;
    match entry {
        EntryPoint::Composer => Some(
            "only reconcilers have it: a composer is composed when the primary or an object that concerns it changes"
                .to_owned(),
        ),
        EntryPoint::Reconciler if !has_mapper => Some(format!("{}, or leave this out", no_mapper(version))),
        EntryPoint::Reconciler if !matches => Some(format!(
            "the plugin is built for the interface {version}, whose mapper has no `matches`: build it with an SDK of 0.3.0 \
             or later"
        )),
        EntryPoint::Reconciler => None,
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
        let exports = OptionalExports { version: "0.3.0", relations: has_optional, matches: has_optional };
        manifest.check_entry(entry, exports).map_or_else(|error| error.to_string(), |()| String::new())
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
            assert!(missing.contains(&format!("exports no `windlass:plugin/{mapping}@0.3.0`")), "{missing}");
            let wrong = problems_with(other, &watching(mapping), true);
            assert!(wrong.contains(&format!("watches[0].mapping: `{mapping}` is only for ")), "{wrong}");
        }
    }
    #[test]
    fn only_reconcilers_with_a_newer_mapper_have_predicates_by_code() {
        let judged = json!({"apiVersion": "v1", "kind": "Pod", "name": "pods", "codePredicate": true});
        let mapped = json!({"name": "secrets", "apiVersion": "v1", "kind": "Secret", "codePredicate": true, "mapping": {"type": "all"}});
        for (field, watches) in [("primary", judged.clone()), ("owns", json!([judged])), ("watches", json!([mapped]))] {
            let controller = json!({field: watches});
            assert_eq!(problems_with(EntryPoint::Reconciler, &controller, true), "");
            let missing = problems_with(EntryPoint::Reconciler, &controller, false);
            assert!(
                missing.contains(".codePredicate: the plugin exports no `windlass:plugin/mapper@0.3.0`"),
                "{missing}"
            );
            let composer = problems_with(EntryPoint::Composer, &controller, true);
            assert!(composer.contains(&format!("controllers[0].{field}")), "{composer}");
            assert!(composer.contains(".codePredicate: only reconcilers"), "{composer}");
        }
        let old = OptionalExports { version: "0.2.0", relations: true, matches: false };
        let said = predicate_problem(EntryPoint::Reconciler, old).expect("it has none");
        assert!(said.contains("0.2.0") && said.contains("`matches`"), "{said}");
    }

    #[test]
    fn call_fields_are_for_reconcilers_primaries_and_all_of_composers_watches() {
        let pods = json!({"apiVersion": "v1", "kind": "Pod", "callFields": ["/spec"]});
        let primary = json!({"primary": pods});
        let watched = json!({"apiVersion": "v1", "kind": "Pod", "callFields": [], "mapping": {"type": "all"}});
        let others = json!({"owns": [pods], "watches": [watched]});
        for entry in [EntryPoint::Reconciler, EntryPoint::Composer] {
            assert_eq!(problems(entry, &primary), "");
        }
        assert_eq!(problems(EntryPoint::Composer, &others), "");
        let refused = problems(EntryPoint::Reconciler, &others);
        for place in ["owns[0].callFields", "watches[0].callFields"] {
            assert!(
                refused.contains(&format!("controllers[0].{place}: a reconciler has this for its primary")),
                "{refused}"
            );
        }
    }
}
