//! The manifest's types and `wit/manifest.schema.json` match.

mod support;

use serde_json::{Map, Value, json};
use windlass_sdk::manifest::{
    Backoff, Controller, ExpectationTimeout, HttpAccess, HttpScheme, IndexSource, Limiter, Manifest, Mapping, Metric,
    MetricType, MissedTimes, Options, Permission, Predicate, Projection, ReferencePath, SelectorForm, Timer,
    UpdateStrategy, Watch, Where, WriteVerb,
};

use support::{misfits, resolve, schema};

/// A manifest that uses every field.
fn full_manifest() -> Manifest {
    let pointers = || vec!["/spec/image".to_owned()];
    let key = || "app".to_owned();
    let refs = || ReferencePath::new("/spec/refs/*", "/name").namespace("/namespace");
    let primary = Watch::of("example.dev/v1", "Thing")
        .namespace("prod")
        .labels("a=b")
        .fields("metadata.name=c")
        .only(Where::any([Where::annotation("a").is("true"), Where::annotation("b").exists()]))
        .only(Where::field("/spec/replicas").is_in([1, 2]))
        .only(Where::field("/spec/paused").not_in([true]))
        .only(Where::field("/status").is_absent())
        .projection(Projection::Full)
        .managed_fields()
        .index("image", IndexSource::Field { pointer: "/spec/image".into() })
        .index("app", IndexSource::Label { key: key() })
        .index("uses", IndexSource::Annotation { key: "example.dev/uses".into(), split: Some(',') })
        .index("note", IndexSource::Annotation { key: "example.dev/note".into(), split: None })
        .index("refs", IndexSource::Reference(refs()))
        .index("text", IndexSource::Selector { pointer: "/spec/text".into(), form: SelectorForm::Text })
        .index("selector", IndexSource::Selector { pointer: "/spec/selector".into(), form: SelectorForm::Labels })
        .predicate(Predicate::Generation)
        .predicate(Predicate::Labels)
        .predicate(Predicate::Annotations)
        .predicate(Predicate::Fields { pointers: pointers() })
        .predicate(Predicate::and([Predicate::Labels.negated(), Predicate::Generation]))
        .code_predicate()
        .call_fields(["/spec"])
        .named("things")
        .without_no_op_skip();
    let secrets = || Watch::of("v1", "Secret").projection(Projection::Metadata);
    let slim_pods = Watch::of("v1", "Pod").projection(Projection::Fields { pointers: pointers() });
    let controller = Controller::new("things", primary)
        .owns(slim_pods.update_strategy(UpdateStrategy::OnDelete).ignore_deletions())
        .watches(Watch::of("v1", "Secret").projection(Projection::Digest { pointers: pointers() }), Mapping::Owner)
        .watches(secrets(), Mapping::AnyOwner)
        .watches(secrets(), Mapping::Label { key: key() })
        .watches(secrets(), Mapping::Annotation { key: key() })
        .watches(secrets(), Mapping::Field { pointer: "/data/thing".into() })
        .watches(secrets(), Mapping::Reference(refs()))
        .watches(secrets(), Mapping::ReferencedBy { index: "image".into() })
        .watches(secrets().ignore_deletions().without_no_op_skip(), Mapping::SelectedBy { index: "selector".into() })
        .watches(secrets(), Mapping::SameName)
        .watches(secrets(), Mapping::None)
        .watches(secrets(), Mapping::All)
        .watches(Watch::kinds_from("/kinds").verb(WriteVerb::DeleteCollection), Mapping::SameName)
        .watches(secrets().named("mapped"), Mapping::Mapper)
        .watches(secrets().named("customized"), Mapping::Customize)
        .hook("pushed", Mapping::Field { pointer: "/payload/name".into() })
        .options(Options {
            workers: Some(4),
            max_retries: Some(15),
            backoff: Some(Backoff {
                limiter: Some(Limiter::MaxOf),
                base_ms: Some(5),
                max_ms: Some(1_000_000),
                per_second: Some(10),
                burst: Some(100),
            }),
            resync_ms: Some(36_000_000),
            deadline_ms: Some(30_000),
            finalizer: Some(true),
            status: Some(false),
            expectation_timeout: Some(ExpectationTimeout::Probe),
            saved_calls: Some(false),
        });
    Manifest::new("thing", "0.1.0")
        .description("Everything.")
        .controller(controller)
        .controller(Controller::new("nightly", nightly()))
        .controller(Controller::new("often", Timer::every_ms(60_000)))
        .crd(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {}}))
        .permission(Permission::new("", "pods/eviction", &["create"]).in_namespaces(&["prod"]).named(&["a"]))
        .metric(Metric::new("seconds", MetricType::Histogram, "Seconds.").labels(&["kind"]).buckets(&[0.1, 1.0]))
        .metric(Metric::new("things", MetricType::Gauge, "Things."))
        .metric(Metric::new("runs", MetricType::Counter, "Runs."))
        .config_schema(json!({"type": "object"}))
        .finalizer("example.com/protect")
        .http(HttpAccess::new(HttpScheme::Https, "*.example.com", &["GET"]).port(8443))
        .http(HttpAccess::new(HttpScheme::Http, "localhost", &["GET"]))
}

fn nightly() -> Timer {
    Timer::cron("0 3 * * *").time_zone("Europe/Berlin").jitter_ms(60_000).missed(MissedTimes::Skip)
}

fn minimal_manifest() -> Value {
    let controller = Controller::new("things", Watch::of("v1", "Secret"));
    serde_json::to_value(Manifest::new("thing", "0.1.0").controller(controller)).unwrap()
}

#[test]
fn a_full_and_a_minimal_manifest_fit_the_schema() {
    let schema = schema();
    assert_eq!(misfits(&schema, &schema, &serde_json::to_value(full_manifest()).unwrap(), ""), [""; 0]);
    assert_eq!(misfits(&schema, &schema, &minimal_manifest(), ""), [""; 0]);
}

#[test]
fn unset_options_are_left_out() {
    let expected = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "thing", "version": "0.1.0",
        "controllers": [{"name": "things", "primary": {"apiVersion": "v1", "kind": "Secret"}}],
    });
    assert_eq!(minimal_manifest(), expected);
}

#[test]
fn a_timer_takes_the_place_of_a_watch() {
    let primary = |timer: Timer| serde_json::to_value(Controller::new("a", timer)).unwrap()["primary"].clone();
    let timer = json!({"cron": "0 3 * * *", "timeZone": "Europe/Berlin", "jitterMs": 60_000, "missed": "skip"});
    assert_eq!(primary(nightly()), json!({"timer": timer}));
    assert_eq!(primary(Timer::every_ms(1000)), json!({"timer": {"intervalMs": 1000}}));
}

#[test]
fn a_finalizer_is_one_option_among_the_others() {
    let options = Options { workers: Some(2), ..Options::default() };
    let controller = Controller::new("things", Watch::of("v1", "Secret")).options(options).finalizer();
    let manifest = serde_json::to_value(Manifest::new("thing", "0.1.0").controller(controller)).unwrap();
    assert_eq!(manifest["controllers"][0]["options"], json!({"workers": 2, "finalizer": true}));
}

#[test]
fn a_full_manifest_has_every_property_of_the_schema() {
    let text = serde_json::to_string(&full_manifest()).unwrap();
    let mut missing = Vec::new();
    for_each_property(&schema(), &mut |name, _| {
        if !text.contains(&format!("\"{name}\":")) {
            missing.push(name.to_owned());
        }
    });
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_schema_describes_every_property_and_closes_every_object() {
    let schema = schema();
    for_each_property(&schema, &mut |name, property| {
        let described = property.get("description").or_else(|| resolve(&schema, property).get("description"));
        assert!(described.is_some(), "{name} has no description");
    });
    let misspelt = |pointer: &str| {
        let mut manifest = serde_json::to_value(full_manifest()).unwrap();
        manifest.pointer_mut(pointer).unwrap()["wrokers"] = json!(1);
        misfits(&schema, &schema, &manifest, "")
    };
    for pointer in ["", "/controllers/0", "/controllers/0/primary", "/controllers/0/options", "/config", "/http/0"] {
        assert_eq!(misspelt(pointer), [format!("{pointer}/wrokers: not in the schema")]);
    }
}

/// Visits the properties of all objects in the schema, except those of a CRD, which are Kubernetes' own.
fn for_each_property(schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match schema {
        Value::Object(keywords) => {
            for (name, property) in keywords.get("properties").and_then(Value::as_object).unwrap_or(&Map::new()) {
                visit(name, property);
            }
            keywords.values().for_each(|keyword| for_each_property(keyword, visit));
        }
        Value::Array(schemas) => schemas.iter().for_each(|schema| for_each_property(schema, visit)),
        _ => {}
    }
}
