//! Which conditions of a watch are read, which are refused, and with which messages.

use serde_json::{Value, json};
use windlass_manifest::{Manifest, Watch};

fn manifest(watch: &Value) -> Result<Manifest, String> {
    let mut primary = json!({"apiVersion": "v1", "kind": "Secret"});
    for (field, value) in watch.as_object().expect("fields") {
        primary[field] = value.clone();
    }
    let manifest = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "reloader", "version": "0.1.0",
        "controllers": [{"name": "reloader", "primary": primary}],
    });
    Manifest::from_json(&manifest.to_string()).map_err(|error| error.to_string())
}

fn watch(watch: &Value) -> Watch {
    manifest(watch).expect("valid").controllers[0].primary.clone()
}

fn error(conditions: &Value) -> String {
    manifest(&json!({"where": conditions})).expect_err("the manifest must be refused")
}

#[test]
fn conditions_are_part_of_a_watch_and_of_its_cache() {
    let conditions = json!([
        {"any": [{"annotation": "example.com/auto", "is": "true"}, {"annotation": "example.com/search", "exists": true}]},
        {"field": "/type", "in": ["Opaque", "kubernetes.io/tls"]},
    ]);
    let watch = watch(
        &json!({"where": conditions, "namespaces": ["a", "b"], "projection": {"type": "fields", "pointers": ["/x"]}}),
    );
    let shown = watch.specs().iter().map(ToString::to_string).collect::<Vec<_>>();
    let clause = r#"where (annotation "example.com/auto" is "true" or annotation "example.com/search" exists) and "/type" in ["Opaque", "kubernetes.io/tls"]"#;
    assert_eq!(
        shown,
        ["a", "b"].map(|namespace| format!("v1 Secret in {namespace} {clause} (/x)")),
        "`/type` is not kept"
    );
    assert!(watch.specs()[0].is_filtered());
}

#[test]
fn a_watch_without_conditions_is_not_filtered() {
    let plain = watch(&json!({}));
    assert_eq!(watch(&json!({"where": []})).specs(), plain.specs());
    assert!(!plain.specs()[0].is_filtered());
}

#[test]
fn a_condition_that_makes_no_sense_is_reported_with_its_place() {
    for (condition, place, reason) in [
        (json!({"annotation": "a", "is": true}), "", "an annotation is always a string, never true: write \"true\""),
        (json!({"annotation": "", "is": "x"}), ".annotation", "is empty"),
        (json!({"field": "spec.type", "is": "x"}), ".field", "is not a JSON pointer"),
        (json!({"field": "/a~2", "is": "x"}), ".field", "is not a JSON pointer"),
        (json!({"field": "/kind", "is": "x"}), ".field", "`/kind` is the same for all objects of the watch"),
        (json!({"field": "/metadata/managedFields/0", "exists": true}), ".field", "cannot be tested"),
        (json!({"field": "/a", "in": []}), ".in", "needs at least one value"),
        (json!({"field": "/a", "notIn": (0..257).collect::<Vec<_>>()}), ".notIn", "257 entries, but at most 256"),
        (json!({"any": []}), ".any", "needs at least one condition"),
        (
            json!({"any": [{"annotation": "a", "exists": true}, {"field": "b", "exists": true}]}),
            ".any[1].field",
            "JSON pointer",
        ),
        (json!({"anotation": "a", "is": "x"}), ".anotation", "did you mean `annotation`?"),
        (json!({"annotation": "a"}), "", "needs exactly one of `is`, `in`, `notIn` and `exists`"),
    ] {
        let message = error(&json!([{"field": "/kinds", "exists": true}, condition]));
        let expected = format!("controllers[0].primary.where[1]{place}: ");
        assert!(message.starts_with(&expected) && message.contains(reason), "{condition}: {message}");
    }
}

#[test]
fn a_where_clause_is_limited_in_size() {
    let tests = |count: usize| -> Vec<_> {
        (0..count).map(|at| json!({"annotation": format!("a{at}"), "exists": true})).collect()
    };
    assert!(manifest(&json!({"where": tests(64)})).is_ok());
    assert!(error(&json!(tests(65))).contains("primary.where: has 65 tests, but at most 64"));
    let any = json!([{"any": tests(40)}, {"any": tests(40)}]);
    assert!(error(&any).contains("primary.where: has 80 tests, but at most 64"));
    let long = |length: usize| json!([{"annotation": "a", "is": "x".repeat(length)}]);
    assert!(manifest(&json!({"where": long(16_000)})).is_ok());
    assert!(
        error(&long(17_000)).contains("primary.where: has 17020 bytes of conditions, but at most 16384"),
        "{}",
        error(&long(17_000))
    );
}

#[test]
fn a_watch_of_metadata_tests_metadata_only() {
    let of = |field: &str| {
        manifest(&json!({"projection": {"type": "metadata"}, "where": [{"field": field, "exists": true}]}))
    };
    assert!(of("/metadata/generateName").is_ok());
    let message = of("/spec/type").expect_err("the server does not send it");
    assert!(message.starts_with("controllers[0].primary.where[0].field: `/spec/type`: "), "{message}");
}
