//! What a manifest may say and this version does not carry out. Each has its issue; none is silently ignored.

use super::{Controller, Manifest};

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
            (self.config.is_some(), "config: configuration of plugins"),
        ] {
            if present {
                found.push(field.to_owned());
            }
        }
        found
    }
}

fn of_controller(controller: &Controller, path: &str, found: &mut Vec<String>) {
    if controller.options.finalizer {
        found.push(format!("{path}.options.finalizer: finalizers"));
    }
}
