//! The mode of an operator among many: each has a kind of its own, and all own Pods and `ConfigMap`s.

use windlass_sdk::manifest::{Controller, Manifest, Watch};

/// The operator with this number. Its plugin has the name of its mode, so that one directory holds many.
pub(crate) fn manifest(number: u16) -> Manifest {
    let group_version = format!("op{number}.density.windlass.dev/v1");
    let controller = Controller::new("operator", Watch::of(group_version, format!("Op{number}")))
        .owns(Watch::of("v1", "Pod"))
        .owns(Watch::of("v1", "ConfigMap"));
    Manifest::new(format!("operator-{number}"), "0.1.0").controller(controller)
}
