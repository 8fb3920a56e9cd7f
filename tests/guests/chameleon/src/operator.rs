//! The mode of an operator among many. Each has its own kind, and all of them own Pods and `ConfigMap`s.

use windlass_sdk::manifest::{Controller, Manifest, Watch};

/// The operator with this number. Its plugin is named like its mode, so that one directory can contain many.
pub(crate) fn manifest(number: u16) -> Manifest {
    let group_version = format!("op{number}.density.windlass.dev/v1");
    let controller = Controller::new("operator", Watch::of(group_version, format!("Op{number}")))
        .owns(Watch::of("v1", "Pod"))
        .owns(Watch::of("v1", "ConfigMap"));
    Manifest::new(format!("operator-{number}"), "0.1.0").controller(controller)
}
