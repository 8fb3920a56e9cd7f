//! What a manifest may say and this version does not carry out. Each has its issue; none is silently ignored.

use super::{Controller, Manifest, Mapping, Projection, Watch};

impl Manifest {
    /// Where the manifest asks for something that this version does not implement, and what.
    #[must_use]
    pub fn unimplemented(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (index, controller) in self.controllers.iter().enumerate() {
            of_controller(controller, &format!("controllers[{index}]"), &mut found);
        }
        for (present, field) in [
            (!self.crds.is_empty(), "crds: installing definitions"),
            (!self.metrics.is_empty(), "metrics: metrics of plugins"),
            (self.config.is_some(), "config: configuration of plugins"),
            (!self.http.is_empty(), "http: HTTP requests"),
        ] {
            if present {
                found.push(field.to_owned());
            }
        }
        found
    }
}

fn of_controller(controller: &Controller, path: &str, found: &mut Vec<String>) {
    of_watch(&controller.primary, &format!("{path}.primary"), found);
    for (field, watches) in [("owns", &controller.owns), ("watches", &controller.watches)] {
        for (index, watch) in watches.iter().enumerate() {
            of_watch(watch, &format!("{path}.{field}[{index}]"), found);
        }
    }
    if controller.options.finalizer {
        found.push(format!("{path}.options.finalizer: finalizers"));
    }
}

fn of_watch(watch: &Watch, path: &str, found: &mut Vec<String>) {
    if watch.projection != (Projection::Full {}) {
        found.push(format!("{path}.projection: projections other than `full`"));
    }
    if !watch.indexes.is_empty() {
        found.push(format!("{path}.indexes: indexes"));
    }
    match watch.mapping {
        Some(Mapping::ReferencedBy { .. }) => found.push(format!("{path}.mapping: the mapping `referencedBy`")),
        Some(Mapping::All {}) => found.push(format!("{path}.mapping: the mapping `all`")),
        _ => {}
    }
}
