//! The manifest of tests/conformance/manifest.json.

use serde_json::json;
use windlass_sdk::manifest::{
    Backoff, Controller, ExpectationTimeout, HttpAccess, HttpScheme, IndexSource, Manifest, Mapping, Options,
    Permission, Predicate, Projection, Watch,
};
use windlass_sdk::metrics::{Counter, Gauge, Histogram};

pub(crate) const COUNTED: Counter<1> = Counter::new("counted_total", "What was counted.", ["color"]);
pub(crate) const LEVEL: Gauge<0> = Gauge::new("level", "What was found last.", []);
pub(crate) const SIZES: Histogram<0> = Histogram::new("sizes", "What was measured.", []).buckets(&[1.5, 10.0]);

const FOR: &str = "conformance.windlass.dev/for";

pub(crate) fn manifest() -> Manifest {
    Manifest::new("conformance", "0.1.0")
        .description("Does what its primary says, in every language alike.")
        .controller(controller())
        .permission(Permission::new("", "configmaps", &["get", "create", "patch", "delete"]).in_namespaces(&["prod"]))
        .permission(Permission::new("apps", "deployments/scale", &["patch"]).named(&["web"]))
        .metric(COUNTED)
        .metric(LEVEL)
        .metric(SIZES)
        .http(HttpAccess::new(HttpScheme::Https, "api.example.com", &["GET", "POST"]).port(8443))
        .config_schema(json!({"type": "object", "properties": {"greeting": {"type": "string"}}}))
        .finalizer("conformance.windlass.dev/old")
}

fn controller() -> Controller {
    let primary = Watch::of("conformance.windlass.dev/v1", "Conformance")
        .call_fields(["/spec"])
        .predicate(Predicate::Generation)
        .predicate(Predicate::Labels)
        .predicate(Predicate::Fields { pointers: vec!["/spec/steps".into()] })
        .index("secrets", IndexSource::Field { pointer: "/spec/secrets".into() });
    let maps = Watch::of("v1", "ConfigMap")
        .labels("conformance=yes")
        .namespace("prod")
        .namespace("test")
        .projection(Projection::Fields { pointers: vec!["/data".into()] })
        .index("tier", IndexSource::Label { key: "tier".into() });
    let secrets = Watch::of("v1", "Secret").fields("type=Opaque");
    let claims = Watch::of("v1", "PersistentVolumeClaim");
    Controller::new("conformance", primary)
        .owns(maps)
        .owns(Watch::of("apps/v1", "Deployment").projection(Projection::Metadata))
        .watches(secrets, Mapping::ReferencedBy { index: "secrets".into() })
        .watches(Watch::of("v1", "Service"), Mapping::Label { key: FOR.into() })
        .watches(Watch::of("v1", "Pod"), Mapping::Annotation { key: FOR.into() })
        .watches(claims, Mapping::Field { pointer: "/spec/volumeName".into() })
        .watches(Watch::of("v1", "ServiceAccount"), Mapping::SameName)
        .watches(Watch::of("v1", "Namespace"), Mapping::All)
        .watches(Watch::of("v1", "Endpoints").named("mapped").code_predicate(), Mapping::Mapper)
        .options(options())
}

fn options() -> Options {
    Options {
        workers: Some(2),
        max_retries: Some(5),
        backoff: Some(Backoff { base_ms: Some(10), max_ms: Some(60_000), ..Backoff::default() }),
        resync_ms: Some(3_600_000),
        deadline_ms: Some(20_000),
        finalizer: Some(true),
        status: None,
        expectation_timeout: Some(ExpectationTimeout::Run),
        saved_calls: Some(false),
    }
}
