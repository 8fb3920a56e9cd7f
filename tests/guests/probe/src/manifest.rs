//! The probe's manifest. The README lists its watches and rights. Tests rely on the rights that it lacks.

use windlass_sdk::manifest::{
    Controller, HttpAccess, HttpScheme, IndexSource, Manifest, Mapping, Metric, MetricType, Permission, Watch,
};

pub(crate) const API_VERSION: &str = "probe.windlass.dev/v1";
pub(crate) const KIND: &str = "Probe";

/// The label of the watched objects that are not owned. Its value names the Probe that a change runs.
const SEEN: &str = "probe.windlass.dev/probe";

pub(crate) fn manifest() -> Manifest {
    let manifest = Manifest::new("probe", "0.1.0").controller(controller());
    permissions().into_iter().fold(with_outside(manifest), Manifest::permission)
}

fn controller() -> Controller {
    let color = IndexSource::Field { pointer: "/data/color".into() };
    let tier = IndexSource::Label { key: "tier".into() };
    let owned = Watch::of("v1", "ConfigMap").index("by-color", color).index("by-tier", tier);
    let seen = |kind: &str| Watch::of("v1", kind).labels(SEEN);
    let mapping = || Mapping::Label { key: SEEN.into() };
    Controller::new("probe", Watch::of(API_VERSION, KIND))
        .owns(owned)
        .watches(seen("Secret"), mapping())
        .watches(seen("Namespace"), mapping())
}

/// These rights are left out on purpose: writing Secrets, deleting Services, and everything in the group `batch`.
fn permissions() -> Vec<Permission> {
    const ALL: &[&str] = &["get", "list", "create", "update", "patch", "delete"];
    vec![
        Permission::new("probe.windlass.dev", "probes", ALL),
        Permission::new("", "namespaces", ALL),
        Permission::new("", "pods", ALL),
        Permission::new("", "pods/status", &["get", "update", "patch"]),
        Permission::new("", "pods/eviction", &["create"]),
        Permission::new("", "services", &["get", "list", "create", "update", "patch"]),
        Permission::new("apps", "deployments", ALL),
        Permission::new("apps", "deployments/scale", &["get", "update", "patch"]),
        Permission::new("apiextensions.k8s.io", "customresourcedefinitions", &["get", "list"]),
        Permission::new("absent.windlass.dev", "*", ALL),
    ]
}

/// Adds metrics of each type, a host, and an address that only an operator can open.
fn with_outside(manifest: Manifest) -> Manifest {
    manifest
        .metric(Metric::new("counted_total", MetricType::Counter, "What scripts counted.").labels(&["color"]))
        .metric(Metric::new("level", MetricType::Gauge, "What a script found last."))
        .metric(Metric::new("sizes", MetricType::Histogram, "What scripts measured.").buckets(&[1.0, 10.0]))
        .http(HttpAccess::new(HttpScheme::Https, "api.probe.test", &["GET"]))
        .http(HttpAccess::new(HttpScheme::Http, "127.0.0.1", &["GET"]).port(9))
}
